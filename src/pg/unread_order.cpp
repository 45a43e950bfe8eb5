// See unread_order.hpp. Changes only the executor's state, never the plan, which may be shared.
#include "pg/unread_order.hpp"

#include "pg/ordered_scan.hpp"

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

/// Return the node whose rows are the query's rows; null if a node between may read the distance.
PlanState *
node_of_rows(PlanState *state)
{
	if (state != nullptr && IsA(state, LimitState))
	{
		if (reinterpret_cast<LimitState *>(state)->limitOption == LIMIT_OPTION_WITH_TIES)
			return nullptr; // compares the distance
		state = outerPlanState(state);
	}
	return state;
}

} // namespace

void
drop_unread_order(QueryDesc *query, bool (*is_ours)(Relation index))
{
	EState *estate = query->estate;
	PlanState *node = node_of_rows(query->planstate);
	OrderedScan scan;
	List *targets = NIL;
	bool found = false;

	if (query->operation != CMD_SELECT || estate->es_junkFilter == nullptr || node == nullptr ||
		node->ps_ProjInfo == nullptr || !ordered_scan(node, is_ours, &scan))
		return;

	const MemoryContext before = MemoryContextSwitchTo(estate->es_query_cxt);
	ListCell *cell;

	foreach (cell, node->plan->targetlist)
	{
		TargetEntry *target = lfirst_node(TargetEntry, cell);

		if (target->resjunk && list_member(scan.order, target->expr))
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
		node->ps_ProjInfo = ExecBuildProjectionInfo(targets, node->ps_ExprContext, node->ps_ResultTupleSlot, node,
			scan.state->ss_ScanTupleSlot->tts_tupleDescriptor);
	MemoryContextSwitchTo(before);
}

} // namespace vectorgpu::pg
