// See unread_order.hpp. Changes only the executor's state, never the plan, which may be shared.
#include "pg/unread_order.hpp"

extern "C"
{
#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
}

namespace vectorgpu::pg
{

namespace
{

/// Return the index scan whose rows are the query's rows; null if a node between may read the distance.
IndexScanState *
scan_of_rows(PlanState *state)
{
	if (state != nullptr && IsA(state, LimitState))
	{
		if (reinterpret_cast<LimitState *>(state)->limitOption == LIMIT_OPTION_WITH_TIES)
			return nullptr; // compares the distance
		state = outerPlanState(state);
	}
	return state != nullptr && IsA(state, IndexScanState) ? reinterpret_cast<IndexScanState *>(state) : nullptr;
}

} // namespace

void
drop_unread_order(QueryDesc *query, bool (*is_ours)(Relation index))
{
	EState *estate = query->estate;
	IndexScanState *scan = scan_of_rows(query->planstate);
	List *targets = NIL;
	bool found = false;

	if (query->operation != CMD_SELECT || estate->es_junkFilter == nullptr || scan == nullptr ||
		scan->iss_NumOrderByKeys == 0 || scan->ss.ps.ps_ProjInfo == nullptr || scan->iss_RelationDesc == nullptr ||
		!is_ours(scan->iss_RelationDesc))
		return;

	const IndexScan *plan = reinterpret_cast<const IndexScan *>(scan->ss.ps.plan);
	const MemoryContext before = MemoryContextSwitchTo(estate->es_query_cxt);
	ListCell *cell;

	foreach (cell, plan->scan.plan.targetlist)
	{
		TargetEntry *target = lfirst_node(TargetEntry, cell);

		if (target->resjunk && list_member(plan->indexorderbyorig, target->expr))
		{
			Node *order = reinterpret_cast<Node *>(target->expr);

			target = flatCopyTargetEntry(target);
			target->expr =
				reinterpret_cast<Expr *>(makeNullConst(exprType(order), exprTypmod(order), exprCollation(order)));
			found = true;
		}
		targets = lappend(targets, target);
	}
	if (found)
		scan->ss.ps.ps_ProjInfo = ExecBuildProjectionInfo(targets, scan->ss.ps.ps_ExprContext,
			scan->ss.ps.ps_ResultTupleSlot, &scan->ss.ps, scan->ss.ss_ScanTupleSlot->tts_tupleDescriptor);
	MemoryContextSwitchTo(before);
}

} // namespace vectorgpu::pg
