// kSparseWorkerStructure: the description of a segment's rows (engine/copies/sparse_rows.hpp), which is its two streams
// one behind the other, and a query's elements. PG dialect.
#include "am/sparse/sparse.hpp"

#include "storage/stream.hpp"

namespace vectorgpu::am
{

namespace
{

uint64
stream_bytes(const SegmentEntry *segment, StreamKind kind)
{
	return segment->streams[static_cast<int>(kind)].n_bytes;
}

wire::CopyKind
kind(const MetaData *)
{
	return wire::CopyKind::kSparse;
}

bool
holds(const MetaData *)
{
	return true;
}

uint32
parameter(const MetaData *, const SegmentEntry *)
{
	return 1;
}

uint64
n_bytes(const MetaData *, const SegmentEntry *segment)
{
	return stream_bytes(segment, kSparseEnds) + stream_bytes(segment, StreamKind::kVectors);
}

bool
read(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 position, Size n_bytes, char *dest,
	BufferAccessStrategy strategy)
{
	const uint64 ends = stream_bytes(segment, kSparseEnds);
	const Size of_ends = position < ends ? Min(ends - position, n_bytes) : 0;

	return (of_ends == 0 || stream_read(index, meta, segment, kSparseEnds, position, of_ends, dest, strategy)) &&
		(of_ends == n_bytes ||
			stream_read(index, meta, segment, StreamKind::kVectors, position + of_ends - ends, n_bytes - of_ends,
				dest + of_ends, strategy));
}

/// The query as a stored value.
const void *
query(const void *query, Size *n_bytes)
{
	const engine::SparseVector *vector = static_cast<const engine::SparseVector *>(query);
	const uint32 length = static_cast<uint32>(vector->n * engine::kSparseElementBytes);
	char *value = static_cast<char *>(palloc(sizeof(length) + length));

	memcpy(value, &length, sizeof(length));
	if (vector->n > 0)
	{
		memcpy(value + sizeof(length), vector->indices, vector->n * sizeof(int32));
		memcpy(value + sizeof(length) + vector->n * sizeof(int32), vector->values, vector->n * sizeof(float));
	}
	*n_bytes = sizeof(length) + length;
	return value;
}

} // namespace

const WorkerStructure kSparseWorkerStructure = {
	.kind = kind,
	.holds = holds,
	.parameter = parameter,
	.n_bytes = n_bytes,
	.read = read,
	.query = query,
};

} // namespace vectorgpu::am
