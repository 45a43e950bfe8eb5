// Plans of the custom scan `Vectorgpu Filtered Scan`, made of its paths. PG dialect. Used by the files of this folder.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "nodes/extensible.h"
#include "nodes/plannodes.h"
}

namespace vectorgpu::am
{

extern const CustomPathMethods filtered_path_methods;

/// The private numbers of a plan.
enum FilteredPlanPart
{
	kPlanIndex,      // OIDs: of the index
	kPlanNumbers,    // integers: of FilteredPlanFlag, or'ed; then as in clause.hpp
	kPlanOrderFlags, // integers: SortKey::nulls_first, SortKey::nan_first
};

enum FilteredPlanFlag
{
	kPlanWantsValue = 1, // rows without a value to order by are not wanted
	kPlanUnordered = 2,  // the query does not ask for the order: it serves conditions that bound the distance
	kPlanMayMiss = 4,    // and the access method may miss some of these rows: for EXPLAIN
	kPlanFewPass = 8,    // and few rows are expected to meet the other conditions
};

/// The expressions of a plan, each a list.
enum FilteredPlanExpressions
{
	kPlanConditions,  // the clauses that the index decides, as the query has them
	kPlanOrder,       // the distance, an operator with the column on its left, then the ORDER BY if it is another
	kPlanExpressions, // the other sides of conditions, as in clause.hpp
	kPlanRechecked,   // the clauses that the bitmap of other indexes decides, as the query has them
};

inline List *
plan_expressions(const CustomScan *plan, FilteredPlanExpressions which)
{
	return static_cast<List *>(list_nth(plan->custom_exprs, which));
}

inline Oid
plan_index(const CustomScan *plan)
{
	return linitial_oid(static_cast<List *>(list_nth(plan->custom_private, kPlanIndex)));
}

} // namespace vectorgpu::am
