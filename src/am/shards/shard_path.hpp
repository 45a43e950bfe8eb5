// Paths of single partitions that return their first rows only, in the query's order. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "nodes/pathnodes.h"
}

namespace vectorgpu::am
{

/// LIMIT of each partition.
struct PartitionLimit
{
	Node *count; // bigint, a constant or a parameter
	double rows; // its value, or a guess
};

/// True if the relation is a foreign table of the extension postgres_fdw.
bool is_postgres_fdw(const RelOptInfo *rel);

/// Return the cost of reading that many rows of the path.
Cost cost_of_rows(const Path *path, double rows);

/// Return a path of a foreign table of postgres_fdw whose remote query has ORDER BY and LIMIT, with the targets of the
/// partition; null if the remote server cannot decide all conditions and the order.
Path *foreign_limit_path(PlannerInfo *root, RelOptInfo *partition, const PartitionLimit &limit);

/// Return a path of any other partition under a Limit; null if it has none.
Path *local_limit_path(PlannerInfo *root, RelOptInfo *partition, const PartitionLimit &limit);

} // namespace vectorgpu::am
