// See bitmap_path.hpp. Core makes the paths: once more, for a copy of the table's description without our indexes and
// without the clauses that need no bitmap, since what it made for the table may have lost against other plans.
#include "am/filtered/bitmap_path.hpp"

#include "am/method/cost.hpp"
#include "am/method/index_access.hpp"
#include "am/scan/few_rows.hpp"
#include "storage/page.hpp"

#include <cmath>

extern "C"
{
#include "access/genam.h"
#include "nodes/makefuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
}

namespace vectorgpu::am
{

namespace
{

// Measured as the constants of method/cost.cpp: finding the rows of a bitmap among those of the index.
constexpr double kStart = 20000;      // x cpu_operator_cost
constexpr double kRowOfBitmap = 5;    // x cpu_tuple_cost: a row of it
constexpr double kPageOfRowIds = 0.3; // x seq_page_cost: a page of row ids
constexpr double kRowLookedUp = 60;   // x cpu_tuple_cost: instead, where the rows are few
// Core takes each of a few rows of the table for a page read from disk; a cost that counts the index as cached would
// win against that where it should not. Of this number of rows, a page each is counted here too; a request to the
// worker takes as long.
constexpr double kFewRows = 75; // x random_page_cost
constexpr double kFewForWorker = 120;
// Rows that follow one another core counts at less than half of the cost of their time: where it does, so does ours.
constexpr double kLessInOrder = 0.5; // of the costs above
// Rows that follow one another save this part of reading them, one by one, from the pages.
constexpr double kRowSaved = 0.8;
constexpr double kMostSaved = 0.75; // of the whole search
constexpr double kRowReturned = 6;  // x cpu_tuple_cost: core's, and kReturnCost

/// The bitmaps that core can make for some clauses of a table.
struct Bitmaps
{
	List *clauses; // RestrictInfo
	List *paths;
};

/// The clauses (RestrictInfo) that are not among `taken`.
List *
others(const List *clauses, const List *taken)
{
	List *rest = NIL;
	ListCell *cell;
	ListCell *other;

	foreach (cell, clauses)
	{
		bool is_taken = false;

		foreach (other, taken)
			is_taken = is_taken || lfirst_node(IndexClause, other)->rinfo == lfirst(cell);
		if (!is_taken)
			rest = lappend(rest, lfirst(cell));
	}
	return rest;
}

/// True if both lists have the same elements, in this order.
bool
equal_pointers(const List *a, const List *b)
{
	ListCell *cell_a;
	ListCell *cell_b;

	if (list_length(a) != list_length(b))
		return false;
	forboth(cell_a, a, cell_b, b) if (lfirst(cell_a) != lfirst(cell_b)) return false;
	return true;
}

/// A copy of the table's description with its other indexes alone, and with the clauses that are not `taken`; those in
/// `clauses` are the table's own; no joins. Null if there are none of either.
RelOptInfo *
copy_table(RelOptInfo *rel, const List *taken, List *clauses)
{
	RelOptInfo *copy = makeNode(RelOptInfo);
	ListCell *cell;

	*copy = *rel;
	copy->pathlist = copy->partial_pathlist = copy->joininfo = copy->indexlist = NIL;
	copy->ppilist = list_copy(rel->ppilist);
	copy->consider_parallel = copy->has_eclass_joins = false;
	copy->cheapest_startup_path = copy->cheapest_total_path = nullptr;
	copy->cheapest_parameterized_paths = NIL;
	copy->baserestrictinfo = clauses;
	foreach (cell, rel->indexlist)
	{
		IndexOptInfo *index;

		if (clauses == NIL || !lfirst_node(IndexOptInfo, cell)->amhasgetbitmap ||
			lfirst_node(IndexOptInfo, cell)->hypothetical || is_ours(lfirst_node(IndexOptInfo, cell)))
			continue;
		index = makeNode(IndexOptInfo);
		*index = *lfirst_node(IndexOptInfo, cell);
		index->rel = copy;
		index->indrestrictinfo = others(index->indrestrictinfo, taken);
		copy->indexlist = lappend(copy->indexlist, index);
	}
	return copy->indexlist != NIL ? copy : nullptr;
}

/// The bitmap that the path makes, or could make; null: none.
Path *
bitmap_of(Path *path)
{
	if (path->param_info != nullptr)
		return nullptr;
	if (IsA(path, BitmapHeapPath))
		return reinterpret_cast<BitmapHeapPath *>(path)->bitmapqual;
	if (IsA(path, IndexPath) && reinterpret_cast<IndexPath *>(path)->indexclauses != NIL &&
		reinterpret_cast<IndexPath *>(path)->indexorderbys == NIL)
		return path;
	return nullptr;
}

/// The bitmaps for the clauses of the table that are not `taken`. known: as for bitmap_choose.
const List *
bitmaps_for(PlannerInfo *root, RelOptInfo *rel, const List *taken, List **known)
{
	List *clauses = others(rel->baserestrictinfo, taken);
	RelOptInfo *copy;
	Bitmaps *found;
	ListCell *cell;

	foreach (cell, *known)
		if (equal_pointers(static_cast<const Bitmaps *>(lfirst(cell))->clauses, clauses))
			return static_cast<const Bitmaps *>(lfirst(cell))->paths;
	found = static_cast<Bitmaps *>(palloc0(sizeof(Bitmaps)));
	found->clauses = clauses;
	*known = lappend(*known, found);
	copy = copy_table(rel, taken, clauses);
	if (copy == nullptr)
		return NIL;
	create_index_paths(root, copy);
	foreach (cell, copy->pathlist)
	{
		Path *bitmap = bitmap_of(static_cast<Path *>(lfirst(cell)));

		if (bitmap != nullptr)
			found->paths = lappend(found->paths, bitmap);
	}
	return found->paths;
}

/// The share of a bitmap's rows that follow one another in the table, as far as core's cost of an index scan tells:
/// between that of pages at random and that of neighbours it goes by the square of the correlation.
double
share_in_order(PlannerInfo *root, const Path *bitmap)
{
	const IndexPath *path = reinterpret_cast<const IndexPath *>(bitmap);
	const RelOptInfo *rel = bitmap->parent;
	double rows;
	double pages;
	Cost at_random;
	Cost in_order;
	Cost reading;

	if (!IsA(bitmap, IndexPath) || bitmap->pathtype != T_IndexScan)
		return 0;
	rows = clamp_row_est(path->indexselectivity * rel->tuples);
	pages = index_pages_fetched(rows, rel->pages, path->indexinfo->pages, root);
	at_random = pages * random_page_cost;
	in_order = random_page_cost + std::ceil(path->indexselectivity * rel->pages) * seq_page_cost;
	reading = bitmap->total_cost - path->indextotalcost - rows * cpu_tuple_cost;
	return at_random <= in_order ? 0 : Min(Max((at_random - reading) / (at_random - in_order), 0.0), 1.0);
}

/// The bitmap with its cost for an index of n_rows rows.
BitmapChoice
with_cost(PlannerInfo *root, Path *bitmap, double n_rows)
{
	const double in_order = share_in_order(root, bitmap);
	BitmapChoice choice = {bitmap, 0, 0, in_order};
	double rows;
	Cost finding;

	cost_bitmap_tree_node(bitmap, &choice.cost, &choice.selectivity);
	rows = n_rows * choice.selectivity;
	finding = cpu_operator_cost * kStart + rows * cpu_tuple_cost * kRowOfBitmap +
		Min(std::ceil(n_rows * sizeof(RowId) / kPayloadBytes) * seq_page_cost * kPageOfRowIds,
			rows * cpu_tuple_cost * kRowLookedUp);
	choice.cost += finding * (1 - kLessInOrder * in_order);
	return choice;
}

} // namespace

bool
is_ours(const IndexOptInfo *info)
{
	Relation index;
	bool ours;

	if (info->hypothetical || !info->amcanorderbyop)
		return false;
	index = index_open(info->indexoid, NoLock); // the planner holds a lock
	ours = is_vectorgpu_index(index);
	index_close(index, NoLock);
	return ours;
}

BitmapChoice
bitmap_choose(PlannerInfo *root, IndexOptInfo *index, const List *taken, List **known)
{
	RelOptInfo *rel = index->rel;
	const double n_rows = Max(index->tuples, 1.0);
	BitmapChoice best = {};
	Cost best_cost = 0;
	ListCell *cell;

	if (!enable_bitmapscan || rel->lateral_relids != nullptr)
		return best;
	foreach (cell, bitmaps_for(root, rel, taken, known))
	{
		const BitmapChoice choice = with_cost(root, static_cast<Path *>(lfirst(cell)), n_rows);
		const Cost cost = choice.cost + n_rows * choice.selectivity * few_row_cost(index, false);

		if (choice.selectivity * kFewOfApproximate <= 1 && (best.bitmap == nullptr || cost < best_cost))
		{
			best = choice;
			best_cost = cost;
		}
	}
	return best;
}

IndexClause *
bitmap_clause(const BitmapChoice *choice)
{
	RestrictInfo *restriction = makeNode(RestrictInfo);
	IndexClause *clause = makeNode(IndexClause);

	restriction->clause = reinterpret_cast<Expr *>(makeBoolConst(true, false));
	restriction->norm_selec = restriction->outer_selec = choice->selectivity;
	clause->rinfo = restriction;
	clause->indexcol = 1; // behind the first; without indexquals, so that no codes are tested
	return clause;
}

void
bitmap_add_cost(const BitmapChoice *choice, IndexPath *path)
{
	const RelOptInfo *rel = path->path.parent;
	const double rows = choice->selectivity * rel->tuples;
	const bool by_worker = rows <= kMostGivenRows && worker_is_asked(path);
	const Cost search = path->path.startup_cost;
	const Cost read = path->indexselectivity * rel->tuples * few_row_cost(path->indexinfo, false);
	// The worker reads none from the pages; and where a pass over all rows costs less, none are read one by one.
	const bool one_by_one = !by_worker && search >= read;
	const Cost saved = one_by_one ? Min(choice->in_order * kRowSaved * read, search * kMostSaved) : 0;
	const Cost as_read = Min(rows, by_worker ? kFewForWorker : kFewRows) * random_page_cost * (1 - choice->in_order);
	// Rows that follow one another are on few pages; an index in order is taken to read one for each row.
	const Cost on_few_pages = choice->selectivity * rel->pages * seq_page_cost + rows * cpu_tuple_cost * kRowReturned;
	const Cost run = path->path.total_cost - search;

	path->path.startup_cost = search + choice->cost + as_read - saved;
	path->path.total_cost = path->path.startup_cost + run - choice->in_order * Max(run - on_few_pages, 0.0);
}

Path *
bitmap_scan_path(PlannerInfo *root, RelOptInfo *rel, const BitmapChoice *choice)
{
	return &create_bitmap_heap_path(root, rel, choice->bitmap, nullptr, 1, 0)->path;
}

List *
bitmap_plan_take(Plan *plan, List *clauses, Plan **bitmap, List **rechecked)
{
	if (IsA(plan, Result)) // with a condition that is the same for all rows; ours has it, too
		plan = outerPlan(plan);
	*bitmap = outerPlan(plan);
	*rechecked = castNode(BitmapHeapScan, plan)->bitmapqualorig;
	return list_intersection(clauses, plan->qual);
}

} // namespace vectorgpu::am
