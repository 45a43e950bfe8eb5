// See semijoin_query.hpp. `x IN (SELECT k …)` and `EXISTS (SELECT … WHERE k = x)` are planned by core as joins: nearest
// first with a look-up for each row, or the join first and a sort. Written as `x = ANY (ARRAY(SELECT DISTINCT k …))`
// they are a condition on a key column. Where that is possible a query is planned both ways; the cheaper plan is taken.
//
// Both say the same where a WHERE needs them to be true: no NULL is equal to anything, and of no elements none is. So
// only operands of the WHERE's AND are written anew, nothing below OR or NOT. Rights, row security and barriers of
// views stay with the sub-select.
#include "am/filtered/semijoin_query.hpp"

#include "am/filtered/list_size.hpp"
#include "am/method/index_access.hpp"
#include "am/method/table_indexes.hpp"
#include "pg/define_setting.hpp"

#include <utility>

extern "C"
{
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "parser/parse_clause.h"
#include "parser/parse_oper.h"
#include "parser/parsetree.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
}

namespace vectorgpu::am
{

namespace
{

// A list is read to its end before the first row is found, whatever length was expected. It has to cost clearly less.
constexpr double kGain = 0.9;

bool enabled = true;
planner_hook_type previous_hook = nullptr;

Node *
without_relabel(Node *node)
{
	while (node != nullptr && IsA(node, RelabelType))
		node = reinterpret_cast<Node *>(reinterpret_cast<RelabelType *>(node)->arg);
	return node;
}

/// True if the expression is a key column, behind the first, of an index of ours.
bool
is_key_column(const Query *query, Node *expression)
{
	const Var *column = reinterpret_cast<const Var *>(without_relabel(expression));
	const RangeTblEntry *entry;

	if (!IsA(column, Var) || column->varlevelsup != 0 || column->varattno <= 0)
		return false;
	entry = rt_fetch(column->varno, query->rtable);
	if (entry->rtekind != RTE_RELATION ||
		(entry->relkind != RELKIND_RELATION && entry->relkind != RELKIND_MATVIEW &&
			entry->relkind != RELKIND_PARTITIONED_TABLE))
		return false;
	return any_index(entry,
		[&](Relation, Relation index)
		{
			if (!is_vectorgpu_method(index->rd_rel->relam) || !index->rd_index->indisvalid)
				return false;
			for (int i = 1; i < index->rd_index->indnkeyatts; i++)
				if (index->rd_index->indkey.values[i] == column->varattno)
					return true;
			return false;
		});
}

/// True if the query has the rows of its FROM that meet its WHERE, one for each.
bool
is_plain(const Query *query)
{
	return query->setOperations == nullptr && !query->hasAggs && !query->hasWindowFuncs && !query->hasTargetSRFs &&
		query->groupClause == NIL && query->groupingSets == NIL && query->havingQual == nullptr &&
		query->distinctClause == NIL && query->limitCount == nullptr && query->limitOffset == nullptr &&
		query->sortClause == NIL && query->jointree != nullptr;
}

/// The queries in FROM and WITH, and the query itself.
template <class Visit>
bool
any_query(Query *query, Visit visit)
{
	ListCell *cell;

	check_stack_depth();
	if (visit(query))
		return true;
	foreach (cell, query->rtable)
		if (lfirst_node(RangeTblEntry, cell)->rtekind == RTE_SUBQUERY &&
			any_query(lfirst_node(RangeTblEntry, cell)->subquery, visit))
			return true;
	foreach (cell, query->cteList)
		if (any_query(castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery), visit))
			return true;
	return false;
}

bool
locks_rows(const Query *query)
{
	return query->rowMarks != NIL;
}

/// True if the sub-select can be read once, before the query.
bool
is_independent(Query *keys)
{
	return keys->commandType == CMD_SELECT && !any_query(keys, locks_rows) && !keys->hasModifyingCTE &&
		!contain_vars_of_level(reinterpret_cast<Node *>(keys), 1) &&
		!contain_volatile_functions(reinterpret_cast<Node *>(keys));
}

/// Leave out copies of keys, if the operator takes equal ones for the same; false: it may not, or types are in the way.
bool
leave_out_copies(Query *keys, Oid op, Oid collation)
{
	TargetEntry *key = linitial_node(TargetEntry, keys->targetList);
	const Oid type = exprType(reinterpret_cast<Node *>(key->expr));
	const Oid own_collation = exprCollation(reinterpret_cast<Node *>(key->expr));
	SortGroupClause *distinct;
	Oid less;
	Oid equal;
	bool hashes;

	// An array of arrays would have the elements of these.
	if (OidIsValid(get_base_element_type(type)) || !OidIsValid(get_array_type(type)))
		return false;
	get_sort_group_operators(type, false, false, false, &less, &equal, nullptr, &hashes);
	if (!OidIsValid(equal) || !equality_ops_are_compatible(equal, op))
		return false;
	// Others hold different texts to be equal.
	if ((OidIsValid(collation) && !get_collation_isdeterministic(collation)) ||
		(OidIsValid(own_collation) && !get_collation_isdeterministic(own_collation)))
		return false;
	if (!is_plain(keys))
		return true;
	distinct = makeNode(SortGroupClause);
	distinct->tleSortGroupRef = assignSortGroupRef(key, keys->targetList);
	distinct->eqop = equal;
	distinct->sortop = less;
	distinct->hashable = hashes;
	keys->distinctClause = list_make1(distinct);
	return true;
}

/// column op ANY (ARRAY(keys)); null: it cannot be written so. relabelled: the type that the operator takes keys for.
Node *
list_condition(Query *keys, Node *column, const OpExpr *compare, Oid op, Oid relabelled)
{
	const Oid type = exprType(reinterpret_cast<Node *>(linitial_node(TargetEntry, keys->targetList)->expr));
	SubLink *array = makeNode(SubLink);
	ScalarArrayOpExpr *condition = makeNode(ScalarArrayOpExpr);
	Node *list = reinterpret_cast<Node *>(array);

	if (!is_independent(keys) || !leave_out_copies(keys, op, compare->inputcollid))
		return nullptr;
	array->subLinkType = ARRAY_SUBLINK;
	array->subselect = reinterpret_cast<Node *>(keys);
	array->location = -1;
	if (relabelled != type)
	{
		if (!OidIsValid(get_array_type(relabelled)))
			return nullptr;
		list = reinterpret_cast<Node *>(makeRelabelType(reinterpret_cast<Expr *>(array), get_array_type(relabelled), -1,
			compare->inputcollid, COERCE_IMPLICIT_CAST));
	}
	condition->opno = op;
	condition->opfuncid = get_opcode(op);
	condition->useOr = true;
	condition->inputcollid = compare->inputcollid;
	condition->args = list_make2(column, list);
	condition->location = -1;
	return reinterpret_cast<Node *>(condition);
}

/// x IN (SELECT k …)
Node *
list_of_in(const Query *query, SubLink *link)
{
	const OpExpr *compare = reinterpret_cast<const OpExpr *>(link->testexpr);
	const Param *key;
	Node *right;

	if (compare == nullptr || !IsA(compare, OpExpr) || list_length(compare->args) != 2 ||
		!is_key_column(query, static_cast<Node *>(linitial(compare->args))))
		return nullptr;
	right = static_cast<Node *>(lsecond(compare->args));
	key = reinterpret_cast<const Param *>(without_relabel(right));
	if (!IsA(key, Param) || key->paramkind != PARAM_SUBLINK || key->paramid != 1)
		return nullptr;
	return list_condition(castNode(Query, link->subselect), static_cast<Node *>(linitial(compare->args)), compare,
		compare->opno, exprType(right));
}

/// The expression with columns of the query above as that query has them.
Node *
one_level_up(Node *expression)
{
	Node *copy = static_cast<Node *>(copyObjectImpl(expression));

	castNode(Var, without_relabel(copy))->varlevelsup = 0;
	return copy;
}

/// True if the expression is a column of the query above.
bool
is_outer_column(Node *expression)
{
	const Var *column = reinterpret_cast<const Var *>(without_relabel(expression));

	return IsA(column, Var) && column->varlevelsup == 1;
}

/// EXISTS (SELECT … WHERE k = x AND …)
Node *
list_of_exists(const Query *query, SubLink *link)
{
	Query *keys = castNode(Query, link->subselect);
	const OpExpr *compare = nullptr;
	List *rest = NIL;
	Node *column;
	Node *key;
	Oid op;
	ListCell *cell;

	if (!is_plain(keys) || keys->cteList != NIL)
		return nullptr;
	foreach (cell, make_ands_implicit(reinterpret_cast<Expr *>(keys->jointree->quals)))
	{
		if (!contain_vars_of_level(static_cast<Node *>(lfirst(cell)), 1))
			rest = lappend(rest, lfirst(cell));
		else if (compare != nullptr || !IsA(lfirst(cell), OpExpr))
			return nullptr;
		else
			compare = lfirst_node(OpExpr, cell);
	}
	if (compare == nullptr || list_length(compare->args) != 2)
		return nullptr;
	column = static_cast<Node *>(linitial(compare->args));
	key = static_cast<Node *>(lsecond(compare->args));
	op = compare->opno;
	if (!is_outer_column(column))
	{
		std::swap(column, key);
		op = get_commutator(op);
	}
	if (!OidIsValid(op) || !is_outer_column(column) || contain_vars_of_level(key, 1))
		return nullptr;
	column = one_level_up(column);
	if (!is_key_column(query, column))
		return nullptr;
	keys->jointree->quals = rest == NIL ? nullptr : reinterpret_cast<Node *>(make_ands_explicit(rest));
	keys->targetList = list_make1(makeTargetEntry(reinterpret_cast<Expr *>(key), 1, pstrdup("key"), false));
	return list_condition(keys, column, compare, op, exprType(key));
}

/// Write the condition anew, if it is a semijoin by a key column.
Node *
rewritten(const Query *query, Node *condition, bool *changed)
{
	SubLink *link;
	Node *list = nullptr;

	if (condition == nullptr)
		return nullptr;
	if (IsA(condition, BoolExpr) && reinterpret_cast<BoolExpr *>(condition)->boolop == AND_EXPR)
	{
		ListCell *cell;

		foreach (cell, reinterpret_cast<BoolExpr *>(condition)->args)
			lfirst(cell) = rewritten(query, static_cast<Node *>(lfirst(cell)), changed);
		return condition;
	}
	link = reinterpret_cast<SubLink *>(condition);
	if (!IsA(condition, SubLink))
		return condition;
	// What fails on the way leaves the sub-select changed: so it works on a copy.
	link = static_cast<SubLink *>(copyObjectImpl(link));
	if (link->subLinkType == ANY_SUBLINK)
		list = list_of_in(query, link);
	else if (link->subLinkType == EXISTS_SUBLINK)
		list = list_of_exists(query, link);
	if (list == nullptr)
		return condition;
	*changed = true;
	return list;
}

/// True if the query wants the first rows of an order, under a condition with a sub-select.
bool
is_search(const Query *query)
{
	return query->commandType == CMD_SELECT && query->hasSubLinks && query->sortClause != NIL &&
		query->limitCount != nullptr && query->rowMarks == NIL && query->jointree != nullptr &&
		query->jointree->quals != nullptr;
}

/// A copy of the query with its semijoins written anew; null: it has none.
Query *
with_lists(Query *query)
{
	bool changed = false;
	Query *copy;

	if (!any_query(query, is_search))
		return nullptr;
	copy = static_cast<Query *>(copyObjectImpl(query));
	any_query(copy,
		[&](Query *at)
		{
			if (is_search(at))
				at->jointree->quals = rewritten(at, at->jointree->quals, &changed);
			return false;
		});
	return changed ? copy : nullptr;
}

PlannedStmt *
plan_next(Query *query, const char *text, int options, ParamListInfo params)
{
	return previous_hook != nullptr ? previous_hook(query, text, options, params)
									: standard_planner(query, text, options, params);
}

PlannedStmt *
plan(Query *query, const char *text, int options, ParamListInfo params)
{
	Query *other = enabled ? with_lists(query) : nullptr;
	PlannedStmt *plain;
	PlannedStmt *listed;
	bool around; // of a query that is being planned around this one
	bool too_long;

	if (other == nullptr)
		return plan_next(query, text, options, params);
	around = list_set_too_long(false);
	listed = plan_next(other, text, options, params);
	too_long = list_set_too_long(false);
	plain = plan_next(query, text, options, params);
	list_set_too_long(around);
	return !too_long && pg::costs_less(listed->planTree, plain->planTree, kGain) ? listed : plain;
}

} // namespace

void
semijoin_query_install()
{
	pg::define_bool("vectorgpu.enable_semijoin_list",
		"Plans may read the keys of IN (SELECT ...) and EXISTS first, as a list that a key column of an index decides.",
		nullptr, &enabled, true, PGC_USERSET, GUC_EXPLAIN, nullptr, nullptr, nullptr);
	previous_hook = planner_hook;
	planner_hook = plan;
}

} // namespace vectorgpu::am
