// Merging segments and the delta into one new segment. See merge.hpp and README.md ("Merge and tiers").
//
// A merge writes two metapage records: the first takes the extent and enters it in pending, the second publishes the
// new manifest and clears pending. Between them it writes only pages that nothing refers to. If a merge stops before
// the second record, the old manifest stays in force and the extent stays in pending, from which the next vacuum or
// merge reclaims it.
#include "am/maintain/merge.hpp"

#include "am/maintain/give_way.hpp"
#include "am/maintain/shrink.hpp"
#include "am/method/index_access.hpp"
#include "am/recall/reach.hpp"
#include "am/maintain/row_merge.hpp"
#include "storage/extent.hpp"
#include "storage/segment_writer.hpp"
#include "am/maintain/vacuum.hpp"
#include "pg/clock.hpp"
#include "pg/fault.hpp"

#include <cstring>

extern "C"
{
#include "access/xact.h"
#include "executor/instrument.h"
#include "storage/lmgr.h"
#include "utils/snapmgr.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint32 kRowsBetweenLooks = 64;   // rows between two looks at the clock
constexpr BlockNumber kExtendBlocks = 128; // blocks by which the file grows at a time: a few milliseconds

struct Merge
{
	Relation index;
	Relation heap;
	MetaData meta; // as read at the start of the merge
	const SegmentFormat *format;
	uint64 delta_end;
	uint32 n_sources;
	uint32 sources[kMaxSegments]; // indexes into meta.segments
	RowCounts counts;
	uint64 delta_dead; // dead rows among those taken from the delta
	BlockNumber start_block;
	uint64 n_blocks;
	uint32 segment_id;
	bool give_way;
	uint64 last_look; // pg::monotonic_ms
};

/// Find the plan's segments in the manifest.
void
resolve_sources(Merge *merge, const MergePlan *plan)
{
	for (uint32 i = 0; i < merge->meta.n_segments; i++)
		for (uint32 j = 0; j < plan->n_segments; j++)
			if (merge->meta.segments[i].id == plan->segment_ids[j])
				merge->sources[merge->n_sources++] = i;
	if (merge->n_sources != plan->n_segments)
		elog(ERROR, "segments of index \"%s\" changed under a lock that forbids it",
			RelationGetRelationName(merge->index));
}

/// SegmentPlan::give_way and StopCheck::should_stop; state is a Merge.
bool
must_give_way(void *state)
{
	Merge *merge = static_cast<Merge *>(state);

	CHECK_FOR_INTERRUPTS();
	return merge->give_way && other_session_waits(merge->heap, &merge->last_look);
}

/// Extend the file for the new segment before its blocks are taken. Inserters also extend the file, under the same
/// lock, up to the end of the blocks that they have taken. If the segment's blocks were taken first, inserters would
/// have to create those as well. Extends in slices, between which inserters get the lock. Returns false if the merge
/// gave way.
bool
extend_file(Merge *merge, uint32 n_blocks)
{
	MetaData *now = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	bool goes_on = true;

	for (;;)
	{
		const BlockNumber have = RelationGetNumberOfBlocks(merge->index);
		BlockNumber wanted;

		(void) VG_FAULT("merge_extend");
		meta_read(merge->index, nullptr, now);
		wanted = extent_new_end(now, merge->heap, n_blocks);
		if (have >= wanted)
			break;
		if (must_give_way(merge))
		{
			goes_on = false;
			break;
		}
		ensure_blocks(merge->index, Min(wanted, have + kExtendBlocks));
	}
	pfree(now);
	return goes_on;
}

/// Take the new segment's blocks and id. Returns false if the merge gave way.
bool
take_extent(Merge *merge, uint64 n_blocks)
{
	MetaUpdate update;
	FreeExtent taken;

	if (n_blocks > MaxBlockNumber)
		ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				errmsg(
					"index \"%s\" is too large to be merged into one segment", RelationGetRelationName(merge->index)),
				errdetail("The segment would have " UINT64_FORMAT " blocks; the limit of an index is %u.", n_blocks,
					MaxBlockNumber),
				errhint("Partition the table.")));
	if (!extend_file(merge, static_cast<uint32>(n_blocks)))
		return false;
	(void) VG_FAULT("merge_take");
	meta_update_begin(&update, merge->index);
	memset(&taken, 0, sizeof(taken));
	taken.start_block = extent_take(&update, merge->heap, static_cast<uint32>(n_blocks));
	taken.n_blocks = static_cast<uint32>(n_blocks);
	update.meta->pending[kPendingMerge] = taken;
	merge->segment_id = update.meta->next_segment_id++;
	meta_update_finish(&update);
	merge->start_block = taken.start_block;
	merge->n_blocks = n_blocks;
	// Inserters may have taken the blocks that the file was extended for.
	ensure_blocks(merge->index, taken.start_block + taken.n_blocks);
	return true;
}

/// Write all live rows in TID order. Returns false if the merge gave way.
bool
write_rows(Merge *merge, Tuplesortstate *delta, SegmentEntry *entry)
{
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	const uint64 n_rows = merge->counts.rows + merge->counts.null_rows;
	SegmentWriter *writer = static_cast<SegmentWriter *>(palloc(sizeof(SegmentWriter)));
	RowMerge *rows = static_cast<RowMerge *>(palloc(sizeof(RowMerge)));
	const SegmentPlan plan = {
		merge->index, WriteMode::kBuffers, &merge->meta, merge->sources, merge->n_sources, must_give_way, merge};
	MergedRow row;
	BlockNumber end;
	uint64 n_blocks;
	uint64 n = 0;

	segment_write_begin(writer, merge->format, &plan);
	if (merge->format == nullptr)
	{
		if (!take_extent(merge, segment_blocks(&merge->meta, merge->counts.rows, merge->counts.null_rows)))
		{
			segment_write_abandon(writer);
			return false;
		}
		segment_write_place(writer, merge->segment_id, merge->start_block);
	}
	row_merge_begin(rows, merge->index, &merge->meta, merge->sources, merge->n_sources, delta, true, strategy);
	// In the maintenance worker only catalog look-ups have taken a snapshot. Release it, so that a long merge does not
	// keep VACUUM from removing rows.
	InvalidateCatalogSnapshotConditionally();
	while (row_merge_next(rows, &row))
	{
		if (n++ % kRowsBetweenLooks == 0)
		{
			(void) VG_FAULT("merge_row");
			CHECK_FOR_INTERRUPTS();
			if (merge->give_way && other_session_waits(merge->heap, &merge->last_look))
			{
				row_merge_end(rows);
				segment_write_abandon(writer);
				return false;
			}
		}
		segment_write_row(writer, row.row, row.is_null ? nullptr : row.vector, row.keys, row_origin(row.source));
	}
	row_merge_end(rows);
	if (n != n_rows)
		elog(ERROR, "merge of index \"%s\" found " UINT64_FORMAT " rows after it had counted " UINT64_FORMAT,
			RelationGetRelationName(merge->index), n, n_rows);
	(void) VG_FAULT("merge_segment_end");
	if (!segment_write_prepare(writer, &n_blocks))
	{
		segment_write_abandon(writer);
		return false;
	}
	if (merge->format != nullptr)
	{
		if (!take_extent(merge, n_blocks))
		{
			segment_write_abandon(writer);
			return false;
		}
		segment_write_place(writer, merge->segment_id, merge->start_block);
	}
	end = segment_write_end(writer);
	if (end == InvalidBlockNumber)
	{
		segment_write_abandon(writer);
		return false;
	}
	if (end != merge->start_block + merge->n_blocks)
		elog(ERROR, "merge of index \"%s\" wrote up to block %u instead of %u", RelationGetRelationName(merge->index),
			end, static_cast<BlockNumber>(merge->start_block + merge->n_blocks));
	*entry = writer->entry;
	entry->level = tier_level(n_rows);
	pfree(rows);
	pfree(writer);
	FreeAccessStrategy(strategy);
	return true;
}

/// Remove the chunks that hold only rows before delta_first_row. Inserters may have added chunks meanwhile.
void
drop_consumed_chunks(MetaData *meta, uint64 parked_xid)
{
	uint32 n = 0;

	while (n < meta->n_chunks &&
		meta->chunks[n].first_row + chunk_capacity(meta, &meta->chunks[n]) <= meta->delta_first_row)
	{
		extent_give(meta, meta->chunks[n].start_block, meta->chunks[n].n_blocks, parked_xid);
		n++;
	}
	meta->n_chunks -= n;
	memmove(&meta->chunks[0], &meta->chunks[n], meta->n_chunks * sizeof(DeltaChunk));
	memset(&meta->chunks[meta->n_chunks], 0, n * sizeof(DeltaChunk));
}

/// Write the record that makes the merge take effect. entry: null if no live row was left.
void
publish(Merge *merge, const MergePlan *plan, const SegmentEntry *entry)
{
	MetaUpdate update;
	MetaData *meta;
	uint64 parked_xid;
	uint32 n = 0;

	(void) VG_FAULT("merge_publish");
	meta_update_begin(&update, merge->index);
	meta = update.meta;
	// Read it under the lock: otherwise a snapshot newer than this id might still read the old manifest.
	parked_xid = current_parking_xid();
	for (uint32 i = 0; i < merge->meta.n_segments; i++)
	{
		bool replaced = false;

		for (uint32 j = 0; j < merge->n_sources; j++)
			replaced = replaced || merge->sources[j] == i;
		if (replaced)
			extent_give_segment(meta, &merge->meta.segments[i], parked_xid);
		else
			meta->segments[n++] = merge->meta.segments[i];
	}
	if (entry != nullptr)
	{
		meta_raise_version(meta, merge->format);
		meta->segments[n] = *entry;
		meta->segments[n++].tombstone_generation = meta->tombstone_generation;
	}
	for (uint32 i = n; i < meta->n_segments; i++)
		memset(&meta->segments[i], 0, sizeof(SegmentEntry));
	meta->n_segments = n;
	if (plan->take_delta)
	{
		meta->delta_first_row = merge->delta_end;
		meta->delta_dead -= Min(meta->delta_dead, merge->delta_dead);
		drop_consumed_chunks(meta, parked_xid);
	}
	meta->manifest_generation++;
	meta->pending[kPendingMerge] = {};
	meta_update_finish(&update);
}

} // namespace

void
merge_index(Relation index, Relation heap, const MergePlan *plan, bool give_way, MergeResult *result)
{
	const uint64 wal_before = pgWalUsage.wal_bytes;
	Merge *merge = static_cast<Merge *>(palloc0(sizeof(Merge)));
	Tuplesortstate *delta = nullptr;
	SegmentEntry entry;
	RowCounts delta_counts;
	StopCheck stop;
	RecallReach reach; // before the merge
	bool reach_known;
	bool done = true;

	memset(result, 0, sizeof(*result));
	memset(&delta_counts, 0, sizeof(delta_counts));
	memset(&entry, 0, sizeof(entry));
	reclaim_pending(index);
	merge->index = index;
	merge->heap = heap;
	merge->give_way = give_way;
	merge->last_look = pg::monotonic_ms();
	stop = {must_give_way, merge, false};
	meta_read(index, nullptr, &merge->meta);
	merge->format = access_method(index, &merge->meta)->format;
	merge->delta_end = delta_end(index, &merge->meta, nullptr);
	resolve_sources(merge, plan);
	reach_known = index_reach(index, &merge->meta, &reach);

	for (uint32 i = 0; i < merge->n_sources; i++)
		count_segment(index, &merge->meta, &merge->meta.segments[merge->sources[i]], nullptr, &merge->counts, &stop);
	if (plan->take_delta)
		delta = sort_delta(index, &merge->meta, merge->meta.delta_first_row, merge->delta_end, &delta_counts, &stop);
	merge->delta_dead = delta_counts.dead_rows;
	merge->counts.rows += delta_counts.rows;
	merge->counts.null_rows += delta_counts.null_rows;
	merge->counts.dead_rows += delta_counts.dead_rows;

	done = !stop.stopped;
	if (done && merge->counts.rows + merge->counts.null_rows > 0)
		done = write_rows(merge, delta, &entry);
	if (done)
	{
		publish(merge, plan, merge->n_blocks > 0 ? &entry : nullptr);
		warn_of_reach(index, reach_known ? &reach : nullptr);
	}
	else
		reclaim_pending(index);
	if (delta != nullptr)
		tuplesort_end(delta);

	result->segments_before = merge->meta.n_segments;
	result->segments_after = merge->meta.n_segments;
	result->abandoned = !done;
	if (done)
	{
		result->segments_after = merge->meta.n_segments - merge->n_sources + (merge->n_blocks > 0);
		result->rows_moved = merge->counts.rows + merge->counts.null_rows;
		result->rows_dropped = merge->counts.dead_rows;
		result->bytes_written = merge->n_blocks * BLCKSZ;
	}
	result->wal_bytes = pgWalUsage.wal_bytes - wal_before;
	pfree(merge);
}

void
merge_when_due(Oid index_oid, uint64 threshold_bytes)
{
	IndexAccess access;
	MetaData *meta;
	MergePlan plan;
	MergeResult result;
	uint64 delta_rows;

	if (threshold_bytes == 0)
	{
		shrink_when_free(index_oid);
		return;
	}
	if (!index_access_try_open(&access, index_oid, ShareUpdateExclusiveLock, RowExclusiveLock))
		return;
	(void) VG_FAULT("merge_when_due");
	meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	meta_read(access.index, nullptr, meta);
	delta_rows = delta_end(access.index, meta, nullptr) - meta->delta_first_row;
	if (delta_rows * delta_row_bytes(meta) >= threshold_bytes && plan_tiers(meta, delta_rows, true, &plan))
	{
		merge_index(access.index, access.heap, &plan, true, &result);
		ereport(DEBUG1,
			(errmsg_internal("index \"%s\": merged " UINT64_FORMAT " rows into one segment%s",
				RelationGetRelationName(access.index), result.rows_moved, result.abandoned ? ", abandoned" : "")));
	}
	pfree(meta);
	index_access_close(&access);
}

} // namespace vectorgpu::am
