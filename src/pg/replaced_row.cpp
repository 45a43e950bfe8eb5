// See replaced_row.hpp. The executor keeps the old version in a slot of the ResultRelInfo while it inserts into the
// indexes. Slots of other queries, or of another node of the same query, may hold other rows: the old version itself
// decides, since it points to its successor.
#include "pg/replaced_row.hpp"

extern "C"
{
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "lib/ilist.h"
#include "nodes/execnodes.h"
#include "storage/bufmgr.h"
}

namespace vectorgpu::pg
{

namespace
{

struct UpdateNote
{
	dlist_node node; // first: a list element is its note
	bool listed;
	SubTransactionId subtransaction;
	const EState *estate;
	MemoryContextCallback forget;
};

dlist_head notes = DLIST_STATIC_INIT(notes);

void
take_off(UpdateNote *note)
{
	if (note->listed)
		dlist_delete(&note->node);
	note->listed = false;
}

void
forget_note(void *arg)
{
	take_off(static_cast<UpdateNote *>(arg));
}

/// A query that an error has ended may keep its memory, as one of a failed portal does; its tables are closed.
void
forget_since(SubTransactionId first)
{
	for (dlist_node *node = notes.head.next, *next; node != nullptr && node != &notes.head; node = next)
	{
		UpdateNote *note = reinterpret_cast<UpdateNote *>(node);

		next = node->next;
		if (note->subtransaction >= first)
			take_off(note);
	}
}

void
end_subtransaction(SubXactEvent event, SubTransactionId own, SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		forget_since(own);
}

void
end_transaction(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_ABORT || event == XACT_EVENT_PARALLEL_ABORT)
		forget_since(TopSubTransactionId);
}

bool
may_update(const QueryDesc *query)
{
	return (query->operation != CMD_SELECT && query->operation != CMD_UTILITY && query->operation != CMD_DELETE) ||
		query->plannedstmt->hasModifyingCTE;
}

/// True if the version at `old` was replaced by the one at `now`. *root: the root of its HOT chain.
bool
was_replaced(Relation heap, const ItemPointerData *old, ItemPointer now, ItemPointer root)
{
	const BlockNumber block = ItemPointerGetBlockNumberNoCheck(old);
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(old);
	Buffer buffer;
	Page page;
	bool replaced = false;

	if (!ItemPointerIsValid(old))
		return false;
	buffer = ReadBuffer(heap, block);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	if (offset <= PageGetMaxOffsetNumber(page) && ItemIdIsNormal(PageGetItemId(page, offset)))
	{
		const HeapTupleHeader tuple = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, PageGetItemId(page, offset)));

		replaced = ItemPointerEquals(&tuple->t_ctid, now) && !ItemPointerEquals(now, const_cast<ItemPointer>(old));
		if (replaced && (tuple->t_infomask2 & HEAP_ONLY_TUPLE) != 0)
		{
			OffsetNumber roots[MaxHeapTuplesPerPage];

			heap_get_root_tuples(page, roots);
			offset = roots[offset - 1];
		}
	}
	UnlockReleaseBuffer(buffer);
	if (!replaced || !OffsetNumberIsValid(offset))
		return false;
	ItemPointerSet(root, block, offset);
	return true;
}

bool
slot_was_replaced(Relation heap, const TupleTableSlot *slot, ItemPointer now, ItemPointer root)
{
	return slot != nullptr && !TTS_EMPTY(slot) && was_replaced(heap, &slot->tts_tid, now, root);
}

/// Look at the old rows of the tables in a list of ResultRelInfo.
bool
find_in(const List *relations, Relation heap, ItemPointer now, ItemPointer root)
{
	const ListCell *cell;

	foreach (cell, relations)
	{
		const ResultRelInfo *relation = lfirst_node(ResultRelInfo, cell);

		if (relation->ri_RelationDesc == nullptr ||
			RelationGetRelid(relation->ri_RelationDesc) != RelationGetRelid(heap))
			continue;
		if (slot_was_replaced(heap, relation->ri_oldTupleSlot, now, root) ||
			(relation->ri_onConflict != nullptr &&
				slot_was_replaced(heap, relation->ri_onConflict->oc_Existing, now, root)))
			return true;
	}
	return false;
}

} // namespace

void
note_update(QueryDesc *query)
{
	static bool registered = false;
	const MemoryContext context = query->estate->es_query_cxt;
	UpdateNote *note;

	if (!may_update(query))
		return;
	if (!registered)
	{
		RegisterSubXactCallback(end_subtransaction, nullptr);
		RegisterXactCallback(end_transaction, nullptr);
		registered = true;
	}
	note = static_cast<UpdateNote *>(MemoryContextAlloc(context, sizeof(UpdateNote)));
	note->estate = query->estate;
	note->listed = true;
	note->subtransaction = GetCurrentSubTransactionId();
	note->forget.func = forget_note;
	note->forget.arg = note;
	dlist_push_head(&notes, &note->node);
	MemoryContextRegisterResetCallback(context, &note->forget);
}

bool
replaced_row(Relation heap, ItemPointer now, ItemPointer tid)
{
	if (heap->rd_tableam != GetHeapamTableAmRoutine())
		return false;
	// The innermost query comes first.
	for (const dlist_node *node = notes.head.next; node != nullptr && node != &notes.head; node = node->next)
	{
		const EState *estate = reinterpret_cast<const UpdateNote *>(node)->estate;

		if (find_in(estate->es_opened_result_relations, heap, now, tid) ||
			find_in(estate->es_tuple_routing_result_relations, heap, now, tid))
			return true;
	}
	return false;
}

} // namespace vectorgpu::pg
