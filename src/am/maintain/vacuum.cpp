// VACUUM's callbacks. See vacuum.hpp and README.md ("Vacuum", "Shared entries").
//
// Every pass counts the dead rows from the pages and does not add to the metapage's numbers. A pass that was cancelled
// after setting tombstones leaves them uncounted. The next pass does not ask about those entries again, but must still
// increment the generation before VACUUM frees their line pointers.
#include "am/maintain/vacuum.hpp"

#include "am/alias/alias_resolve.hpp"
#include "am/method/callbacks.hpp"
#include "storage/alias.hpp"
#include "storage/delta_value.hpp"
#include "storage/extent.hpp"
#include "am/maintain/merge.hpp"
#include "am/maintain/row_merge.hpp"
#include "am/maintain/shrink.hpp"
#include "pg/fault.hpp"

#include <cstring>

extern "C"
{
#include "access/table.h"
#include "catalog/index.h"
#include "commands/vacuum.h"
#include "storage/itemptr.h"
#include "storage/lmgr.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint32 kBatchRows = 1024;
constexpr uint64 kPageBits = kPayloadBytes * 8; // tombstone bits per page

/// One pass of ambulkdelete.
struct BulkDelete
{
	Relation index;
	BufferAccessStrategy strategy;
	DeadRows dead;
	MetaData meta;
	uint64 delta_end;
	uint64 segment_dead[kMaxSegments]; // tombstones, including those set before
	uint64 delta_dead;
	uint64 newly_dead;
	RowId rows[kBatchRows];
	uint64 headers[kBatchRows];
	uint64 dead_numbers[kBatchRows];
	uint8 old_bits[kPayloadBytes];
	uint8 new_bits[kPayloadBytes];
};

/// Set new_bits on one page of a segment's tombstones.
void
write_tombstones(BulkDelete *pass, const SegmentEntry *segment, uint32 position)
{
	const BlockNumber block = segment->streams[static_cast<int>(StreamKind::kTombstones)].start_block + position;
	const PageExpectation expect = {pass->meta.uuid, PageRole::kStream, StreamKind::kTombstones, segment->id, position};
	Buffer buffer;
	GenericXLogState *xlog;
	Page page;
	uint8 *bits;

	(void) VG_FAULT("vacuum_tombstones");
	buffer =
		page_read(pass->index, block, expect, BUFFER_LOCK_EXCLUSIVE, ChecksumPolicy::kAlways, pass->strategy, nullptr);
	xlog = GenericXLogStart(pass->index);
	page = GenericXLogRegisterBuffer(xlog, buffer, 0);
	bits = reinterpret_cast<uint8 *>(page_payload(page));
	for (Size i = 0; i < kPayloadBytes; i++)
		bits[i] |= pass->new_bits[i];
	page_seal(page);
	GenericXLogFinish(xlog);
	UnlockReleaseBuffer(buffer);
}

/// Read the row ids of tombstone bits [first, first + n): rows, then NULL rows.
void
read_row_ids(BulkDelete *pass, const SegmentEntry *segment, uint64 first, uint32 n)
{
	const uint64 end = first + n;
	const uint64 rows_end = Min(end, segment->n_rows);
	bool intact = true;

	if (first < rows_end)
		intact = stream_read(pass->index, &pass->meta, segment, StreamKind::kRowIds, first * sizeof(RowId),
			(rows_end - first) * sizeof(RowId), pass->rows, pass->strategy);
	if (intact && end > segment->n_rows)
	{
		const uint64 nulls_first = Max(first, segment->n_rows);

		intact = stream_read(pass->index, &pass->meta, segment, StreamKind::kNullRowIds,
			(nulls_first - segment->n_rows) * sizeof(RowId), (end - nulls_first) * sizeof(RowId),
			pass->rows + (nulls_first - first), pass->strategy);
	}
	if (!intact)
		page_corrupted(pass->index, segment->streams[static_cast<int>(StreamKind::kRowIds)].start_block,
			"The page belongs to something else than the segment in the metapage.");
}

/// Visit the entries whose tombstones are on one page; return how many of them are dead now.
uint64
vacuum_tombstone_page(BulkDelete *pass, const SegmentEntry *segment, uint32 position)
{
	const uint64 first = position * kPageBits;
	const uint64 n = Min(kPageBits, segment->n_rows + segment->n_null_rows - first);
	uint64 dead = 0;
	uint64 newly_dead = 0;

	if (!stream_read(pass->index, &pass->meta, segment, StreamKind::kTombstones, position * kPayloadBytes, (n + 7) / 8,
			pass->old_bits, pass->strategy))
		page_corrupted(pass->index, segment->streams[static_cast<int>(StreamKind::kTombstones)].start_block + position,
			"The page belongs to something else than the segment in the metapage.");
	memset(pass->new_bits, 0, sizeof(pass->new_bits));
	for (uint64 done = 0; done < n;)
	{
		const uint32 n_batch = static_cast<uint32>(Min(static_cast<uint64>(kBatchRows), n - done));

		pg::vacuum_pause();
		read_row_ids(pass, segment, first + done, n_batch);
		for (uint32 i = 0; i < n_batch; i++)
		{
			const uint64 bit = done + i;

			if (tombstone_get(pass->old_bits, bit))
				dead++;
			else if (row_is_dead(pass->dead, pass->rows[i]))
			{
				pass->new_bits[bit / 8] |= static_cast<uint8>(1 << (bit % 8));
				newly_dead++;
			}
		}
		done += n_batch;
	}
	if (newly_dead > 0)
		write_tombstones(pass, segment, position);
	pass->newly_dead += newly_dead;
	return dead + newly_dead;
}

void
vacuum_delta(BulkDelete *pass)
{
	for (uint64 row = pass->meta.delta_first_row; row < pass->delta_end;)
	{
		const uint64 n = Min(static_cast<uint64>(kBatchRows), pass->delta_end - row);
		uint64 n_dead = 0;

		pg::vacuum_pause();
		if (!delta_read(pass->index, &pass->meta, row, n, pass->headers, nullptr, 0))
			page_corrupted(pass->index, 0, "A chunk of the delta belongs to something else.");
		for (uint64 i = 0; i < n; i++)
		{
			if (!delta_starts_row(pass->headers[i]))
				continue;
			if ((pass->headers[i] & kDeltaDead) != 0)
				pass->delta_dead++;
			else if (row_is_dead(pass->dead, pass->headers[i] & kDeltaRowIdMask))
				pass->dead_numbers[n_dead++] = row + i;
		}
		if (n_dead > 0)
			delta_mark_dead(pass->index, &pass->meta, pass->dead_numbers, n_dead);
		pass->delta_dead += n_dead;
		pass->newly_dead += n_dead;
		row += n;
	}
}

/// Increment the tombstone generation if the metapage does not count all tombstones.
void
publish(BulkDelete *pass)
{
	const MetaData *meta = &pass->meta;
	bool changed = pass->delta_dead != meta->delta_dead;
	MetaUpdate update;

	for (uint32 i = 0; i < meta->n_segments; i++)
		changed = changed || pass->segment_dead[i] != meta->segments[i].n_dead;
	if (!changed)
		return;

	(void) VG_FAULT("vacuum_publish");
	meta_update_begin(&update, pass->index);
	update.meta->tombstone_generation++;
	for (uint32 i = 0; i < meta->n_segments; i++)
	{
		// No other process changes the manifest while the table's lock is held.
		if (pass->segment_dead[i] == meta->segments[i].n_dead)
			continue;
		update.meta->segments[i].n_dead = pass->segment_dead[i];
		update.meta->segments[i].tombstone_generation = update.meta->tombstone_generation;
	}
	update.meta->delta_dead = pass->delta_dead;
	meta_update_finish(&update);
}

/// Set the counts that describe the current index.
void
fill_stats(Relation index, IndexBulkDeleteResult *stats)
{
	MetaData *meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	uint64 live;
	uint64 n_aliases;
	uint64 n_free;

	meta_read(index, nullptr, meta);
	n_aliases = alias_end(index, meta, nullptr) - meta->alias_first;
	live = delta_count_rows(index, meta, delta_end(index, meta, nullptr));
	live -= Min(live, meta->delta_dead);
	for (uint32 i = 0; i < meta->n_segments; i++)
		live += meta->segments[i].n_rows + meta->segments[i].n_null_rows - meta->segments[i].n_dead;
	live += n_aliases;
	n_free = meta->leaked_blocks;
	for (uint32 i = 0; i < meta->n_free; i++)
		n_free += meta->free_extents[i].n_blocks;
	stats->num_pages = RelationGetNumberOfBlocks(index);
	// An interrupted VACUUM has given some of them entries besides.
	stats->estimated_count = n_aliases > 0;
	stats->num_index_tuples = static_cast<double>(live);
	stats->pages_deleted = static_cast<BlockNumber>(n_free);
	stats->pages_free = static_cast<BlockNumber>(n_free - meta->leaked_blocks);
	pfree(meta);
}

} // namespace

void
reclaim_pending(Relation index)
{
	MetaData *meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));

	meta_read(index, nullptr, meta);
	for (int slot = 0; slot < kPendingSlots; slot++)
	{
		MetaUpdate update;

		if (meta->pending[slot].n_blocks == 0)
			continue;
		// A chunk may be pending because an inserter is adding it now: wait for that.
		if (slot == kPendingChunk)
			LockPage(index, 0, ExclusiveLock);
		(void) VG_FAULT("reclaim_pending");
		meta_update_begin(&update, index);
		extent_give(update.meta, update.meta->pending[slot].start_block, update.meta->pending[slot].n_blocks,
			current_parking_xid());
		update.meta->pending[slot] = {};
		meta_update_finish(&update);
		if (slot == kPendingChunk)
			UnlockPage(index, 0, ExclusiveLock);
	}
	pfree(meta);
}

IndexBulkDeleteResult *
shared_bulkdelete(
	IndexVacuumInfo *info, IndexBulkDeleteResult *stats, IndexBulkDeleteCallback callback, void *callback_state)
{
	BulkDelete *pass = static_cast<BulkDelete *>(palloc0(sizeof(BulkDelete)));

	if (stats == nullptr)
		stats = static_cast<IndexBulkDeleteResult *>(palloc0(sizeof(IndexBulkDeleteResult)));

	reclaim_pending(info->index);
	pass->index = info->index;
	pass->strategy = info->strategy;
	pass->dead = {callback, callback_state};
	// While entries are removed no row begins to share one.
	LockPage(info->index, kAliasLock, ExclusiveLock);
	(void) VG_FAULT("vacuum_begin");
	meta_read(info->index, nullptr, &pass->meta);
	pass->delta_end = delta_end(info->index, &pass->meta, nullptr);
	pass->newly_dead = resolve_aliases(info->index, &pass->meta, pass->delta_end, pass->dead, info->strategy);

	for (uint32 i = 0; i < pass->meta.n_segments; i++)
	{
		const SegmentEntry *segment = &pass->meta.segments[i];
		const uint64 n_entries = segment->n_rows + segment->n_null_rows;

		for (uint32 position = 0; position * kPageBits < n_entries; position++)
			pass->segment_dead[i] += vacuum_tombstone_page(pass, segment, position);
	}
	vacuum_delta(pass);
	publish(pass);
	UnlockPage(info->index, kAliasLock, ExclusiveLock);

	stats->tuples_removed += static_cast<double>(pass->newly_dead);
	pfree(pass);
	fill_stats(info->index, stats);
	return stats;
}

IndexBulkDeleteResult *
shared_vacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	MetaData *meta;
	MergePlan plan;
	uint64 delta_rows;
	Relation heap;

	// There is nothing to do for ANALYZE, which also holds too weak a lock to merge.
	if (info->analyze_only)
		return stats;
	if (stats == nullptr)
		stats = static_cast<IndexBulkDeleteResult *>(palloc0(sizeof(IndexBulkDeleteResult)));

	reclaim_pending(info->index);
	(void) VG_FAULT("vacuum_cleanup");
	meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	meta_read(info->index, nullptr, meta);
	delta_rows = delta_end(info->index, meta, nullptr) - meta->delta_first_row;
	// VACUUM holds the table's lock, in a parallel worker through its leader.
	heap = table_open(IndexGetRelation(RelationGetRelid(info->index), false), NoLock);
	if (plan_tiers(meta, delta_rows, false, &plan))
	{
		MergeResult result;

		merge_index(info->index, heap, &plan, false, &result);
		ereport(info->message_level,
			(errmsg("index \"%s\": merged " UINT64_FORMAT " rows, dropped " UINT64_FORMAT
					", segments: %u before, %u after",
				RelationGetRelationName(info->index), result.rows_moved, result.rows_dropped, result.segments_before,
				result.segments_after)));
	}
	pfree(meta);
	shrink_file(info->index, heap, false);
	table_close(heap, NoLock);
	fill_stats(info->index, stats);
	return stats;
}

} // namespace vectorgpu::am
