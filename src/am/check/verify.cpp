// vectorgpu_check, the pages: every page of every segment and of the delta, and every byte that has only one right
// value. A page is copied under its lock and checked without the lock. See verify.hpp.
#include "am/check/verify.hpp"

#include "am/check/verify_aliases.hpp"
#include "am/check/verify_delta.hpp"
#include "am/check/verify_heap.hpp"
#include "am/check/verify_meta.hpp"
#include "am/check/verify_page.hpp"
#include "am/maintain/row_merge.hpp"
#include "pg/fault.hpp"
#include "storage/stream.hpp"

#include <cstring>

extern "C"
{
#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "port/pg_bitutils.h"
#include "utils/snapmgr.h"
}

namespace vectorgpu::am
{

namespace
{

/// The position in the order of a stream of row ids.
struct RowIdOrder
{
	RowId last; // 0: none yet
};

void
check_row_ids(PageCheck *check, BlockNumber block, Size n_bytes, RowIdOrder *order)
{
	for (Size i = 0; i < n_bytes; i += sizeof(RowId))
	{
		RowId row;

		memcpy(&row, checked_payload(check) + i, sizeof(row));
		if (!valid_row_id(row))
			page_corrupted(check->index, block, psprintf("Row ID " UINT64_FORMAT " cannot be a TID.", row));
		if (row <= order->last)
			page_corrupted(check->index, block,
				psprintf("Row (%u,%u) follows row (%u,%u).", row_id_block(row), row_id_offset(row),
					row_id_block(order->last), row_id_offset(order->last)));
		order->last = row;
	}
}

/// Of the n_bytes of a page of row ids, those before the codes of key columns. Row ids end on a page whole.
Size
row_ids_on_page(const SegmentEntry *segment, StreamKind kind, uint64 first_byte, Size n_bytes)
{
	const uint64 n_rows = kind == StreamKind::kRowIds ? segment->n_rows : segment->n_null_rows;
	const uint64 end = n_rows * sizeof(RowId);

	return first_byte < end ? static_cast<Size>(Min(end - first_byte, static_cast<uint64>(n_bytes))) : 0;
}

void
check_tombstones(
	PageCheck *check, BlockNumber block, const SegmentEntry *segment, uint64 first_byte, Size n_bytes, uint64 *n_dead)
{
	const uint64 n_bits = segment->n_rows + segment->n_null_rows;
	const bool last_page = first_byte + n_bytes == (n_bits + 7) / 8;

	*n_dead += pg_popcount(checked_payload(check), static_cast<int>(n_bytes));
	if (last_page && n_bits % 8 != 0 && (static_cast<uint8>(checked_payload(check)[n_bytes - 1]) >> (n_bits % 8)) != 0)
		page_corrupted(check->index, block, "A tombstone is set after the last row.");
}

void
check_stream(PageCheck *check, const SegmentEntry *segment, StreamKind kind, uint64 *n_dead)
{
	const StreamEntry *stream = &segment->streams[static_cast<int>(kind)];
	RowIdOrder order = {0};

	page_run_begin(&check->pages, check->index,
		stream->start_block + static_cast<BlockNumber>(stream_blocks(stream->n_bytes)), check->strategy);
	for (uint32 position = 0; position < stream_blocks(stream->n_bytes); position++)
	{
		const BlockNumber block = stream->start_block + position;
		const uint64 first_byte = static_cast<uint64>(position) * kPayloadBytes;
		const Size n_bytes = Min(kPayloadBytes, stream->n_bytes - first_byte);

		check_copy_page(check, block, {check->meta->uuid, PageRole::kStream, kind, segment->id, position});
		if (page_tag(check->copy.data)->used != n_bytes)
			page_corrupted(check->index, block,
				psprintf("The page says that %u of its bytes are used, the metapage %zu.",
					page_tag(check->copy.data)->used, n_bytes));
		if (!all_zero(checked_payload(check) + n_bytes, kPayloadBytes - n_bytes))
			page_corrupted(check->index, block, "There are bytes after the end of the stream.");
		if (kind == StreamKind::kVectors)
			check_vectors(check, block, checked_payload(check), first_byte, n_bytes);
		else if (kind == StreamKind::kRowIds || kind == StreamKind::kNullRowIds)
			check_row_ids(check, block, row_ids_on_page(segment, kind, first_byte, n_bytes), &order);
		else if (kind == StreamKind::kTombstones)
			check_tombstones(check, block, segment, first_byte, n_bytes, n_dead);
	}
	page_run_end(&check->pages);
}

/// Check the streams of the access method's format.
void
check_am_streams(PageCheck *check, bool deep)
{
	const SegmentFormat *format = access_method(check->index, check->meta)->format;

	if (format == nullptr)
		return;
	for (uint32 i = 0; i < check->meta->n_segments; i++)
		format->check(check->index, check->meta, &check->meta->segments[i], deep, check->strategy);
}

/// Check that no live row occurs twice in the segments and the delta, and that shared entries are there; count the
/// segments' live rows.
void
check_rows_once(PageCheck *check, uint64 end, AliasCheck *aliases)
{
	RowMerge *rows = static_cast<RowMerge *>(palloc(sizeof(RowMerge)));
	uint32 segments[kMaxSegments];
	RowCounts delta_counts;
	Tuplesortstate *delta;
	MergedRow row;

	memset(&delta_counts, 0, sizeof(delta_counts));
	for (uint32 i = 0; i < check->meta->n_segments; i++)
		segments[i] = i;
	delta = sort_delta(check->index, check->meta, check->meta->delta_first_row, end, &delta_counts, nullptr);
	row_merge_begin(rows, check->index, check->meta, segments, check->meta->n_segments, delta, false, check->strategy);
	while (row_merge_next(rows, &row))
	{
		check_alias_entry(aliases, row.row, row.is_null);
		if (row.source->segment == nullptr)
			continue;
		if (row.is_null)
			check->result->null_rows++;
		else
			check->result->rows++;
	}
	row_merge_end(rows);
	check_aliases_end(check, aliases);
	if (delta != nullptr)
		tuplesort_end(delta);
	pfree(rows);
}

/// Check that blocks that were never taken are empty.
void
check_rest_of_file(PageCheck *check)
{
	const BlockNumber n_file = RelationGetNumberOfBlocks(check->index);
	MetaData *now = static_cast<MetaData *>(palloc(sizeof(MetaData)));

	meta_read(check->index, nullptr, now);
	for (BlockNumber block = now->high_water; block < n_file; block++)
	{
		Buffer buffer = ReadBufferExtended(check->index, MAIN_FORKNUM, block, RBM_NORMAL, check->strategy);
		bool is_new;

		CHECK_FOR_INTERRUPTS();
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		is_new = PageIsNew(BufferGetPage(buffer));
		UnlockReleaseBuffer(buffer);
		if (is_new)
			continue;
		// The block may have been taken since.
		meta_read(check->index, nullptr, now);
		if (block >= now->high_water)
			page_corrupted(check->index, block, "The page was never used by the index, but is not empty.");
	}
	pfree(now);
}

} // namespace

void
check_index(Relation index, Relation heap, bool heap_all_indexed, CheckResult *result)
{
	PageCheck *check = static_cast<PageCheck *>(palloc0(sizeof(PageCheck)));
	MetaData *meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	Snapshot snapshot = RegisterSnapshot(GetTransactionSnapshot());
	AliasCheck aliases;
	uint64 shared_end;
	uint64 end;

	memset(result, 0, sizeof(*result));
	// An index with broken HOT chains may rightly lack rows that an old transaction snapshot sees. So may one that
	// REINDEX CONCURRENTLY has made, on a standby: the primary has not waited for this snapshot.
	if (heap_all_indexed && IsolationUsesXactSnapshot() && (index->rd_index->indcheckxmin || RecoveryInProgress()) &&
		!TransactionIdPrecedes(HeapTupleHeaderGetXmin(index->rd_indextuple->t_data), snapshot->xmin))
		ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				errmsg("index \"%s\" cannot be verified using transaction snapshot", RelationGetRelationName(index)),
				errdetail("The transaction is older than the index, which may rightly lack rows that it sees."),
				errhint("Check it in a new transaction.")));

	shared_end = known_alias_end(index);
	meta_read(index, snapshot, meta);
	check->index = index;
	check->meta = meta;
	check->strategy = GetAccessStrategy(BAS_BULKREAD);
	page_run_begin(&check->pages, index, 0, check->strategy);
	check->result = result;
	check_copy_page(check, 0, {meta->uuid, PageRole::kMeta, StreamKind::kVectors, 0, 0});
	if (!all_zero(checked_payload(check) + sizeof(MetaData), kPayloadBytes - sizeof(MetaData)))
		page_corrupted(index, 0, "There are bytes after the end of the metapage's data.");
	check_metapage(index, meta, result);
	for (uint32 i = 0; i < meta->n_segments; i++)
	{
		uint64 n_dead = 0;

		for (uint32 kind = 0; kind < kMaxStreams; kind++)
			check_stream(check, &meta->segments[i], static_cast<StreamKind>(kind), &n_dead);
		if (n_dead < meta->segments[i].n_dead)
			page_corrupted(
				index, 0, psprintf("Segment %u has fewer dead rows than the metapage says.", meta->segments[i].id));
		result->dead_rows += n_dead;
	}
	check_am_streams(check, heap_all_indexed);
	end = check_delta_fill(check);
	(void) VG_FAULT("check_delta");
	check_delta(check, end);
	check_aliases(check, shared_end, &aliases);
	check_rows_once(check, end, &aliases);
	check_rest_of_file(check);
	if (heap_all_indexed)
		check_heap(index, heap, meta, end, snapshot, &aliases, result);

	UnregisterSnapshot(snapshot);
	FreeAccessStrategy(check->strategy);
	pfree(check);
	pfree(meta);
}

} // namespace vectorgpu::am
