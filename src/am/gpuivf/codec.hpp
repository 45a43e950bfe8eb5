// The codes of rows: their parameters (stored once a segment), making them, scoring them against a query. One interface
// over the quantisers of engine/ivf. PG dialect.
#pragma once

#include "am/gpuivf/assign.hpp"
#include "am/gpuivf/storage.hpp"
#include "engine/ivf/code_query.hpp"

namespace vectorgpu::am
{

/// The parameters of a segment's codes.
struct Codec
{
	IvfLayout layout;
	float *floats; // [layout.codec_floats] as in kCodecStream; null: none
	engine::ivf::CodeModel model;
};

/// A codec with floats yet to be filled in. Memory in the current context. The codec must not move.
void codec_begin(Codec *codec, const MetaData *meta);

/// codec_begin, and the floats of a segment. False if a page was foreign.
bool codec_read(
	Codec *codec, Relation index, const MetaData *meta, const SegmentEntry *segment, BufferAccessStrategy strategy);

/// Makes codes.
struct CodeEncoder
{
	const Codec *codec;
	engine::ivf::PqEncoder pq;
	engine::ivf::RabitqEncoder rabitq;
	float *rotated; // [n_lists, padded_dim] centroids; null: nothing to free
	void *memory;
	void *work;
	Size work_bytes;
};

/// centroids [n_lists, dim], alive as long as the encoder. Memory in the current context. False: it gave way.
bool encoder_begin(
	CodeEncoder *encoder, const Codec *codec, const float *centroids, uint32 n_lists, const Watch *watch);

/// The codes of a batch of rows.
struct CodeArrays
{
	uint8 *codes;  // [n, code_bytes], row by row
	float *terms;  // [n]; filled in if the layout has row terms
	uint8 *is_out; // [n]: 1 if an element is beyond the codec's ranges (SQ8), else 0
};

/// floats [n, dim] (of length 1 for cosine), labels [n]. False: it gave way.
bool encoder_run(CodeEncoder *encoder, const float *floats, const uint32 *labels, uint64 n, const CodeArrays *coded,
	const Watch *watch);

/// For an encoder that was begun, or is all zeros.
void encoder_end(CodeEncoder *encoder);

/// Decode codes [n, code_bytes] to floats [n, dim] (of length 1 for cosine). labels [n] their lists.
void codec_decode(
	const Codec *codec, const float *centroids, const uint8 *codes, const uint32 *labels, uint64 n, float *floats);

/// A query against codes.
struct CodeQuery
{
	const Codec *codec;
	engine::ivf::CodeQuery query;
};

/// Bytes that a query takes.
Size code_query_bytes(const Codec *codec);

/// query [dim] float32, of length 1 for cosine, alive as long as the query. Memory in the current context.
void code_query_begin(CodeQuery *prepared, const Codec *codec, const float *query);

} // namespace vectorgpu::am
