// Writing and checking a segment over sparsevec. See storage/segment_format.hpp for the callbacks. PG dialect.
#include "am/sparse/sparse_rows.hpp"

#include "storage/spool.hpp"
#include "storage/stream_run.hpp"

extern "C"
{
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

struct SparseSegment
{
	SegmentPlan plan;
	uint64 n_rows;
	uint64 value_bytes;
	BufFile *values;
	BufFile *ends;
};

void *
sparse_begin(const SegmentPlan *plan)
{
	SparseSegment *state = static_cast<SparseSegment *>(palloc0(sizeof(SparseSegment)));

	state->plan = *plan;
	state->values = BufFileCreateTemp(false);
	state->ends = BufFileCreateTemp(false);
	return state;
}

void
sparse_put(void *opaque, RowId, const void *vector, const RowOrigin &)
{
	SparseSegment *state = static_cast<SparseSegment *>(opaque);
	const char *value = static_cast<const char *>(vector);
	const Size n_bytes = stored_bytes(value) - sizeof(uint32);

	if (n_bytes > 0)
		BufFileWrite(state->values, const_cast<char *>(value) + sizeof(uint32), n_bytes);
	state->value_bytes += n_bytes;
	BufFileWrite(state->ends, &state->value_bytes, sizeof(state->value_bytes));
	state->n_rows++;
}

bool
sparse_prepare(void *opaque, SegmentEntry *entry)
{
	const SparseSegment *state = static_cast<SparseSegment *>(opaque);

	entry->streams[static_cast<int>(StreamKind::kVectors)].n_bytes = state->value_bytes;
	entry->streams[static_cast<int>(kSparseEnds)].n_bytes = state->n_rows * sizeof(uint64);
	return true;
}

BlockNumber
sparse_write(void *opaque, SegmentEntry *entry, BlockNumber start)
{
	SparseSegment *state = static_cast<SparseSegment *>(opaque);
	StreamRun run;

	stream_run_begin(&run, &state->plan, entry, start);
	if (state->value_bytes > 0 && !stream_run_copy(&run, StreamKind::kVectors, state->values, state->value_bytes, true))
		return InvalidBlockNumber;
	if (state->n_rows > 0 && !stream_run_copy(&run, kSparseEnds, state->ends, state->n_rows * sizeof(uint64), true))
		return InvalidBlockNumber;
	return run.block;
}

void
sparse_end(void *opaque)
{
	SparseSegment *state = static_cast<SparseSegment *>(opaque);

	spool_close(&state->values);
	spool_close(&state->ends);
}

uint64
bytes_of(const SegmentEntry *segment, StreamKind kind)
{
	return segment->streams[static_cast<int>(kind)].n_bytes;
}

const char *
sparse_check_entry(const MetaData *, const SegmentEntry *segment)
{
	if (bytes_of(segment, kSparseEnds) != segment->n_rows * sizeof(uint64))
		return "Values and their ends differ in number.";
	if (bytes_of(segment, StreamKind::kVectors) % engine::kSparseElementBytes != 0)
		return "The values end within an element.";
	for (uint32 kind = static_cast<uint32>(kSparseEnds) + 1; kind < kMaxStreams; kind++)
		if (segment->streams[kind].n_bytes != 0)
			return "It has an unexpected stream.";
	return nullptr;
}

void
sparse_check(Relation index, const MetaData *meta, const SegmentEntry *segment, bool, BufferAccessStrategy strategy)
{
	const int32 dim = sparse_options(meta->am_options).dim;
	const BlockNumber block = segment->streams[static_cast<int>(StreamKind::kVectors)].start_block;
	SparseRows *rows = static_cast<SparseRows *>(palloc(sizeof(SparseRows)));

	sparse_rows_begin(rows, index, meta, segment, strategy);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (!sparse_rows_next(rows))
			page_recycled(index, block);
		if (rows->n == 0)
			break;
		for (uint32 i = 0; i < rows->n; i++)
		{
			const char *problem = engine::sparse_fault(sparse_rows_get(rows, i), dim);

			if (problem != nullptr)
				page_corrupted(index, block,
					psprintf("Segment %u, value " UINT64_FORMAT ": %s", segment->id, rows->first + i, problem));
		}
	}
	if (rows->ends[0] != bytes_of(segment, StreamKind::kVectors))
		page_corrupted(index, segment->streams[static_cast<int>(kSparseEnds)].start_block,
			psprintf("Segment %u: The values do not end where their stream does.", segment->id));
	pfree(rows->bytes);
	pfree(rows);
}

} // namespace

const SegmentFormat kSparseFormat = {
	.begin = sparse_begin,
	.put = sparse_put,
	.placed = nullptr,
	.share = nullptr,
	.prepare = sparse_prepare,
	.write = sparse_write,
	.end = sparse_end,
	.read_vectors = nullptr,
	.check_entry = sparse_check_entry,
	.check = sparse_check,
	.version = kSegmentVersion,
	.may_be_older = nullptr, // release 0.2 has no sparsevec
};

} // namespace vectorgpu::am
