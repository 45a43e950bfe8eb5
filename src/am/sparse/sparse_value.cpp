// Stored values of sparsevec: a length, then indices and values as the type has them. See storage/value_format.hpp. PG
// dialect.
#include "am/sparse/sparse.hpp"

#include "engine/distance/distance.hpp"
#include "types/sparse.hpp"

extern "C"
{
#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "utils/syscache.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint32 kSlotPayload = 56; // bytes of a value in one slot of the delta: with its header 64, 127 slots a page

/// Raise an error if a value of the table, or a query, is none of the type: searches rely on its indices.
void
require_valid(const types::SparseValue *value)
{
	const char *problem = "Its length does not fit its elements.";

	if (VARSIZE(value) >= sizeof(*value) && value->nnz >= 0 && value->nnz <= types::kMaxNonZeros &&
		VARSIZE(value) == sizeof(*value) + value->nnz * engine::kSparseElementBytes)
		problem =
			engine::sparse_fault({value->indices(), value->values(), static_cast<uint32>(value->nnz)}, value->dim);
	if (problem != nullptr)
		ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION), errmsg("invalid sparsevec value"), errdetail("%s", problem),
				errhint("The value is damaged: check the storage of the table.")));
}

IndexShape
sparse_shape(const AccessMethod *am, Relation index)
{
	const int32 code = DatumGetInt32(FunctionCall0Coll(index_getprocinfo(index, 1, kShapeSupport), InvalidOid));
	IndexShape shape = {};

	shape.element = shape_element(code);
	shape.metric = static_cast<Metric>(code & 0xFF);
	shape.dim = kSlotPayload;
	if (!am->supports(shape.element, shape.metric))
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("operator class not supported for %s index", am->name)));
	if (TupleDescAttr(RelationGetDescr(index), 0)->atttypmod < 1)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("column does not have dimensions"),
				errhint("Declare the number of dimensions in the column's type, or index an expression "
						"that casts to such a type.")));
	return shape;
}

bool
sparse_type_holds(Oid type, int32)
{
	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	bool same;

	if (!HeapTupleIsValid(tuple))
		return false;
	same = strcmp(NameStr(reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple))->typname), types::Sparse::kTypeName) == 0;
	ReleaseSysCache(tuple);
	return same;
}

int32
sparse_dimensions(const IndexShape *shape)
{
	return sparse_options(shape->am_options).dim;
}

char *
sparse_store(const IndexShape *shape, Datum datum)
{
	const types::SparseValue *value = types::sparse_from_datum(datum);
	uint32 length;
	char *stored;

	require_valid(value);
	types::check_expected_dim(sparse_dimensions(shape), value->dim);
	length = static_cast<uint32>(value->nnz * engine::kSparseElementBytes);
	stored = static_cast<char *>(palloc(sizeof(length) + length));
	memcpy(stored, &length, sizeof(length));
	memcpy(stored + sizeof(length), value->indices(), length);
	return stored;
}

/// SegmentSearch::query is an engine::SparseVector.
void *
sparse_query(const IndexShape *shape, Datum argument)
{
	const types::SparseValue *value = reinterpret_cast<const types::SparseValue *>(PG_DETOAST_DATUM_COPY(argument));
	engine::SparseVector *query = static_cast<engine::SparseVector *>(palloc(sizeof(engine::SparseVector)));

	require_valid(value);
	if (value->dim != sparse_dimensions(shape))
		ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION),
				errmsg("different sparsevec dimensions %d and %d", sparse_dimensions(shape), value->dim)));
	*query = {value->indices(), value->values(), static_cast<uint32>(value->nnz)};
	return query;
}

double
sparse_value_score(const IndexShape *shape, const void *query, const char *value)
{
	const engine::SparseVector row =
		engine::sparse_vector(value + sizeof(uint32), stored_bytes(value) - sizeof(uint32));
	const engine::SparseVector *vector = static_cast<const engine::SparseVector *>(query);

	return engine::finish_score(shape->metric, engine::sparse_score(shape->metric, row, *vector));
}

bool
sparse_read_value(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 n, ValueBuffer *dest,
	BufferAccessStrategy strategy)
{
	uint64 ends[2] = {0, 0}; // of the row before and of this one
	uint32 length;

	if (!stream_read(index, meta, segment, kSparseEnds, (n == 0 ? 0 : n - 1) * sizeof(uint64),
			(n == 0 ? 1 : 2) * sizeof(uint64), n == 0 ? &ends[1] : &ends[0], strategy))
		return false;
	if (ends[1] < ends[0] || ends[1] - ends[0] > engine::kMostSparseBytes ||
		(ends[1] - ends[0]) % engine::kSparseElementBytes != 0 ||
		ends[1] > segment->streams[static_cast<int>(StreamKind::kVectors)].n_bytes)
		page_corrupted(index, segment->streams[static_cast<int>(kSparseEnds)].start_block,
			"The ends of the values are out of order.");
	length = static_cast<uint32>(ends[1] - ends[0]);
	value_reserve(dest, sizeof(length) + length);
	memcpy(dest->data, &length, sizeof(length));
	return length == 0 ||
		stream_read(index, meta, segment, StreamKind::kVectors, ends[0], length, dest->data + sizeof(length), strategy);
}

const char *
sparse_check_value(const char *value)
{
	const Size n_bytes = stored_bytes(value) - sizeof(uint32);

	if (n_bytes % engine::kSparseElementBytes != 0 || n_bytes > engine::kMostSparseBytes)
		return "It is not a value.";
	return engine::sparse_fault(engine::sparse_vector(value + sizeof(uint32), n_bytes), types::kMaxSparseDimensions);
}

} // namespace

const ValueFormat kSparseValues = {
	.element_name = types::Sparse::kTypeName,
	.most_terms = 2 * types::kMaxNonZeros,
	.scores_may_be_nan = true,
	.reads_all = true,
	.shape = sparse_shape,
	.type_holds = sparse_type_holds,
	.dimensions = sparse_dimensions,
	.store = sparse_store,
	.query = sparse_query,
	.condition = nullptr,
	.score = sparse_value_score,
	.read_value = sparse_read_value,
	.check = sparse_check_value,
};

} // namespace vectorgpu::am
