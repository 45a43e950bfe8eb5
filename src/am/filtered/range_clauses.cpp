// See range_clauses.hpp. Core's planner has computed the table's number of rows before any hook is called, by a third
// for each bound: what follows from that is computed again. The selectivities stay with the conditions, so that joins
// count by them.
#include "am/filtered/range_clauses.hpp"

#include "am/filtered/bitmap_path.hpp"
#include "am/filtered/distance_sample.hpp"
#include "am/filtered/table_size.hpp"
#include "am/method/distance_clause.hpp"

#include <cstring>

extern "C"
{
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/restrictinfo.h"
#include "utils/selfuncs.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr double kLeastShare = 1e-9;

/// The indexes of gpumatch order by other things than distances of vectors.
bool
has_vectors(const IndexOptInfo *index)
{
	return is_ours(index) && (index->indpred == NIL || index->predOK) &&
		strcmp(get_am_name(index->relam), "gpumatch") != 0;
}

/// The value of an expression if it is a constant by now; null: it is not. Stable functions are not called to know it:
/// they may cost much, or tell the user of rows that only the query may read, and partitions would call them anew.
const Const *
known_value(const void *expression)
{
	return IsA(expression, Const) ? static_cast<const Const *>(expression) : nullptr;
}

/// The share of the rows that meet a condition; negative: it is not known.
double
share_of(PlannerInfo *root, const IndexOptInfo *index, const DistanceClause &clause)
{
	const bool upper = distance_clause_is_upper(clause);
	const Const *limit = known_value(clause.limit);
	const Const *query = known_value(lsecond(clause.distance->args));
	DistanceRange range = {clause.distance->opfuncid, clause.distance->inputcollid,
		query != nullptr && !query->constisnull, query != nullptr ? query->constvalue : static_cast<Datum>(0), 0,
		clause.strategy == BTLessEqualStrategyNumber || clause.strategy == BTGreaterStrategyNumber};
	double share;

	if (clause.strategy == BTEqualStrategyNumber)
		return -1;
	// A plan for any bound: who searches a range wants few rows.
	if (limit == nullptr || limit->constisnull)
		return upper ? DEFAULT_RANGE_INEQ_SEL : -1;
	range.limit = limit->consttype == FLOAT4OID ? static_cast<double>(DatumGetFloat4(limit->constvalue))
												: DatumGetFloat8(limit->constvalue);
	if (!distance_sample_share(root, index, range, &share))
		return -1;
	return Max(upper ? share : 1 - share, kLeastShare);
}

/// True if the condition is that of a left join with the table on its right, whose rows core counts by another number.
bool
is_of_left_join(const PlannerInfo *root, const RelOptInfo *rel, const RestrictInfo *condition)
{
	ListCell *cell;

	foreach (cell, root->join_info_list)
	{
		const SpecialJoinInfo *join = lfirst_node(SpecialJoinInfo, cell);

		if (join->jointype == JOIN_LEFT && bms_is_subset(rel->relids, join->syn_righthand) &&
			bms_overlap(condition->clause_relids, join->syn_lefthand))
			return true;
	}
	return false;
}

/// Estimate the selectivities of those conditions that are on a distance. True if one is. *changed: one was estimated.
bool
estimate(PlannerInfo *root, RelOptInfo *rel, const List *conditions, bool *changed)
{
	bool found = false;
	ListCell *cell;

	*changed = false;
	foreach (cell, conditions)
	{
		RestrictInfo *condition = lfirst_node(RestrictInfo, cell);
		ListCell *other;

		foreach (other, rel->indexlist)
		{
			IndexOptInfo *index = lfirst_node(IndexOptInfo, other);
			DistanceClause clause;
			double share;

			if (!distance_clause_read(root, index, condition->clause, &clause) || !has_vectors(index))
				continue;
			// The sample may have rows that a policy hides.
			share = restriction_is_securely_promotable(condition, rel) ? share_of(root, index, clause) : -1;
			if (share >= 0)
				condition->norm_selec = share;
			if (share >= 0 && is_of_left_join(root, rel, condition))
				condition->outer_selec = share;
			*changed = *changed || share >= 0;
			found = true;
			break;
		}
	}
	return found;
}

} // namespace

bool
range_estimate(PlannerInfo *root, RelOptInfo *rel)
{
	bool changed;
	const bool joins = estimate(root, rel, rel->joininfo, &changed);
	const bool bounds = estimate(root, rel, rel->baserestrictinfo, &changed);

	if (!changed)
		return joins || bounds;
	size_anew(root, rel);
	return true;
}

void
range_estimate_parent(PlannerInfo *root, RelOptInfo *rel)
{
	double rows = 0;
	ListCell *cell;

	foreach (cell, root->append_rel_list)
	{
		const AppendRelInfo *child = lfirst_node(AppendRelInfo, cell);

		if (child->parent_relid == rel->relid && !IS_DUMMY_REL(root->simple_rel_array[child->child_relid]))
			rows += root->simple_rel_array[child->child_relid]->rows;
	}
	rel->rows = Max(rows, 1.0);
}

namespace
{

/// Add the distance that a condition bounds from above, unless it is there.
void
add_order(PlannerInfo *root, IndexOptInfo *index, RestrictInfo *condition, const Expr *known, List **orders)
{
	DistanceClause clause;
	RangeOrder *order;
	ListCell *cell;
	Relids outer;

	if (!distance_clause_read(root, index, condition->clause, &clause) || !distance_clause_is_upper(clause))
		return;
	outer = bms_union(condition->clause_relids, index->rel->lateral_relids);
	outer = bms_del_member(outer, static_cast<int>(index->rel->relid));
	if (bms_is_empty(outer) && known != nullptr && equal(known, clause.distance))
		return;
	foreach (cell, *orders)
	{
		order = static_cast<RangeOrder *>(lfirst(cell));
		if (equal(order->distance, clause.distance) && bms_equal(order->outer, outer))
			return;
	}
	order = static_cast<RangeOrder *>(palloc(sizeof(RangeOrder)));
	*order = {clause.distance, outer};
	*orders = lappend(*orders, order);
}

} // namespace

List *
range_orders(PlannerInfo *root, IndexOptInfo *index, const Expr *known)
{
	List *orders = NIL;
	ListCell *cell;

	if (!has_vectors(index))
		return NIL;
	foreach (cell, index->indrestrictinfo)
		add_order(root, index, lfirst_node(RestrictInfo, cell), known, &orders);
	// A join of partitions with partitions would have to put one partition's columns for another's into the paths.
	if (index->rel->reloptkind != RELOPT_BASEREL && enable_partitionwise_join)
		return orders;
	foreach (cell, index->rel->joininfo)
		if (join_clause_is_movable_to(lfirst_node(RestrictInfo, cell), index->rel))
			add_order(root, index, lfirst_node(RestrictInfo, cell), known, &orders);
	return orders;
}

double
range_loops(PlannerInfo *root, Relids outer)
{
	double loops = 0;

	for (int i = -1; (i = bms_next_member(outer, i)) >= 0;)
	{
		const RelOptInfo *rel = i < root->simple_rel_array_size ? root->simple_rel_array[i] : nullptr;

		if (rel != nullptr && rel->rows > 0)
			loops = loops > 0 ? Min(loops, rel->rows) : rel->rows;
	}
	return Max(loops, 1.0);
}

ParamPathInfo *
range_parameters(PlannerInfo *root, IndexOptInfo *index, Relids outer)
{
	ParamPathInfo *parameters = get_baserel_parampathinfo(root, index->rel, outer);
	List *others = NIL;
	double share = 1;
	ListCell *cell;

	if (parameters == nullptr)
		return nullptr;
	foreach (cell, parameters->ppi_clauses)
	{
		RestrictInfo *condition = lfirst_node(RestrictInfo, cell);
		DistanceClause clause;

		if (condition->norm_selec >= 0 && distance_clause_read(root, index, condition->clause, &clause))
			share *= condition->norm_selec;
		else
			others = lappend(others, condition);
	}
	share *= clauselist_selectivity(root, others, static_cast<int>(index->rel->relid), JOIN_INNER, nullptr);
	parameters->ppi_rows = clamp_row_est(index->rel->rows * share);
	return parameters;
}

} // namespace vectorgpu::am
