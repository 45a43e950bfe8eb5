// Which rows a walk may name without fetching them: an index leads to the first version of a row, and where the
// snapshot sees that very version a fetch would end there. Most rows of most tables are so; each of them is a neighbour
// of as many others as a row has neighbours, and fetching them one by one was most of the time of a k-NN graph. A page
// is looked at once. PG dialect; holds one content lock at a time, none when it returns.
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

/// What is known under one snapshot: a row that it sees it goes on seeing, and nobody removes a version that it sees.
struct KnnPages
{
	TransactionId
		xmin; // these five: of the snapshot; transactions only end, so that as many that run are the same ones
	TransactionId xmax;
	uint32 xcnt;
	int32 subxcnt;
	CommandId curcid;
	BlockNumber n_blocks;
	uint16 *n_seen; // [n_blocks] 1 + how many of a page's first places hold a version that the snapshot sees and an
					// index may lead to; 0: not looked at yet
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

/// Of as many pages as work_mem has room for, or none where versions are kept another way or every look at a row has to
/// be noted (serializable transactions).
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

/// How many of a page's first places hold a version that the snapshot sees and an index may lead to.
uint16
count_seen(Relation heap, Snapshot snapshot, BlockNumber block)
{
	const Buffer buffer = ReadBuffer(heap, block);
	OffsetNumber n = 0;
	OffsetNumber n_places;
	bool all_visible;
	Page page;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	TestForOldSnapshot(snapshot, heap, page);
	n_places = PageGetMaxOffsetNumber(page);
	all_visible = PageIsAllVisible(page) && !snapshot->takenDuringRecovery; // as heapgetpage says
	for (; n < n_places; n++)
	{
		const ItemId item = PageGetItemId(page, static_cast<OffsetNumber>(n + 1));
		HeapTupleData tuple;

		if (!ItemIdIsNormal(item))
			break;
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
