// See shard_limit.hpp and README.md. The path is made of core's nodes and of postgres_fdw's own paths, so that nothing
// of it is left when the query runs.
#include "am/shards/shard_limit.hpp"

#include "am/method/distance_clause.hpp"
#include "am/shards/shard_path.hpp"
#include "pg/define_setting.hpp"

#include <cstring>

extern "C"
{
#include "catalog/dependency.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "nodes/makefuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "utils/fmgroids.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr double kMostRows = 1e9;     // a greater LIMIT is none
constexpr double kDiscount = 0.97;    // below this core takes one of two costs for the lower one
constexpr double kUnknownShare = 0.1; // core's guess of a LIMIT that it does not know: this part of the rows

bool enabled = true;
create_upper_paths_hook_type previous_hook = nullptr;

/// True if the function belongs to this extension or to one with pgvector's name.
bool
is_vector_function(Oid function)
{
	const Oid extension = getExtensionOfObject(ProcedureRelationId, function);
	const char *name = OidIsValid(extension) ? get_extension_name(extension) : nullptr;

	return name != nullptr && (strcmp(name, "vectorgpu") == 0 || strcmp(name, "vector") == 0);
}

/// True if the expression is a distance or is computed from one: an operator by which an index can order, or a
/// function.
bool
has_distance(const Node *node)
{
	const List *args = NIL;
	ListCell *cell;

	if (IsA(node, OpExpr))
	{
		if (is_distance_operator(reinterpret_cast<const OpExpr *>(node)->opno))
			return true;
		args = reinterpret_cast<const OpExpr *>(node)->args;
	}
	else if (IsA(node, FuncExpr))
	{
		if (is_vector_function(reinterpret_cast<const FuncExpr *>(node)->funcid))
			return true;
		args = reinterpret_cast<const FuncExpr *>(node)->args;
	}
	foreach (cell, args)
		if (has_distance(static_cast<const Node *>(lfirst(cell))))
			return true;
	return false;
}

/// True if a distance is part of the query's first key.
bool
orders_by_distance(PlannerInfo *root, RelOptInfo *table)
{
	ListCell *cell;

	foreach (cell, pg::equal_expressions(linitial_node(PathKey, root->sort_pathkeys)->pk_eclass, table))
		if (has_distance(static_cast<const Node *>(lfirst(cell))))
			return true;
	return false;
}

/// Add the value of LIMIT or OFFSET to *sum. Returns false if the planner does not know it for certain.
bool
add_constant(const Node *value, double *sum)
{
	const Const *constant = reinterpret_cast<const Const *>(value);

	if (!IsA(value, Const) || constant->constisnull)
		return false;
	*sum += Max(static_cast<double>(DatumGetInt64(constant->constvalue)), 0.0);
	return true;
}

/// True if the value is a parameter of a generic plan, of type bigint or int.
bool
is_parameter(const Node *value)
{
	if (IsA(value, FuncExpr) && reinterpret_cast<const FuncExpr *>(value)->funcid == F_INT8_INT4)
		value = static_cast<const Node *>(linitial(reinterpret_cast<const FuncExpr *>(value)->args));
	return IsA(value, Param) && reinterpret_cast<const Param *>(value)->paramkind == PARAM_EXTERN;
}

/// Return what the query wants of each partition: LIMIT and OFFSET; a null count if it may want all, or if a row that a
/// partition returns may be none of the query's. A parameter is taken without OFFSET only: a sum might overflow.
PartitionLimit
limit_wanted(const PlannerInfo *root, const RelOptInfo *table)
{
	const Query *query = root->parse;
	double rows = 0;

	// Where something between the scan and the LIMIT changes the number of rows; locks drop rows that have changed.
	if (query->commandType != CMD_SELECT || query->rowMarks != NIL || query->limitCount == nullptr ||
		query->limitOption != LIMIT_OPTION_COUNT || query->groupClause != NIL || query->groupingSets != NIL ||
		query->distinctClause != NIL || query->hasAggs || query->hasWindowFuncs || query->hasTargetSRFs ||
		root->hasHavingQual)
		return {nullptr, 0};
	if (query->limitOffset == nullptr && is_parameter(query->limitCount))
		return {query->limitCount, clamp_row_est(table->rows * kUnknownShare)};
	if (!add_constant(query->limitCount, &rows) ||
		(query->limitOffset != nullptr && !add_constant(query->limitOffset, &rows)) || rows > kMostRows)
		return {nullptr, 0};
	rows = Max(rows, 1.0);
	return {reinterpret_cast<Node *>(makeConst(INT8OID, -1, InvalidOid, sizeof(int64),
				Int64GetDatum(static_cast<int64>(rows)), false, FLOAT8PASSBYVAL)),
		rows};
}

/// Add a path for each partition below the table to *paths, each limited and in the query's order, and count the
/// foreign ones. Returns false if a partition of postgres_fdw cannot take the LIMIT.
bool
add_partitions(PlannerInfo *root, RelOptInfo *table, const PartitionLimit &limit, List **paths, int *n_foreign)
{
	for (int i = 0; i < table->nparts; i++)
	{
		RelOptInfo *partition = table->part_rels[i];
		Path *path;

		if (partition == nullptr || IS_DUMMY_REL(partition))
			continue;
		if (IS_PARTITIONED_REL(partition))
		{
			if (!add_partitions(root, partition, limit, paths, n_foreign))
				return false;
			continue;
		}
		if (is_postgres_fdw(partition))
		{
			path = foreign_limit_path(root, partition, limit);
			(*n_foreign)++;
		}
		else
			path = local_limit_path(root, partition, limit);
		if (path == nullptr)
			return false;
		*paths = lappend(*paths, path);
	}
	return true;
}

/// Return the cost of the first rows of the cheapest path.
Cost
cheapest_cost(const RelOptInfo *rel, double rows)
{
	Cost least = cost_of_rows(static_cast<const Path *>(linitial(rel->pathlist)), rows);
	ListCell *cell;

	foreach (cell, rel->pathlist)
		least = Min(least, cost_of_rows(static_cast<const Path *>(lfirst(cell)), rows));
	return least;
}

/// Add the Sort over the partitions' paths. Core's Merge Append has no LIMIT for its foreign scans: each fetches a
/// batch of rows, one scan after the other, from servers that plan for all rows. Its estimate knows none of this, and
/// no query is faster with it, so that the new path is made to cost less.
void
add_sharded_path(PlannerInfo *root, RelOptInfo *table, RelOptInfo *output, List *paths, double rows)
{
	PathTarget *target = root->upper_targets[UPPERREL_ORDERED];
	Path *append = &create_append_path(root, table, paths, NIL, NIL, nullptr, 0, false, -1)->path;
	Path *sorted = &create_sort_path(root, output, append, root->sort_pathkeys, rows)->path;
	const Cost least = cheapest_cost(output, rows) * kDiscount;

	// enable_sort = off is a cost as well, before PostgreSQL 18.
	if (enable_sort && sorted->total_cost > least)
	{
		const double share = least / sorted->total_cost;

		append->startup_cost *= share;
		append->total_cost *= share;
		sorted->startup_cost *= share;
		sorted->total_cost *= share;
	}
	if (sorted->pathtarget != target)
		sorted = apply_projection_to_path(root, output, sorted, target);
	add_path(output, sorted);
}

void
upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input, RelOptInfo *output, void *extra)
{
	List *paths = NIL;
	int n_foreign = 0;
	PartitionLimit limit;

	if (previous_hook != nullptr)
		previous_hook(root, stage, input, output, extra);
	if (!enabled || stage != UPPERREL_ORDERED || input->reloptkind != RELOPT_BASEREL ||
		input->rtekind != RTE_RELATION || !IS_PARTITIONED_REL(input) || IS_DUMMY_REL(input) ||
		root->sort_pathkeys == NIL || output->pathlist == NIL)
		return;
	limit = limit_wanted(root, input);
	if (limit.count != nullptr && orders_by_distance(root, input) &&
		add_partitions(root, input, limit, &paths, &n_foreign) && n_foreign > 0)
		add_sharded_path(root, input, output, paths, limit.rows);
}

} // namespace

void
shard_limit_install()
{
	pg::define_bool("vectorgpu.enable_shard_limit",
		"Plans may hand the LIMIT of a search to each foreign partition of postgres_fdw.", nullptr, &enabled, true,
		PGC_USERSET, GUC_EXPLAIN, nullptr, nullptr, nullptr);
	previous_hook = create_upper_paths_hook;
	create_upper_paths_hook = upper_paths;
}

} // namespace vectorgpu::am
