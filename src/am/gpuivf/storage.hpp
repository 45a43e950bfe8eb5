// The form of rows on disk by the storage parameters: in full, or as codes, with or without vectors for true distances.
// Pure functions of the metapage. PG dialect.
#pragma once

#include "am/gpuivf/ivf.hpp"
#include "engine/ivf/code_query.hpp"

namespace vectorgpu::am
{

/// The data of a row in a segment, beside its number and place.
struct IvfLayout
{
	IvfStorage storage;
	IvfRefine refine;
	Size kept_bytes;     // of a vector of kVectors; 0: no vectors
	ElementType kept;    // element of kVectors
	Size code_bytes;     // of a code; 0: kVectors is scanned itself
	bool row_terms;      // the segment has kRowTermStream
	uint64 codec_floats; // of kCodecStream; 0: the codes need no codec
	engine::ivf::CodeSpec codes;
};

IvfLayout ivf_layout(const MetaData *meta);
IvfLayout ivf_layout_of(const IvfOptions *options, ElementType element, Metric metric, uint32 dim);

/// True if lists are scanned by codes, whose scores are estimates.
inline bool
has_codes(const IvfLayout *layout)
{
	return layout->code_bytes > 0;
}

/// True if kVectors gives the canonical distance; else the table does.
inline bool
refines_in_full(const IvfLayout *layout)
{
	return layout->refine == IvfRefine::kFull;
}

/// Bytes of kCodeStream for n_rows rows: codes of PQ and RaBitQ lie in blocks of 32 rows, the last one filled up.
inline uint64
code_stream_bytes(const IvfLayout *layout, uint64 n_rows)
{
	return engine::ivf::all_code_bytes(layout->codes, n_rows);
}

} // namespace vectorgpu::am
