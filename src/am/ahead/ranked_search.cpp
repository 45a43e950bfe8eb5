// See ranked_search.hpp.
#include "am/ahead/ranked_search.hpp"

#include "pg/compat.hpp"

extern "C"
{
#include "catalog/pg_type_d.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
}

namespace vectorgpu::am
{

namespace
{

/// In the search: columns of t are its own, those of q are of the query above it.
Node *
into_search(Node *node, Ranked *ranked)
{
	if (node == nullptr)
		return nullptr;
	if (IsA(node, Var))
	{
		Var *var = static_cast<Var *>(copyObjectImpl(node));

		if (static_cast<int>(var->varno) == ranked->table)
			var->varno = var->varnosyn = 1;
		else
			var->varlevelsup = 1;
		return reinterpret_cast<Node *>(var);
	}
	return expression_tree_mutator(node, pg::as_walker(into_search), ranked);
}

/// Above the search: columns of t are those of the search, which gets the ones that it lacks.
Node *
above_search(Node *node, Ranked *ranked)
{
	AttrNumber number = 0; // of the column in the search
	ListCell *cell;
	Var *column;

	if (node == nullptr)
		return nullptr;
	if (!IsA(node, Var) || static_cast<int>(reinterpret_cast<Var *>(node)->varno) != ranked->table)
		return expression_tree_mutator(node, pg::as_walker(above_search), ranked);
	column = static_cast<Var *>(copyObjectImpl(node));
	foreach (cell, ranked->columns)
	{
		number++;
		if (lfirst_node(Var, cell)->varattno == column->varattno)
			break;
	}
	if (cell == nullptr)
	{
		number++;
		ranked->columns = lappend(ranked->columns, copyObjectImpl(column));
		ranked->search->targetList = lappend(ranked->search->targetList,
			makeTargetEntry(reinterpret_cast<Expr *>(into_search(node, ranked)), number,
				psprintf("column%d", static_cast<int>(number)), false));
	}
	column->varattno = number;
	column->varnosyn = column->varno;
	column->varattnosyn = column->varattno;
	return reinterpret_cast<Node *>(column);
}

/// Make the search: the rows of t under the conditions that name it, in the window's order, as many as are wanted.
/// *rest: the other conditions.
void
make_search(Ranked *ranked, List *conditions, List **rest)
{
	Query *query = ranked->query;
	Query *search = makeNode(Query);
	RangeTblRef *ref = makeNode(RangeTblRef);
	List *own = NIL;
	ListCell *cell;

	*rest = NIL;
	foreach (cell, conditions)
	{
		Node *condition = static_cast<Node *>(lfirst(cell));

		if (bms_is_member(ranked->table, pull_varnos(nullptr, condition)))
			own = lappend(own, into_search(condition, ranked));
		else
			*rest = lappend(*rest, condition);
	}
	search->commandType = CMD_SELECT;
	search->canSetTag = true;
	search->hasRowSecurity = query->hasRowSecurity;
	pg::move_entry(query, ranked->table, search);
	ref->rtindex = 1;
	search->jointree =
		makeFromExpr(list_make1(ref), own != NIL ? reinterpret_cast<Node *>(make_ands_explicit(own)) : nullptr);
	search->limitCount = reinterpret_cast<Node *>(
		makeConst(INT8OID, -1, InvalidOid, sizeof(int64), Int64GetDatum(ranked->n_rows), false, FLOAT8PASSBYVAL));
	search->limitOption = LIMIT_OPTION_COUNT;
	ranked->search = search;
}

/// Order the search as the window is.
void
order_search(Ranked *ranked)
{
	Query *search = ranked->search;
	Index reference = 0;
	ListCell *cell;

	foreach (cell, ranked->window->orderClause)
	{
		SortGroupClause *order = static_cast<SortGroupClause *>(copyObjectImpl(lfirst(cell)));
		Node *value = get_sortgroupclause_expr(lfirst_node(SortGroupClause, cell), ranked->query->targetList);
		TargetEntry *entry = makeTargetEntry(reinterpret_cast<Expr *>(into_search(value, ranked)),
			static_cast<AttrNumber>(list_length(search->targetList) + 1), nullptr, true);

		entry->ressortgroupref = order->tleSortGroupRef = ++reference;
		search->targetList = lappend(search->targetList, entry);
		search->sortClause = lappend(search->sortClause, order);
	}
}

} // namespace

void
ranked_replace_table(Ranked *ranked, List *conditions)
{
	Query *query = ranked->query;
	const RangeTblEntry *table = rt_fetch(ranked->table, query->rtable);
	RangeTblEntry *entry = makeNode(RangeTblEntry);
	RangeTblRef *refs[2] = {makeNode(RangeTblRef), makeNode(RangeTblRef)};
	List *names = NIL;
	List *rest;
	Node *targets;
	ListCell *cell;

	make_search(ranked, conditions, &rest);
	targets = above_search(reinterpret_cast<Node *>(query->targetList), ranked);
	order_search(ranked); // by the sub-query's columns as they were
	query->targetList = castNode(List, targets);
	foreach (cell, ranked->search->targetList)
		if (!lfirst_node(TargetEntry, cell)->resjunk)
			names = lappend(names, makeString(pstrdup(lfirst_node(TargetEntry, cell)->resname)));
	entry->rtekind = RTE_SUBQUERY;
	entry->subquery = ranked->search;
	entry->lateral = true;
	entry->inFromCl = true;
	entry->eref = makeAlias(table->eref->aliasname, names);
	lfirst(list_nth_cell(query->rtable, ranked->table - 1)) = entry;
	refs[0]->rtindex = ranked->outer;
	refs[1]->rtindex = ranked->table;
	query->jointree = makeFromExpr(
		list_make2(refs[0], refs[1]), rest != NIL ? reinterpret_cast<Node *>(make_ands_explicit(rest)) : nullptr);
}

} // namespace vectorgpu::am
