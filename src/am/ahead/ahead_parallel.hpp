// Loops over searches in parallel workers, each of which reads its own outer rows ahead. PG dialect. Used by
// ahead_path.cpp.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "nodes/pathnodes.h"
}

namespace vectorgpu::am
{

/// Core runs no sub-query that has a LIMIT, or that reads columns of other tables, in parallel workers. True if a loop
/// over a search in such a sub-query may run there all the same: each outer row is searched for by one process, and
/// nothing else forbids it. inner_path: the loop's inner side, with a search below (ahead_searches).
bool ahead_may_be_parallel(PlannerInfo *root, const RelOptInfo *join, const RelOptInfo *outer, const RelOptInfo *inner,
	const Path *inner_path, const List *conditions);

/// Make that loop, of one of the outer side's partial paths.
NestPath *ahead_partial_loop(
	PlannerInfo *root, RelOptInfo *join, JoinType type, Path *outer_path, Path *inner_path, JoinPathExtraData *extra);

} // namespace vectorgpu::am
