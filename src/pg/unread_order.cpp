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

/// A column of a node's rows, as the node above names it.
struct Column
{
	int table; // INNER_VAR and such, or the number of the sub-query
	AttrNumber number;
};

bool
find_column(Node *node, void *column)
{
	const Column *wanted = static_cast<const Column *>(column);
	const Var *var = reinterpret_cast<const Var *>(node);

	if (node == nullptr)
		return false;
	if (IsA(node, Var))
		return static_cast<int>(var->varno) == wanted->table && var->varattno == wanted->number;
	return expression_tree_walker(node, as_walker(find_column), column);
}

bool
reads(const List *expressions, Column column)
{
	return find_column(reinterpret_cast<Node *>(const_cast<List *>(expressions)), &column);
}

/// True if the node reads this column of the rows below it. A nested loop and a sub-query only.
bool
reads_column(const PlanState *state, Column column)
{
	const Plan *plan = state->plan;
	const ListCell *cell;

	if (reads(plan->targetlist, column) || reads(plan->qual, column))
		return true;
	if (!IsA(plan, NestLoop))
		return false;
	foreach (cell, reinterpret_cast<const NestLoop *>(plan)->nestParams)
		if (find_column(reinterpret_cast<Node *>(lfirst_node(NestLoopParam, cell)->paramval), &column))
			return true;
	return reads(reinterpret_cast<const NestLoop *>(plan)->join.joinqual, column);
}

/// Let the scan return NULL in place of the distance that only its order needs. above: the node that gets its rows,
/// where the column is one of `table`; null: the query's receiver, which gets no such columns.
void
drop_distance(PlanState *node, bool (*is_ours)(Relation index), const PlanState *above, int table)
{
	const EState *estate = node->state;
	OrderedScan scan;
	List *targets = NIL;
	bool found = false;

	if (node->ps_ProjInfo == nullptr || !ordered_scan(node, is_ours, &scan))
		return;

	const MemoryContext before = MemoryContextSwitchTo(estate->es_query_cxt);
	ListCell *cell;

	foreach (cell, node->plan->targetlist)
	{
		TargetEntry *target = lfirst_node(TargetEntry, cell);

		if (target->resjunk && list_member(scan.order, target->expr) &&
			(above == nullptr || !reads_column(above, {table, target->resno})))
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

} // namespace

void
drop_unread_order(QueryDesc *query, bool (*is_ours)(Relation index))
{
	PlanState *node = node_of_rows(query->planstate);

	if (query->operation == CMD_SELECT && query->estate->es_junkFilter != nullptr && node != nullptr)
		drop_distance(node, is_ours, nullptr, 0);
}

void
drop_unread_below(const PlanState *state, bool (*is_ours)(Relation index))
{
	PlanState *node;

	if (IsA(state, SubqueryScanState))
	{
		node = node_of_rows(reinterpret_cast<const SubqueryScanState *>(state)->subplan);
		if (node != nullptr)
			drop_distance(node, is_ours, state, reinterpret_cast<const Scan *>(state->plan)->scanrelid);
		return;
	}
	if (!IsA(state, NestLoopState))
		return;
	node = node_of_rows(innerPlanState(state));
	if (node != nullptr)
		drop_distance(node, is_ours, state, INNER_VAR);
	node = node_of_rows(outerPlanState(state));
	if (node != nullptr)
		drop_distance(node, is_ours, state, OUTER_VAR);
}

} // namespace vectorgpu::pg
