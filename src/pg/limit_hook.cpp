// ExecutorStart hook that records the plan nodes above each of our index scans. See limit_hook.hpp. A note lives in the
// executor's per-query context and is removed when that context is deleted, by ExecutorEnd or after an error, so no
// note outlives the plan states to which it points.
#include "pg/limit_hook.hpp"

#include "pg/define_setting.hpp"
#include "pg/order_bound.hpp"
#include "pg/ordered_scan.hpp"
#include "pg/read_ahead.hpp"
#include "pg/replaced_row.hpp"
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

/// A Limit on the path from a scan to the root, and the Limits above it.
struct Above
{
	const LimitState *limit;
	const Above *next;
};

/// The plan above a node.
struct Place
{
	const Above *limits;      // Limits that can end the node early
	const LimitState *direct; // the one that takes the node's rows unchanged except for filters; null: none
	bool filtered;            // a condition drops rows between `direct` and the node
	bool shared;              // other nodes also give rows to `direct`
	bool sorted;              // a node between collects rows of equal distance before it passes them on
	MergeAppendState *merge;  // the node's parent; null: it is another one
};

struct ScanNote
{
	dlist_node node; // first: a list element is its note
	OrderedScan scan;
	Place place;
	OrderBound *bound; // null: no condition bounds the distance
	bool changes_rows;
	double selectivity;
	double expected;
	MemoryContextCallback forget;
};

dlist_head notes = DLIST_STATIC_INIT(notes);
ExecutorStart_hook_type previous_hook = nullptr;
bool (*is_ours)(Relation index) = nullptr;

/// How often the plan of a WITH query was visited.
struct CteVisit
{
	const PlanState *state;
	uint32 n;
};

constexpr uint32 kMostCtes = 64; // scans in further ones have no note: every row is wanted
constexpr uint32 kMostCteReaders = 4;

CteVisit cte_visits[kMostCtes]; // [n_cte_visits] of the plan that is being visited
uint32 n_cte_visits = 0;

void
forget_note(void *arg)
{
	dlist_delete(&static_cast<ScanNote *>(arg)->node);
}

void
add_note(PlanState *state, Place place)
{
	const MemoryContext context = state->state->es_query_cxt;
	OrderedScan scan;
	ScanNote *note;
	bool only_bound;
	const PlannedStmt *statement = state->state->es_plannedstmt;

	if (!ordered_scan(state, is_ours, &scan))
		return;
	note = static_cast<ScanNote *>(MemoryContextAlloc(context, sizeof(ScanNote)));
	note->scan = scan;
	note->place = place;
	note->bound = order_bound_find(scan, &only_bound);
	// A condition that is only a bound drops no row before the scan's end.
	note->place.filtered = place.filtered || (state->qual != nullptr && !only_bound);
	note->changes_rows =
		statement->hasModifyingCTE || (statement->commandType != CMD_SELECT && statement->commandType != CMD_INSERT);
	note->expected = ordered_scan_expected(scan);
	note->selectivity = state->qual == nullptr || (note->bound != nullptr && only_bound) ? 1 : note->expected;
	note->forget.func = forget_note;
	note->forget.arg = note;
	dlist_push_head(&notes, &note->node);
	MemoryContextRegisterResetCallback(context, &note->forget);
}

void note_scans(PlanState *state, Place place);

void
note_children(PlanState *const *children, int n, Place place)
{
	place.shared = place.shared || n > 1;
	for (int i = 0; i < n; i++)
		note_scans(children[i], place);
}

/// For nodes below one that reads all its input before it returns a row: no Limit above can end them.
constexpr Place kReadsAll = {nullptr, nullptr, false, false, false, nullptr};

void
note_limit(LimitState *limit, const Place *place)
{
	Above *above = static_cast<Above *>(MemoryContextAlloc(limit->ps.state->es_query_cxt, sizeof(Above)));

	*above = {limit, place->limits};
	note_scans(outerPlanState(limit), {above, limit, false, false, false, nullptr});
}

/// True if a node reads all its input before it returns a row.
bool
reads_all_first(const PlanState *state)
{
	switch (nodeTag(state))
	{
		case T_SortState:
		case T_HashState:
		case T_ModifyTableState:
			return true;
		case T_AggState:
		{
			const AggStrategy strategy = reinterpret_cast<const Agg *>(state->plan)->aggstrategy;

			return strategy != AGG_SORTED;
		}
		case T_SetOpState:
			return reinterpret_cast<const SetOp *>(state->plan)->strategy == SETOP_HASHED;
		default:
			return false;
	}
}

/// planstate_tree_walker callback for the children of a node that does not pass on their rows unchanged.
bool
note_child(PlanState *state, void *place)
{
	note_scans(state, *static_cast<const Place *>(place));
	return false;
}

/// Visit the subplans of a node; no Limit above ends them. Plans of WITH queries are visited through their CteScan,
/// except those that modify rows, which always run to their end.
void
note_subplans(const List *subplans)
{
	const ListCell *cell;

	foreach (cell, subplans)
	{
		const SubPlanState *subplan = lfirst_node(SubPlanState, cell);

		if (subplan->subplan->subLinkType != CTE_SUBLINK || IsA(subplan->planstate, ModifyTableState))
			note_scans(subplan->planstate, kReadsAll);
	}
}

/// Visit the children of a node of any other kind. Its subplans are hidden first, because the walker would visit them
/// as children.
void
note_others(PlanState *state, Place place)
{
	List *const initial = state->initPlan;
	List *const inner = state->subPlan;

	read_ahead_note_join(state);
	if (reads_all_first(state))
		place = kReadsAll;
	place.direct = nullptr;
	state->initPlan = NIL;
	state->subPlan = NIL;
	(void) planstate_tree_walker(state, as_walker(note_child), &place);
	state->initPlan = initial;
	state->subPlan = inner;
}

/// Visit the plan of a WITH query, once for each of its readers. WITH queries may read each other, so one plan can be
/// reached on many paths; after kMostCteReaders visits it counts as read to its end.
void
note_cte(PlanState *state, Place place)
{
	CteVisit *visit = nullptr;

	CHECK_FOR_INTERRUPTS();
	if (state == nullptr || IsA(state, ModifyTableState))
		return;
	for (uint32 i = 0; i < n_cte_visits && visit == nullptr; i++)
		if (cte_visits[i].state == state)
			visit = &cte_visits[i];
	if (visit == nullptr && n_cte_visits < kMostCtes)
	{
		visit = &cte_visits[n_cte_visits++];
		*visit = {state, 0};
	}
	if (visit == nullptr || visit->n > kMostCteReaders)
		return;
	note_scans(state, visit->n++ < kMostCteReaders ? place : kReadsAll);
}

/// Visit a plan or subplan from its root down to our index scans.
void
note_scans(PlanState *state, Place place)
{
	if (state == nullptr)
		return;
	check_stack_depth();
	drop_unread_below(state, is_ours);
	note_subplans(state->initPlan);
	note_subplans(state->subPlan);
	if (IsA(state, IndexScanState) || filtered_node(state) != nullptr)
	{
		add_note(state, place);
		return;
	}
	place.merge = nullptr;
	place.filtered = place.filtered || state->qual != nullptr;
	switch (nodeTag(state))
	{
		case T_LimitState:
			note_limit(reinterpret_cast<LimitState *>(state), &place);
			break;
		case T_IncrementalSortState:
			place.sorted = true;
			note_scans(outerPlanState(state), place);
			break;
		case T_ResultState:
			note_scans(outerPlanState(state), place);
			break;
		case T_SubqueryScanState:
			note_scans(reinterpret_cast<SubqueryScanState *>(state)->subplan, place);
			break;
		case T_AppendState:
			note_children(reinterpret_cast<const AppendState *>(state)->appendplans,
				reinterpret_cast<const AppendState *>(state)->as_nplans, place);
			break;
		case T_MergeAppendState:
			place.merge = reinterpret_cast<MergeAppendState *>(state);
			note_children(reinterpret_cast<const MergeAppendState *>(state)->mergeplans,
				reinterpret_cast<const MergeAppendState *>(state)->ms_nplans, place);
			break;
		case T_CteScanState:
			place.direct = nullptr;
			note_cte(reinterpret_cast<CteScanState *>(state)->cteplanstate, place);
			break;
		default:
			note_others(state, place);
			break;
	}
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
	n_cte_visits = 0;
	note_scans(query->planstate, kReadsAll);
	note_update(query);
	drop_unread_order(query, is_ours);
}

/// Return the next note of a scan. There is one note per scan, except in the plan of a WITH query that has several
/// readers.
const ScanNote *
next_note(const ScanNote *note, IndexScanDesc scan)
{
	const dlist_node *node = note == nullptr ? notes.head.next : note->node.next;

	for (; node != nullptr && node != &notes.head; node = node->next)
		if (*reinterpret_cast<const ScanNote *>(node)->scan.scan == scan)
			return reinterpret_cast<const ScanNote *>(node);
	return nullptr;
}

/// True if one of the Limits has a count. A Limit above another reader of the same plan may not have begun; it does not
/// count yet.
bool
ends_early(const Above *limits)
{
	for (; limits != nullptr; limits = limits->next)
		if (limits->limit->lstate != LIMIT_INITIAL && !limits->limit->noCount)
			return true;
	return false;
}

bool
has_count(const LimitState *limit)
{
	return limit != nullptr && limit->lstate != LIMIT_INITIAL && !limit->noCount;
}

} // namespace

void
limit_hook_install(bool (*is_our_index)(Relation index))
{
	is_ours = is_our_index;
	previous_hook = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
}

ScanWish
scan_wish(IndexScanDesc scan)
{
	const ScanNote *note = next_note(nullptr, scan);
	ScanWish wish = {ScanEnd::kUnknown, 0, false, false, false, 1, 1};

	if (note == nullptr)
		return wish;
	wish.filtered = note->place.filtered;
	wish.changes_rows = note->changes_rows;
	wish.shared = note->place.shared;
	wish.selectivity = note->selectivity;
	wish.expected = note->expected;
	if (next_note(note, scan) == nullptr && has_count(note->place.direct))
	{
		const LimitState *limit = note->place.direct;

		wish.end = ScanEnd::kCount;
		wish.rows = static_cast<uint64>(Max(limit->offset, 0)) + static_cast<uint64>(Max(limit->count, 0));
		if (limit->limitOption == LIMIT_OPTION_WITH_TIES || note->place.sorted)
			wish.rows += 1; // the row that ends those of equal distance
		return wish;
	}
	wish.end = ScanEnd::kLimit;
	for (; note != nullptr; note = next_note(note, scan))
		if (!ends_early(note->place.limits))
			wish.end = ScanEnd::kNothing;
	return wish;
}

bool
scan_is_measured(IndexScanDesc scan)
{
	const ScanNote *note = next_note(nullptr, scan);

	return note != nullptr && note->scan.state->ps.state->es_instrument != 0;
}

bool
scan_received(IndexScanDesc scan, uint64 *rows)
{
	const ScanNote *note = next_note(nullptr, scan);

	if (note == nullptr || note->place.shared || note->place.sorted || !has_count(note->place.direct) ||
		next_note(note, scan) != nullptr)
		return false;
	*rows = static_cast<uint64>(Max(note->place.direct->position, 0));
	return true;
}

MergeAppendState *
scan_merge(IndexScanDesc scan, const PlanState **node)
{
	const ScanNote *note = next_note(nullptr, scan);

	if (note == nullptr || note->place.merge == nullptr)
		return nullptr;
	*node = &note->scan.state->ps;
	return note->place.merge;
}

bool
scan_bound(IndexScanDesc scan, DistanceBound *bound)
{
	const ScanNote *note = next_note(nullptr, scan);

	return note != nullptr && note->bound != nullptr && order_bound_compute(note->bound, bound);
}

} // namespace vectorgpu::pg
