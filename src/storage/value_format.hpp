// Interface of an access method whose values are not vectors (AccessMethod::values). Its functions turn datums into
// stored values of any size. PG dialect.
//
// A stored value is a uint32 length followed by that number of bytes. It is passed wherever other access methods pass a
// vector. The access method's SegmentFormat defines the layout in segments; in the delta a value takes as many rows
// ("slots") of fixed size as it needs, see delta.hpp.
#pragma once

#include "storage/shape.hpp"

#include <cstring>

namespace vectorgpu::am
{

struct AccessMethod;

/// A buffer that grows. data is null before the first value_reserve, which allocates in the current context.
struct ValueBuffer
{
	char *data;
	Size capacity;
};

/// Grow the buffer to at least n_bytes.
inline void
value_reserve(ValueBuffer *buffer, Size n_bytes)
{
	Size capacity = Max(buffer->capacity, Size(1024));

	if (n_bytes <= buffer->capacity)
		return;
	while (capacity < n_bytes)
		capacity *= 2;
	buffer->data = static_cast<char *>(buffer->data == nullptr ? MemoryContextAllocHuge(CurrentMemoryContext, capacity)
															   : repalloc_huge(buffer->data, capacity));
	buffer->capacity = capacity;
}

struct ValueFormat
{
	/// For the view vectorgpu_indexes.
	const char *element_name;

	/// The most terms in the sum of a distance.
	uint32 most_terms;

	/// The score of a row can be NaN, if its metric allows it (nan_rows_may_be).
	bool scores_may_be_nan;

	/// A search of a segment reads the values of all rows, one behind the other, as StreamKind::kVectors has them.
	bool reads_all;

	/// Return the shape of a new index, without its options. Raises an error for a column that cannot be indexed.
	IndexShape (*shape)(const AccessMethod *am, Relation index);

	/// True if an operator class for this type may have this shape code.
	bool (*type_holds)(Oid type, int32 code);

	/// Return the dimensions of an index's rows. Null: they have none.
	int32 (*dimensions)(const IndexShape *shape);

	/// Return the stored value of a datum that is not NULL, palloc'd.
	char *(*store)(const IndexShape *shape, Datum datum);

	/// Return the query (SegmentSearch::query) for the argument of an ordering operator, palloc'd.
	void *(*query)(const IndexShape *shape, Datum argument);

	/// The same for the argument of a search operator (an index condition). *worst: the condition holds for rows whose
	/// score is at most this. Null: there are no such operators.
	void *(*condition)(const IndexShape *shape, Datum argument, double *worst);

	/// Return the score of one stored value.
	double (*score)(const IndexShape *shape, const void *query, const char *value);

	/// Read the stored value of row n, by TID, of a segment. Returns false if a page was foreign.
	bool (*read_value)(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 n, ValueBuffer *dest,
		BufferAccessStrategy strategy);

	/// Return null, or a sentence that says what is wrong with the bytes of a stored value.
	const char *(*check)(const char *value);
};

/// The greatest size of a stored value.
constexpr Size kMaxValueBytes = MaxAllocSize;

/// Bytes of a stored value, including its length word.
inline Size
stored_bytes(const char *value)
{
	uint32 length;

	memcpy(&length, value, sizeof(length));
	return sizeof(length) + length;
}

/// Bytes of a row's vector or of this stored value.
inline Size
row_bytes(const MetaData *meta, const void *vector)
{
	return meta->element == ElementType::kSet ? stored_bytes(static_cast<const char *>(vector))
											  : meta_vector_bytes(meta);
}

} // namespace vectorgpu::am
