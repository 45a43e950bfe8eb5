// See filtered_path.hpp. A path is one of core's index paths in all but its conditions, so that core's functions and
// the access method's compute its cost.
#include "am/filtered/filtered_path.hpp"

#include "am/filtered/bitmap_path.hpp"
#include "am/filtered/clause.hpp"
#include "am/filtered/filtered_plan.hpp"
#include "am/filtered/list_size.hpp"
#include "am/filtered/range_clauses.hpp"
#include "am/filtered/sort_key.hpp"
#include "am/method/index_access.hpp"
#include "am/scan/scan_settings.hpp"
#include "pg/define_setting.hpp"

extern "C"
{
#include "access/skey.h"
#include "catalog/pg_class.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "utils/lsyscache.h"
}

namespace vectorgpu::am
{

namespace
{

// A list of more codes is searched (engine/predicate/code_list.hpp), which rows that are in it take longer for: 100,000
// rows, half of them in a list of 500 codes, take 0.6 ms.
constexpr int kFewCodes = 8;
constexpr double kListCost = 8; // x a comparison

bool enabled = true;
bool orders_enabled = true;
set_rel_pathlist_hook_type previous_hook = nullptr;

/// What a path has been made of so far.
struct Draft
{
	PlannerInfo *root;
	IndexOptInfo *index;
	SortKey order;
	List *pathkeys; // NIL: the query asks for another order, or none
	Relids outer;   // the tables that give the path's parameters
	List *clauses;  // IndexClause
	ReadClauses read;
	bool beyond_core; // core's path of this index has fewer conditions
};

/// True if the clause says that rows have a value to order by.
bool
wants_value(IndexOptInfo *index, const Node *clause)
{
	const NullTest *test = reinterpret_cast<const NullTest *>(clause);

	return IsA(clause, NullTest) && test->nulltesttype == IS_NOT_NULL && !test->argisrow &&
		match_index_to_operand(reinterpret_cast<Node *>(test->arg), 0, index);
}

/// Return the tests of codes, each as expensive as a comparison, that a row takes for the clause whose numbers begin at
/// `first`. share: of the rows, those that pass it.
double
tests_of_clause(PlannerInfo *root, const ReadClauses &read, int first, double share)
{
	double n = 0;

	for (int i = first; i < list_length(read.numbers); i++)
	{
		const ClauseOp op = static_cast<ClauseOp>(list_nth_int(read.numbers, i));

		if (op == ClauseOp::kAnd || op == ClauseOp::kOr)
			i++;
		else if (op != ClauseOp::kMaybe)
		{
			i += kLeafNumbers;
			n += op == ClauseOp::kTest ? 0 : 1;
			if ((op == ClauseOp::kAnyOf || op == ClauseOp::kAllOf) &&
				pg::array_length(root, static_cast<Node *>(list_nth(read.expressions, list_nth_int(read.numbers, i)))) >
					kFewCodes)
				n += kListCost * (op == ClauseOp::kAnyOf ? share : 1 - share);
		}
	}
	return n;
}

/// Add a clause to the index's conditions, if they can tell rows that fail it.
void
take_clause(Draft *draft, RestrictInfo *clause)
{
	Node *expression = reinterpret_cast<Node *>(clause->clause);
	const bool first_column = wants_value(draft->index, expression);
	const int n_numbers = list_length(draft->read.numbers);
	IndexClause *taken;
	double share;

	if (clause->pseudoconstant || !restriction_is_securely_promotable(clause, draft->index->rel) ||
		(!first_column &&
			((!enabled && !clause_is_key(draft->root, draft->index, expression)) ||
				!clause_read(draft->root, draft->index, expression, &draft->read))))
		return;
	draft->beyond_core = draft->beyond_core || (!first_column && !clause_is_key(draft->root, draft->index, expression));
	taken = makeNode(IndexClause);
	taken->rinfo = clause;
	taken->indexcol = first_column ? 0 : 1;
	// Costs count the tests of codes by these.
	share = clause_selectivity(draft->root, reinterpret_cast<Node *>(clause), 0, JOIN_INNER, nullptr);
	for (double i = tests_of_clause(draft->root, draft->read, n_numbers, share); i > 0.5; i--)
		taken->indexquals = lappend(taken->indexquals, clause);
	draft->clauses = lappend(draft->clauses, taken);
}

/// bitmap: of other indexes; null: none. Its clauses count for the cost alone.
IndexPath *
index_path(const Draft *draft, const BitmapChoice *bitmap)
{
	RelOptInfo *rel = draft->index->rel;
	IndexPath *path = makeNode(IndexPath);

	path->path.pathtype = T_IndexScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.param_info = range_parameters(draft->root, draft->index, draft->outer);
	path->path.pathkeys = draft->pathkeys;
	path->indexinfo = draft->index;
	path->indexclauses = bitmap != nullptr ? lappend(list_copy(draft->clauses), bitmap_clause(bitmap)) : draft->clauses;
	path->indexorderbys = list_make1(draft->order.distance);
	path->indexorderbycols = list_make1_int(0);
	path->indexscandir = ForwardScanDirection;
	cost_index(path, draft->root, range_loops(draft->root, draft->outer), false);
	path->indexclauses = draft->clauses;
	if (draft->order.expression != draft->order.distance) // for those who look for what the query orders by
		path->indexorderbys = lappend(path->indexorderbys, draft->order.expression);
	if (bitmap != nullptr)
		bitmap_add_cost(bitmap, path);
	return path;
}

void
add_filtered_path(const Draft *draft, const BitmapChoice *bitmap)
{
	IndexPath *scan = index_path(draft, bitmap);
	CustomPath *path = makeNode(CustomPath);

	path->path = scan->path;
	path->path.type = T_CustomPath;
	path->path.pathtype = T_CustomScan;
	// Core has seen to the conditions (consider_parallel), not to the ORDER BY, which its plans need not compute here.
	path->path.parallel_safe = draft->index->rel->consider_parallel &&
		is_parallel_safe(draft->root, reinterpret_cast<Node *>(draft->order.distance));
	path->path.total_cost += cpu_operator_cost; // of equal paths core's is taken
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	if (bitmap != nullptr)
		path->custom_paths = list_make1(bitmap_scan_path(draft->root, draft->index->rel, bitmap));
	path->custom_private = list_make4(scan, draft->read.numbers, draft->read.expressions,
		list_make2_int(draft->order.nulls_first, draft->order.nan_first));
	path->methods = &filtered_path_methods;
	add_path(draft->index->rel, &path->path);
}

/// A path that reads only what a bitmap of other indexes has, if there is one for clauses that key columns leave.
void
consider_bitmap(const Draft *draft, List **known_bitmaps)
{
	BitmapChoice bitmap;

	if (!enabled || draft->index->rel->baserestrictinfo == NIL)
		return;
	bitmap = bitmap_choose(draft->root, draft->index, draft->clauses, known_bitmaps);
	if (bitmap.bitmap != nullptr)
		add_filtered_path(draft, &bitmap);
}

/// Paths for conditions that bound a distance, with whatever else key columns decide.
void
consider_ranges(Draft draft, List **known_bitmaps)
{
	ListCell *cell;

	foreach (cell, range_orders(draft.root, draft.index, draft.pathkeys != NIL ? draft.order.distance : nullptr))
	{
		const RangeOrder *range = static_cast<const RangeOrder *>(lfirst(cell));
		Expr *distance = reinterpret_cast<Expr *>(range->distance);

		draft.order = {.distance = distance, .expression = distance};
		draft.pathkeys = NIL;
		draft.outer = range->outer;
		add_filtered_path(&draft, nullptr);
		if (bms_is_empty(range->outer))
			consider_bitmap(&draft, known_bitmaps);
	}
}

/// Set how the index serves the query's order, if it does; true if core may make no path in it.
bool
take_order(Draft *draft)
{
	const bool other_keys = list_length(draft->root->query_pathkeys) > 1;
	bool derived;

	if (draft->root->query_pathkeys == NIL)
		return false;
	draft->order = sort_key_find(draft->root, draft->index);
	// Core sorts by the other keys among rows whose first keys are equal, which it takes to be side by side. From 17 on
	// it has such a path itself, unless the second key is a distance by the same index.
	derived = orders_enabled && (!draft->order.core || other_keys);
	if (draft->order.distance == nullptr || (!draft->order.core && !derived) || (other_keys && draft->order.rough))
		return false;
	draft->pathkeys = list_make1(linitial(draft->root->query_pathkeys));
	return derived;
}

void
consider_index(PlannerInfo *root, IndexOptInfo *index, bool ranges, List **known_bitmaps)
{
	Draft draft = {root, index, {}, NIL, index->rel->lateral_relids, NIL, {NIL, NIL}, false};
	bool derived;
	ListCell *cell;

	if (!is_ours(index) || (index->indpred != NIL && !index->predOK))
		return;
	derived = take_order(&draft);
	foreach (cell, index->indrestrictinfo)
		take_clause(&draft, lfirst_node(RestrictInfo, cell));
	if (ranges)
		consider_ranges(draft, known_bitmaps);
	if (draft.pathkeys == NIL)
		return;
	if (draft.beyond_core || derived)
		add_filtered_path(&draft, nullptr);
	consider_bitmap(&draft, known_bitmaps);
}

void
rel_pathlist(PlannerInfo *root, RelOptInfo *rel, Index relation, RangeTblEntry *entry)
{
	bool ranges = range_search() != RangeSearch::kOff;
	List *known_bitmaps = NIL;
	ListCell *cell;

	if (previous_hook != nullptr)
		previous_hook(root, rel, relation, entry);
	if (entry->rtekind != RTE_RELATION || IS_DUMMY_REL(rel))
		return;
	if (entry->inh)
		range_estimate_parent(root, rel);
	if (entry->inh || entry->tablesample != nullptr || !enable_indexscan)
		return;
	list_estimate(root, rel);
	ranges = ranges && range_estimate(root, rel);
	if (!ranges && (root->query_pathkeys == NIL || !(orders_enabled || (enabled && rel->baserestrictinfo != NIL))))
		return;
	foreach (cell, rel->indexlist)
		consider_index(root, lfirst_node(IndexOptInfo, cell), ranges, &known_bitmaps);
}

} // namespace

void
filtered_path_install()
{
	pg::define_bool("vectorgpu.enable_filtered_scan",
		"Plans may have the scan that decides IN, OR, NOT and bitmaps of other indexes inside an index.", nullptr,
		&enabled, true, PGC_USERSET, GUC_EXPLAIN, nullptr, nullptr, nullptr);
	pg::define_bool("vectorgpu.enable_derived_order",
		"Plans may read an index in an order that follows from its distance: a decreasing function of it, more sort "
		"keys.",
		nullptr, &orders_enabled, true, PGC_USERSET, GUC_EXPLAIN, nullptr, nullptr, nullptr);
	previous_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = rel_pathlist;
}

} // namespace vectorgpu::am
