// See shrink.hpp and README.md ("Space").
//
// Every reader of the index holds a lock on it from before it reads the metapage until it needs no block any more. So
// a holder of AccessExclusiveLock on the index knows that no block is read that the metapage does not name, and that
// no row is being appended: what is parked is free, and the file can end behind the last block in use. The lock is held
// for one metapage record and the truncation, as VACUUM holds it on a table, and like there a standby ends its readers
// before it replays them.
#include "am/maintain/shrink.hpp"

#include "am/maintain/give_way.hpp"
#include "am/maintain/vacuum.hpp"
#include "am/method/index_access.hpp"
#include "pg/clock.hpp"
#include "pg/fault.hpp"
#include "pg/maintenance.hpp"
#include "storage/delta.hpp"
#include "storage/extent.hpp"
#include "storage/stream_writer.hpp"

#include <cstring>

extern "C"
{
#include "access/xact.h"
#include "catalog/storage.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/wait_event.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kLeastBlocks = 128; // free ones for which the work is worth it: 1 MB
constexpr uint64 kFreeShare = 4;     // a file is shrunk if more than a quarter of the blocks in use are free
constexpr int kLockTries = 20;       // for a lock that other sessions hold up,
constexpr long kLockPauseMs = 50;    // as long apart as VACUUM's for a table
constexpr int kVacuumTries = 150;    // for the table, which the VACUUM that asks has locked until its end,
constexpr long kVacuumPauseMs = 200; // as long apart
constexpr int kRounds = 4;           // of moving: what does not fit at first fits into what the first has left

/// Without the snapshot that reads of the catalog leave behind: it would keep vacuums of other tables from removing
/// rows.
void
pause(long ms)
{
	CHECK_FOR_INTERRUPTS();
	InvalidateCatalogSnapshotConditionally();
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
}

bool
delta_is_empty(Relation index, const MetaData *meta)
{
	return delta_visible_end(index, meta, nullptr) <= meta->delta_first_row;
}

/// Blocks that hold something. The chunks of an empty delta are free once no session can append to them.
uint64
blocks_in_use(Relation index, const MetaData *meta)
{
	uint64 n_free = 0;

	for (uint32 i = 0; i < meta->n_free; i++)
		n_free += meta->free_extents[i].n_blocks;
	if (delta_is_empty(index, meta))
		for (uint32 i = 0; i < meta->n_chunks; i++)
			n_free += meta->chunks[i].n_blocks;
	return meta->high_water - Min(n_free, static_cast<uint64>(meta->high_water));
}

/// True if enough of the file is free.
bool
is_worth_it(Relation index, const MetaData *meta)
{
	const uint64 used = blocks_in_use(index, meta);
	const uint64 have = RelationGetNumberOfBlocks(index);

	return have > used && have - used >= Max(kLeastBlocks, used / kFreeShare);
}

/// Take the lock under which the file can be cut. Waits a second at most, and never in a queue that holds up others.
bool
lock_all(Relation index)
{
	for (int i = 0; i < kLockTries; i++)
	{
		if (ConditionalLockRelation(index, AccessExclusiveLock))
			return true;
		pause(kLockPauseMs);
	}
	return false;
}

/// Free the chunks of an empty delta: its last one is in use although a merge has taken its rows.
void
drop_chunks(MetaData *meta)
{
	for (uint32 i = 0; i < meta->n_chunks; i++)
		extent_give(meta, meta->chunks[i].start_block, meta->chunks[i].n_blocks, 0);
	memset(meta->chunks, 0, sizeof(meta->chunks));
	meta->n_chunks = 0;
}

/// Under AccessExclusiveLock: make parked blocks free, and cut off those at the end of the file. Returns false if the
/// lock is not to be had. *meta: the metapage afterwards.
bool
release_and_cut(Relation index, MetaData *meta)
{
	MetaUpdate update;
	bool empty;

	if (!lock_all(index))
		return false;
	(void) VG_FAULT("shrink_release");
	meta_read(index, nullptr, meta);
	empty = delta_is_empty(index, meta);
	meta_update_begin(&update, index);
	if (empty)
		drop_chunks(update.meta);
	extent_release_all(update.meta);
	memcpy(meta, update.meta, sizeof(*meta));
	meta_update_finish(&update);
	(void) VG_FAULT("shrink_cut");
	// A crash in between leaves blocks behind high_water, which the next VACUUM cuts off.
	if (RelationGetNumberOfBlocks(index) > meta->high_water)
		RelationTruncate(index, meta->high_water);
	UnlockRelation(index, AccessExclusiveLock);
	return true;
}

/// The stream that lies farthest behind `limit` and fits into free space before it: its segment and kind. False if
/// there is none.
bool
find_move(const MetaData *meta, Relation heap, BlockNumber limit, uint32 *segment, uint32 *kind)
{
	BlockNumber farthest = 0;

	for (uint32 i = 0; i < meta->n_segments; i++)
		for (uint32 j = 0; j < kMaxStreams; j++)
		{
			const StreamEntry *stream = &meta->segments[i].streams[j];
			const uint32 n_blocks = static_cast<uint32>(stream_blocks(stream->n_bytes));

			if (n_blocks == 0 || stream->start_block < limit || stream->start_block <= farthest ||
				!extent_fits_before(meta, heap, stream->start_block, n_blocks))
				continue;
			farthest = stream->start_block;
			*segment = i;
			*kind = j;
		}
	return farthest > 0;
}

/// Copy the pages of a stream to blocks from `start` on. Only VACUUM changes them, which the table's lock excludes.
/// Returns false if it gave way.
bool
copy_pages(Relation heap, bool give_way, Relation index, const MetaData *meta, const SegmentEntry *segment,
	StreamKind kind, BlockNumber start)
{
	const StreamEntry *stream = &segment->streams[static_cast<int>(kind)];
	const uint32 n_blocks = static_cast<uint32>(stream_blocks(stream->n_bytes));
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	char *page = static_cast<char *>(palloc(BLCKSZ));
	uint64 last_look = pg::monotonic_ms();
	bool goes_on = true;

	ensure_blocks(index, start + n_blocks);
	for (uint32 i = 0; i < n_blocks && goes_on; i++)
	{
		const PageExpectation expect = {meta->uuid, PageRole::kStream, kind, segment->id, i};
		Buffer buffer;

		pg::vacuum_pause();
		(void) VG_FAULT("shrink_copy");
		buffer = page_read(
			index, stream->start_block + i, expect, BUFFER_LOCK_SHARE, ChecksumPolicy::kAlways, strategy, nullptr);
		memcpy(page, BufferGetPage(buffer), BLCKSZ);
		UnlockReleaseBuffer(buffer);
		buffered_write_page(index, start + i, page);
		goes_on = !(give_way && other_session_waits(heap, &last_look));
	}
	pfree(page);
	FreeAccessStrategy(strategy);
	return goes_on;
}

/// Move a stream into free space before it, or behind all others. Until the second record the blocks are pending, as
/// those of a merge are. Contents and version of the index stay as they are, so copies in the worker remain valid.
/// Returns false if there is no room, or if it gave way.
bool
move_stream(
	Relation index, Relation heap, bool give_way, const MetaData *meta, uint32 segment, uint32 kind, bool to_end)
{
	const StreamEntry stream = meta->segments[segment].streams[kind];
	const uint32 n_blocks = static_cast<uint32>(stream_blocks(stream.n_bytes));
	FreeExtent taken = {0, n_blocks, 0};
	MetaUpdate update;

	meta_update_begin(&update, index);
	if (!to_end && !extent_fits_before(update.meta, heap, stream.start_block, n_blocks))
	{
		meta_update_abort(&update); // an inserter has taken the blocks
		return false;
	}
	taken.start_block = to_end ? extent_take_end(&update, n_blocks) : extent_take(&update, heap, n_blocks);
	update.meta->pending[kPendingMerge] = taken;
	meta_update_finish(&update);

	if (!copy_pages(
			heap, give_way, index, meta, &meta->segments[segment], static_cast<StreamKind>(kind), taken.start_block))
	{
		reclaim_pending(index);
		return false;
	}
	(void) VG_FAULT("shrink_publish");
	meta_update_begin(&update, index);
	update.meta->segments[segment].streams[kind].start_block = taken.start_block;
	extent_give(update.meta, stream.start_block, n_blocks, current_parking_xid());
	update.meta->pending[kPendingMerge] = {};
	meta_update_finish(&update);
	return true;
}

/// Move all streams that lie behind the end that the file would have without free space, if they fit before. Returns
/// false if there are none.
bool
move_streams(Relation index, Relation heap, bool give_way, MetaData *meta)
{
	const BlockNumber limit = static_cast<BlockNumber>(blocks_in_use(index, meta));
	bool moved = false;
	uint32 segment;
	uint32 kind;

	while (find_move(meta, heap, limit, &segment, &kind))
	{
		if (!move_stream(index, heap, give_way, meta, segment, kind, false))
			return false;
		meta_read(index, nullptr, meta);
		moved = true;
	}
	return moved;
}

/// Where the last stream begins before the end that the file should have, the space before it is too small for it, and
/// the file more than half as long again: move it to the end, so that the next round moves it to the beginning. Returns
/// false if that is not so.
bool
make_room(Relation index, Relation heap, bool give_way, MetaData *meta)
{
	uint32 segment = 0;
	uint32 kind = 0;
	BlockNumber last = 0;

	if (RelationGetNumberOfBlocks(index) * UINT64CONST(2) <= blocks_in_use(index, meta) * 3)
		return false;
	for (uint32 i = 0; i < meta->n_segments; i++)
		for (uint32 j = 0; j < kMaxStreams; j++)
			if (meta->segments[i].streams[j].n_bytes > 0 && meta->segments[i].streams[j].start_block > last)
			{
				last = meta->segments[i].streams[j].start_block;
				segment = i;
				kind = j;
			}
	if (last == 0 || !move_stream(index, heap, give_way, meta, segment, kind, true))
		return false;
	meta_read(index, nullptr, meta);
	return true;
}

bool
may_truncate(Relation heap)
{
	const StdRdOptions *options = reinterpret_cast<const StdRdOptions *>(heap->rd_options);

	return options == nullptr || options->vacuum_truncate;
}

} // namespace

void
shrink_file(Relation index, Relation heap, bool give_way)
{
	MetaData *meta;
	bool made_room = false;

	if (!may_truncate(heap))
		return;
	meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	meta_read(index, nullptr, meta);
	// The lock's record, for standbys, needs a transaction ID, which VACUUM does not get beside its parallel workers.
	if (IsInParallelMode() && is_worth_it(index, meta))
		pg::maintenance_request_shrink(index);
	for (int i = 0; !IsInParallelMode() && i < kRounds && is_worth_it(index, meta); i++)
	{
		if (!release_and_cut(index, meta) || !is_worth_it(index, meta))
			break;
		if (move_streams(index, heap, give_way, meta))
			continue;
		if (made_room || !make_room(index, heap, give_way, meta))
			break;
		made_room = true;
	}
	pfree(meta);
}

void
shrink_when_free(Oid index_oid)
{
	IndexAccess access;

	for (int i = 0; !index_access_try_open(&access, index_oid, ShareUpdateExclusiveLock, RowExclusiveLock); i++)
	{
		if (i == kVacuumTries || !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(index_oid)))
			return;
		pause(kVacuumPauseMs);
	}
	reclaim_pending(access.index);
	shrink_file(access.index, access.heap, true);
	index_access_close(&access);
}

} // namespace vectorgpu::am
