// See ahead_path.hpp. The path is a copy of core's nested loop with another outer side, so that its joins, its cost and
// its plan are core's.
#include "am/ahead/ahead_path.hpp"

#include "am/ahead/ahead_node.hpp"
#include "am/ahead/ahead_parallel.hpp"
#include "am/ahead/ahead_query.hpp"
#include "am/ahead/scalar_query.hpp"
#include "am/scan/scan_settings.hpp"
#include "bridge/settings.hpp"

extern "C"
{
#include "nodes/extensible.h"
#include "nodes/pathnodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
}

namespace vectorgpu::am
{

namespace
{

// See "Cost" in README.md.
constexpr double kShare = 0.5;   // of the inner side's cost remains
constexpr double kFirstRows = 1; // outer rows whose full cost pays for the batches' own: up to twice as many are not
								 // worth reading ahead

set_join_pathlist_hook_type previous_hook = nullptr;

/// The plan of a path.
Plan *
plan_path([[maybe_unused]] PlannerInfo *root, [[maybe_unused]] RelOptInfo *rel, CustomPath *path, List *targets,
	[[maybe_unused]] List *clauses, List *plans)
{
	CustomScan *plan = makeNode(CustomScan);

	plan->scan.plan.targetlist = targets;
	plan->scan.scanrelid = 0;
	plan->flags = path->flags;
	plan->custom_plans = plans;
	plan->custom_scan_tlist = linitial_node(Plan, plans)->targetlist;
	plan->methods = &ahead_plan_methods;
	return &plan->scan.plan;
}

const CustomPathMethods path_methods = {pg::kReadAheadName, plan_path, nullptr};

CustomPath *
outer_path(Path *child)
{
	CustomPath *path = makeNode(CustomPath);

	path->path = *child;
	path->path.type = T_CustomPath;
	path->path.pathtype = T_CustomScan;
	path->path.parallel_aware = false;
	path->path.total_cost += child->rows * cpu_tuple_cost;
	path->custom_paths = list_make1(child);
	path->methods = &path_methods;
	return path;
}

/// Return the loop with rows read ahead.
NestPath *
loop_ahead(const NestPath *loop)
{
	NestPath *ahead = makeNode(NestPath);
	Path *outer = loop->jpath.outerjoinpath;
	const double rows = Max(outer->rows, 1.0);
	const Cost inner_cost = (loop->jpath.path.total_cost - outer->total_cost) / rows;
	CustomPath *reader = outer_path(outer);

	*ahead = *loop;
	ahead->jpath.outerjoinpath = &reader->path;
	ahead->jpath.path.total_cost = reader->path.total_cost + inner_cost * (rows * kShare + kFirstRows);
	ahead->jpath.path.startup_cost =
		Min(loop->jpath.path.startup_cost + inner_cost * (Min(rows, kAheadFirstBatch) * kShare + kFirstRows),
			ahead->jpath.path.total_cost);
	return ahead;
}

/// The loops of these two sides among the paths, copied since adding a path may free others.
List *
loops_of(List *paths, const RelOptInfo *outer, const RelOptInfo *inner)
{
	List *loops = NIL;
	ListCell *cell;

	foreach (cell, paths)
	{
		NestPath *loop = static_cast<NestPath *>(lfirst(cell));

		if (IsA(loop, NestPath) && loop->jpath.outerjoinpath->parent == outer &&
			loop->jpath.innerjoinpath->parent == inner &&
			!(IsA(loop->jpath.outerjoinpath, CustomPath) &&
				reinterpret_cast<const CustomPath *>(loop->jpath.outerjoinpath)->methods == &path_methods))
			loops = lappend(loops, loop);
	}
	return loops;
}

/// Return the loops with rows read ahead, for those that can gain.
List *
loops_ahead(PlannerInfo *root, List *paths, RelOptInfo *outer, RelOptInfo *inner)
{
	List *loops = loops_of(paths, outer, inner);
	List *ahead = NIL;
	ListCell *cell;

	foreach (cell, loops)
	{
		const NestPath *loop = lfirst_node(NestPath, cell);

		if (ahead_searches(root, loop->jpath.innerjoinpath, outer, inner) &&
			ahead_target_is_stable(root, loop->jpath.outerjoinpath))
			ahead = lappend(ahead, loop_ahead(loop));
	}
	return ahead;
}

/// Return such loops for parallel workers, where core makes none.
List *
partial_loops_ahead(
	PlannerInfo *root, RelOptInfo *join, RelOptInfo *outer, RelOptInfo *inner, JoinType type, JoinPathExtraData *extra)
{
	List *ahead = NIL;
	ListCell *cell;

	if (join->consider_parallel || outer->partial_pathlist == NIL || (type != JOIN_INNER && type != JOIN_LEFT))
		return NIL;
	foreach (cell, loops_of(join->pathlist, outer, inner))
	{
		Path *outer_path = static_cast<Path *>(linitial(outer->partial_pathlist));
		Path *inner_path = lfirst_node(NestPath, cell)->jpath.innerjoinpath;

		if (ahead_searches(root, inner_path, outer, inner) && ahead_target_is_stable(root, outer_path) &&
			ahead_may_be_parallel(root, join, outer, inner, inner_path, extra->restrictlist))
			ahead = lappend(ahead, loop_ahead(ahead_partial_loop(root, join, type, outer_path, inner_path, extra)));
	}
	return ahead;
}

void
join_pathlist(
	PlannerInfo *root, RelOptInfo *join, RelOptInfo *outer, RelOptInfo *inner, JoinType type, JoinPathExtraData *extra)
{
	List *loops;
	List *partial;
	ListCell *cell;

	if (previous_hook != nullptr)
		previous_hook(root, join, outer, inner, type, extra);
	if (!scan_reads_ahead() || !bridge::settings.worker || !ahead_may_search(root, inner) ||
		!ahead_is_safe(root, outer))
		return;
	loops = loops_ahead(root, join->pathlist, outer, inner);
	partial = list_concat(loops_ahead(root, join->partial_pathlist, outer, inner),
		partial_loops_ahead(root, join, outer, inner, type, extra));
	foreach (cell, loops)
		add_path(join, static_cast<Path *>(lfirst(cell)));
	join->consider_parallel = join->consider_parallel || partial != NIL;
	foreach (cell, partial)
		add_partial_path(join, static_cast<Path *>(lfirst(cell)));
}

} // namespace

void
ahead_path_install()
{
	previous_hook = set_join_pathlist_hook;
	set_join_pathlist_hook = join_pathlist;
	scalar_query_install();
}

} // namespace vectorgpu::am
