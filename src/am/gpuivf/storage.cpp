// See storage.hpp.
#include "am/gpuivf/storage.hpp"

namespace vectorgpu::am
{

namespace
{

engine::ivf::PqSpec
pq_spec(const MetaData *meta)
{
	const IvfOptions *options = ivf_options(meta);
	engine::ivf::PqSpec spec;

	spec.metric = meta->metric;
	spec.dim = meta->dim;
	spec.m = options->pq_m;
	spec.bits = options->pq_bits;
	spec.opq = options->opq != 0;
	return spec;
}

} // namespace

IvfLayout
ivf_layout(const MetaData *meta)
{
	const IvfOptions *options = ivf_options(meta);
	IvfLayout layout = {};

	layout.storage = options->storage;
	layout.refine = options->refine;
	layout.kept = options->refine == IvfRefine::kFp16 ? ElementType::kFloat16 : meta->element;
	layout.kept_bytes = options->refine == IvfRefine::kNone ? 0 : vector_bytes(layout.kept, meta->dim);
	switch (options->storage)
	{
		case IvfStorage::kPlain:
			break;
		case IvfStorage::kFp16:
			layout.code_bytes = meta->dim * sizeof(uint16);
			break;
		case IvfStorage::kSq8:
			layout.code_bytes = meta->dim;
			layout.codec_floats = UINT64CONST(2) * meta->dim;
			break;
		case IvfStorage::kPq:
			layout.pq = pq_spec(meta);
			layout.code_bytes = engine::ivf::pq_code_bytes(layout.pq);
			layout.row_terms = engine::ivf::pq_has_row_terms(layout.pq);
			layout.codec_floats = engine::ivf::pq_codebook_floats(layout.pq) + engine::ivf::pq_rotation_floats(layout.pq);
			break;
	}
	return layout;
}

} // namespace vectorgpu::am
