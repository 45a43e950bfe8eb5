// See ranked_query.hpp. In the sub-query, the table gives way to its nearest rows, found laterally: `(SELECT … FROM t
// WHERE … ORDER BY t.v <-> q.v LIMIT 10) t`. All else stays, the window function too: of the first rows of a partition
// it says what it said before, if a partition is one row of q, and if nothing else looks at the rows behind them.
#include "am/ahead/ranked_query.hpp"

#include "am/ahead/ranked_search.hpp"
#include "am/ahead/ranked_tables.hpp"
#include "am/method/distance_clause.hpp"
#include "pg/compat.hpp"

extern "C"
{
#include "access/stratnum.h"
#include "catalog/pg_operator_d.h"
#include "catalog/pg_opfamily_d.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
}

#include <cstring>
#include <utility>

namespace vectorgpu::am
{

namespace
{

/// The largest row number that the condition lets pass, if it is one about column `column` of relation `rel`.
bool
upper_bound(Node *condition, int rel, AttrNumber column, int64 *most)
{
	const OpExpr *compare = reinterpret_cast<const OpExpr *>(condition);
	const Var *var;
	const Const *constant;
	Node *left;
	Node *right;
	Oid op;
	int strategy;

	if (!IsA(condition, OpExpr) || list_length(compare->args) != 2)
		return false;
	left = static_cast<Node *>(linitial(compare->args));
	right = static_cast<Node *>(lsecond(compare->args));
	op = compare->opno;
	if (!IsA(left, Var))
	{
		std::swap(left, right);
		op = get_commutator(op);
	}
	var = reinterpret_cast<const Var *>(left);
	if (!IsA(var, Var) || var->varno != rel || var->varattno != column || var->varlevelsup != 0 || !OidIsValid(op))
		return false;
	strategy = get_op_opfamily_strategy(op, INTEGER_BTREE_FAM_OID);
	right = eval_const_expressions(nullptr, right);
	constant = reinterpret_cast<const Const *>(right);
	if (!IsA(right, Const) || constant->constisnull)
		return false;
	switch (constant->consttype)
	{
		case INT8OID:
			*most = DatumGetInt64(constant->constvalue);
			break;
		case INT4OID:
			*most = DatumGetInt32(constant->constvalue);
			break;
		case INT2OID:
			*most = DatumGetInt16(constant->constvalue);
			break;
		default:
			return false;
	}
	if (strategy == BTLessStrategyNumber && *most > PG_INT64_MIN)
		*most -= 1;
	*most = Max(*most, 0);
	return strategy == BTLessStrategyNumber || strategy == BTLessEqualStrategyNumber ||
		strategy == BTEqualStrategyNumber;
}

/// True if no function of the window but row_number is called, and that one only over this window.
bool
other_window_function(Node *node, void *window)
{
	const WindowFunc *function = reinterpret_cast<const WindowFunc *>(node);

	if (node == nullptr)
		return false;
	if (IsA(node, WindowFunc) &&
		(function->winfnoid != F_ROW_NUMBER || function->winref != static_cast<const WindowClause *>(window)->winref))
		return true;
	return expression_tree_walker(node, pg::as_walker(other_window_function), window);
}

/// True if the expressions have no columns but those of the two.
bool
only_of(const Bitmapset *tables, const List *expressions)
{
	return bms_is_subset(pull_varnos(nullptr, reinterpret_cast<Node *>(const_cast<List *>(expressions))), tables);
}

/// The sub-query's two tables, as range table indexes, with the conditions of its joins and of WHERE. False: it has
/// other ones.
bool
two_tables(const Query *query, int tables[2], List **conditions)
{
	List *items = list_copy(query->jointree->fromlist);
	int n = 0;

	*conditions = make_ands_implicit(reinterpret_cast<Expr *>(query->jointree->quals));
	while (items != NIL)
	{
		Node *item = static_cast<Node *>(linitial(items));
		const JoinExpr *join = reinterpret_cast<const JoinExpr *>(item);

		items = list_delete_first(items);
		if (IsA(item, RangeTblRef))
		{
			if (n == 2)
				return false;
			tables[n++] = reinterpret_cast<const RangeTblRef *>(item)->rtindex;
			if (rt_fetch(tables[n - 1], query->rtable)->rtekind != RTE_RELATION)
				return false;
			continue;
		}
		if (!IsA(item, JoinExpr) || join->jointype != JOIN_INNER || join->alias != nullptr || join->usingClause != NIL)
			return false;
		items = lcons(join->larg, lcons(join->rarg, items));
		*conditions = list_concat(*conditions, make_ands_implicit(reinterpret_cast<Expr *>(join->quals)));
	}
	return n == 2;
}

/// True if the query is a join of two tables and one window of row numbers, and nothing else.
bool
only_ranks(const Query *query)
{
	return query->commandType == CMD_SELECT && query->hasWindowFuncs && list_length(query->windowClause) == 1 &&
		!query->hasAggs && !query->hasTargetSRFs && !query->hasSubLinks && query->cteList == NIL &&
		query->groupClause == NIL && query->groupingSets == NIL && query->distinctClause == NIL &&
		query->havingQual == nullptr && query->setOperations == nullptr && query->limitCount == nullptr &&
		query->limitOffset == nullptr && query->rowMarks == NIL && query->jointree != nullptr &&
		!contain_volatile_functions(reinterpret_cast<Node *>(const_cast<Query *>(query)));
}

/// Find q and t: the window is partitioned by a key of q, and ordered by a distance between the two, ascending.
bool
find_tables(Ranked *ranked, const int tables[2])
{
	const Query *query = ranked->query;
	const SortGroupClause *first;
	const OpExpr *order;

	if (ranked->window->partitionClause == NIL || ranked->window->orderClause == NIL)
		return false;
	first = linitial_node(SortGroupClause, ranked->window->orderClause);
	order = reinterpret_cast<const OpExpr *>(
		get_sortgroupclause_expr(const_cast<SortGroupClause *>(first), query->targetList));
	if (!IsA(order, OpExpr) || !is_distance_operator(order->opno) || first->nulls_first ||
		first->sortop != Float8LessOperator)
		return false;
	if (bms_num_members(pull_varnos(nullptr, reinterpret_cast<Node *>(const_cast<OpExpr *>(order)))) != 2)
		return false;
	for (int i = 0; i < 2; i++)
	{
		ranked->outer = tables[i];
		ranked->table = tables[1 - i];
		if (partitions_are_rows(query, ranked->window, ranked->outer) && has_index_for(query, ranked->table, order))
			return true;
	}
	return false;
}

/// The query of a sub-query, or of a WITH query that only this entry reads; null for all else.
Query *
query_of(const Query *above, const RangeTblEntry *entry)
{
	ListCell *cell;

	if (entry->rtekind == RTE_SUBQUERY)
		return entry->security_barrier || entry->lateral ? nullptr : entry->subquery;
	if (entry->rtekind != RTE_CTE || entry->ctelevelsup > 0 || entry->self_reference)
		return nullptr;
	foreach (cell, above->cteList)
	{
		const CommonTableExpr *with = lfirst_node(CommonTableExpr, cell);

		if (strcmp(with->ctename, entry->ctename) == 0)
			return with->cterefcount == 1 && !with->cterecursive ? castNode(Query, with->ctequery) : nullptr;
	}
	return nullptr;
}

/// Change the sub-query number `rel` of the query, if one of the conditions above it bounds its row numbers.
void
limit_ranked(Query *above, List *conditions, int rel)
{
	Ranked ranked = {};
	List *own;
	int tables[2];
	ListCell *cell;
	bool bounded = false;

	ranked.query = query_of(above, rt_fetch(rel, above->rtable));
	if (ranked.query == nullptr || !only_ranks(ranked.query))
		return;
	ranked.window = linitial_node(WindowClause, ranked.query->windowClause);
	if (!two_tables(ranked.query, tables, &own) ||
		!only_of(bms_add_member(bms_make_singleton(tables[0]), tables[1]),
			list_concat_copy(ranked.query->targetList, own)) ||
		other_window_function(
			reinterpret_cast<Node *>(ranked.query->targetList), const_cast<WindowClause *>(ranked.window)))
		return;
	foreach (cell, ranked.query->targetList)
	{
		const TargetEntry *target = lfirst_node(TargetEntry, cell);
		ListCell *other;

		if (!IsA(target->expr, WindowFunc))
			continue;
		foreach (other, conditions)
		{
			int64 most;

			if (!upper_bound(static_cast<Node *>(lfirst(other)), rel, target->resno, &most))
				continue;
			ranked.n_rows = bounded ? Min(ranked.n_rows, most) : most;
			bounded = true;
		}
	}
	if (bounded && find_tables(&ranked, tables))
		ranked_replace_table(&ranked, own);
}

/// The relations that FROM joins, without the nullable sides of outer joins; conditions: those of all of them.
void
limit_in(Query *query, Node *item, List *conditions)
{
	const JoinExpr *join = reinterpret_cast<const JoinExpr *>(item);

	if (IsA(item, RangeTblRef))
		limit_ranked(query, conditions, reinterpret_cast<const RangeTblRef *>(item)->rtindex);
	else if (IsA(item, JoinExpr) && join->jointype == JOIN_INNER)
	{
		List *more =
			list_concat_copy(conditions, make_ands_implicit(reinterpret_cast<Expr *>(const_cast<Node *>(join->quals))));

		limit_in(query, join->larg, more);
		limit_in(query, join->rarg, more);
	}
}

} // namespace

void
limit_ranked_queries(Query *query)
{
	ListCell *cell;

	check_stack_depth();
	if (query->commandType == CMD_SELECT && query->rowMarks == NIL && query->jointree != nullptr)
		foreach (cell, query->jointree->fromlist)
			limit_in(query, static_cast<Node *>(lfirst(cell)),
				make_ands_implicit(reinterpret_cast<Expr *>(query->jointree->quals)));
	foreach (cell, query->rtable)
		if (lfirst_node(RangeTblEntry, cell)->rtekind == RTE_SUBQUERY)
			limit_ranked_queries(lfirst_node(RangeTblEntry, cell)->subquery);
}

} // namespace vectorgpu::am
