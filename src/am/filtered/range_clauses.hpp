// Range search for the planner: conditions such as v <-> q < 0.5 without an ORDER BY of that distance. How many rows
// meet them, and by which distances an index may be read for them. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "nodes/pathnodes.h"
}

namespace vectorgpu::am
{

/// Estimate how many rows the table's conditions on distances leave, and those that join it by a distance. Sets the
/// number of rows of the table and of the paths that it has, and the costs of the paths of our indexes. False: there
/// are no such conditions.
bool range_estimate(PlannerInfo *root, RelOptInfo *rel);

/// Set the number of rows of a table by those of its partitions.
void range_estimate_parent(PlannerInfo *root, RelOptInfo *rel);

/// A distance by which an index may be read, since conditions bound it.
struct RangeOrder
{
	OpExpr *distance; // the column on the left
	Relids outer;     // the tables that the query vector or the bound comes from; null: none
};

/// The distances of an index (RangeOrder). known: the order that paths of the index have anyway; null: none.
List *range_orders(PlannerInfo *root, IndexOptInfo *index, const Expr *known);

/// The expected number of starts of a path with these outer tables.
double range_loops(PlannerInfo *root, Relids outer);

/// The parameters of such a path, their number of rows by the estimates of range_estimate(). Null: it has none.
ParamPathInfo *range_parameters(PlannerInfo *root, IndexOptInfo *index, Relids outer);

} // namespace vectorgpu::am
