// See explain_hook.hpp. Two hooks work together: ExplainOneQuery_hook knows where EXPLAIN writes to, and ExecutorEnd_hook
// sees the plan's scans, with what they have counted, while the query's group is still open (ExplainOnePlan ends the
// executor behind the plan, before the execution time).
#include "pg/explain_hook.hpp"

#include <cstring>

extern "C"
{
#include "executor/executor.h"
#include "executor/instrument.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "tcop/tcopprot.h"
}

namespace vectorgpu::pg
{

namespace
{

/// The EXPLAIN under way. It can run functions that EXPLAIN something themselves.
struct Explaining
{
	ExplainState *es;
	const char *query_string; // the very pointer: nested statements have texts of their own
};

ScanExplainer scan_explainer;
Explaining current = {nullptr, nullptr};
ExplainOneQuery_hook_type previous_explain_hook = nullptr;
ExecutorEnd_hook_type previous_end_hook = nullptr;

/// planstate_tree_walker callback: collects the scans of our indexes, in the order in which EXPLAIN shows them.
bool
collect_scans(PlanState *state, void *scans)
{
	if (state == nullptr)
		return false;
	check_stack_depth();
	if (IsA(state, IndexScanState))
	{
		IndexScanState *scan = reinterpret_cast<IndexScanState *>(state);
		const bool ran = scan->iss_ScanDesc != nullptr || state->worker_instrument != nullptr;

		if (ran && scan->iss_RelationDesc != nullptr && scan_explainer.is_ours(scan->iss_RelationDesc))
			*static_cast<List **>(scans) = lappend(*static_cast<List **>(scans), scan);
	}
	// The walker's type says nothing of its arguments; void (*)() is the cast that compilers accept for that.
	return planstate_tree_walker(
		state, reinterpret_cast<bool (*)()>(reinterpret_cast<void (*)()>(collect_scans)), scans);
}

void
explain_scan(const IndexScanState *scan, const PlannedStmt *plan, ExplainState *es)
{
	const Scan *node = reinterpret_cast<const Scan *>(scan->ss.ps.plan);
	const char *index = RelationGetRelationName(scan->iss_RelationDesc);
	const char *table = RelationGetRelationName(scan->ss.ss_currentRelation);
	const char *alias = rt_fetch(node->scanrelid, plan->rtable)->eref->aliasname;
	const bool parallel = scan->ss.ps.worker_instrument != nullptr && scan->ss.ps.worker_instrument->num_workers > 0;

	ExplainOpenGroup("Vectorgpu Scan", nullptr, true, es);
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		explain_begin_line(es);
		appendStringInfo(es->str, "Vectorgpu Scan using %s on %s", quote_identifier(index), quote_identifier(table));
		if (strcmp(alias, table) != 0)
			appendStringInfo(es->str, " %s", quote_identifier(alias));
		appendStringInfoChar(es->str, '\n');
		es->indent++;
	}
	else
	{
		ExplainPropertyText("Index Name", index, es);
		ExplainPropertyText("Relation Name", table, es);
		ExplainPropertyText("Alias", alias, es);
	}
	scan_explainer.explain(scan, es);
	if (parallel)
		ExplainPropertyInteger("Parallel Workers Not Counted", nullptr, scan->ss.ps.worker_instrument->num_workers, es);
	if (es->format == EXPLAIN_FORMAT_TEXT)
		es->indent--;
	ExplainCloseGroup("Vectorgpu Scan", nullptr, true, es);
}

void
executor_end(QueryDesc *query)
{
	ExplainState *es = current.es;

	if (es != nullptr && es->analyze && query->sourceText == current.query_string && query->instrument_options != 0)
	{
		List *scans = NIL;
		ListCell *cell;

		(void) collect_scans(query->planstate, &scans);
		if (scans != NIL)
		{
			ExplainOpenGroup("Vectorgpu Scans", "Vectorgpu Scans", false, es);
			foreach (cell, scans)
				explain_scan(static_cast<const IndexScanState *>(lfirst(cell)), query->plannedstmt, es);
			ExplainCloseGroup("Vectorgpu Scans", "Vectorgpu Scans", false, es);
		}
	}
	if (previous_end_hook != nullptr)
		previous_end_hook(query);
	else
		standard_ExecutorEnd(query);
}

/// What EXPLAIN does where there is no hook: plans the query, and reports the time and buffers that it took.
void
plan_and_explain(Query *query, int cursor_options, IntoClause *into, ExplainState *es, const char *query_string,
	ParamListInfo params, QueryEnvironment *environment)
{
	const BufferUsage before = pgBufferUsage;
	BufferUsage used = {};
	instr_time start;
	instr_time duration;
	PlannedStmt *plan;

	INSTR_TIME_SET_CURRENT(start);
	plan = pg_plan_query(query, query_string, cursor_options, params);
	INSTR_TIME_SET_CURRENT(duration);
	INSTR_TIME_SUBTRACT(duration, start);
	if (es->buffers)
		BufferUsageAccumDiff(&used, &pgBufferUsage, &before);
	ExplainOnePlan(plan, into, es, query_string, params, environment, &duration, es->buffers ? &used : nullptr);
}

void
explain_one_query(Query *query, int cursor_options, IntoClause *into, ExplainState *es, const char *query_string,
	ParamListInfo params, QueryEnvironment *environment)
{
	const Explaining outer = current;

	current = {es, query_string};
	PG_TRY();
	{
		if (previous_explain_hook != nullptr)
			previous_explain_hook(query, cursor_options, into, es, query_string, params, environment);
		else
			plan_and_explain(query, cursor_options, into, es, query_string, params, environment);
	}
	PG_FINALLY();
	{
		current = outer;
	}
	PG_END_TRY();
}

} // namespace

void
explain_begin_line(ExplainState *es)
{
	appendStringInfoSpaces(es->str, es->indent * 2);
}

void
explain_hook_install(const ScanExplainer &explainer)
{
	scan_explainer = explainer;
	previous_explain_hook = ExplainOneQuery_hook;
	ExplainOneQuery_hook = explain_one_query;
	previous_end_hook = ExecutorEnd_hook;
	ExecutorEnd_hook = executor_end;
}

} // namespace vectorgpu::pg
