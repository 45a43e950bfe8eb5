// ExecutorStart hook that remembers which Limit stands above which index scan. See limit_hook.hpp.
// A note lives in the executor's per-query context and is forgotten when that context goes, be it by ExecutorEnd or by
// an error, so that no note outlives the plan states it points to.
#include "pg/limit_hook.hpp"

#include "pg/define_setting.hpp"
#include "pg/unread_order.hpp"

extern "C"
{
#include "executor/executor.h"
#include "lib/ilist.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
}

namespace vectorgpu::pg
{

namespace
{

struct LimitNote
{
	dlist_node node; // first: a list element is its note
	const LimitState *limit;
	const IndexScanState *scan;
	bool exact;
	MemoryContextCallback forget;
};

dlist_head notes = DLIST_STATIC_INIT(notes);
ExecutorStart_hook_type previous_hook = nullptr;
bool (*is_ours)(Relation index) = nullptr;

void
forget_note(void *arg)
{
	dlist_delete(&static_cast<LimitNote *>(arg)->node);
}

void
add_note(const LimitState *limit, const IndexScanState *scan, bool exact)
{
	LimitNote *note = static_cast<LimitNote *>(
		MemoryContextAlloc(limit->ps.state->es_query_cxt, sizeof(LimitNote)));

	note->limit = limit;
	note->scan = scan;
	note->exact = exact;
	note->forget.func = forget_note;
	note->forget.arg = note;
	dlist_push_head(&notes, &note->node);
	MemoryContextRegisterResetCallback(limit->ps.state->es_query_cxt, &note->forget);
}

void note_scans(const LimitState *limit, const PlanState *state, bool exact);

void
note_children(const LimitState *limit, PlanState *const *children, int n, bool exact)
{
	for (int i = 0; i < n; i++)
		note_scans(limit, children[i], exact);
}

/// Follows the nodes that hand rows on as they are, from a Limit down to index scans.
void
note_scans(const LimitState *limit, const PlanState *state, bool exact)
{
	if (state == nullptr)
		return;
	check_stack_depth();
	exact = exact && state->qual == nullptr;
	switch (nodeTag(state))
	{
		case T_IndexScanState:
			if (reinterpret_cast<const IndexScanState *>(state)->iss_NumOrderByKeys > 0)
				add_note(limit, reinterpret_cast<const IndexScanState *>(state), exact);
			break;
		case T_ResultState:
			note_scans(limit, outerPlanState(state), exact);
			break;
		case T_SubqueryScanState:
			note_scans(limit, reinterpret_cast<const SubqueryScanState *>(state)->subplan, exact);
			break;
		case T_AppendState:
			note_children(limit, reinterpret_cast<const AppendState *>(state)->appendplans,
				reinterpret_cast<const AppendState *>(state)->as_nplans, exact);
			break;
		case T_MergeAppendState:
			note_children(limit, reinterpret_cast<const MergeAppendState *>(state)->mergeplans,
				reinterpret_cast<const MergeAppendState *>(state)->ms_nplans, exact);
			break;
		default:
			break; // LockRows, joins, aggregates, sorts: what they want is not what the Limit wants
	}
}

/// planstate_tree_walker callback: finds the Limits.
bool
find_limits(PlanState *state, void *context)
{
	if (state == nullptr)
		return false;
	if (IsA(state, LimitState))
		note_scans(reinterpret_cast<const LimitState *>(state), outerPlanState(state), true);
	// The walker's type says nothing of its arguments; void (*)() is the cast that compilers accept for that.
	return planstate_tree_walker(state,
		reinterpret_cast<bool (*)()>(reinterpret_cast<void (*)()>(find_limits)), context);
}

void
executor_start(QueryDesc *query, int eflags)
{
	define_postponed();
	if (previous_hook != nullptr)
		previous_hook(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0)
		return;
	(void) find_limits(query->planstate, nullptr);
	drop_unread_order(query, is_ours);
}

} // namespace

void
limit_hook_install(bool (*is_our_index)(Relation index))
{
	is_ours = is_our_index;
	previous_hook = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
}

bool
scan_limit(IndexScanDesc scan, uint64 *rows, bool *exact)
{
	for (const dlist_node *node = notes.head.next; node != &notes.head; node = node->next)
	{
		const LimitNote *note = reinterpret_cast<const LimitNote *>(node);
		const LimitState *limit = note->limit;

		if (note->scan->iss_ScanDesc != scan)
			continue;
		if (limit->lstate == LIMIT_INITIAL || limit->noCount)
			return false; // its expressions are not computed yet, or LIMIT ALL
		*rows = static_cast<uint64>(Max(limit->offset, 0)) + static_cast<uint64>(Max(limit->count, 0));
		if (limit->limitOption == LIMIT_OPTION_WITH_TIES)
			*rows += 1; // the row that ends the ties
		*exact = note->exact;
		return true;
	}
	return false;
}

} // namespace vectorgpu::pg
