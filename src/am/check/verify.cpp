// vectorgpu_check, the pages: every page of every segment and of the delta, byte by byte where a byte has only one
// right value. A page is copied under its lock and looked at without. See verify.hpp.
#include "am/check/verify.hpp"

#include "storage/delta_map.hpp"
#include "am/maintain/row_merge.hpp"
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

constexpr Size kMaxPieceBytes = 1024; // of a stored value in one slot

struct PageCheck
{
	Relation index;
	const MetaData *meta;
	BufferAccessStrategy strategy;
	CheckResult *result;
	PGAlignedBlock copy; // of the page being looked at
};

/// Where the rows of a stream of row ids have come to.
struct RowIdOrder
{
	RowId last; // 0: none yet
};

const char *
payload(const PageCheck *check)
{
	return check->copy.data + kPayloadOffset;
}

bool
all_zero(const char *bytes, Size n)
{
	for (Size i = 0; i < n; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

bool
valid_row_id(RowId row)
{
	return row <= kDeltaRowIdMask && row_id_block(row) != InvalidBlockNumber && OffsetNumberIsValid(row_id_offset(row));
}

/// Copies a page after it was found to be what the metapage says, checksum included.
void
copy_page(PageCheck *check, BlockNumber block, const PageExpectation &expect)
{
	const PageHeaderData *header = reinterpret_cast<const PageHeaderData *>(check->copy.data);
	bool foreign = false;
	Buffer buffer;

	CHECK_FOR_INTERRUPTS();
	buffer =
		page_read(check->index, block, expect, BUFFER_LOCK_SHARE, ChecksumPolicy::kAlways, check->strategy, &foreign);
	if (foreign)
	{
		// A primary's check holds a snapshot, so that nothing it may read is put to another use.
		if (RecoveryInProgress())
			page_recycled(check->index, block);
		page_corrupted(check->index, block, "The page belongs to something else than the metapage says.");
	}
	memcpy(check->copy.data, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
	// page_read compares no checksum that this backend has seen before; a check does.
	if (!page_checksum_ok(check->copy.data))
		page_corrupted(check->index, block, "The checksum of the page does not match its contents.");
	// The checksum begins behind the page header. Its LSN and core's checksum are core's to judge.
	if (header->pd_lower > BLCKSZ || header->pd_upper != BLCKSZ || header->pd_special != BLCKSZ ||
		header->pd_lower < (expect.role == PageRole::kDelta ? kPayloadOffset : Size(BLCKSZ)) || header->pd_flags != 0 ||
		!TransactionIdEquals(header->pd_prune_xid, InvalidTransactionId) ||
		header->pd_pagesize_version != (BLCKSZ | PG_PAGE_LAYOUT_VERSION))
		page_corrupted(check->index, block, "The page header is not as this page's must be.");
	if (!all_zero(check->copy.data + header->pd_lower, BLCKSZ - header->pd_lower))
		page_corrupted(check->index, block, "The hole of the page is not empty.");
	check->result->pages_checked++;
}

/// bytes [n_bytes]: from byte first_byte of the vectors on. Elements never cross a page border, since the payload is a
/// multiple of 64 bytes.
void
check_vectors(PageCheck *check, BlockNumber block, const char *bytes, uint64 first_byte, Size n_bytes)
{
	const Size vector_size = meta_vector_bytes(check->meta);
	bool finite = true;

	switch (check->meta->element)
	{
		case ElementType::kFloat32:
			for (Size i = 0; i < n_bytes; i += sizeof(uint32))
			{
				uint32 bits;

				memcpy(&bits, bytes + i, sizeof(bits));
				finite = finite && (bits & 0x7F800000) != 0x7F800000;
			}
			break;
		case ElementType::kFloat16:
			for (Size i = 0; i < n_bytes; i += sizeof(uint16))
			{
				uint16 bits;

				memcpy(&bits, bytes + i, sizeof(bits));
				finite = finite && (bits & 0x7C00) != 0x7C00;
			}
			break;
		case ElementType::kBit:
		{
			const uint8 pad = static_cast<uint8>(0xFF >> (check->meta->dim % 8));

			if (check->meta->dim % 8 == 0)
				break;
			for (Size i = 0; i < n_bytes; i++)
				if ((first_byte + i + 1) % vector_size == 0 && (bytes[i] & pad) != 0)
					page_corrupted(check->index, block, "A bit string has bits behind its end.");
			break;
		}
		case ElementType::kSet:
			break; // the access method's (SegmentFormat::check)
	}
	if (!finite)
		page_corrupted(check->index, block, "A vector has an element that is not finite.");
}

void
check_row_ids(PageCheck *check, BlockNumber block, Size n_bytes, RowIdOrder *order)
{
	for (Size i = 0; i < n_bytes; i += sizeof(RowId))
	{
		RowId row;

		memcpy(&row, payload(check) + i, sizeof(row));
		if (!valid_row_id(row))
			page_corrupted(check->index, block, psprintf("Row ID " UINT64_FORMAT " cannot be a TID.", row));
		if (row <= order->last)
			page_corrupted(check->index, block,
				psprintf("Row (%u,%u) follows row (%u,%u).", row_id_block(row), row_id_offset(row),
					row_id_block(order->last), row_id_offset(order->last)));
		order->last = row;
	}
}

void
check_tombstones(
	PageCheck *check, BlockNumber block, const SegmentEntry *segment, uint64 first_byte, Size n_bytes, uint64 *n_dead)
{
	const uint64 n_bits = segment->n_rows + segment->n_null_rows;
	const bool last_page = first_byte + n_bytes == (n_bits + 7) / 8;

	*n_dead += pg_popcount(payload(check), static_cast<int>(n_bytes));
	if (last_page && n_bits % 8 != 0 && (static_cast<uint8>(payload(check)[n_bytes - 1]) >> (n_bits % 8)) != 0)
		page_corrupted(check->index, block, "A tombstone is set behind the last row.");
}

void
check_stream(PageCheck *check, const SegmentEntry *segment, StreamKind kind, uint64 *n_dead)
{
	const StreamEntry *stream = &segment->streams[static_cast<int>(kind)];
	RowIdOrder order = {0};

	for (uint32 position = 0; position < stream_blocks(stream->n_bytes); position++)
	{
		const BlockNumber block = stream->start_block + position;
		const uint64 first_byte = static_cast<uint64>(position) * kPayloadBytes;
		const Size n_bytes = Min(kPayloadBytes, stream->n_bytes - first_byte);

		copy_page(check, block, {check->meta->uuid, PageRole::kStream, kind, segment->id, position});
		if (page_tag(check->copy.data)->used != n_bytes)
			page_corrupted(check->index, block,
				psprintf("The page says that %u of its bytes are used, the metapage %zu.",
					page_tag(check->copy.data)->used, n_bytes));
		if (!all_zero(payload(check) + n_bytes, kPayloadBytes - n_bytes))
			page_corrupted(check->index, block, "There are bytes behind the end of the stream.");
		if (kind == StreamKind::kVectors)
			check_vectors(check, block, payload(check), first_byte, n_bytes);
		else if (kind == StreamKind::kRowIds || kind == StreamKind::kNullRowIds)
			check_row_ids(check, block, n_bytes, &order);
		else if (kind == StreamKind::kTombstones)
			check_tombstones(check, block, segment, first_byte, n_bytes, n_dead);
	}
}

/// What the access method knows of its own streams.
void
check_am_streams(PageCheck *check, bool deep)
{
	const SegmentFormat *format = access_method(check->index, check->meta)->format;

	if (format == nullptr)
		return;
	for (uint32 i = 0; i < check->meta->n_segments; i++)
		format->check(check->index, check->meta, &check->meta->segments[i], deep, check->strategy);
}

/// Finds the delta's end from the tags, last page first: then rows appended meanwhile cannot make an earlier page look
/// less filled than a later one.
uint64
check_delta_fill(PageCheck *check)
{
	const MetaData *meta = check->meta;
	uint64 end = meta->delta_first_row;
	bool later_rows = false;

	for (uint32 i = meta->n_chunks; i > 0; i--)
	{
		const DeltaChunk *chunk = &meta->chunks[i - 1];

		for (uint32 left = chunk->n_blocks; left > 0; left--)
		{
			const uint32 position = left - 1;
			const BlockNumber block = chunk->start_block + position;
			const uint64 first = delta_first_start(meta, chunk, position);
			const uint64 room = delta_first_start(meta, chunk, position + 1) - first;
			uint32 used;

			copy_page(check, block, delta_expect(meta, chunk, position));
			used = page_tag(check->copy.data)->used;
			if (used > room)
				page_corrupted(check->index, block,
					psprintf("The page counts %u rows, but has room for " UINT64_FORMAT ".", used, room));
			if (later_rows && used < room)
				page_corrupted(check->index, block, "The page has gaps, but rows follow on a later one.");
			if (used > 0 && !later_rows)
				end = first + used;
			later_rows = later_rows || used > 0;
		}
	}
	if (end < meta->delta_first_row)
		page_corrupted(check->index, 0, "The delta ends before its first row.");
	return end;
}

/// Where the whole rows of the delta end.
uint64
whole_end(PageCheck *check, uint64 visible_end)
{
	bool foreign = false;
	const uint64 end = delta_whole_end(check->index, check->meta, visible_end, &foreign);

	if (foreign)
		page_recycled(check->index, 0);
	return end;
}

/// Copies bytes of a chunk, whose page `position` is in check->copy (PG_UINT32_MAX: none).
void
read_chunk_bytes(PageCheck *check, const DeltaChunk *chunk, uint32 *position, uint64 from, Size n, char *out)
{
	while (n > 0)
	{
		const uint32 wanted = static_cast<uint32>(from / kPayloadBytes);
		const Size offset = from % kPayloadBytes;
		const Size part = Min(n, kPayloadBytes - offset);

		if (*position != wanted)
		{
			copy_page(check, chunk->start_block + wanted, delta_expect(check->meta, chunk, wanted));
			check->result->pages_checked--; // counted when the delta's end was looked for
			*position = wanted;
		}
		memcpy(out, payload(check) + offset, part);
		from += part;
		out += part;
		n -= part;
	}
}

void
check_delta_row(PageCheck *check, BlockNumber block, const char *row)
{
	const Size vector_size = meta_vector_bytes(check->meta);
	const Size row_size = delta_row_bytes(check->meta);
	uint64 header;

	memcpy(&header, row, sizeof(header));
	if ((header & ~(kDeltaRowIdMask | kDeltaNull | kDeltaDead)) != 0)
		page_corrupted(check->index, block, "A row of the delta has flags that do not exist.");
	if (!valid_row_id(header & kDeltaRowIdMask))
		page_corrupted(
			check->index, block, psprintf("Row ID " UINT64_FORMAT " cannot be a TID.", header & kDeltaRowIdMask));
	if (!all_zero(row + sizeof(header) + vector_size, row_size - sizeof(header) - vector_size))
		page_corrupted(check->index, block, "There are bytes between two rows of the delta.");
	if ((header & kDeltaNull) != 0 && !all_zero(row + sizeof(header), vector_size))
		page_corrupted(check->index, block, "A NULL row of the delta has a value.");
	if ((header & kDeltaDead) != 0)
		check->result->dead_rows++;
	else if ((header & kDeltaNull) != 0)
		check->result->null_rows++;
	else
		check->result->rows++;
}

/// The delta of an index of stored values: flags, slots, padding, the values themselves.
void
check_delta_values(PageCheck *check, uint64 end)
{
	const MetaData *meta = check->meta;
	const ValueFormat *values = access_method(check->index, meta)->values;
	const Size piece = meta_vector_bytes(meta);
	const uint64 dead_before = check->result->dead_rows;
	ValueBuffer value = {nullptr, 0};

	for (uint64 row = meta->delta_first_row; row < end;)
	{
		const char *problem = nullptr;
		uint64 header;
		uint64 n_slots;
		char first[kMaxPieceBytes];

		CHECK_FOR_INTERRUPTS();
		if (!delta_read(check->index, meta, row, 1, &header, first, piece))
			page_recycled(check->index, 0);
		if (!delta_starts_row(header) || (header & ~(kDeltaRowIdMask | kDeltaNull | kDeltaDead)) != 0 ||
			!valid_row_id(header & kDeltaRowIdMask))
			page_corrupted(check->index, 0, psprintf("Slot " UINT64_FORMAT " of the delta does not begin a row.", row));
		n_slots = (header & kDeltaNull) != 0 ? 1 : delta_slots(meta, first);
		if (n_slots == 0 || n_slots > end - row)
			page_corrupted(check->index, 0, psprintf("Row " UINT64_FORMAT " of the delta is not whole.", row));
		if ((header & kDeltaNull) != 0)
		{
			if (!all_zero(first, piece))
				problem = "A NULL row of the delta has a value.";
		}
		else
		{
			if (!delta_read_value(check->index, meta, row, &value))
				page_recycled(check->index, 0);
			if (!all_zero(value.data + stored_bytes(value.data), n_slots * piece - stored_bytes(value.data)))
				problem = "There are bytes between two rows of the delta.";
			else if ((header & kDeltaDead) == 0)
				problem = values->check(value.data);
		}
		if (problem != nullptr)
			page_corrupted(check->index, 0, psprintf("Row " UINT64_FORMAT " of the delta: %s", row, problem));
		if ((header & kDeltaDead) != 0)
			check->result->dead_rows++;
		else if ((header & kDeltaNull) != 0)
			check->result->null_rows++;
		else
			check->result->rows++;
		check->result->delta_rows++;
		row += n_slots;
	}
	if (check->result->dead_rows - dead_before < meta->delta_dead)
		page_corrupted(check->index, 0, "The delta has fewer dead rows than the metapage says.");
	if (value.data != nullptr)
		pfree(value.data);
}

void
check_delta(PageCheck *check, uint64 end)
{
	const MetaData *meta = check->meta;
	const Size row_size = delta_row_bytes(meta);
	char *row_bytes = static_cast<char *>(palloc(row_size));
	const uint64 dead_before = check->result->dead_rows;
	const DeltaChunk *chunk = nullptr;
	uint32 position = PG_UINT32_MAX;

	if (meta->element == ElementType::kSet)
	{
		check_delta_values(check, end);
		return;
	}
	for (uint64 row = meta->delta_first_row; row < end; row++)
	{
		const uint64 n_before = check->result->rows;
		BlockNumber block;
		DeltaPlace place;

		if (chunk == nullptr || row >= chunk->first_row + chunk_capacity(meta, chunk))
		{
			chunk = delta_find_chunk(meta, row);
			position = PG_UINT32_MAX;
		}
		place = delta_place(meta, chunk, row);
		block = chunk->start_block + place.position;
		read_chunk_bytes(check, chunk, &position, (row - chunk->first_row) * row_size, row_size, row_bytes);
		check_delta_row(check, block, row_bytes);
		if (check->result->rows > n_before)
			check_vectors(check, block, row_bytes + sizeof(uint64), 0, meta_vector_bytes(meta));
	}
	check->result->delta_rows = end - meta->delta_first_row;
	// More than the metapage says: a vacuum at work, or one that was cancelled.
	if (check->result->dead_rows - dead_before < meta->delta_dead)
		page_corrupted(check->index, 0, "The delta has fewer dead rows than the metapage says.");
	pfree(row_bytes);
}

/// No live row twice, over all segments and the delta; counts the segments' live rows.
void
check_rows_once(PageCheck *check, uint64 end)
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
		if (row.source->segment == nullptr)
			continue;
		if (row.is_null)
			check->result->null_rows++;
		else
			check->result->rows++;
	}
	row_merge_end(rows);
	if (delta != nullptr)
		tuplesort_end(delta);
	pfree(rows);
}

/// Blocks that were never given out have nothing on them.
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
		// Perhaps it was given out since.
		meta_read(check->index, nullptr, now);
		if (block >= now->high_water)
			page_corrupted(check->index, block, "The page was never given out, but is not empty.");
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
	uint64 end;

	memset(result, 0, sizeof(*result));
	// Under an old transaction snapshot, rows may be missing in an index with broken HOT chains, rightly so.
	if (heap_all_indexed && IsolationUsesXactSnapshot() && index->rd_index->indcheckxmin &&
		!TransactionIdPrecedes(HeapTupleHeaderGetXmin(index->rd_indextuple->t_data), snapshot->xmin))
		ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				errmsg("index \"%s\" cannot be verified using transaction snapshot", RelationGetRelationName(index)),
				errdetail("The transaction is older than the index, which may rightly lack rows that it sees."),
				errhint("Check it in a new transaction.")));

	meta_read(index, snapshot, meta);
	check->index = index;
	check->meta = meta;
	check->strategy = GetAccessStrategy(BAS_BULKREAD);
	check->result = result;
	copy_page(check, 0, {meta->uuid, PageRole::kMeta, StreamKind::kVectors, 0, 0});
	if (!all_zero(payload(check) + sizeof(MetaData), kPayloadBytes - sizeof(MetaData)))
		page_corrupted(index, 0, "There are bytes behind the end of the metapage's data.");
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
	if (meta->element == ElementType::kSet)
		end = whole_end(check, end);
	check_delta(check, end);
	check_rows_once(check, end);
	check_rest_of_file(check);
	if (heap_all_indexed)
		check_heap(index, heap, meta, end, snapshot, result);

	UnregisterSnapshot(snapshot);
	FreeAccessStrategy(check->strategy);
	pfree(check);
	pfree(meta);
}

} // namespace vectorgpu::am
