// Conditions that compare an index's distance with a value, such as v <-> q < 0.5, as the planner sees them. PG
// dialect. The executor's side is pg/order_bound.hpp.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "access/stratnum.h"
#include "nodes/pathnodes.h"
}

namespace vectorgpu::am
{

/// distance <strategy> limit.
struct DistanceClause
{
	OpExpr *distance;        // by which the index orders, its column on the left
	Expr *limit;             // float8 or float4; the same for all rows of a scan, as the distance's right side is
	StrategyNumber strategy; // of a btree
};

/// True if an access method of ours can return rows in order of the operator's result.
bool is_distance_operator(Oid opno);

/// The expression, if it is an operator by which the index orders its first column, with the column on the left: a
/// changed copy where it was on the right. Null for any other. The other side may be anything.
OpExpr *index_distance(IndexOptInfo *index, Expr *expression);

/// Read a condition. False: it is another one. Values may come from other tables, as in a join.
bool distance_clause_read(PlannerInfo *root, IndexOptInfo *index, Expr *condition, DistanceClause *clause);

/// True if the condition bounds the distance from above.
bool distance_clause_is_upper(const DistanceClause &clause);

/// The share of the table's rows that conditions leave below an upper bound of the distance by which the path is
/// ordered: the scan ends there. 1: there is no bound.
double share_within_bound(PlannerInfo *root, const IndexPath *path);

} // namespace vectorgpu::am
