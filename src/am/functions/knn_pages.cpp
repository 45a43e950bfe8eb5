// Which rows a walk may return without fetching them. An index entry leads to the first version of a row; if the
// snapshot sees that version, a fetch would end there. This holds for most rows of most tables. Each of them is a
// neighbour of about k others, and fetching them one by one took most of the time of a k-NN graph. Here each page is
// read once. PG dialect; holds one content lock at a time, none when it returns.
#include "am/functions/knn_pages.hpp"

extern "C"
{
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"
}

namespace vectorgpu::am
{

/// Visibility under one snapshot. A row that the snapshot sees stays visible to it, and no process removes that
/// version.
struct KnnPages
{
	TransactionId xmin; // these five identify the snapshot; running transactions only end, so equal counts mean the
						// same transactions
	TransactionId xmax;
	uint32 xcnt;
	int32 subxcnt;
	CommandId curcid;
	BlockNumber n_blocks;
	uint16 *n_seen; // [n_blocks] 1 + the number of a page's first line pointers that hold a version that the snapshot
					// sees and an index may point to; 0: page not yet read
};

namespace
{

constexpr Size kBytesPerKb = 1024;

bool
is_of(const KnnPages *pages, Snapshot snapshot)
{
	return pages->xmin == snapshot->xmin && pages->xmax == snapshot->xmax && pages->xcnt == snapshot->xcnt &&
		pages->subxcnt == snapshot->subxcnt && pages->curcid == snapshot->curcid;
}

/// Create the table for as many pages as fit in work_mem. It has no pages if the table's access method is not heap, or
/// in serializable transactions, where every read of a row must be recorded.
KnnPages *
make_pages(MemoryContext context, Relation heap, Snapshot snapshot)
{
	KnnPages *pages = static_cast<KnnPages *>(MemoryContextAllocZero(context, sizeof(KnnPages)));
	const Size most = static_cast<Size>(work_mem) * kBytesPerKb / sizeof(uint16);

	pages->xmin = snapshot->xmin;
	pages->xmax = snapshot->xmax;
	pages->xcnt = snapshot->xcnt;
	pages->subxcnt = snapshot->subxcnt;
	pages->curcid = snapshot->curcid;
	if (heap->rd_tableam == GetHeapamTableAmRoutine() && snapshot->snapshot_type == SNAPSHOT_MVCC &&
		!IsolationIsSerializable())
		pages->n_blocks = static_cast<BlockNumber>(Min(most, static_cast<Size>(RelationGetNumberOfBlocks(heap))));
	if (pages->n_blocks > 0)
		pages->n_seen = static_cast<uint16 *>(
			MemoryContextAllocExtended(context, pages->n_blocks * sizeof(uint16), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO));
	return pages;
}

void
free_pages(KnnPages *pages)
{
	if (pages->n_seen != nullptr)
		pfree(pages->n_seen);
	pfree(pages);
}

/// True if every version on a page whose rows all snapshots see is one that an index may point to, if it has no line
/// pointers that lead on: a version that no index points to follows either one that is dead by now or such a pointer.
bool
has_no_chains(Page page)
{
	const OffsetNumber n_places = PageGetMaxOffsetNumber(page);

	for (OffsetNumber place = FirstOffsetNumber; place <= n_places; place++)
		if (ItemIdIsRedirected(PageGetItemId(page, place)))
			return false;
	return true;
}

/// Return the number of a page's first line pointers that hold a version that the snapshot sees and an index may point
/// to.
uint16
count_seen(Relation heap, Snapshot snapshot, BlockNumber block)
{
	const Buffer buffer = ReadBuffer(heap, block);
	OffsetNumber n = 0;
	OffsetNumber n_places;
	bool all_visible;
	bool no_chains;
	Page page;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	pg::check_snapshot_age(snapshot, heap, page);
	n_places = PageGetMaxOffsetNumber(page);
	all_visible = PageIsAllVisible(page) && !snapshot->takenDuringRecovery; // see heapgetpage
	no_chains = all_visible && has_no_chains(page); // then the versions themselves need not be read
	for (; n < n_places; n++)
	{
		const ItemId item = PageGetItemId(page, static_cast<OffsetNumber>(n + 1));
		HeapTupleData tuple;

		if (!ItemIdIsNormal(item))
			break;
		if (no_chains)
			continue;
		tuple.t_data = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
		tuple.t_len = ItemIdGetLength(item);
		tuple.t_tableOid = RelationGetRelid(heap);
		ItemPointerSet(&tuple.t_self, block, static_cast<OffsetNumber>(n + 1));
		if (HeapTupleIsHeapOnly(&tuple) || !(all_visible || HeapTupleSatisfiesVisibility(&tuple, snapshot, buffer)))
			break;
	}
	UnlockReleaseBuffer(buffer);
	return n;
}

} // namespace

bool
knn_sees(KnnWalk *walk, Relation heap, Snapshot snapshot, RowId row)
{
	const BlockNumber block = row_id_block(row);
	KnnPages *pages = walk->pages;
	uint16 *n_seen;

	if (pages != nullptr && !is_of(pages, snapshot))
	{
		free_pages(pages);
		pages = nullptr;
	}
	if (pages == nullptr)
		pages = walk->pages = make_pages(walk->context, heap, snapshot);
	if (block >= pages->n_blocks)
		return false;
	n_seen = &pages->n_seen[block];
	if (*n_seen == 0)
		*n_seen = static_cast<uint16>(count_seen(heap, snapshot, block) + 1);
	return row_id_offset(row) < *n_seen;
}

} // namespace vectorgpu::am
