// What the planner expects a scan in order of distance to be asked for. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "nodes/pathnodes.h"
}

namespace vectorgpu::am
{

/// The rows that a scan returns until the LIMIT above it has enough. Without a known LIMIT: those of a first batch.
struct ScanDemand
{
	double rows;    // of the index
	double passing; // of its rows, the share that meets conditions on key columns, by the planner's estimate: only
					// these are returned; in (0, 1]
	double within;  // of these, those within the bound that ends the scan; in (0, 1], 1: nothing bounds the distance
	double share;   // of these, those that pass the scan's other conditions; in (0, 1]
	double wanted;  // rows that pass
	double visited; // rows that the scan returns for these, if those that pass are spread evenly
	bool exact;     // the scan of an approximate access method looks at all rows from its first row on
};

/// The demand on a path with ORDER BY. Conditions include those of row security. A join above that drops rows makes the
/// scan return more, one that multiplies them fewer.
ScanDemand scan_demand(PlannerInfo *root, const IndexPath *path);

/// True if a path for a bound of the distance, in any order, may miss rows of an approximate access method
/// (vectorgpu.range_search): no UPDATE, DELETE or MERGE goes by them, and no more than half of the rows are expected
/// within the bound.
bool range_may_miss(PlannerInfo *root, const IndexPath *path);

/// The share of the index's rows that meet the path's conditions on key columns behind the first; 1: there are none.
double conditions_share(PlannerInfo *root, const IndexPath *path);

/// The cost of reading the table for rows that do not pass, as far as core leaves it out. 0 unless another index may
/// find those that pass: core charges that one the same.
Cost visit_cost(PlannerInfo *root, const IndexPath *path, const ScanDemand &demand);

} // namespace vectorgpu::am
