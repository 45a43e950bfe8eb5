// See order_cost.hpp. Subtracts the cost of exactly the distances that unread_order.cpp leaves out: the conditions are
// the same, as far as the plan is known at this point.
#include "pg/order_cost.hpp"

#include "pg/ordered_scan.hpp"

extern "C"
{
#include "access/genam.h"
#include "nodes/pathnodes.h"
#include "optimizer/cost.h"
#include "optimizer/planner.h"
}

namespace vectorgpu::pg
{

namespace
{

create_upper_paths_hook_type previous_hook = nullptr;
bool (*is_ours)(Relation index) = nullptr;

/// Return the ordered scan of one of our indexes whose rows a path returns, perhaps with other columns; or null.
const IndexPath *
scan_of_path(const Path *path)
{
	const IndexPath *scan;
	Relation index;
	bool ours;

	while (IsA(path, ProjectionPath))
		path = reinterpret_cast<const ProjectionPath *>(path)->subpath;
	scan = filtered_path(path);
	if (scan != nullptr || !IsA(path, IndexPath))
		return scan;
	scan = reinterpret_cast<const IndexPath *>(path);
	if (scan->indexorderbys == NIL || scan->indexinfo->hypothetical)
		return nullptr;
	index = index_open(scan->indexinfo->indexoid, NoLock); // the planner holds a lock
	ours = is_ours(index);
	index_close(index, NoLock);
	return ours ? scan : nullptr;
}

/// Return the cost per row of the distances that only the order uses.
Cost
unread_cost(PlannerInfo *root, const IndexPath *path)
{
	Cost sum = 0;
	ListCell *cell;

	foreach (cell, root->processed_tlist)
	{
		const TargetEntry *target = lfirst_node(TargetEntry, cell);
		QualCost cost;

		if (!target->resjunk || !list_member(path->indexorderbys, target->expr))
			continue;
		cost_qual_eval_node(&cost, reinterpret_cast<Node *>(target->expr), root);
		sum += cost.per_tuple;
	}
	return sum;
}

void
upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input, RelOptInfo *output, void *extra)
{
	ListCell *cell;

	if (previous_hook != nullptr)
		previous_hook(root, stage, input, output, extra);
	if (stage != UPPERREL_ORDERED || root->parent_root != nullptr || root->parse->commandType != CMD_SELECT ||
		root->parse->rowMarks != NIL || root->parse->limitOption == LIMIT_OPTION_WITH_TIES)
		return;
	foreach (cell, output->pathlist)
	{
		Path *path = static_cast<Path *>(lfirst(cell));
		const IndexPath *scan = scan_of_path(path);

		if (scan != nullptr)
			path->total_cost = Max(path->total_cost - path->rows * unread_cost(root, scan), path->startup_cost);
	}
}

} // namespace

void
order_cost_install(bool (*is_our_index)(Relation index))
{
	is_ours = is_our_index;
	previous_hook = create_upper_paths_hook;
	create_upper_paths_hook = upper_paths;
}

} // namespace vectorgpu::pg
