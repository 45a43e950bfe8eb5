// See recent_pages.hpp. A place is a hint: the server checks which page is in a buffer when it pins it. Memory that is
// only asked for is never an error, whatever is there by now.
#include "am/ahead/recent_pages.hpp"

extern "C"
{
#include "access/heapam.h"
#include "access/transam.h"
#include "pgstat.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
}

namespace vectorgpu::am
{

struct RecentPages
{
	Relation table;
	uint32 mask;     // places less one
	uint32 n_holds;  // pages that were looked for
	Buffer *buffers; // [mask + 1] by block, modulo the number of places; 0: not known
};

namespace
{

constexpr uint32 kLeastPlaces = 64;
constexpr uint32 kUsedEvery = 8; // a page found where it was does not count as used: one in eight is looked for

Buffer *
place_of(const RecentPages *pages, RowId row)
{
	return &pages->buffers[row_id_block(row) & pages->mask];
}

/// Pin the page's buffer if it is where it was.
bool
pin_recent(const RecentPages *pages, BlockNumber block, Buffer buffer)
{
	if (!BufferIsValid(buffer) || pages->n_holds % kUsedEvery == 0 ||
		!ReadRecentBuffer(pg::file_of(pages->table), MAIN_FORKNUM, block, buffer))
		return false;
	pgstat_count_buffer_read(pages->table);
	pgstat_count_buffer_hit(pages->table);
	return true;
}

} // namespace

RecentPages *
recent_pages_make(MemoryContext context, Relation table, Size n_bytes)
{
	const Size most = n_bytes / sizeof(Buffer);
	RecentPages *pages;
	BlockNumber n_blocks;
	uint32 n = kLeastPlaces;

	if (table->rd_tableam != GetHeapamTableAmRoutine() || RelationUsesLocalBuffers(table))
		return nullptr;
	n_blocks = RelationGetNumberOfBlocks(table);
	while (n < n_blocks && n * 2 <= most)
		n *= 2;
	pages = static_cast<RecentPages *>(MemoryContextAllocZero(context, sizeof(RecentPages)));
	pages->table = table;
	pages->mask = n - 1;
	pages->buffers = static_cast<Buffer *>(
		MemoryContextAllocExtended(context, n * sizeof(Buffer), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO));
	return pages;
}

void
recent_pages_hold(RecentPages *pages, IndexScanDesc scan, RowId row)
{
	IndexFetchHeapData *fetch = reinterpret_cast<IndexFetchHeapData *>(scan->xs_heapfetch);
	const BlockNumber block = row_id_block(row);
	Buffer *place = place_of(pages, row);

	if (fetch == nullptr || scan->heapRelation != pages->table ||
		(BufferIsValid(fetch->xs_cbuf) && BufferGetBlockNumber(fetch->xs_cbuf) == block))
		return;
	pages->n_holds++;
	if (BufferIsValid(fetch->xs_cbuf))
		ReleaseBuffer(fetch->xs_cbuf);
	fetch->xs_cbuf = InvalidBuffer; // reading may raise an error
	if (!pin_recent(pages, block, *place))
		*place = ReadBuffer(pages->table, block);
	fetch->xs_cbuf = *place;
	// The fetch prunes a page only when it comes to it.
	if (TransactionIdIsValid(reinterpret_cast<PageHeader>(BufferGetPage(*place))->pd_prune_xid))
		heap_page_prune_opt(pages->table, *place);
}

void
recent_pages_prefetch_page(const RecentPages *pages, RowId row)
{
	const Buffer buffer = *place_of(pages, row);
	const char *page;

	if (!BufferIsValid(buffer))
		return;
	page = static_cast<const char *>(BufferGetPage(buffer));
	__builtin_prefetch(GetBufferDescriptor(static_cast<uint32>(buffer - 1)), 1);
	__builtin_prefetch(page);
	__builtin_prefetch(page + SizeOfPageHeaderData + row_id_offset(row) * sizeof(ItemIdData));
}

void
recent_pages_prefetch_row(const RecentPages *pages, RowId row)
{
	const Buffer buffer = *place_of(pages, row);
	const char *page;
	const ItemIdData *item;

	if (!BufferIsValid(buffer))
		return;
	page = static_cast<const char *>(BufferGetPage(buffer));
	item = reinterpret_cast<const ItemIdData *>(page + SizeOfPageHeaderData) + (row_id_offset(row) - 1);
	__builtin_prefetch(page + item->lp_off % BLCKSZ); // not pinned: another process may be writing it
}

} // namespace vectorgpu::am
