// See filtered_scan.hpp. The node opens the index itself and hands the access method the order and a tree of conditions
// beside it; for the rest it is core's index scan.
#include "am/filtered/filtered_scan.hpp"

#include "am/filtered/condition_tree.hpp"
#include "am/filtered/filtered_plan.hpp"
#include "am/scan/scan_condition.hpp"

extern "C"
{
#include "access/genam.h"
#include "access/relscan.h"
#include "executor/executor.h"
#include "utils/lsyscache.h"
}

namespace vectorgpu::am
{

namespace
{

FilteredScanState *
state_of(::ScanState *node)
{
	return reinterpret_cast<FilteredScanState *>(node);
}

const CustomScan *
plan_of(const FilteredScanState *state)
{
	return reinterpret_cast<const CustomScan *>(state->node.custom.ss.ps.plan);
}

void
set_order(FilteredScanState *state, ScanKey key)
{
	const OpExpr *order = linitial_node(OpExpr, state->node.order);
	const MemoryContext before = MemoryContextSwitchTo(state->context->ecxt_per_tuple_memory);
	bool is_null;
	const Datum value = ExecEvalExpr(state->order, state->context, &is_null);
	int strategy;
	Oid left;
	Oid right;

	MemoryContextSwitchTo(before);
	get_op_opfamily_properties(order->opno, state->node.index->rd_opfamily[0], true, &strategy, &left, &right);
	ScanKeyEntryInitialize(key, SK_ORDER_BY | (is_null ? SK_ISNULL : 0), 1, static_cast<StrategyNumber>(strategy),
		right, order->inputcollid, get_opcode(order->opno), value);
}

/// True if the plan's order begins with rows without a value, or with those at NaN.
bool
nulls_come_first(const FilteredScanState *state)
{
	return linitial_int(static_cast<const List *>(list_nth(plan_of(state)->custom_private, kPlanOrderFlags))) != 0;
}

bool
nan_comes_first(const FilteredScanState *state)
{
	return lsecond_int(static_cast<const List *>(list_nth(plan_of(state)->custom_private, kPlanOrderFlags))) != 0;
}

void
add_part(FilteredScanState *state, ScanPart part)
{
	state->parts[state->n_parts++] = part;
}

/// Set the parts of the scan by the plan.
void
find_parts(FilteredScanState *state)
{
	const bool wants_value = (linitial_int(state->numbers) & kPlanWantsValue) != 0;
	const bool nulls_first = nulls_come_first(state) && !wants_value;
	const bool nan_first = nan_comes_first(state);

	if (nulls_first)
		add_part(state, ScanPart::kNull);
	if (nan_first)
		add_part(state, ScanPart::kNan);
	add_part(state, nulls_first || nan_first || wants_value ? ScanPart::kValues : ScanPart::kAll);
	if (nan_first && !nulls_first && !wants_value)
		add_part(state, ScanPart::kNull);
}

/// The number of the keys that tell the parts apart.
int
keys_of_part(const FilteredScanState *state)
{
	return state->parts[0] == ScanPart::kAll ? 0 : 1;
}

void
start_part(FilteredScanState *state)
{
	const ScanPart part = state->parts[state->part];
	ScanKeyData value;

	ScanKeyEntryInitialize(&value, SK_ISNULL | (part == ScanPart::kNull ? SK_SEARCHNULL : SK_SEARCHNOTNULL), 1,
		InvalidStrategy, InvalidOid, InvalidOid, InvalidOid, 0);
	if (part == ScanPart::kNan)
		scan_nan_set(state->node.scan, NanRows::kOnly);
	else
		scan_nan_set(state->node.scan, nan_comes_first(state) ? NanRows::kNone : NanRows::kLast);
	index_rescan(state->node.scan, &value, keys_of_part(state), &state->key, 1);
}

/// Start the scan, or start it anew, with the present values of parameters.
void
start(FilteredScanState *state)
{
	ResetExprContext(state->context);
	set_order(state, &state->key);
	scan_condition_set(state->node.scan, lthird_int(state->numbers) > 0 ? condition_tree(state) : nullptr);
	scan_unordered_set(state->node.scan, (linitial_int(state->numbers) & kPlanUnordered) != 0);
	scan_few_pass_set(state->node.scan, (linitial_int(state->numbers) & kPlanFewPass) != 0);
	scan_rows_set(state->node.scan, bitmap_rows_find(&state->bitmap));
	state->part = 0;
	start_part(state);
	state->started = true;
}

/// FilteredNode::start.
void
start_once(pg::FilteredNode *node)
{
	FilteredScanState *state = reinterpret_cast<FilteredScanState *>(node);

	if (!state->started)
		start(state);
}

void
next_part(FilteredScanState *state)
{
	if (++state->part < state->n_parts)
		start_part(state);
}

/// True if the row meets the conditions that the index decides.
bool
meets_conditions(::ScanState *node, TupleTableSlot *slot)
{
	ExprContext *context = node->ps.ps_ExprContext;

	context->ecxt_scantuple = slot;
	return ExecQualAndReset(state_of(node)->conditions, context);
}

TupleTableSlot *
next_row(::ScanState *node)
{
	FilteredScanState *state = state_of(node);
	TupleTableSlot *slot = node->ss_ScanTupleSlot;

	Assert(ScanDirectionIsForward(node->ps.state->es_direction));
	start_once(&state->node);
	for (; state->part < state->n_parts; next_part(state))
		while (index_getnext_slot(state->node.scan, ForwardScanDirection, slot))
		{
			CHECK_FOR_INTERRUPTS();
			if (!state->node.scan->xs_recheck || meets_conditions(node, slot))
				return slot;
			InstrCountFiltered2(node, 1);
		}
	return ExecClearTuple(slot);
}

void
begin(CustomScanState *node, EState *estate, int eflags)
{
	FilteredScanState *state = state_of(&node->ss);
	const CustomScan *plan = plan_of(state);
	PlanState *ps = &node->ss.ps;
	List *others = plan_expressions(plan, kPlanExpressions);
	ListCell *cell;

	pg::use_table_slot(node);
	state->node.order = plan_expressions(plan, kPlanOrder);
	state->conditions = ExecInitQual(
		list_concat_copy(plan_expressions(plan, kPlanConditions), plan_expressions(plan, kPlanRechecked)), ps);
	bitmap_rows_begin(&state->bitmap, node, plan->custom_plans, estate, eflags);
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0)
		return;
	state->order = ExecInitExpr(static_cast<Expr *>(lsecond(linitial_node(OpExpr, state->node.order)->args)), ps);
	state->others = static_cast<ExprState **>(palloc(sizeof(ExprState *) * (list_length(others) + 1)));
	foreach (cell, others)
		state->others[state->n_others++] = ExecInitExpr(static_cast<Expr *>(lfirst(cell)), ps);
	state->context = CreateExprContext(estate);
	find_parts(state);
	state->node.index = index_open(plan_index(plan), exec_rt_fetch(plan->scan.scanrelid, estate)->rellockmode);
	state->node.scan = pg::begin_index_scan(
		node->ss.ss_currentRelation, state->node.index, estate->es_snapshot, keys_of_part(state), 1);
}

TupleTableSlot *
exec(CustomScanState *node)
{
	return ExecScan(&node->ss, next_row, meets_conditions);
}

void
end(CustomScanState *node)
{
	FilteredScanState *state = state_of(&node->ss);

	ExecClearTuple(node->ss.ss_ScanTupleSlot);
	bitmap_rows_end(&state->bitmap);
	if (state->node.index == nullptr)
		return;
	index_endscan(state->node.scan);
	index_close(state->node.index, NoLock);
}

void
rescan(CustomScanState *node)
{
	state_of(&node->ss)->started = false;
	bitmap_rows_rescan(&state_of(&node->ss)->bitmap, node);
	ExecScanReScan(&node->ss);
}

const CustomExecMethods exec_methods = {pg::kFilteredScanName, begin, exec, end, rescan, nullptr, nullptr, nullptr,
	nullptr, nullptr, nullptr, nullptr, filtered_explain};

Node *
create_state(CustomScan *plan)
{
	FilteredScanState *state = static_cast<FilteredScanState *>(palloc0(sizeof(FilteredScanState)));

	NodeSetTag(state, T_CustomScanState);
	state->node.custom.methods = &exec_methods;
	state->node.start = start_once;
	state->numbers = static_cast<const List *>(list_nth(plan->custom_private, kPlanNumbers));
	return reinterpret_cast<Node *>(state);
}

} // namespace

const CustomScanMethods filtered_plan_methods = {pg::kFilteredScanName, create_state};

void
filtered_scan_install()
{
	RegisterCustomScanMethods(&filtered_plan_methods);
}

} // namespace vectorgpu::am
