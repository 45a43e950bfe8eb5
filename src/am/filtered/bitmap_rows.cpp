// See bitmap_rows.hpp.
#include "am/filtered/bitmap_rows.hpp"

extern "C"
{
#include "executor/executor.h"
}

namespace vectorgpu::am
{

void
bitmap_rows_begin(BitmapRows *bitmap, CustomScanState *node, List *plans, EState *estate, int eflags)
{
	if (plans == NIL)
		return;
	bitmap->plan = ExecInitNode(static_cast<Plan *>(linitial(plans)), estate, eflags);
	bitmap->context = AllocSetContextCreate(CurrentMemoryContext, "vectorgpu rows of a bitmap", ALLOCSET_DEFAULT_SIZES);
	node->custom_ps = list_make1(bitmap->plan); // for EXPLAIN
}

const RowSet *
bitmap_rows_find(BitmapRows *bitmap)
{
	MemoryContext before;
	TIDBitmap *found;

	if (bitmap->plan == nullptr)
		return nullptr;
	if (bitmap->known)
		return &bitmap->rows;
	// Not in a context that the next run resets: access methods keep there what they use until the plan ends.
	found = reinterpret_cast<TIDBitmap *>(MultiExecProcNode(bitmap->plan));
	if (found == nullptr || !IsA(found, TIDBitmap))
		elog(ERROR, "unrecognized result of a bitmap's plan");
	MemoryContextReset(bitmap->context);
	before = MemoryContextSwitchTo(bitmap->context);
	bitmap->rows = row_set_of_bitmap(found);
	MemoryContextSwitchTo(before);
	tbm_free(found);
	bitmap->known = true;
	return &bitmap->rows;
}

void
bitmap_rows_rescan(BitmapRows *bitmap, CustomScanState *node)
{
	if (bitmap->plan == nullptr)
		return;
	if (node->ss.ps.chgParam != nullptr)
		UpdateChangedParamSet(bitmap->plan, node->ss.ps.chgParam);
	if (bitmap->plan->chgParam != nullptr) // the next use of the plan rescans it
		bitmap->known = false;
}

void
bitmap_rows_end(BitmapRows *bitmap)
{
	if (bitmap->plan != nullptr)
		ExecEndNode(bitmap->plan);
}

} // namespace vectorgpu::am
