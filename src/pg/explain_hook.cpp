// See explain_hook.hpp. From 18 on a hook is called for each node of a plan. Before, two hooks work together:
// ExplainOneQuery_hook knows the ExplainState that EXPLAIN writes to. ExecutorEnd_hook sees the plan's scans with their
// counters while the query's group is still open: ExplainOnePlan ends the executor after the plan and before the
// execution time.
#include "pg/explain_hook.hpp"

#include "pg/limit_hook.hpp"
#include "pg/ordered_scan.hpp"

#include <cstring>

extern "C"
{
#include "commands/defrem.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "tcop/tcopprot.h"
#include "utils/lsyscache.h"
}

namespace vectorgpu::pg
{

namespace
{

/// A scan of one of our indexes.
struct FoundScan
{
	const PlanState *state;
	Relation index;
	IndexScanDesc scan; // null where parallel workers alone ran it
	int n_workers;      // parallel workers that ran it
};

ScanExplainer scan_explainer;

int
count_workers(const WorkerInstrumentation *workers)
{
	int n = 0;

	for (int i = 0; workers != nullptr && i < workers->num_workers; i++)
		n += workers->instrument[i].nloops > 0;
	return n;
}

/// Return false unless the node has scanned one of our indexes.
bool
scan_of_node(const PlanState *state, FoundScan *found)
{
	const FilteredNode *filtered = filtered_node(state);

	*found = {state, nullptr, nullptr, count_workers(state->worker_instrument)};
	if (filtered != nullptr)
	{
		found->index = filtered->index;
		found->scan = filtered->scan;
	}
	else if (IsA(state, IndexScanState))
	{
		found->index = reinterpret_cast<const IndexScanState *>(state)->iss_RelationDesc;
		found->scan = reinterpret_cast<const IndexScanState *>(state)->iss_ScanDesc;
	}
	else if (IsA(state, BitmapIndexScanState))
	{
		found->index = reinterpret_cast<const BitmapIndexScanState *>(state)->biss_RelationDesc;
		found->scan = reinterpret_cast<const BitmapIndexScanState *>(state)->biss_ScanDesc;
	}
	if (found->index == nullptr || !scan_explainer.is_ours(found->index))
		return false;
	if (found->scan != nullptr && !scan_explainer.ran(found->scan))
		found->scan = nullptr;
	return found->scan != nullptr || found->n_workers > 0;
}

/// Add the properties of a scan.
void
explain_found(const FoundScan *found, ExplainState *es)
{
	if (found->scan != nullptr)
		scan_explainer.explain(found->scan, es);
	if (found->n_workers > 0)
		ExplainPropertyInteger("Parallel Workers Not Counted", nullptr, found->n_workers, es);
}

#if PG_VERSION_NUM >= 180000

explain_per_node_hook_type previous_node_hook = nullptr;
int extension_id;

/// The option VECTORGPU: on, if it is not given.
void
set_option(ExplainState *es, DefElem *option, ParseState *parsing)
{
	bool *on = static_cast<bool *>(palloc(sizeof(bool)));

	*on = defGetBoolean(option);
	SetExplainExtensionState(es, extension_id, on);
}

/// Add to a node of the plan. In the text format the properties follow those of the node, elsewhere they are a group.
void
explain_node(PlanState *state, List *ancestors, const char *relationship, const char *plan_name, ExplainState *es)
{
	const bool *on = static_cast<const bool *>(GetExplainExtensionState(es, extension_id));
	FoundScan found;

	if (previous_node_hook != nullptr)
		previous_node_hook(state, ancestors, relationship, plan_name, es);
	if (!es->analyze || (on != nullptr && !*on) || !scan_of_node(state, &found))
		return;
	ExplainOpenGroup("Vectorgpu Scan", "Vectorgpu Scan", true, es);
	explain_found(&found, es);
	ExplainCloseGroup("Vectorgpu Scan", "Vectorgpu Scan", true, es);
}

#else

/// The EXPLAIN in progress. Functions in its query may run EXPLAIN too.
struct Explaining
{
	ExplainState *es;
	const char *query_string; // the very pointer: nested statements have texts of their own
};

Explaining current = {nullptr, nullptr};
ExplainOneQuery_hook_type previous_explain_hook = nullptr;
ExecutorEnd_hook_type previous_end_hook = nullptr;

/// planstate_tree_walker callback: collect the scans of our indexes (FoundScan) in the order in which EXPLAIN shows
/// them.
bool
collect_scans(PlanState *state, void *scans)
{
	FoundScan found;

	if (state == nullptr)
		return false;
	check_stack_depth();
	if (scan_of_node(state, &found))
	{
		FoundScan *copy = static_cast<FoundScan *>(palloc(sizeof(FoundScan)));

		*copy = found;
		*static_cast<List **>(scans) = lappend(*static_cast<List **>(scans), copy);
	}
	return planstate_tree_walker(state, as_walker(collect_scans), scans);
}

/// Return the name that EXPLAIN printed for a relation of the plan. EXPLAIN numbers aliases that occur twice.
const char *
shown_alias(Index relation, const PlannedStmt *plan, const ExplainState *es)
{
	const char *alias = nullptr;

	if (es->pstmt == plan && relation <= static_cast<Index>(list_length(es->rtable_names)))
		alias = static_cast<const char *>(list_nth(es->rtable_names, static_cast<int>(relation) - 1));
	return alias != nullptr ? alias : rt_fetch(relation, plan->rtable)->eref->aliasname;
}

void
explain_scan(const FoundScan *scan, const PlannedStmt *plan, ExplainState *es)
{
	const Scan *node = reinterpret_cast<const Scan *>(scan->state->plan);
	const char *index = RelationGetRelationName(scan->index);
	const char *table = get_rel_name(scan->index->rd_index->indrelid);
	const char *alias = shown_alias(node->scanrelid, plan, es);

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
	explain_found(scan, es);
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
				explain_scan(static_cast<const FoundScan *>(lfirst(cell)), query->plannedstmt, es);
			ExplainCloseGroup("Vectorgpu Scans", "Vectorgpu Scans", false, es);
		}
	}
	if (previous_end_hook != nullptr)
		previous_end_hook(query);
	else
		standard_ExecutorEnd(query);
}

/// Do what EXPLAIN does without a hook: plan the query and report the time and buffers used. Core exports its own
/// function from 17 on.
void
plan_and_explain(Query *query, int cursor_options, IntoClause *into, ExplainState *es, const char *query_string,
	ParamListInfo params, QueryEnvironment *environment)
{
#if PG_VERSION_NUM >= 170000
	standard_ExplainOneQuery(query, cursor_options, into, es, query_string, params, environment);
#else
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
#endif
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

#endif

} // namespace

bool
explain_analyzes(IndexScanDesc scan)
{
#if PG_VERSION_NUM >= 180000
	return scan_is_measured(scan);
#else
	return current.es != nullptr && current.es->analyze;
#endif
}

void
explain_begin_line(ExplainState *es)
{
	appendStringInfoSpaces(es->str, es->indent * 2);
}

void
explain_hook_install(const ScanExplainer &explainer)
{
	scan_explainer = explainer;
#if PG_VERSION_NUM >= 180000
	extension_id = GetExplainExtensionId("vectorgpu");
	RegisterExtensionExplainOption("vectorgpu", set_option);
	previous_node_hook = explain_per_node_hook;
	explain_per_node_hook = explain_node;
#else
	previous_explain_hook = ExplainOneQuery_hook;
	ExplainOneQuery_hook = explain_one_query;
	previous_end_hook = ExecutorEnd_hook;
	ExecutorEnd_hook = executor_end;
#endif
}

} // namespace vectorgpu::pg
