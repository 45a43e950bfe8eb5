// Pages that are read one after the other. See page_run.hpp.
#include "storage/page_run.hpp"

extern "C"
{
#include "executor/instrument.h"
}

namespace vectorgpu::am
{

void
page_run_begin(PageRun *run, Relation index, BlockNumber end, BufferAccessStrategy strategy)
{
	run->index = index;
	run->strategy = strategy;
	run->end = end;
	run->missed = false;
	run->next = InvalidBlockNumber;
	run->ahead = nullptr;
}

Buffer
page_run_read(
	PageRun *run, BlockNumber block, const PageExpectation &expect, int lock_mode, ChecksumPolicy policy, bool *foreign)
{
	const int64 reads_before = pgBufferUsage.shared_blks_read;
	Buffer buffer;

	// Begun here and not after the miss, when the caller has a page locked.
	if (run->missed && run->ahead == nullptr && block < run->end)
	{
		run->ahead = pg::block_stream_begin(run->index, block, run->end, run->strategy);
		run->next = block;
	}
	if (run->ahead != nullptr && block == run->next && block < run->end)
	{
		run->next++;
		return page_take(
			run->index, block, pg::block_stream_next(run->ahead), expect, lock_mode, policy, run->strategy, foreign);
	}
	buffer = page_read(run->index, block, expect, lock_mode, policy, run->strategy, foreign);
	run->missed = pgBufferUsage.shared_blks_read != reads_before;
	return buffer;
}

void
page_run_end(PageRun *run)
{
	if (run->ahead != nullptr)
		pg::block_stream_end(run->ahead);
	run->ahead = nullptr;
	run->end = 0;
}

} // namespace vectorgpu::am
