// See ahead_query.hpp.
#include "am/ahead/ahead_query.hpp"

#include "am/method/index_access.hpp"
#include "am/ahead/ahead_search.hpp"
#include "pg/ordered_scan.hpp"

extern "C"
{
#include "access/genam.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "utils/lsyscache.h"
}

namespace vectorgpu::am
{

namespace
{

/// What the inner side may depend on.
struct Outer
{
	PlannerInfo *root;
	const RelOptInfo *rel; // null: inside a sub-select, whose tables have other numbers
	Bitmapset *params;     // by which sub-selects of the inner side see it
};

/// Return the parameters by which the base relations of the inner side see values of the outer one.
Bitmapset *
params_of(PlannerInfo *root, const RelOptInfo *inner, const RelOptInfo *outer)
{
	Bitmapset *params = nullptr;

	for (int i = -1; (i = bms_next_member(inner->relids, i)) >= 0;)
	{
		const RelOptInfo *rel = i < root->simple_rel_array_size ? root->simple_rel_array[i] : nullptr;
		ListCell *cell;

		if (rel == nullptr)
			continue;
		foreach (cell, rel->subplan_params)
		{
			const PlannerParamItem *param = lfirst_node(PlannerParamItem, cell);

			if (bms_overlap(pull_varnos(root, param->item), outer->relids))
				params = bms_add_member(params, param->paramId);
		}
	}
	return params;
}

bool
find_param(Node *node, void *params)
{
	const Param *param = reinterpret_cast<const Param *>(node);

	if (node == nullptr)
		return false;
	if (IsA(node, Param))
		return param->paramkind == PARAM_EXEC && bms_is_member(param->paramid, static_cast<const Bitmapset *>(params));
	return expression_tree_walker(node, pg::as_walker(find_param), params);
}

bool
worker_answers(Oid oid)
{
	const Relation index = index_open(oid, NoLock); // the planner has locked it
	const bool possible = ahead_possible(index);

	index_close(index, NoLock);
	return possible;
}

/// True if the expression has a value of the outer rows.
bool
reads_outer(Node *node, const Outer *outer)
{
	return (outer->rel != nullptr && bms_overlap(pull_varnos(outer->root, node), outer->rel->relids)) ||
		find_param(node, outer->params);
}

/// True if a value of the outer rows decides which rows a filtered scan has: they are found when the row comes.
bool
filters_by_outer(const CustomPath *path, const IndexPath *filtered, const Outer *outer)
{
	ListCell *cell;

	foreach (cell, filtered->indexclauses)
	{
		const IndexClause *clause = lfirst_node(IndexClause, cell);

		if (clause->indexcol > 0 && reads_outer(reinterpret_cast<Node *>(clause->rinfo->clause), outer))
			return true;
	}
	if (path->custom_paths == NIL) // no bitmap of other indexes
		return false;
	foreach (cell, filtered->path.parent->baserestrictinfo)
		if (reads_outer(reinterpret_cast<Node *>(lfirst_node(RestrictInfo, cell)->clause), outer))
			return true;
	return false;
}

/// True if the scan searches for a value of the outer rows.
bool
is_search(const IndexPath *scan, const Outer *outer)
{
	Node *query;

	if (!is_vectorgpu_method(scan->indexinfo->relam) || scan->indexorderbys == NIL ||
		!IsA(linitial(scan->indexorderbys), OpExpr))
		return false;
	query = static_cast<Node *>(lsecond(linitial_node(OpExpr, scan->indexorderbys)->args));
	while (IsA(query, RelabelType))
		query = reinterpret_cast<Node *>(reinterpret_cast<RelabelType *>(query)->arg);
	return (IsA(query, Var) || IsA(query, Param)) && // only these are evaluated ahead
		reads_outer(query, outer) && worker_answers(scan->indexinfo->indexoid);
}

bool find_search(const Path *path, const Outer *outer);

bool
any_search(List *paths, const Outer *outer)
{
	ListCell *cell;

	foreach (cell, paths)
		if (find_search(static_cast<const Path *>(lfirst(cell)), outer))
			return true;
	return false;
}

/// True if a search is below the path. Nodes that are not named here are taken for none.
bool
find_search(const Path *path, const Outer *outer)
{
	const IndexPath *filtered;
	Outer inside = *outer;

	if (path == nullptr)
		return false;
	inside.rel = nullptr;
	check_stack_depth();
	switch (nodeTag(path))
	{
		case T_IndexPath:
			return is_search(reinterpret_cast<const IndexPath *>(path), outer);
		case T_CustomPath:
			filtered = pg::filtered_path(path);
			return filtered != nullptr && is_search(filtered, outer) &&
				!filters_by_outer(reinterpret_cast<const CustomPath *>(path), filtered, outer);
		case T_SubqueryScanPath:
			return find_search(reinterpret_cast<const SubqueryScanPath *>(path)->subpath, &inside);
		case T_LimitPath:
			return find_search(reinterpret_cast<const LimitPath *>(path)->subpath, outer);
		case T_ProjectionPath:
			return find_search(reinterpret_cast<const ProjectionPath *>(path)->subpath, outer);
		case T_MemoizePath:
			return find_search(reinterpret_cast<const MemoizePath *>(path)->subpath, outer);
		case T_MaterialPath:
			return find_search(reinterpret_cast<const MaterialPath *>(path)->subpath, outer);
		case T_SortPath:
		case T_IncrementalSortPath:
			return find_search(reinterpret_cast<const SortPath *>(path)->subpath, outer);
		case T_AggPath:
			return find_search(reinterpret_cast<const AggPath *>(path)->subpath, outer);
		case T_WindowAggPath:
			return find_search(reinterpret_cast<const WindowAggPath *>(path)->subpath, outer);
		case T_AppendPath:
			return any_search(reinterpret_cast<const AppendPath *>(path)->subpaths, outer);
		case T_MergeAppendPath:
			return any_search(reinterpret_cast<const MergeAppendPath *>(path)->subpaths, outer);
		case T_NestPath:
			return find_search(reinterpret_cast<const NestPath *>(path)->jpath.outerjoinpath, outer) ||
				find_search(reinterpret_cast<const NestPath *>(path)->jpath.innerjoinpath, outer);
		default:
			return false;
	}
}

/// True if rows are locked below the node, or if a sub-select that is a plan of its own by now has something volatile,
/// which core's own look for volatile functions does not see.
bool
find_hidden(Node *node, void *glob)
{
	const auto find = pg::as_walker(find_hidden);

	if (node == nullptr)
		return false;
	check_stack_depth();
	if (IsA(node, RestrictInfo)) // unknown to core's walker
		return find_hidden(reinterpret_cast<Node *>(reinterpret_cast<RestrictInfo *>(node)->clause), glob);
	if (IsA(node, Query))
	{
		Query *query = reinterpret_cast<Query *>(node);

		return query->rowMarks != NIL || query_tree_walker(query, find, glob, 0);
	}
	if (IsA(node, SubPlan))
	{
		const List *roots = static_cast<const PlannerGlobal *>(glob)->subroots;
		const int number = reinterpret_cast<const SubPlan *>(node)->plan_id - 1;
		Node *query = reinterpret_cast<Node *>(static_cast<const PlannerInfo *>(list_nth(roots, number))->parse);

		if (contain_volatile_functions(query) || find_hidden(query, glob))
			return true;
	}
	return expression_tree_walker(node, find, glob);
}

/// True if it does not matter when the expressions, or the rows of the query, are computed.
bool
is_stable(const PlannerInfo *root, Node *node)
{
	return !contain_volatile_functions(node) && !find_hidden(node, root->glob);
}

bool
ctes_are_stable(const PlannerInfo *root, const Query *query)
{
	ListCell *cell;

	foreach (cell, query->cteList)
	{
		Query *cte = castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery);

		if (cte->commandType != CMD_SELECT || !is_stable(root, reinterpret_cast<Node *>(cte)))
			return false;
	}
	return true;
}

bool
entry_is_stable(const PlannerInfo *root, const RangeTblEntry *entry)
{
	switch (entry->rtekind)
	{
		case RTE_SUBQUERY:
			return is_stable(root, reinterpret_cast<Node *>(entry->subquery));
		case RTE_FUNCTION:
			return is_stable(root, reinterpret_cast<Node *>(entry->functions));
		case RTE_TABLEFUNC:
			return is_stable(root, reinterpret_cast<Node *>(entry->tablefunc));
		case RTE_VALUES:
			return is_stable(root, reinterpret_cast<Node *>(entry->values_lists));
		case RTE_CTE:
			for (const PlannerInfo *at = root; at != nullptr; at = at->parent_root)
				if (!ctes_are_stable(root, at->parse))
					return false;
			return true;
		default:
			return is_stable(root, reinterpret_cast<Node *>(entry->tablesample));
	}
}

} // namespace

bool
ahead_may_search(PlannerInfo *root, const RelOptInfo *inner)
{
	if (!bms_is_empty(inner->lateral_relids))
		return true;
	for (int i = -1; (i = bms_next_member(inner->relids, i)) >= 0;)
	{
		const RelOptInfo *rel = i < root->simple_rel_array_size ? root->simple_rel_array[i] : nullptr;
		ListCell *cell;

		if (rel == nullptr)
			continue;
		if (rel->subplan_params != NIL)
			return true;
		foreach (cell, rel->indexlist) // a condition of the join may bound a distance
			if (is_vectorgpu_method(lfirst_node(IndexOptInfo, cell)->relam))
				return true;
		if (rel->nparts > 0)
			return true;
	}
	return false;
}

bool
ahead_is_safe(PlannerInfo *root, RelOptInfo *outer)
{
	for (const PlannerInfo *at = root; at != nullptr; at = at->parent_root)
		if (at->rowMarks != NIL || at->parse->rowMarks != NIL ||
			(at->parse->commandType != CMD_SELECT && at->parse->commandType != CMD_INSERT))
			return false;
	if (!is_stable(root, reinterpret_cast<Node *>(root->parse->jointree)))
		return false;
	for (int i = -1; (i = bms_next_member(outer->relids, i)) >= 0;)
	{
		const RangeTblEntry *entry = i < root->simple_rel_array_size ? root->simple_rte_array[i] : nullptr;

		if (entry != nullptr && !entry_is_stable(root, entry))
			return false;
		// Row security, and the barrier of a view, are not in the query's tree.
		if (i < root->simple_rel_array_size && root->simple_rel_array[i] != nullptr &&
			!is_stable(root, reinterpret_cast<Node *>(root->simple_rel_array[i]->baserestrictinfo)))
			return false;
	}
	return true;
}

bool
ahead_target_is_stable(const PlannerInfo *root, const Path *outer_path)
{
	return is_stable(root, reinterpret_cast<Node *>(outer_path->pathtarget->exprs));
}

bool
ahead_searches(PlannerInfo *root, const Path *path, const RelOptInfo *outer, const RelOptInfo *inner)
{
	const Outer look = {root, outer, params_of(root, inner, outer)};

	return find_search(path, &look);
}

} // namespace vectorgpu::am
