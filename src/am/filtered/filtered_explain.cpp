// What EXPLAIN shows of a filtered scan, as core does of an index scan. Core has shown the filter before.
#include "am/filtered/filtered_plan.hpp"
#include "am/filtered/filtered_scan.hpp"
#include "am/scan/scan_settings.hpp"
#include "pg/explain_hook.hpp"

extern "C"
{
#include "executor/instrument.h"
#include "nodes/makefuncs.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
}

namespace vectorgpu::am
{

namespace
{

void
show_expressions(const char *name, List *expressions, PlanState *state, List *ancestors, ExplainState *es)
{
	List *context = set_deparse_context_plan(es->deparse_cxt, state->plan, ancestors);
	Node *expression = reinterpret_cast<Node *>(make_ands_explicit(expressions));

	ExplainPropertyText(
		name, deparse_expression(expression, context, list_length(es->rtable) > 1 || es->verbose, false), es);
}

void
show_rechecked(const PlanState *state, ExplainState *es)
{
	const double removed =
		state->instrument->nloops > 0 ? state->instrument->nfiltered2 / state->instrument->nloops : 0;

	if (removed > 0 || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyFloat("Rows Removed by Index Recheck", nullptr, removed, 0, es);
}

/// The rows without a number as distance that come before all others.
void
show_first_rows(const CustomScan *plan, ExplainState *es)
{
	const List *flags = static_cast<const List *>(list_nth(plan->custom_private, kPlanOrderFlags));
	const List *numbers = static_cast<const List *>(list_nth(plan->custom_private, kPlanNumbers));
	const bool nulls = linitial_int(flags) != 0 && (linitial_int(numbers) & kPlanWantsValue) == 0;
	const bool nan = lsecond_int(flags) != 0;

	if (nulls || nan)
		ExplainPropertyText("First Rows", nulls && nan ? "NULL, NaN" : nulls ? "NULL" : "NaN", es);
}

} // namespace

void
filtered_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	PlanState *state = &node->ss.ps;
	const CustomScan *plan = reinterpret_cast<const CustomScan *>(state->plan);
	const char *index = get_rel_name(plan_index(plan));

	if (es->format == EXPLAIN_FORMAT_TEXT)
		ExplainPropertyText("Index", index != nullptr ? quote_identifier(index) : "?", es);
	else
		ExplainPropertyText("Index Name", index != nullptr ? index : "?", es);
	if (plan_expressions(plan, kPlanConditions) != NIL)
		show_expressions("Index Cond", plan_expressions(plan, kPlanConditions), state, ancestors, es);
	if (plan_expressions(plan, kPlanRechecked) != NIL)
		show_expressions("Recheck Cond", plan_expressions(plan, kPlanRechecked), state, ancestors, es);
	if (es->analyze && state->instrument != nullptr)
		show_rechecked(state, es);
	show_expressions("Order By", list_make1(linitial(plan_expressions(plan, kPlanOrder))), state, ancestors, es);
	show_first_rows(plan, es);
	if (range_search() == RangeSearch::kApproximate &&
		(linitial_int(static_cast<const List *>(list_nth(plan->custom_private, kPlanNumbers))) & kPlanMayMiss) != 0)
		ExplainPropertyText("Range Search", "approximate", es);
}

} // namespace vectorgpu::am
