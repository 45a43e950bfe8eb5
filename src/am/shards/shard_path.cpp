// See shard_path.hpp. What this file knows of postgres_fdw: it makes a path in the query's order where the remote
// server can compute it; the private list of a path begins with two booleans, and the second one adds the query's
// LIMIT; and a plan's conditions that are not sent are its qual.
#include "am/shards/shard_path.hpp"

extern "C"
{
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/dependency.h"
#include "commands/extension.h"
#include "foreign/fdwapi.h"
#include "foreign/foreign.h"
#include "nodes/makefuncs.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "parser/parsetree.h"
}

namespace vectorgpu::am
{

namespace
{

/// The private list of a limited path. postgres_fdw reads the first two.
enum LimitedPathPart
{
	kSortsUpperRelation,
	kHasLimit,
	kCount, // LIMIT of the remote query
};

/// Return the path below a projection.
Path *
below_projection(Path *path)
{
	while (IsA(path, ProjectionPath))
		path = reinterpret_cast<ProjectionPath *>(path)->subpath;
	return path;
}

/// Plan a foreign scan as postgres_fdw does, which deparses the LIMIT of the query at hand: for a limited path that of
/// its private list, in which the query's OFFSET is included. In place of postgres_fdw's function for relations with
/// such a path, while they are planned.
ForeignScan *
plan_foreign_scan(
	PlannerInfo *root, RelOptInfo *rel, Oid table, ForeignPath *path, List *targets, List *clauses, Plan *outer)
{
	// One for all relations of postgres_fdw.
	const FdwRoutine *routine = GetFdwRoutineByServerId(rel->serverid);
	PlannerInfo limited_root = *root;
	Query limited_query = *root->parse;

	if (list_length(path->fdw_private) > kCount)
	{
		limited_query.limitOffset = nullptr;
		limited_query.limitCount = static_cast<Node *>(list_nth(path->fdw_private, kCount));
		limited_root.parse = &limited_query;
		root = &limited_root;
	}
	return routine->GetForeignPlan(root, rel, table, path, targets, clauses, outer);
}

/// True if the remote server decides all conditions. Only postgres_fdw knows, so this asks it for a plan.
bool
decides_all(PlannerInfo *root, RelOptInfo *rel, ForeignPath *path)
{
	return rel->fdwroutine
			   ->GetForeignPlan(
				   root, rel, planner_rt_fetch(rel->relid, root)->relid, path, NIL, rel->baserestrictinfo, nullptr)
			   ->scan.plan.qual == NIL;
}

/// Return the foreign scan in the query's order, perhaps with a projection; or null.
Path *
ordered_foreign_path(PlannerInfo *root, const RelOptInfo *rel)
{
	ListCell *cell;

	foreach (cell, rel->pathlist)
	{
		Path *path = static_cast<Path *>(lfirst(cell));
		const ForeignPath *scan = reinterpret_cast<const ForeignPath *>(below_projection(path));

		if (IsA(scan, ForeignPath) && scan->fdw_private == NIL && scan->fdw_outerpath == nullptr &&
			PATH_REQ_OUTER(path) == nullptr && pathkeys_contained_in(root->sort_pathkeys, path->pathkeys))
			return path;
	}
	return nullptr;
}

/// Return the path's rows in the query's order.
Path *
in_order(PlannerInfo *root, RelOptInfo *rel, Path *path, double rows)
{
	int presorted;

	if (pathkeys_count_contained_in(root->sort_pathkeys, path->pathkeys, &presorted))
		return path;
	if (presorted > 0 && enable_incremental_sort)
		return &create_incremental_sort_path(root, rel, path, root->sort_pathkeys, presorted, rows)->spath.path;
	return &create_sort_path(root, rel, path, root->sort_pathkeys, rows)->path;
}

} // namespace

bool
is_postgres_fdw(const RelOptInfo *rel)
{
	Oid extension;

	if (rel->fdwroutine == nullptr || !OidIsValid(rel->serverid))
		return false;
	extension = getExtensionOfObject(ForeignDataWrapperRelationId, GetForeignServer(rel->serverid)->fdwid);
	return OidIsValid(extension) && extension == get_extension_oid("postgres_fdw", true);
}

Cost
cost_of_rows(const Path *path, double rows)
{
	return path->startup_cost + (path->total_cost - path->startup_cost) * Min(rows / Max(path->rows, 1.0), 1.0);
}

Path *
foreign_limit_path(PlannerInfo *root, RelOptInfo *partition, const PartitionLimit &limit)
{
	Path *ordered = ordered_foreign_path(root, partition);
	const Path *cheapest = partition->cheapest_total_path;
	ForeignPath *scan;
	ForeignPath *limited;

	if (ordered == nullptr)
		return nullptr;
	scan = reinterpret_cast<ForeignPath *>(below_projection(ordered));
	if (!decides_all(root, partition, scan))
		return nullptr;
	limited = makeNode(ForeignPath);
	*limited = *scan;
	limited->fdw_private = list_make3(makeBoolean(false), makeBoolean(true), limit.count);
	// The remote server knows the LIMIT. An estimate of the order without it may be that of sorting all rows.
	limited->path.total_cost = cost_of_rows(cheapest, limit.rows);
	limited->path.startup_cost = Min(cheapest->startup_cost, limited->path.total_cost);
	limited->path.rows = Min(limited->path.rows, limit.rows);
	if (partition->fdwroutine->GetForeignPlan != plan_foreign_scan)
	{
		FdwRoutine *routine = makeNode(FdwRoutine);

		*routine = *partition->fdwroutine;
		routine->GetForeignPlan = plan_foreign_scan;
		partition->fdwroutine = routine;
	}
	if (ordered == &scan->path)
		return &limited->path;
	return &create_projection_path(root, partition, &limited->path, ordered->pathtarget)->path;
}

Path *
local_limit_path(PlannerInfo *root, RelOptInfo *partition, const PartitionLimit &limit)
{
	Path *best = nullptr;
	ListCell *cell;

	foreach (cell, partition->pathlist)
	{
		Path *path = static_cast<Path *>(lfirst(cell));

		if (PATH_REQ_OUTER(path) != nullptr)
			continue;
		path = in_order(root, partition, path, limit.rows);
		if (best == nullptr || cost_of_rows(path, limit.rows) < cost_of_rows(best, limit.rows))
			best = path;
	}
	if (best == nullptr)
		return nullptr;
	return &create_limit_path(
		root, partition, best, nullptr, limit.count, LIMIT_OPTION_COUNT, 0, static_cast<int64>(limit.rows))
				->path;
}

} // namespace vectorgpu::am
