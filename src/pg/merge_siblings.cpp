// See merge_siblings.hpp.
#include "pg/merge_siblings.hpp"

#include "pg/limit_hook.hpp"
#include "pg/ordered_scan.hpp"

extern "C"
{
#include "nodes/bitmapset.h"
}

namespace vectorgpu::pg
{

List *
merge_siblings(IndexScanDesc scan, bool (*is_ours)(Relation index), int most)
{
	const PlanState *node;
	MergeAppendState *merge = scan_merge(scan, &node);
	bool found = false;
	List *siblings = NIL;
	int i = -1;

	if (merge == nullptr || merge->ms_initialized || merge->ps.state->es_epq_active != nullptr)
		return NIL;
	while ((i = bms_next_member(merge->ms_valid_subplans, i)) >= 0 && list_length(siblings) < most)
	{
		PlanState *child = merge->mergeplans[i];
		OrderedScan ordered;

		found = found || child == node;
		if (found && !child->plan->parallel_aware && ordered_scan(child, is_ours, &ordered))
			siblings = lappend(siblings, child);
	}
	return siblings;
}

} // namespace vectorgpu::pg
