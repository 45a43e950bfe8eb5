// See sparse_rows.hpp.
#include "am/sparse/sparse_rows.hpp"

#include "types/sparse.hpp"

namespace vectorgpu::am
{

namespace
{

constexpr Size kGroupBytes = 256 * 1024; // stays in the processor's cache

static_assert(kGroupBytes >= engine::kMostSparseBytes, "a group has room for any row");

} // namespace

void
sparse_rows_begin(
	SparseRows *rows, Relation index, const MetaData *meta, const SegmentEntry *segment, BufferAccessStrategy strategy)
{
	rows->index = index;
	rows->meta = meta;
	rows->segment = segment;
	rows->strategy = strategy;
	rows->first = 0;
	rows->n = 0;
	rows->ends[0] = 0;
	rows->bytes = static_cast<char *>(palloc(kGroupBytes));
}

bool
sparse_rows_next(SparseRows *rows)
{
	const SegmentEntry *segment = rows->segment;
	const uint64 stream_bytes = segment->streams[static_cast<int>(StreamKind::kVectors)].n_bytes;
	const uint64 first = rows->first + rows->n;
	const uint64 n = Min(static_cast<uint64>(kSparseGroupRows), segment->n_rows - first);
	const uint64 start = rows->ends[rows->n];
	uint32 kept = 0;

	rows->first = first;
	rows->n = 0;
	rows->ends[0] = start;
	if (n == 0)
		return true;
	if (!stream_read(rows->index, rows->meta, segment, kSparseEnds, first * sizeof(uint64), n * sizeof(uint64),
			rows->ends + 1, rows->strategy))
		return false;
	for (; kept < n && rows->ends[kept + 1] - start <= kGroupBytes; kept++)
	{
		const uint64 n_bytes = rows->ends[kept + 1] - rows->ends[kept];

		if (rows->ends[kept + 1] < rows->ends[kept] || n_bytes > engine::kMostSparseBytes ||
			n_bytes % engine::kSparseElementBytes != 0 || rows->ends[kept + 1] > stream_bytes)
			break;
	}
	if (kept == 0 || (kept < n && rows->ends[kept + 1] - start <= kGroupBytes))
		page_corrupted(rows->index, segment->streams[static_cast<int>(kSparseEnds)].start_block,
			"The ends of the values are out of order.");
	rows->n = kept;
	return rows->ends[kept] == start ||
		stream_read(rows->index, rows->meta, segment, StreamKind::kVectors, start, rows->ends[kept] - start,
			rows->bytes, rows->strategy);
}

} // namespace vectorgpu::am
