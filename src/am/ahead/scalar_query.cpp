// See scalar_query.hpp. The query is changed before it is planned: the sub-select moves to FROM, behind a LEFT JOIN
// that is true. It returns at most one row, so the join returns the query's rows, and NULL where the sub-select has
// none. Core then plans, costs and explains it as any other join.
#include "am/ahead/scalar_query.hpp"

#include "am/ahead/ranked_query.hpp"
#include "am/method/distance_clause.hpp"
#include "am/scan/scan_settings.hpp"
#include "bridge/settings.hpp"

extern "C"
{
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"
}

namespace vectorgpu::am
{

namespace
{

planner_hook_type previous_hook = nullptr;

bool
is_one(Node *count)
{
	const Const *constant;

	if (count == nullptr)
		return false;
	count = eval_const_expressions(nullptr, count); // a literal is cast to bigint
	constant = reinterpret_cast<const Const *>(count);
	return IsA(count, Const) && !constant->constisnull && DatumGetInt64(constant->constvalue) == 1;
}

/// True if the sub-select searches for a value of the row above it and returns at most one row; and if it does not
/// matter when it is computed.
bool
is_search(Query *query)
{
	Node *order;

	if (query->commandType != CMD_SELECT || query->setOperations != nullptr || query->sortClause == NIL ||
		query->rowMarks != NIL || query->hasTargetSRFs || query->cteList != NIL || query->limitOffset != nullptr ||
		query->limitOption != LIMIT_OPTION_COUNT || !is_one(query->limitCount))
		return false;
	order = get_sortgroupclause_expr(linitial_node(SortGroupClause, query->sortClause), query->targetList);
	return IsA(order, OpExpr) && is_distance_operator(reinterpret_cast<const OpExpr *>(order)->opno) &&
		contain_vars_of_level(order, 1) && !contain_volatile_functions(reinterpret_cast<Node *>(query));
}

/// True if the sub-selects of the select list are computed for each row of FROM, which is one relation: no other plan
/// would compute them for fewer rows, or in another order than the rest.
bool
computes_all(const Query *query)
{
	const FromExpr *from = query->jointree;
	const RangeTblEntry *entry;

	if (query->commandType != CMD_SELECT || !query->hasSubLinks || query->setOperations != nullptr || query->hasAggs ||
		query->hasWindowFuncs || query->hasTargetSRFs || query->groupClause != NIL || query->groupingSets != NIL ||
		query->distinctClause != NIL || query->havingQual != nullptr || query->rowMarks != NIL ||
		(query->limitCount != nullptr && query->sortClause != NIL))
		return false;
	if (from == nullptr || list_length(from->fromlist) != 1 || !IsA(linitial(from->fromlist), RangeTblRef) ||
		checkExprHasSubLink(from->quals))
		return false;
	entry = rt_fetch(linitial_node(RangeTblRef, from->fromlist)->rtindex, query->rtable);
	return entry->rtekind == RTE_RELATION || entry->rtekind == RTE_FUNCTION || entry->rtekind == RTE_VALUES ||
		entry->rtekind == RTE_CTE;
}

/// Add an entry to the range table; return its number.
int
add_entry(Query *query, RangeTblEntry *entry)
{
	entry->eref = makeAlias("vectorgpu_search", NIL);
	query->rtable = lappend(query->rtable, entry);
	return list_length(query->rtable);
}

/// Move the sub-select to FROM; return the column that has its value.
Node *
move_to_from(Query *query, Query *search, TargetEntry *value)
{
	RangeTblEntry *entry = makeNode(RangeTblEntry);
	RangeTblEntry *join_entry = makeNode(RangeTblEntry);
	RangeTblRef *ref = makeNode(RangeTblRef);
	JoinExpr *join = makeNode(JoinExpr);
	Var *column;

	entry->rtekind = RTE_SUBQUERY;
	entry->subquery = search;
	entry->lateral = true;
	entry->inFromCl = true;
	ref->rtindex = add_entry(query, entry);
	entry->eref->colnames = list_make1(makeString(pstrdup("value")));
	join_entry->rtekind = RTE_JOIN;
	join_entry->jointype = JOIN_LEFT;
	join_entry->inFromCl = true;
	join->jointype = JOIN_LEFT;
	join->larg = reinterpret_cast<Node *>(query->jointree);
	join->rarg = reinterpret_cast<Node *>(ref);
	join->rtindex = add_entry(query, join_entry);
	query->jointree = makeFromExpr(list_make1(join), nullptr);
	column = makeVarFromTargetEntry(ref->rtindex, value);
	pg::set_nulled_by(column, join->rtindex);
	return reinterpret_cast<Node *>(column);
}

/// Change the query's select list, if it has such sub-selects.
void
change_query(Query *query)
{
	ListCell *cell;

	if (!computes_all(query))
		return;
	foreach (cell, query->targetList)
	{
		TargetEntry *target = lfirst_node(TargetEntry, cell);
		const SubLink *link = reinterpret_cast<const SubLink *>(target->expr);
		Query *search;
		TargetEntry *value;

		if (target->expr == nullptr || !IsA(link, SubLink) || link->subLinkType != EXPR_SUBLINK)
			continue;
		search = castNode(Query, link->subselect);
		value = linitial_node(TargetEntry, search->targetList);
		if (!value->resjunk && is_search(search))
			target->expr = reinterpret_cast<Expr *>(move_to_from(query, search, value));
	}
}

PlannedStmt *
plan(Query *query, const char *text, int options, ParamListInfo params)
{
	if (scan_reads_ahead())
		limit_ranked_queries(query);
	// UPDATE … WHERE CURRENT OF a cursor wants a plan without joins.
	if (scan_reads_ahead() && bridge::settings.worker && (options & CURSOR_OPT_FAST_PLAN) == 0)
	{
		ListCell *cell;

		change_query(query);
		foreach (cell, query->rtable) // INSERT … SELECT
			if (query->commandType == CMD_INSERT && lfirst_node(RangeTblEntry, cell)->rtekind == RTE_SUBQUERY)
				change_query(lfirst_node(RangeTblEntry, cell)->subquery);
	}
	return previous_hook != nullptr ? previous_hook(query, text, options, params)
									: standard_planner(query, text, options, params);
}

} // namespace

void
scalar_query_install()
{
	previous_hook = planner_hook;
	planner_hook = plan;
}

} // namespace vectorgpu::am
