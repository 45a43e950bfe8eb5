// See toast_reader.hpp. A chunk that lies at the expected place is the one that the index would name: the TOAST table
// has at most one chunk of a value and a number that a snapshot of its kind sees.
#include "am/build/toast_reader.hpp"

#include <cstring>

extern "C"
{
#include "access/detoast.h"
#include "access/genam.h"
#include "access/heapam.h"
#include "access/heaptoast.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/toast_internals.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
}

namespace vectorgpu::am
{

namespace
{

// After this many values elsewhere than expected, only the page at hand is looked at, except for one value in 64.
constexpr uint32 kMostMissed = 4;
constexpr uint32 kMissedAgain = 64;

/// The value that is read, and how far.
struct ToastValue
{
	Oid id;
	char *dest;
	Size n_bytes;
	int32 n_chunks;
	int32 next; // number of the chunk that comes next
};

void
leave_page(ToastReader *reader)
{
	if (BufferIsValid(reader->buffer))
		ReleaseBuffer(reader->buffer);
	reader->buffer = InvalidBuffer;
}

void
leave_table(ToastReader *reader)
{
	leave_page(reader);
	if (reader->table == nullptr)
		return;
	toast_close_indexes(reader->indexes, reader->n_indexes, NoLock);
	table_close(reader->table, NoLock);
	reader->table = nullptr;
}

/// False: the table is not one of core's access method.
bool
enter_table(ToastReader *reader, Oid table)
{
	if (reader->table == nullptr || RelationGetRelid(reader->table) != table)
	{
		leave_table(reader);
		reader->table = table_open(table, AccessShareLock);
		reader->valid_index = toast_open_indexes(reader->table, AccessShareLock, &reader->indexes, &reader->n_indexes);
		reader->block = InvalidBlockNumber;
		reader->n_blocks = 0;
		reader->n_missed = 0;
	}
	return reader->table->rd_tableam == GetHeapamTableAmRoutine();
}

/// Copy the tuple, if it is the next chunk. False: it is another one, or not as it should be.
bool
take_chunk(const ToastReader *reader, HeapTuple tuple, ToastValue *value)
{
	const TupleDesc shape = RelationGetDescr(reader->table);
	const Size first = static_cast<Size>(value->next) * TOAST_MAX_CHUNK_SIZE;
	const Size expected = Min(value->n_bytes - first, static_cast<Size>(TOAST_MAX_CHUNK_SIZE));
	struct varlena *chunk;
	bool is_null[3];

	if (DatumGetObjectId(fastgetattr(tuple, 1, shape, &is_null[0])) != value->id ||
		DatumGetInt32(fastgetattr(tuple, 2, shape, &is_null[1])) != value->next)
		return false;
	chunk = reinterpret_cast<struct varlena *>(DatumGetPointer(fastgetattr(tuple, 3, shape, &is_null[2])));
	if (is_null[0] || is_null[1] || is_null[2] || VARATT_IS_EXTERNAL(chunk) || VARATT_IS_COMPRESSED(chunk) ||
		VARSIZE_ANY_EXHDR(chunk) != expected)
		return false;
	memcpy(value->dest + first, VARDATA_ANY(chunk), expected);
	value->next++;
	return true;
}

/// Take chunks from the page at hand, from the reader's offset on. Those before the first one are passed over.
void
take_from_page(ToastReader *reader, ToastValue *value)
{
	const Page page = BufferGetPage(reader->buffer);
	OffsetNumber last;
	HeapTupleData tuple;

	LockBuffer(reader->buffer, BUFFER_LOCK_SHARE);
	last = PageGetMaxOffsetNumber(page);
	tuple.t_tableOid = RelationGetRelid(reader->table);
	for (OffsetNumber offset = reader->offset; offset <= last && value->next < value->n_chunks; offset++)
	{
		const ItemId item = PageGetItemId(page, offset);

		if (!ItemIdIsNormal(item))
			continue;
		tuple.t_data = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
		tuple.t_len = ItemIdGetLength(item);
		ItemPointerSet(&tuple.t_self, reader->block, offset);
		if (HeapTupleSatisfiesVisibility(&tuple, &reader->snapshot, reader->buffer) &&
			take_chunk(reader, &tuple, value))
			reader->offset = OffsetNumberNext(offset);
		else if (value->next > 0)
			break;
	}
	LockBuffer(reader->buffer, BUFFER_LOCK_UNLOCK);
}

/// Pin a block and look at its chunks from `offset` on.
void
enter_page(ToastReader *reader, BlockNumber block, OffsetNumber offset)
{
	if (!BufferIsValid(reader->buffer) || reader->block != block)
	{
		leave_page(reader);
		reader->buffer = ReadBuffer(reader->table, block);
	}
	reader->block = block;
	reader->offset = offset;
}

/// Take the value's chunks from behind the one read last and from the pages that follow. False: they are not all there.
bool
read_ahead(ToastReader *reader, ToastValue *value)
{
	if (!BufferIsValid(reader->buffer))
		return false;
	take_from_page(reader, value);
	while (value->next < value->n_chunks)
	{
		const int32 before = value->next;

		if (before == 0 && reader->n_missed >= kMostMissed && reader->n_missed % kMissedAgain != 0)
			return false;
		if (reader->block + 1 >= reader->n_blocks)
			reader->n_blocks = RelationGetNumberOfBlocks(reader->table);
		if (reader->block + 1 >= reader->n_blocks)
			return false;
		enter_page(reader, reader->block + 1, FirstOffsetNumber);
		take_from_page(reader, value);
		if (value->next == before)
			return false;
	}
	return true;
}

/// Take the value's chunks by the index.
bool
look_up(ToastReader *reader, ToastValue *value)
{
	ItemPointerData last = {};
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	value->next = 0;
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(value->id));
	scan = systable_beginscan_ordered(reader->table, reader->indexes[reader->valid_index], &reader->snapshot, 1, &key);
	while (value->next < value->n_chunks && (tuple = systable_getnext_ordered(scan, ForwardScanDirection)) != nullptr)
	{
		if (!take_chunk(reader, tuple, value))
			break;
		last = tuple->t_self;
	}
	systable_endscan_ordered(scan);
	if (value->next < value->n_chunks)
		return false;
	enter_page(reader, ItemPointerGetBlockNumber(&last), OffsetNumberNext(ItemPointerGetOffsetNumber(&last)));
	return true;
}

} // namespace

void
toast_reader_begin(ToastReader *reader)
{
	memset(reader, 0, sizeof(*reader));
	reader->snapshot.snapshot_type = SNAPSHOT_TOAST;
}

bool
toast_reader_read(ToastReader *reader, Datum datum, char *dest, Size n)
{
	const struct varlena *pointer = reinterpret_cast<struct varlena *>(DatumGetPointer(datum));
	struct varatt_external place;
	ToastValue value;

	if (!VARATT_IS_EXTERNAL_ONDISK(pointer))
		return false;
	VARATT_EXTERNAL_GET_POINTER(place, pointer);
	if (VARATT_EXTERNAL_IS_COMPRESSED(place) || VARATT_EXTERNAL_GET_EXTSIZE(place) != n || n == 0 ||
		!enter_table(reader, place.va_toastrelid))
		return false;
	value = {place.va_valueid, dest, n, static_cast<int32>((n - 1) / TOAST_MAX_CHUNK_SIZE + 1), 0};
	if (read_ahead(reader, &value))
	{
		reader->n_missed = 0;
		return true;
	}
	reader->n_missed++;
	return look_up(reader, &value);
}

void
toast_reader_end(ToastReader *reader)
{
	leave_table(reader);
}

} // namespace vectorgpu::am
