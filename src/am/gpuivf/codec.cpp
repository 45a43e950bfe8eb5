// See codec.hpp. engine/ivf does the work; this file allocates the memory.
#include "am/gpuivf/codec.hpp"

#include "engine/distance/distance.hpp"

#include <cstring>

namespace vectorgpu::am
{

namespace
{

void *
allocate(Size n_bytes)
{
	return MemoryContextAllocHuge(CurrentMemoryContext, Max(n_bytes, 1));
}

} // namespace

void
codec_begin(Codec *codec, const MetaData *meta)
{
	codec->layout = ivf_layout(meta);
	codec->floats = nullptr;
	if (codec->layout.codec_floats > 0)
		codec->floats = static_cast<float *>(allocate(codec->layout.codec_floats * sizeof(float)));
	codec->model = engine::ivf::make_code_model(codec->layout.codes, codec->floats);
}

bool
codec_read(
	Codec *codec, Relation index, const MetaData *meta, const SegmentEntry *segment, BufferAccessStrategy strategy)
{
	const StreamEntry *stream = &segment->streams[static_cast<int>(kCodecStream)];
	const Size n_bytes = ivf_layout(meta).codec_floats * sizeof(float);

	codec_begin(codec, meta);
	if (stream->n_bytes != n_bytes)
		page_corrupted(index, stream->start_block, "The parameters of its codes have a wrong size.");
	if (codec->layout.storage == IvfStorage::kRabitq &&
		(engine::ivf::code_spec_error(codec->layout.codes) != nullptr ||
			segment->streams[static_cast<int>(kCodeStream)].n_bytes !=
				code_stream_bytes(&codec->layout, segment->n_rows)))
		page_corrupted(index, stream->start_block, "Its codes do not fit its number of rows.");
	return n_bytes == 0 || stream_read(index, meta, segment, kCodecStream, 0, n_bytes, codec->floats, strategy);
}

namespace
{

void
begin_rabitq(CodeEncoder *encoder, const float *centroids, uint32 n_lists)
{
	const engine::ivf::RabitqModel &model = encoder->codec->model.rabitq;
	const Size padded = engine::ivf::rabitq_padded_dim(model.spec);

	encoder->rotated = static_cast<float *>(allocate(static_cast<Size>(n_lists) * padded * sizeof(float)));
	for (uint32 i = 0; i < n_lists; i++)
	{
		CHECK_FOR_INTERRUPTS();
		engine::ivf::rabitq_rotate(
			model, centroids + static_cast<Size>(i) * model.spec.dim, model.centre, 1, encoder->rotated + i * padded);
	}
	encoder->rabitq = {&model, centroids, encoder->rotated};
	encoder->work_bytes = engine::ivf::rabitq_encode_work_bytes(model.spec);
	encoder->work = allocate(encoder->work_bytes);
}

} // namespace

bool
encoder_begin(CodeEncoder *encoder, const Codec *codec, const float *centroids, uint32 n_lists, const Watch *watch)
{
	const engine::ivf::PqSpec &spec = codec->model.spec.pq;
	Size n_bytes;

	*encoder = {};
	encoder->codec = codec;
	if (codec->layout.storage == IvfStorage::kRabitq)
		begin_rabitq(encoder, centroids, n_lists);
	if (codec->layout.storage != IvfStorage::kPq)
		return true;
	encoder->rotated =
		static_cast<float *>(allocate(static_cast<Size>(n_lists) * engine::ivf::pq_padded_dim(spec) * sizeof(float)));
	if (!check_outcome(
			engine::ivf::pq_rotate(codec->model.pq, centroids, n_lists, encoder->rotated, watched_call(watch))))
	{
		pfree(encoder->rotated);
		*encoder = {};
		return false;
	}
	n_bytes = engine::ivf::pq_encoder_bytes(spec);
	encoder->memory = allocate(n_bytes);
	(void) check_outcome(
		engine::ivf::pq_encoder_init(codec->model.pq, encoder->rotated, encoder->memory, n_bytes, &encoder->pq));
	encoder->work_bytes = engine::ivf::pq_encode_work_bytes(encoder->pq, 1);
	encoder->work = allocate(encoder->work_bytes);
	return true;
}

bool
encoder_run(CodeEncoder *encoder, const float *floats, const uint32 *labels, uint64 n, const CodeArrays *coded,
	const Watch *watch)
{
	const Codec *codec = encoder->codec;

	memset(coded->is_out, 0, n);
	switch (codec->layout.storage)
	{
		case IvfStorage::kFp16:
			(void) engine::ivf::narrow_to_halves(
				floats, n * codec->model.spec.dim, reinterpret_cast<uint16 *>(coded->codes));
			return true;
		case IvfStorage::kSq8:
			(void) engine::ivf::sq8_encode(
				codec->model.sq8, floats, n, codec->model.spec.dim, coded->codes, coded->is_out);
			return true;
		case IvfStorage::kPq:
			return check_outcome(engine::ivf::pq_encode(encoder->pq, floats, labels, n, coded->codes, coded->terms,
				encoder->work, encoder->work_bytes, watched_call(watch)));
		case IvfStorage::kRabitq:
			return check_outcome(engine::ivf::rabitq_encode(encoder->rabitq, floats, labels, n, coded->codes,
				encoder->work, encoder->work_bytes, watched_call(watch)));
		default:
			return true;
	}
}

void
encoder_end(CodeEncoder *encoder)
{
	if (encoder->rotated == nullptr)
		return;
	pfree(encoder->rotated);
	if (encoder->memory != nullptr)
		pfree(encoder->memory);
	pfree(encoder->work);
}

void
codec_decode(
	const Codec *codec, const float *centroids, const uint8 *codes, const uint32 *labels, uint64 n, float *floats)
{
	switch (codec->layout.storage)
	{
		case IvfStorage::kFp16:
			engine::widen_halves(codes, n * codec->model.spec.dim, floats);
			break;
		case IvfStorage::kSq8:
			engine::ivf::sq8_decode(codec->model.sq8, codes, n, codec->model.spec.dim, floats);
			break;
		case IvfStorage::kPq:
		{
			float *scratch =
				static_cast<float *>(palloc(engine::ivf::pq_padded_dim(codec->model.spec.pq) * sizeof(float)));

			engine::ivf::pq_decode(codec->model.pq, centroids, codes, labels, n, floats, scratch);
			pfree(scratch);
			break;
		}
		case IvfStorage::kRabitq:
		{
			float *scratch =
				static_cast<float *>(palloc(engine::ivf::rabitq_padded_dim(codec->model.rabitq.spec) * sizeof(float)));

			engine::ivf::rabitq_decode(codec->model.rabitq, centroids, codes, labels, n, floats, scratch);
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
	return engine::ivf::code_query_bytes(codec->model.spec);
}

void
code_query_begin(CodeQuery *prepared, const Codec *codec, const float *query)
{
	const Size n_bytes = code_query_bytes(codec);

	prepared->codec = codec;
	(void) check_outcome(
		engine::ivf::code_query_prepare(codec->model, query, allocate(n_bytes), n_bytes, &prepared->query));
}

} // namespace vectorgpu::am
