// See filtered_plan.hpp.
#include "am/filtered/filtered_plan.hpp"

#include "am/filtered/bitmap_path.hpp"
#include "am/filtered/clause.hpp"
#include "am/filtered/filtered_path.hpp"
#include "am/filtered/filtered_scan.hpp"
#include "am/method/cost.hpp"
#include "am/method/scan_demand.hpp"
#include "am/scan/few_rows.hpp"
#include "pg/ordered_scan.hpp"

extern "C"
{
#include "nodes/makefuncs.h"
#include "nodes/pathnodes.h"
#include "optimizer/paths.h"
}

namespace vectorgpu::am
{

namespace
{

/// The clauses that the executor tests on the rows that the index returns.
List *
filter_of(const IndexPath *scan, List *clauses)
{
	const IndexOptInfo *index = scan->indexinfo;
	List *filter = NIL;
	ListCell *cell;

	foreach (cell, clauses)
	{
		RestrictInfo *clause = lfirst_node(RestrictInfo, cell);
		const bool implied = list_member_ptr(index->rel->baserestrictinfo, clause) &&
			!list_member_ptr(index->indrestrictinfo, clause); // by a partial index's predicate

		if (!clause->pseudoconstant && !implied && !is_redundant_with_indexclauses(clause, scan->indexclauses))
			filter = lappend(filter, clause->clause);
	}
	return filter;
}

/// Of FilteredPlanFlag, those of a path for conditions that bound the distance.
int
range_flags(PlannerInfo *root, const IndexPath *scan, bool has_bitmap)
{
	// Up to 17 the type does not declare the arguments.
	const bool exact = path_is_sparse(scan) ||
		reinterpret_cast<void (*)()>(scan->indexinfo->amcostestimate) ==
			reinterpret_cast<void (*)()>(exact_cost_estimate);
	const bool few_pass = has_bitmap || conditions_share(root, scan) * kFewOfApproximate <= 1;

	if (scan->path.pathkeys != NIL)
		return 0;
	return kPlanUnordered | (!exact && range_may_miss(root, scan) ? kPlanMayMiss : 0) | (few_pass ? kPlanFewPass : 0);
}

/// Set the numbers and conditions of a plan by the index's clauses. flags: of FilteredPlanFlag, others are added.
void
take_clauses(const IndexPath *scan, int flags, List *path_numbers, List **numbers, List **conditions)
{
	int n = 0;
	ListCell *cell;

	*conditions = NIL;
	foreach (cell, scan->indexclauses)
	{
		const IndexClause *clause = lfirst_node(IndexClause, cell);

		*conditions = lappend(*conditions, clause->rinfo->clause);
		flags |= clause->indexcol == 0 ? kPlanWantsValue : 0;
		n += clause->indexcol > 0;
	}
	*numbers = list_make3_int(flags, static_cast<int>(ClauseOp::kAnd), n);
	*numbers = list_concat(*numbers, path_numbers);
}

Plan *
plan_path(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *targets, List *clauses, List *plans)
{
	const IndexPath *scan = static_cast<const IndexPath *>(list_nth(path->custom_private, kPathScan));
	CustomScan *plan = makeNode(CustomScan);
	List *filter = filter_of(scan, clauses);
	List *rechecked = NIL;
	List *numbers;
	List *conditions;

	if (plans != NIL)
	{
		Plan *bitmap;

		filter = bitmap_plan_take(static_cast<Plan *>(linitial(plans)), filter, &bitmap, &rechecked);
		plans = list_make1(bitmap);
	}
	take_clauses(scan, range_flags(root, scan, path->custom_paths != NIL),
		static_cast<List *>(list_nth(path->custom_private, kPathNumbers)), &numbers, &conditions);
	plan->scan.plan.targetlist = targets;
	plan->scan.plan.qual = filter;
	plan->scan.scanrelid = rel->relid;
	plan->flags = path->flags;
	plan->custom_plans = plans;
	plan->custom_exprs =
		list_make4(conditions, scan->indexorderbys, list_nth(path->custom_private, kPathExpressions), rechecked);
	plan->custom_private =
		list_make3(list_make1_oid(scan->indexinfo->indexoid), numbers, list_nth(path->custom_private, kPathOrder));
	plan->methods = &filtered_plan_methods;
	return &plan->scan.plan;
}

} // namespace

const CustomPathMethods filtered_path_methods = {pg::kFilteredScanName, plan_path, nullptr};

} // namespace vectorgpu::am
