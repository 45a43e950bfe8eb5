// ambuild, ambuildempty. A build scans the table once, in block order, and writes one segment past the buffer cache:
// block 0 empty, then the streams, finally the metapage. So a build that died leaves no index that looks complete. Runs
// under the locks that core takes for CREATE INDEX. PG dialect.
#include "am/build/build.hpp"

#include "am/build/block_rows.hpp"
#include "am/build/parallel_build.hpp"
#include "am/method/callbacks.hpp"
#include "am/recall/reach.hpp"
#include "storage/value_format.hpp"
#include "pg/fault.hpp"

extern "C"
{
#include "access/tableam.h"
#include "commands/progress.h"
#include "pgstat.h"
#include "utils/backend_progress.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kProgressEvery = 1000; // rows between two updates of the progress view
constexpr uint32 kFirstSegmentId = 1;

/// Allocate a page of zeros in the current context.
Page
new_page()
{
	return static_cast<Page>(pg::palloc_pages(1, true));
}

void
init_meta(MetaData *meta, const AccessMethod *am, Relation index, const IndexShape *shape, const KeyCoder *coder)
{
	meta_init(meta, am->id, shape->element, shape->metric, shape->dim, coder != nullptr ? &coder->layout : nullptr);
	if (am->store_options != nullptr)
		am->store_options(index, shape, meta->am_options);
	meta_raise_version(meta, am->format); // an empty index too: the options may be of this release
}

/// Report the rows written and an estimate of their total, extrapolated from the share of the table's blocks that is
/// done. This also works for partial indexes and tables that were never analyzed.
void
report_tuples(const BuildState *state, BlockNumber block)
{
	const double share = static_cast<double>(block) + 1;
	const double total = static_cast<double>(state->n_tuples) * Max(state->heap_blocks / share, 1.0);
	const int params[] = {PROGRESS_CREATEIDX_TUPLES_DONE, PROGRESS_CREATEIDX_TUPLES_TOTAL};
	const int64 values[] = {static_cast<int64>(state->n_tuples), static_cast<int64>(total)};

	pgstat_progress_update_multi_param(lengthof(params), params, values);
}

double
serial_build_scan(BuildState *state)
{
	BlockRows *rows = static_cast<BlockRows *>(palloc(sizeof(BlockRows)));
	double heap_tuples;

	block_rows_init(rows, &state->shape, state->coder, {build_write_row, state});
	heap_tuples =
		table_index_build_scan(state->heap, state->index, state->info, false, true, block_rows_callback, rows, nullptr);
	block_rows_flush(rows);
	block_rows_end(rows);
	pfree(rows);
	return heap_tuples;
}

} // namespace

void
build_write_row(void *state, RowId row, const char *vector, const char *keys)
{
	BuildState *build = static_cast<BuildState *>(state);

	segment_write_row(&build->writer, row, vector, keys, {});
	build->n_tuples++;
	if (build->n_tuples % kProgressEvery == 0)
		report_tuples(build, row_id_block(row));
}

IndexBuildResult *
shared_build(const AccessMethod *am, Relation heap, Relation index, IndexInfo *info)
{
	BuildState *state = static_cast<BuildState *>(palloc0(sizeof(BuildState)));
	IndexBuildResult *result = static_cast<IndexBuildResult *>(palloc0(sizeof(IndexBuildResult)));
	Page page = new_page();
	double heap_tuples;
	uint64 n_blocks;

	if (RelationGetNumberOfBlocks(index) != 0)
		elog(ERROR, "index \"%s\" already contains data", RelationGetRelationName(index));
	state->am = am;
	state->heap = heap;
	state->index = index;
	state->info = info;
	state->shape = index_shape(am, index);
	state->meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	state->coder = index_key_coder(index);
	init_meta(state->meta, am, index, &state->shape, state->coder);
	state->plan.index = index;
	state->plan.mode = WriteMode::kBulk;
	state->plan.meta = state->meta;
	// During a concurrent build a session may read blocks that are not written yet into the buffer cache (pg_prewarm).
	state->plan.n_workers = info->ii_Concurrent ? 0 : build_workers(heap, index, info);

	bulk_write_page(index, MAIN_FORKNUM, 0, page);
	segment_write_begin(&state->writer, am->format, &state->plan);
	segment_write_place(&state->writer, kFirstSegmentId, 1);
	state->heap_blocks = RelationGetNumberOfBlocks(heap);
	// Until rows arrive, report the count of the last VACUUM or ANALYZE as the total, unless the index is partial.
	if (info->ii_Predicate == NIL && heap->rd_rel->reltuples > 0)
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_TOTAL, static_cast<int64>(heap->rd_rel->reltuples));
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, kPhaseWriteRows);
	if (!parallel_build_scan(state, &heap_tuples))
		heap_tuples = serial_build_scan(state);

	report_tuples(state, state->heap_blocks);
	(void) segment_write_prepare(&state->writer, &n_blocks); // a build never gives way
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, kPhaseFinish);
	state->meta->high_water = segment_write_end(&state->writer);
	state->meta->next_segment_id = kFirstSegmentId + 1;
	if (state->n_tuples > 0)
	{
		state->meta->segments[0] = state->writer.entry;
		state->meta->n_segments = 1;
	}
	bulk_finish(index, MAIN_FORKNUM);
	(void) VG_FAULT("build_publish");
	meta_form_page(state->meta, page);
	// Write through the buffer cache. During CREATE INDEX CONCURRENTLY other sessions can open the index (the view
	// vectorgpu_indexes, pg_prewarm) and so read the empty block 0 into the cache, where it would hide a page written
	// past it.
	buffered_write_page(index, 0, page);
	warn_of_reach(index, nullptr);

	result->heap_tuples = heap_tuples;
	result->index_tuples = static_cast<double>(state->n_tuples);
	pfree(page);
	pfree(state->meta);
	pfree(state);
	return result;
}

void
shared_build_empty(const AccessMethod *am, Relation index)
{
	const IndexShape shape = index_shape(am, index);
	MetaData *meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	Page page = new_page();

	init_meta(meta, am, index, &shape, index_key_coder(index));
	meta_form_page(meta, page);
	bulk_write_page(index, INIT_FORKNUM, 0, page);
	bulk_finish(index, INIT_FORKNUM);
	pfree(page);
	pfree(meta);
}

char *
shared_build_phase_name(const AccessMethod *am, int64 phase)
{
	switch (phase)
	{
		case kPhaseInitialize:
			return const_cast<char *>("initializing");
		case kPhaseWriteRows:
			return const_cast<char *>(
				am->values != nullptr ? "scanning table and writing values" : "scanning table and writing vectors");
		case kPhaseFinish:
			return const_cast<char *>("writing row ids and metapage");
		default:
			return am->phase_name != nullptr ? const_cast<char *>(am->phase_name(phase)) : nullptr;
	}
}

} // namespace vectorgpu::am
