// See scan_demand.hpp.
#include "am/method/scan_demand.hpp"

#include "am/method/distance_clause.hpp"
#include "am/scan/scan_settings.hpp"

#include <cmath>

extern "C"
{
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "utils/spccache.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr double kFirstBatch = 100; // rows without a known LIMIT (batch_plan.cpp)
constexpr double kMostOfTable = 2;  // more than this part of the rows makes a scan exact (batch_plan.cpp)
constexpr double kLeastShare = 1e-6;
constexpr double kLeastJoined = 1e-6;
// Rows that pass a condition may all lie far from the query. The planner knows nothing of that, and a scan that meets
// it reads most of the table. One of this many scans is expected to.
constexpr double kScansPerFar = 50;

/// The outer join or semijoin that brings `relid` to the rows on its other side; null: an inner join.
SpecialJoinInfo *
special_join_of(const PlannerInfo *root, int relid)
{
	ListCell *cell;

	foreach (cell, root->join_info_list)
	{
		SpecialJoinInfo *join = lfirst_node(SpecialJoinInfo, cell);

		if (bms_is_member(relid, join->syn_righthand))
			return join;
	}
	return nullptr;
}

/// The conditions between `joined` and one more relation.
List *
conditions_between(PlannerInfo *root, Relids joined, RelOptInfo *other)
{
	const Relids both = bms_union(joined, other->relids);
	List *conditions = pg::implied_join_equalities(root, both, joined, other);
	ListCell *cell;

	foreach (cell, other->joininfo)
	{
		RestrictInfo *condition = lfirst_node(RestrictInfo, cell);

		if (bms_is_subset(condition->required_relids, both))
			conditions = lappend(conditions, condition);
	}
	return conditions;
}

/// The rows that a join with `other` makes of a row of `joined`.
double
rows_joined(PlannerInfo *root, Relids joined, RelOptInfo *other)
{
	const SpecialJoinInfo *special = special_join_of(root, static_cast<int>(other->relid));
	SpecialJoinInfo join = {};
	double share;

	if (special != nullptr && special->jointype == JOIN_FULL)
		return 1;
	join.type = T_SpecialJoinInfo;
	join.min_lefthand = join.syn_lefthand = joined;
	join.min_righthand = join.syn_righthand = other->relids;
	join.jointype = special != nullptr ? special->jointype : JOIN_INNER;
	share = clauselist_selectivity(root, conditions_between(root, joined, other), 0, join.jointype, &join);
	switch (join.jointype)
	{
		case JOIN_SEMI:
			return share;
		case JOIN_ANTI:
			return 1 - share;
		case JOIN_LEFT:
			return Max(share * other->rows, 1.0);
		default:
			return share * other->rows;
	}
}

/// The rows of the query's joins for a row of the scan's relation.
double
rows_of_joins(PlannerInfo *root, const RelOptInfo *rel)
{
	Relids joined = rel->relids;
	double rows = 1;

	// In the nullable side of an outer join, or inside EXISTS: what the LIMIT counts are other rows.
	if (special_join_of(root, static_cast<int>(rel->relid)) != nullptr)
		return 1;
	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		RelOptInfo *other = root->simple_rel_array[i];

		if (other == nullptr || other == rel || other->reloptkind != RELOPT_BASEREL || other->rows <= 0)
			continue;
		rows *= rows_joined(root, joined, other);
		joined = bms_union(joined, other->relids);
	}
	return Max(rows, kLeastJoined);
}

/// True if the condition, or an operand of it, is one of the index's key columns from `first` on.
bool
serves(IndexOptInfo *index, int first, const Node *clause)
{
	const List *operands = NIL;
	ListCell *cell;

	if (IsA(clause, OpExpr))
		operands = reinterpret_cast<const OpExpr *>(clause)->args;
	else if (IsA(clause, ScalarArrayOpExpr))
		operands = reinterpret_cast<const ScalarArrayOpExpr *>(clause)->args;
	else if (IsA(clause, NullTest))
		operands = list_make1(reinterpret_cast<const NullTest *>(clause)->arg);
	else
		operands = list_make1(const_cast<Node *>(clause));
	foreach (cell, operands)
		for (int column = first; column < index->nkeycolumns; column++)
			if (match_index_to_operand(static_cast<Node *>(lfirst(cell)), column, index))
				return true;
	return false;
}

/// True if indexes other than the path's may find the rows that meet the condition: of OR, those of each part. One of
/// ours finds them by its key columns; so does the path's own (own_keys) where core hands it no such condition.
bool
another_index_serves(const IndexPath *path, const Node *clause, bool own_keys)
{
	ListCell *cell;

	check_stack_depth();
	if (IsA(clause, BoolExpr) && reinterpret_cast<const BoolExpr *>(clause)->boolop != NOT_EXPR)
	{
		const BoolExpr *joint = reinterpret_cast<const BoolExpr *>(clause);
		const bool any = joint->boolop == AND_EXPR;

		foreach (cell, joint->args)
			if (another_index_serves(path, static_cast<const Node *>(lfirst(cell)), own_keys) == any)
				return any;
		return !any;
	}
	if (own_keys && serves(path->indexinfo, 1, clause))
		return true;
	foreach (cell, path->indexinfo->rel->indexlist)
		if (lfirst(cell) != path->indexinfo && lfirst_node(IndexOptInfo, cell)->amhasgetbitmap &&
			serves(lfirst_node(IndexOptInfo, cell), 0, clause))
			return true;
	return false;
}

/// The same of any of the query's conditions.
bool
another_index_serves(const IndexPath *path)
{
	ListCell *cell;
	ListCell *taken;

	foreach (cell, path->indexinfo->rel->baserestrictinfo)
	{
		const RestrictInfo *condition = lfirst_node(RestrictInfo, cell);
		bool own_keys = !IsA(condition->clause, OpExpr) && !IsA(condition->clause, NullTest); // core hands over those

		foreach (taken, path->indexclauses)
			own_keys = own_keys && lfirst_node(IndexClause, taken)->rinfo != condition;
		if (another_index_serves(path, reinterpret_cast<const Node *>(condition->clause), own_keys))
			return true;
	}
	return false;
}

/// True if no LIMIT ends the query's scans early.
bool
every_row_wanted(const PlannerInfo *root)
{
	for (; root != nullptr; root = root->parent_root)
	{
		const Node *limit = root->parse->limitCount;

		if (limit != nullptr && !(IsA(limit, Const) && reinterpret_cast<const Const *>(limit)->constisnull))
			return false;
		// A parent that reads all rows before it returns one does not end early by its own LIMIT either.
		if (root->parent_root != nullptr &&
			(root->parent_root->parse->hasAggs || root->parent_root->parse->groupClause != NIL ||
				root->parent_root->parse->sortClause != NIL))
			return true;
	}
	return true;
}

/// True if rows of a table are changed by what the query finds: a row missed would stay as it is.
bool
rows_are_changed(const PlannerInfo *root)
{
	for (; root != nullptr; root = root->parent_root)
		if (root->parse->hasModifyingCTE ||
			(root->parse->commandType != CMD_SELECT && root->parse->commandType != CMD_INSERT))
			return true;
	return false;
}

bool
may_miss(const PlannerInfo *root, double within)
{
	return within * kMostOfTable <= 1 && !rows_are_changed(root);
}

/// As batch_plan_start decides.
bool
is_exact(const PlannerInfo *root, const IndexPath *path, double rows, double within)
{
	if (path->path.pathkeys == NIL || every_row_wanted(root))
		return within < 1 ? range_search() != RangeSearch::kApproximate || !may_miss(root, within)
						  : scan_drops_late_rows();
	return scan_drops_late_rows() && root->limit_tuples * kMostOfTable > rows;
}

} // namespace

ScanDemand
scan_demand(PlannerInfo *root, const IndexPath *path)
{
	const RelOptInfo *rel = path->indexinfo->rel;
	double most; // rows that the scan can return
	ScanDemand demand;

	demand.rows = Max(path->indexinfo->tuples, 1.0);
	demand.passing = conditions_share(root, path);
	demand.within = Max(share_within_bound(root, path), kLeastShare);
	demand.exact = is_exact(root, path, demand.rows, demand.within);
	most = demand.rows * demand.passing * demand.within;
	// Core rounds its rows.
	demand.share = path->path.rows + 0.5 >= most ? 1 : Max(path->path.rows / most, kLeastShare);
	if (root->limit_tuples <= 0)
	{
		demand.visited = Max(demand.within < 1 ? most : Min(kFirstBatch, most), 1.0);
		demand.wanted = demand.visited * demand.share;
		return demand;
	}
	demand.wanted = root->limit_tuples;
	if (rel->reloptkind == RELOPT_BASEREL)
		demand.wanted /= rows_of_joins(root, rel);
	demand.wanted = Max(Min(demand.wanted, most * demand.share), 1.0);
	demand.visited = Min(demand.wanted / demand.share, Max(most, 1.0));
	return demand;
}

bool
range_may_miss(PlannerInfo *root, const IndexPath *path)
{
	return may_miss(root, share_within_bound(root, path));
}

double
conditions_share(PlannerInfo *root, const IndexPath *path)
{
	const int relid = static_cast<int>(path->indexinfo->rel->relid);
	List *clauses = NIL;
	ListCell *cell;

	foreach (cell, path->indexclauses)
	{
		IndexClause *clause = lfirst_node(IndexClause, cell);

		if (clause->indexcol > 0)
			clauses = lappend(clauses, clause->rinfo);
	}
	return clauses == NIL
		? 1
		: Min(Max(clauselist_selectivity(root, clauses, relid, JOIN_INNER, nullptr), kLeastShare), 1.0);
}

Cost
visit_cost(PlannerInfo *root, const IndexPath *path, const ScanDemand &demand)
{
	const RelOptInfo *rel = path->indexinfo->rel;
	const double index_pages = static_cast<double>(path->indexinfo->pages);
	double random_page;
	double seq_page;
	double page_cost;
	double all;
	double missing;
	const auto pages = [=](double rows)
	{ return rows < 1 ? rows : index_pages_fetched(rows, rel->pages, index_pages, root); };

	if (demand.share >= 1 || rel->pages == 0 || !another_index_serves(path))
		return 0;
	get_tablespace_page_costs(rel->reltablespace, &random_page, &seq_page);
	// The more of the table is read, the less a page costs, as core has it for the other index's bitmap.
	page_cost = random_page - (random_page - seq_page) * std::sqrt(Min(pages(demand.visited) / rel->pages, 1.0));
	all = pages(demand.rows);
	// Core counts each page once for all rows, and takes the share of the rows returned of that. Of a few rows out of
	// order each is on a page of its own.
	missing = Max(
		pages(demand.visited) - pages(demand.wanted) - all * (1 - demand.share) * demand.visited / demand.rows, 0.0);
	return page_cost * missing + random_page * all * (1 - demand.share) / kScansPerFar;
}

} // namespace vectorgpu::am
