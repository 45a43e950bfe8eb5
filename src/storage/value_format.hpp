// Values that are no vectors: of any size, made from datums by functions of the access method. The interface that such
// an access method fills in (AccessMethod::values). PG dialect.
//
// A stored value is a uint32 length and so many bytes; wherever a vector is handed on, such a value is. In segments a
// format of the access method lays them out (SegmentFormat); in the delta a value takes as many rows ("slots") of fixed
// size as it needs, see delta.hpp.
#pragma once

#include "storage/shape.hpp"

#include <cstring>

namespace vectorgpu::am
{

struct AccessMethod;

/// A buffer that grows. data is null before the first value_reserve, which palloc's in the current context.
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
	/// The shape of a new index, but for its options. Raises errors for what cannot be indexed.
	IndexShape (*shape)(const AccessMethod *am, Relation index);

	/// True if an operator class for this type may have the shape code.
	bool (*type_holds)(Oid type, int32 code);

	/// The stored value of a datum that is not NULL, palloc'd.
	char *(*store)(const IndexShape *shape, Datum datum);

	/// What SegmentSearch::query points to, for the argument of an ordering operator; palloc'd.
	void *(*query)(const IndexShape *shape, Datum argument);

	/// The same for the argument of a search operator, an index condition; *worst: the condition holds for the rows
	/// whose score is no greater. Null: there are no such operators.
	void *(*condition)(const IndexShape *shape, Datum argument, double *worst);

	/// The score of one stored value.
	double (*score)(const IndexShape *shape, const void *query, const char *value);

	/// The stored value of row n, by TID, of a segment. False if a page was foreign.
	bool (*read_value)(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 n, ValueBuffer *dest,
		BufferAccessStrategy strategy);

	/// What is wrong with the bytes of a stored value, as a sentence, or null.
	const char *(*check)(const char *value);
};

/// The most bytes of a stored value.
constexpr Size kMaxValueBytes = MaxAllocSize;

/// Bytes of a stored value, its length included.
inline Size
stored_bytes(const char *value)
{
	uint32 length;

	memcpy(&length, value, sizeof(length));
	return sizeof(length) + length;
}

/// Bytes of a row of the index: of a vector, or of this stored value.
inline Size
row_bytes(const MetaData *meta, const void *vector)
{
	return meta->element == ElementType::kSet ? stored_bytes(static_cast<const char *>(vector))
											  : meta_vector_bytes(meta);
}

} // namespace vectorgpu::am
