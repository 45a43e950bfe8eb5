// See ahead_parallel.hpp. Core's reasons, and why they do not hold here: a sub-query with LIMIT may return other rows
// in each process, but this one is below a partial path, so that only one process runs it for an outer row. Its
// parameters are unknown to other processes, but the loop that sets them is in the same one.
#include "am/ahead/ahead_parallel.hpp"

#include "pg/ordered_scan.hpp"

extern "C"
{
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
}

namespace vectorgpu::am
{

namespace
{

/// True if the table of the scan can be read by other processes.
bool
is_shared_table(const PlannerInfo *root, const IndexPath *scan)
{
	const RangeTblEntry *entry = planner_rt_fetch(scan->path.parent->relid, root);

	return entry->rtekind == RTE_RELATION && entry->tablesample == nullptr &&
		get_rel_persistence(entry->relid) != RELPERSISTENCE_TEMP && !scan->path.parallel_aware;
}

bool is_search_alone(const PlannerInfo *root, const Path *path);

bool
are_searches_alone(const PlannerInfo *root, List *paths)
{
	ListCell *cell;

	foreach (cell, paths)
		if (!is_search_alone(root, static_cast<const Path *>(lfirst(cell))))
			return false;
	return true;
}

/// True if the path has nothing but searches, and nodes that any process may run.
bool
is_search_alone(const PlannerInfo *root, const Path *path)
{
	const SubqueryScanPath *query = reinterpret_cast<const SubqueryScanPath *>(path);
	const IndexPath *filtered;

	check_stack_depth();
	switch (nodeTag(path))
	{
		case T_IndexPath:
			return is_shared_table(root, reinterpret_cast<const IndexPath *>(path));
		case T_CustomPath:
			filtered = pg::filtered_path(path);
			return filtered != nullptr && is_shared_table(root, filtered);
		case T_SubqueryScanPath:
			return query->path.parent->subroot->init_plans == NIL &&
				is_search_alone(query->path.parent->subroot, query->subpath);
		case T_LimitPath:
			return is_search_alone(root, reinterpret_cast<const LimitPath *>(path)->subpath);
		case T_ProjectionPath:
			return is_search_alone(root, reinterpret_cast<const ProjectionPath *>(path)->subpath);
		case T_MemoizePath:
			return is_search_alone(root, reinterpret_cast<const MemoizePath *>(path)->subpath);
		case T_SortPath:
		case T_IncrementalSortPath:
			return is_search_alone(root, reinterpret_cast<const SortPath *>(path)->subpath);
		case T_MergeAppendPath:
			return are_searches_alone(root, reinterpret_cast<const MergeAppendPath *>(path)->subpaths);
		default:
			return false;
	}
}

/// True if the sub-query depends on nothing but its own tables and the row of the loop.
bool
depends_on_row_alone(const PlannerInfo *root, const RelOptInfo *inner)
{
	Query *query = planner_rt_fetch(inner->relid, root)->subquery;

	if (query->hasSubLinks || query->cteList != NIL)
		return false;
	for (Index level = 2; level <= root->query_level; level++)
		if (contain_vars_of_level(reinterpret_cast<Node *>(query), static_cast<int>(level)))
			return false;
	return true;
}

} // namespace

bool
ahead_may_be_parallel(PlannerInfo *root, const RelOptInfo *join, const RelOptInfo *outer, const RelOptInfo *inner,
	const Path *inner_path, const List *conditions)
{
	const auto is_safe = [root](const List *list)
	{ return is_parallel_safe(root, reinterpret_cast<Node *>(const_cast<List *>(list))); };

	// That no function of the whole query is a hazard says what the planner does not ask of sub-queries with
	// parameters.
	return root->glob->parallelModeOK && root->glob->maxParallelHazard == PROPARALLEL_SAFE &&
		outer->consider_parallel && outer->partial_pathlist != NIL && inner->rtekind == RTE_SUBQUERY &&
		!bms_is_empty(PATH_REQ_OUTER(inner_path)) && bms_is_subset(PATH_REQ_OUTER(inner_path), outer->relids) &&
		is_safe(conditions) && is_safe(join->reltarget->exprs) && is_safe(inner->baserestrictinfo) &&
		is_safe(inner->reltarget->exprs) && depends_on_row_alone(root, inner) && is_search_alone(root, inner_path);
}

NestPath *
ahead_partial_loop(
	PlannerInfo *root, RelOptInfo *join, JoinType type, Path *outer_path, Path *inner_path, JoinPathExtraData *extra)
{
	JoinCostWorkspace cost;
	NestPath *loop;

	initial_cost_nestloop(root, &cost, type, outer_path, inner_path, extra);
	loop =
		create_nestloop_path(root, join, type, &cost, extra, outer_path, inner_path, extra->restrictlist, NIL, nullptr);
	loop->jpath.path.parallel_safe = true; // core goes by the inner side's mark
	return loop;
}

} // namespace vectorgpu::am
