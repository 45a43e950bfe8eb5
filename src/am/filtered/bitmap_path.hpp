// Bitmaps of a table's other indexes, for the planner: the rows that meet clauses which the key columns of an index of
// ours do not decide. PG dialect. Used by the files of this folder.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"
}

namespace vectorgpu::am
{

struct BitmapChoice
{
	Path *bitmap; // what a bitmap heap scan reads; null: there is none, or more than few rows meet its clauses
	Cost cost;    // of making it, and of finding its rows in the index
	Selectivity selectivity;
	double in_order; // the share of its rows that follow one another in the table
};

/// Whether an index that the planner looks at is one of ours, and exists.
bool is_ours(const IndexOptInfo *info);

/// The best bitmap for the clauses of the index's table that are not among `taken` (IndexClause). known: what calls for
/// other indexes of the same table have collected; NIL for the first.
BitmapChoice bitmap_choose(PlannerInfo *root, IndexOptInfo *index, const List *taken, List **known);

/// A stand-in for the bitmap's clauses, from which costs take their selectivity.
IndexClause *bitmap_clause(const BitmapChoice *choice);

/// Add the bitmap's cost to a path of the index that has bitmap_clause() among its clauses, and take out what core and
/// the access method do not know of its rows.
void bitmap_add_cost(const BitmapChoice *choice, IndexPath *path);

/// A path of a scan of the table by the bitmap, from whose plan that of the bitmap is taken.
Path *bitmap_scan_path(PlannerInfo *root, RelOptInfo *rel, const BitmapChoice *choice);

/// From the plan of that path: take the bitmap's plan and the clauses that the rows of its lossy pages have to meet.
/// Returns those of `clauses` that the bitmap does not decide.
List *bitmap_plan_take(Plan *plan, List *clauses, Plan **bitmap, List **rechecked);

} // namespace vectorgpu::am
