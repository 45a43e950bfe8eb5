// See stream_run.hpp.
#include "storage/stream_run.hpp"

#include "storage/spool.hpp"

extern "C"
{
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

/// False: the merge gives way.
bool
goes_on(const SegmentPlan *plan)
{
	CHECK_FOR_INTERRUPTS();
	return plan->give_way == nullptr || !plan->give_way(plan->give_way_state);
}

} // namespace

void
stream_run_begin(StreamRun *run, const SegmentPlan *plan, SegmentEntry *entry, BlockNumber start)
{
	run->plan = plan;
	run->entry = entry;
	run->block = start;
}

void
stream_run_open(StreamRun *run, StreamKind kind)
{
	const SegmentPlan *plan = run->plan;

	run->kind = kind;
	stream_write_begin(&run->stream, plan->index, plan->mode, plan->meta->uuid, run->entry->id, kind, run->block);
}

void
stream_run_close(StreamRun *run)
{
	StreamEntry *entry = &run->entry->streams[static_cast<int>(run->kind)];

	stream_write_end(&run->stream, entry);
	run->block += static_cast<BlockNumber>(stream_blocks(entry->n_bytes));
}

void
stream_run_reserve(StreamRun *run, StreamKind kind, uint64 n_bytes)
{
	run->entry->streams[static_cast<int>(kind)] = {run->block, 0, n_bytes};
	run->block += static_cast<BlockNumber>(stream_blocks(n_bytes));
}

void
stream_run_write(StreamRun *run, StreamKind kind, const void *data, Size n_bytes)
{
	stream_run_open(run, kind);
	stream_write(&run->stream, data, n_bytes);
	stream_run_close(run);
}

bool
stream_run_write_large(StreamRun *run, StreamKind kind, const void *data, uint64 n_bytes)
{
	const char *bytes = static_cast<const char *>(data);

	stream_run_open(run, kind);
	for (uint64 done = 0; done < n_bytes; done += kPayloadBytes)
	{
		if (!goes_on(run->plan))
			return false;
		stream_write(&run->stream, bytes + done, Min(kPayloadBytes, n_bytes - done));
	}
	stream_run_close(run);
	return true;
}

bool
stream_run_copy(StreamRun *run, StreamKind kind, BufFile *file, uint64 n_bytes, bool may_give_way)
{
	char *chunk = static_cast<char *>(palloc(kPayloadBytes));

	spool_seek(file, 0);
	stream_run_open(run, kind);
	for (uint64 done = 0; done < n_bytes; done += kPayloadBytes)
	{
		const Size part = Min(kPayloadBytes, n_bytes - done);

		if (may_give_way && !goes_on(run->plan))
			return false;
		spool_read(file, chunk, part);
		stream_write(&run->stream, chunk, part);
	}
	stream_run_close(run);
	pfree(chunk);
	return true;
}

} // namespace vectorgpu::am
