// The description of an access method over sparsevec. See sparse.hpp. PG dialect.
#include "am/sparse/sparse.hpp"

#include "types/sparse.hpp"

namespace vectorgpu::am
{

namespace
{

bool
supports(ElementType element, Metric metric)
{
	switch (metric)
	{
		case Metric::kL2:
		case Metric::kInnerProduct:
		case Metric::kCosine:
		case Metric::kL1:
			return element == ElementType::kSet;
		default:
			return false;
	}
}

int32
column_typmod(Relation index)
{
	return TupleDescAttr(RelationGetDescr(index), 0)->atttypmod;
}

/// AccessMethod::store_options. ValueFormat::shape has refused a column without dimensions.
void
store_options(Relation index, const IndexShape *, uint8 *options)
{
	const int32 dim = column_typmod(index);
	const SparseOptions stored = {dim, ~dim};

	memcpy(options, &stored, sizeof(stored));
}

const char *
check_options(Relation index, const MetaData *meta)
{
	const SparseOptions options = sparse_options(meta->am_options);
	const int32 dim = options.dim;

	if (dim < 1 || dim > types::kMaxSparseDimensions || options.dim_flipped != ~dim)
		return "The number of dimensions in the metapage is wrong.";
	if (column_typmod(index) >= 1 && column_typmod(index) != dim)
		return "The metapage has other dimensions than the column.";
	return nullptr;
}

} // namespace

AccessMethod
sparse_method(const char *name, bool named_for_pgvector)
{
	return {
		.name = name,
		.id = AmId::kSparse,
		.named_for_pgvector = named_for_pgvector,
		.supports = supports,
		.search_segment = sparse_search_segment,
		.worker_structure = &kSparseWorkerStructure,
		.format = &kSparseFormat,
		.values = &kSparseValues,
		.store_options = store_options,
		.check_options = check_options,
	};
}

} // namespace vectorgpu::am
