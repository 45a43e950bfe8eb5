// See list_size.hpp.
#include "am/filtered/list_size.hpp"

#include "am/filtered/bitmap_path.hpp"
#include "am/filtered/table_size.hpp"

#include <utility>

extern "C"
{
#include "access/htup_details.h"
#include "catalog/pg_statistic.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/optimizer.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
}

namespace vectorgpu::am
{

namespace
{

bool too_long = false;

/// The plan of the sub-select whose rows are the array's elements; null: it is another expression.
const Plan *
plan_of_array(const PlannerInfo *root, const Node *array)
{
	const Param *param;

	while (IsA(array, RelabelType))
		array = reinterpret_cast<const Node *>(reinterpret_cast<const RelabelType *>(array)->arg);
	param = reinterpret_cast<const Param *>(array);
	if (!IsA(array, Param) || param->paramkind != PARAM_EXEC)
		return nullptr;
	for (; root != nullptr; root = root->parent_root)
	{
		ListCell *cell;

		foreach (cell, root->init_plans)
		{
			const SubPlan *plan = lfirst_node(SubPlan, cell);

			if (plan->subLinkType == ARRAY_SUBLINK && list_member_int(plan->setParam, param->paramid))
				return static_cast<const Plan *>(list_nth(root->glob->subplans, plan->plan_id - 1));
		}
	}
	return nullptr;
}

/// The share of the table's rows whose value is one of n, all different.
double
share_of(PlannerInfo *root, Node *column, double n)
{
	VariableStatData data;
	double n_distinct;
	double nulls = 0;
	bool is_default;

	examine_variable(root, column, 0, &data);
	n_distinct = get_variable_numdistinct(&data, &is_default);
	if (HeapTupleIsValid(data.statsTuple))
		nulls = reinterpret_cast<Form_pg_statistic>(GETSTRUCT(data.statsTuple))->stanullfrac;
	ReleaseVariableStats(data);
	return Min(n / Max(n_distinct, 1.0), 1.0) * (1 - nulls);
}

} // namespace

void
list_estimate(PlannerInfo *root, RelOptInfo *rel)
{
	bool found = false;
	bool ours = false;
	ListCell *cell;

	foreach (cell, rel->indexlist)
		ours = ours || is_ours(lfirst_node(IndexOptInfo, cell));
	if (!ours)
		return;
	foreach (cell, rel->baserestrictinfo)
	{
		RestrictInfo *condition = lfirst_node(RestrictInfo, cell);
		const ScalarArrayOpExpr *list = reinterpret_cast<const ScalarArrayOpExpr *>(condition->clause);
		const Plan *plan;

		if (!IsA(list, ScalarArrayOpExpr) || !list->useOr || get_oprrest(list->opno) != F_EQSEL)
			continue;
		plan = plan_of_array(root, static_cast<const Node *>(lsecond(list->args)));
		if (plan == nullptr)
			continue;
		too_long = too_long || plan->plan_rows > kMostListed ||
			plan->plan_rows * plan->plan_width > static_cast<double>(work_mem) * 1024;
		condition->norm_selec = share_of(root, static_cast<Node *>(linitial(list->args)), plan->plan_rows);
		found = true;
	}
	if (!found)
		return;
	size_anew(root, rel);
	cost_anew(root, rel);
}

bool
list_set_too_long(bool value)
{
	return std::exchange(too_long, value);
}

} // namespace vectorgpu::am
