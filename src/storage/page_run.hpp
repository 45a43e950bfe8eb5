// Pages that are read one after the other. Once a page was not in the buffer cache, the next ones are read many at a
// time, by PostgreSQL versions that can. PG dialect.
#pragma once

#include "pg/block_stream.hpp"
#include "storage/page.hpp"

namespace vectorgpu::am
{

struct PageRun
{
	Relation index;
	BufferAccessStrategy strategy;
	BlockNumber end;        // read nothing ahead from here on; 0: nothing at all
	bool missed;            // the last page had to be read
	BlockNumber next;       // the block that `ahead` returns next
	pg::BlockStream *ahead; // null: none
};

/// Begin a run that may read blocks ahead up to block end - 1.
void page_run_begin(PageRun *run, Relation index, BlockNumber end, BufferAccessStrategy strategy);

/// page_read; blocks need not follow one another, but only those that do are read ahead.
Buffer page_run_read(PageRun *run, BlockNumber block, const PageExpectation &expect, int lock_mode,
	ChecksumPolicy policy, bool *foreign);

/// Unpin what was read ahead. The run goes on without.
void page_run_end(PageRun *run);

} // namespace vectorgpu::am
