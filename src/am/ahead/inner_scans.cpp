// The index scans on the inner side of a nested loop, and what they will search for. See ahead_node.hpp.
#include "am/ahead/ahead_node.hpp"

#include "am/method/index_access.hpp"

#include <cstring>

extern "C"
{
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
}

namespace vectorgpu::am
{

namespace
{

/// The parameters that the loop sets for each of its outer rows.
const List *
loop_params(const AheadNodeState *state)
{
	return reinterpret_cast<const NestLoop *>(state->node.join->js.ps.plan)->nestParams;
}

bool
is_loop_param(const AheadNodeState *state, int id)
{
	const ListCell *cell;

	foreach (cell, loop_params(state))
		if (lfirst_node(NestLoopParam, cell)->paramno == id)
			return true;
	return false;
}

struct ParamCheck
{
	const AheadNodeState *state;
	bool found; // a parameter of the loop
	bool other; // a parameter whose value for the next outer rows is not known
};

bool
check_params(Node *node, void *arg)
{
	ParamCheck *check = static_cast<ParamCheck *>(arg);
	const Param *param = reinterpret_cast<const Param *>(node);

	if (node == nullptr)
		return false;
	if (IsA(node, Param) && param->paramkind == PARAM_EXEC)
	{
		if (is_loop_param(check->state, param->paramid))
			check->found = true;
		else if (!bms_is_member(param->paramid, check->state->node.join->js.ps.plan->extParam))
			check->other = true;
		return false;
	}
	if (IsA(node, SubPlan) || IsA(node, AlternativeSubPlan))
		check->other = true;
	return expression_tree_walker(node, pg::as_walker(check_params), arg);
}

/// True for a parameter alone. Anything else might raise an error for a row that the plan never searches for.
bool
is_plain_param(const Node *node)
{
	while (node != nullptr && IsA(node, RelabelType))
		node = reinterpret_cast<const Node *>(reinterpret_cast<const RelabelType *>(node)->arg);
	return node != nullptr && IsA(node, Param);
}

/// Set *keyed to core's node if its conditions on key columns depend on the loop's outer rows, else to null. False:
/// they do, and on what is not known for the next ones.
bool
know_conditions(const AheadNodeState *state, const pg::OrderedScan &scan, const IndexScanState **keyed)
{
	const IndexScanState *core = reinterpret_cast<const IndexScanState *>(scan.state);
	ParamCheck check = {state, false, false};

	*keyed = nullptr;
	if (!IsA(core, IndexScanState))
		return true;
	(void) check_params(
		reinterpret_cast<Node *>(reinterpret_cast<const IndexScan *>(core->ss.ps.plan)->indexqual), &check);
	if (!check.found)
		return true;
	for (int i = 0; i < core->iss_NumRuntimeKeys; i++)
		check.other = check.other || !is_plain_param(reinterpret_cast<Node *>(core->iss_RuntimeKeys[i].key_expr->expr));
	*keyed = core;
	return !check.other;
}

/// Make the conditions of a scan for the outer row whose parameters are set, in the current context. False: one of them
/// is NULL, so that there is no search.
bool
row_program(const AheadNodeState *state, const InnerScan *inner, KeyProgram *program)
{
	const IndexScanState *core = inner->keyed;
	const Size n_bytes = static_cast<Size>(core->iss_NumScanKeys) * sizeof(ScanKeyData);
	ScanKey keys = static_cast<ScanKey>(palloc(n_bytes));

	memcpy(keys, core->iss_ScanKeys, n_bytes);
	for (int i = 0; i < core->iss_NumRuntimeKeys; i++)
	{
		const IndexRuntimeKeyInfo *info = &core->iss_RuntimeKeys[i];
		ScanKey key = nullptr; // null: it is one of the ORDER BY
		bool is_null;

		for (int j = 0; j < core->iss_NumScanKeys; j++)
			if (&core->iss_ScanKeys[j] == info->scan_key)
				key = &keys[j];
		if (key == nullptr)
			continue;
		const Datum value = ExecEvalExpr(info->key_expr, state->params, &is_null);

		if (is_null)
			return false;
		key->sk_argument = info->key_toastable ? PointerGetDatum(PG_DETOAST_DATUM(value)) : value;
		key->sk_flags &= ~SK_ISNULL;
	}
	make_key_program(
		inner->coder->columns, inner->coder->layout.n_columns, keys, core->iss_NumScanKeys, nullptr, program);
	return true;
}

void
add_scan(AheadNodeState *state, const pg::OrderedScan &scan)
{
	Node *query = static_cast<Node *>(lsecond(linitial_node(OpExpr, scan.order)->args));
	ParamCheck check = {state, false, false};
	const IndexScanState *keyed;
	InnerScan *inner;

	(void) check_params(query, &check);
	if (!check.found || check.other || state->n_scans == kMostInnerScans || !is_plain_param(query) ||
		!know_conditions(state, scan, &keyed))
		return;
	inner = &state->scans[state->n_scans++];
	inner->scan = scan;
	inner->query = ExecInitExpr(reinterpret_cast<Expr *>(query), &scan.state->ps);
	inner->coder = index_key_coder(scan.index);
	inner->keyed = inner->coder != nullptr ? keyed : nullptr;
	inner->table = ahead_make();
}

bool
visit(PlanState *state, void *node)
{
	pg::OrderedScan scan;

	if (state == nullptr)
		return false;
	check_stack_depth();
	if (pg::ordered_scan(state, is_vectorgpu_index, &scan))
	{
		add_scan(static_cast<AheadNodeState *>(node), scan);
		return false;
	}
	return planstate_tree_walker(state, pg::as_walker(visit), node);
}

/// Set the loop's parameters to values of the outer row. Returns those before, palloc'd, for reset_params.
ParamExecData *
set_params(const AheadNodeState *state, TupleTableSlot *row)
{
	const List *params = loop_params(state);
	ParamExecData *before = static_cast<ParamExecData *>(palloc((list_length(params) + 1) * sizeof(ParamExecData)));
	const ListCell *cell;
	int n = 0;

	foreach (cell, params)
	{
		const NestLoopParam *param = lfirst_node(NestLoopParam, cell);
		ParamExecData *value = &state->params->ecxt_param_exec_vals[param->paramno];

		before[n++] = *value;
		value->value = slot_getattr(row, param->paramval->varattno, &value->isnull);
		value->execPlan = nullptr;
	}
	return before;
}

void
reset_params(const AheadNodeState *state, ParamExecData *before)
{
	const ListCell *cell;
	int n = 0;

	foreach (cell, loop_params(state))
		state->params->ecxt_param_exec_vals[lfirst_node(NestLoopParam, cell)->paramno] = before[n++];
	pfree(before);
}

/// The child whose rows the node passes on as they are, but for a filter; null: it is not such a node.
PlanState *
passed_on(PlanState *node)
{
	if (IsA(node, LimitState))
		return outerPlanState(node);
	return IsA(node, SubqueryScanState) ? reinterpret_cast<SubqueryScanState *>(node)->subplan : nullptr;
}

/// True if the node can be restarted once more for the same row of the loop, and calls no volatile function twice.
bool
is_repeatable(const AheadNodeState *state, const PlanState *node)
{
	const Limit *limit = reinterpret_cast<const Limit *>(node->plan);
	const ListCell *cell;
	const ListCell *param;

	if (node->subPlan != NIL)
		return false;
	foreach (cell, node->initPlan)
		foreach (param, loop_params(state))
			if (bms_is_member(lfirst_node(NestLoopParam, param)->paramno,
					lfirst_node(SubPlanState, cell)->planstate->plan->extParam))
				return false;
	return !IsA(limit, Limit) ||
		(!contain_volatile_functions(limit->limitCount) && !contain_volatile_functions(limit->limitOffset));
}

/// Restart the inner side as the loop does for an outer row, down to the scan. False: a LIMIT wants no row of it.
bool
restart(const AheadNodeState *state, PlanState *node, const PlanState *scan)
{
	const ListCell *cell;

	foreach (cell, loop_params(state))
		node->chgParam = bms_add_member(node->chgParam, lfirst_node(NestLoopParam, cell)->paramno);
	for (; node != scan; node = passed_on(node))
	{
		const LimitState *limit = reinterpret_cast<const LimitState *>(node);

		if (node->chgParam != nullptr)
			ExecReScan(node);
		if (IsA(node, LimitState) && !limit->noCount && limit->count <= 0)
			return false;
	}
	return true;
}

/// Let the scan look into its table, if it has begun: core begins it with its first row. False: it has not, or another
/// node reads ahead for it.
bool
attach(const InnerScan *inner)
{
	const IndexScanDesc scan = *inner->scan.scan;

	if (scan == nullptr)
		return false;
	if (ahead_of(scan) == nullptr)
		ahead_set(scan, inner->table);
	return ahead_of(scan) == inner->table;
}

} // namespace

void
ahead_find_scans(AheadNodeState *state)
{
	const EState *estate = state->node.custom.ss.ps.state;
	const MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);

	state->prepared = true;
	if (state->node.join != nullptr && estate->es_epq_active == nullptr && loop_params(state) != NIL)
	{
		state->scans = static_cast<InnerScan *>(palloc0(kMostInnerScans * sizeof(InnerScan)));
		state->params = CreateExprContext(state->node.custom.ss.ps.state);
		(void) visit(innerPlanState(&state->node.join->js.ps), state);
		for (uint32 i = 0; i < state->n_scans; i++)
			state->scans[i].table->page_bytes = ahead_bytes(kPartsOfPages) / state->n_scans;
	}
	MemoryContextSwitchTo(old);
}

void
ahead_foresee_first(AheadNodeState *state, TupleTableSlot *row)
{
	PlanState *inner = innerPlanState(&state->node.join->js.ps);
	PlanState *node = inner;
	PlanState *scan;
	MemoryContext old;
	ParamExecData *before;

	if (state->n_scans != 1 || *state->scans[0].scan.scan != nullptr)
		return;
	scan = &state->scans[0].scan.state->ps;
	for (; node != scan; node = passed_on(node))
		if (node == nullptr || !is_repeatable(state, node))
			return;
	if (!is_repeatable(state, scan))
		return;
	old = MemoryContextSwitchTo(state->node.custom.ss.ps.state->es_query_cxt);
	before = set_params(state, row);
	// What follows is what the loop does next, for this row, and its errors are those of that row.
	if (restart(state, inner, scan))
		ahead_foresee(pg::start_ordered_scan(scan), state->scans[0].table);
	reset_params(state, before);
	MemoryContextSwitchTo(old);
}

Size
ahead_attach(AheadNodeState *state)
{
	Size bytes = 0;

	for (uint32 i = 0; i < state->n_scans; i++)
	{
		InnerScan *inner = &state->scans[i];

		inner->attached = inner->attached || attach(inner);
		if (inner->attached)
			bytes += ahead_bytes_per_query(inner->table);
	}
	return bytes;
}

bool
ahead_begin_batch(AheadNodeState *state, uint32 n)
{
	const EState *estate = state->node.custom.ss.ps.state;
	bool any = false;

	for (uint32 i = 0; i < state->n_scans; i++)
	{
		InnerScan *inner = &state->scans[i];

		inner->begun = inner->attached &&
			ahead_begin(inner->table, inner->scan.index, inner->scan.state->ss_currentRelation, estate->es_snapshot, n);
		any = any || inner->begun;
	}
	return any;
}

void
ahead_want_row(AheadNodeState *state, TupleTableSlot *row)
{
	ParamExecData *before = set_params(state, row);
	const MemoryContext old = MemoryContextSwitchTo(state->params->ecxt_per_tuple_memory);

	for (uint32 i = 0; i < state->n_scans; i++)
	{
		InnerScan *inner = &state->scans[i];
		bool is_null;

		if (!inner->begun)
			continue;
		const Datum query = ExecEvalExpr(inner->query, state->params, &is_null);
		KeyProgram program;

		if (!is_null && (inner->keyed == nullptr || row_program(state, inner, &program)))
			ahead_want(inner->table, inner->scan.index, query, inner->keyed != nullptr ? &program : nullptr);
	}
	MemoryContextSwitchTo(old);
	reset_params(state, before);
	ResetExprContext(state->params);
}

bool
ahead_search_batch(AheadNodeState *state)
{
	uint64 n_wanted = 0;
	uint64 n_answered = 0;

	for (uint32 i = 0; i < state->n_scans; i++)
	{
		if (!state->scans[i].begun)
			continue;
		n_wanted += state->scans[i].table->n_answers;
		n_answered += ahead_search(state->scans[i].table, state->scans[i].scan.index);
	}
	return n_answered > 0 || n_wanted == 0;
}

} // namespace vectorgpu::am
