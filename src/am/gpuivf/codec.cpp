// See codec.hpp. The work is engine/ivf's; here is the memory.
#include "am/gpuivf/codec.hpp"

#include "engine/distance.hpp"

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kWidenedFloats = 16384; // of halves, that are scored at a time

void *
allocate(Size n_bytes)
{
	return MemoryContextAllocHuge(CurrentMemoryContext, Max(n_bytes, 1));
}

/// Rows of halves widened at a time.
uint64
widened_rows(uint32 dim)
{
	return Max(kWidenedFloats / dim, UINT64CONST(1));
}

void
half_scores(const CodeQuery *prepared, const uint8 *codes, uint64 n, double *scores)
{
	const Codec *codec = prepared->codec;
	const engine::DistanceSpec spec = {codec->metric, ElementType::kFloat32, codec->dim};
	const uint64 batch = widened_rows(codec->dim);

	for (uint64 first = 0; first < n; first += batch)
	{
		const uint64 part = Min(batch, n - first);

		engine::widen_halves(codes + first * codec->layout.code_bytes, part * codec->dim, static_cast<float *>(prepared->memory));
		engine::compute_scores(
			spec, prepared->query, prepared->memory, codec->dim * sizeof(float), part, scores + first, 0);
	}
}

} // namespace

void
codec_begin(Codec *codec, const MetaData *meta)
{
	codec->layout = ivf_layout(meta);
	codec->metric = meta->metric;
	codec->dim = meta->dim;
	codec->floats = nullptr;
	codec->sq8 = {};
	if (codec->layout.codec_floats > 0)
		codec->floats = static_cast<float *>(allocate(codec->layout.codec_floats * sizeof(float)));
	if (codec->layout.storage == IvfStorage::kSq8)
		codec->sq8 = {codec->floats, codec->floats + meta->dim};
	codec->pq = {codec->layout.pq, codec->floats, nullptr};
	if (codec->layout.pq.opq)
		codec->pq.rotation = codec->floats + engine::ivf::pq_codebook_floats(codec->layout.pq);
}

bool
codec_read(Codec *codec, Relation index, const MetaData *meta, const SegmentEntry *segment,
	BufferAccessStrategy strategy)
{
	const StreamEntry *stream = &segment->streams[static_cast<int>(kCodecStream)];
	const Size n_bytes = ivf_layout(meta).codec_floats * sizeof(float);

	codec_begin(codec, meta);
	if (stream->n_bytes != n_bytes)
		page_corrupted(index, stream->start_block, "What the codes were made with does not have the size that it must have.");
	return n_bytes == 0 || stream_read(index, meta, segment, kCodecStream, 0, n_bytes, codec->floats, strategy);
}

void
encoder_begin(CodeEncoder *encoder, const Codec *codec, const float *centroids, uint32 n_lists)
{
	const engine::ivf::PqSpec &spec = codec->layout.pq;
	Size n_bytes;

	*encoder = {};
	encoder->codec = codec;
	if (codec->layout.storage != IvfStorage::kPq)
		return;
	encoder->rotated = static_cast<float *>(
		allocate(static_cast<Size>(n_lists) * engine::ivf::pq_padded_dim(spec) * sizeof(float)));
	engine::ivf::pq_rotate(codec->pq, centroids, n_lists, encoder->rotated);
	n_bytes = engine::ivf::pq_encoder_bytes(spec);
	encoder->memory = allocate(n_bytes);
	(void) check_outcome(
		engine::ivf::pq_encoder_init(codec->pq, encoder->rotated, encoder->memory, n_bytes, &encoder->pq));
	encoder->work_bytes = engine::ivf::pq_encode_work_bytes(encoder->pq, 1);
	encoder->work = allocate(encoder->work_bytes);
}

bool
encoder_run(CodeEncoder *encoder, const float *floats, const uint32 *labels, uint64 n, uint8 *codes, float *terms,
	uint64 *n_out, const Watch *watch)
{
	const Codec *codec = encoder->codec;

	switch (codec->layout.storage)
	{
		case IvfStorage::kFp16:
			(void) engine::ivf::narrow_to_halves(floats, n * codec->dim, reinterpret_cast<uint16 *>(codes));
			return true;
		case IvfStorage::kSq8:
			*n_out += engine::ivf::sq8_encode(codec->sq8, floats, n, codec->dim, codes);
			return true;
		case IvfStorage::kPq:
			return check_outcome(engine::ivf::pq_encode(encoder->pq, floats, labels, n, codes, terms, encoder->work,
				encoder->work_bytes, watched_call(watch)));
		default:
			return true;
	}
}

void
encoder_end(CodeEncoder *encoder)
{
	if (encoder->memory == nullptr)
		return;
	pfree(encoder->rotated);
	pfree(encoder->memory);
	pfree(encoder->work);
}

void
codec_decode(const Codec *codec, const float *centroids, const uint8 *codes, const uint32 *labels, uint64 n,
	float *floats)
{
	switch (codec->layout.storage)
	{
		case IvfStorage::kFp16:
			engine::widen_halves(codes, n * codec->dim, floats);
			break;
		case IvfStorage::kSq8:
			engine::ivf::sq8_decode(codec->sq8, codes, n, codec->dim, floats);
			break;
		case IvfStorage::kPq:
		{
			float *scratch = static_cast<float *>(palloc(engine::ivf::pq_padded_dim(codec->layout.pq) * sizeof(float)));

			engine::ivf::pq_decode(codec->pq, centroids, codes, labels, n, floats, scratch);
			pfree(scratch);
			break;
		}
		default:
			Assert(false);
	}
}

Size
code_query_bytes(const Codec *codec)
{
	switch (codec->layout.storage)
	{
		case IvfStorage::kFp16:
			return widened_rows(codec->dim) * codec->dim * sizeof(float);
		case IvfStorage::kSq8:
			return engine::ivf::sq8_query_floats(codec->dim) * sizeof(float);
		case IvfStorage::kPq:
			return engine::ivf::pq_query_bytes(codec->layout.pq);
		default:
			return 0;
	}
}

void
code_query_begin(CodeQuery *prepared, const Codec *codec, const float *query)
{
	const Size n_bytes = code_query_bytes(codec);

	*prepared = {};
	prepared->codec = codec;
	prepared->query = query;
	prepared->memory = allocate(n_bytes);
	if (codec->layout.storage == IvfStorage::kSq8)
		prepared->sq8 = engine::ivf::sq8_prepare(
			codec->sq8, codec->metric, query, codec->dim, static_cast<float *>(prepared->memory));
	else if (codec->layout.storage == IvfStorage::kPq)
		(void) check_outcome(engine::ivf::pq_prepare(codec->pq, query, prepared->memory, n_bytes, &prepared->pq));
}

void
code_scores(const CodeQuery *prepared, const uint8 *codes, const float *terms, uint64 n, double *scores)
{
	switch (prepared->codec->layout.storage)
	{
		case IvfStorage::kFp16:
			half_scores(prepared, codes, n, scores);
			break;
		case IvfStorage::kSq8:
			engine::ivf::sq8_scores(prepared->sq8, codes, n, scores);
			break;
		default:
			engine::ivf::pq_scores(prepared->pq, 0, codes, terms, n, scores);
			break;
	}
}

} // namespace vectorgpu::am
