// See ranked_tables.hpp. The rewriter has locked the tables.
#include "am/ahead/ranked_tables.hpp"

#include "am/method/index_access.hpp"
#include "am/method/table_indexes.hpp"

extern "C"
{
#include "access/stratnum.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class_d.h"
#include "catalog/pg_inherits.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
}

namespace vectorgpu::am
{

namespace
{

/// A column of a unique index.
struct KeyColumn
{
	AttrNumber attribute;
	Oid family;
	Oid collation;
};

/// True if the window is partitioned by a column of the relation, with the index's equality.
bool
is_partitioned_by(const Query *query, const WindowClause *window, int rel, const KeyColumn *key)
{
	ListCell *cell;

	foreach (cell, window->partitionClause)
	{
		const SortGroupClause *clause = lfirst_node(SortGroupClause, cell);
		const Var *column = reinterpret_cast<const Var *>(
			get_sortgroupclause_expr(const_cast<SortGroupClause *>(clause), query->targetList));

		if (IsA(column, Var) && static_cast<int>(column->varno) == rel && column->varattno == key->attribute &&
			get_op_opfamily_strategy(clause->eqop, key->family) == BTEqualStrategyNumber &&
			(!OidIsValid(key->collation) || get_collation_isdeterministic(key->collation)))
			return true;
	}
	return false;
}

/// True if the index, of a table with these columns, holds each row's key at once and once, and the window is
/// partitioned by it.
bool
is_key(const Query *query, const WindowClause *window, int rel, TupleDesc columns, const Relation index)
{
	const Form_pg_index form = index->rd_index;

	if (index->rd_rel->relam != BTREE_AM_OID || !form->indisunique || !form->indimmediate || !form->indisvalid ||
		RelationGetIndexPredicate(index) != NIL)
		return false;
	for (int i = 0; i < form->indnkeyatts; i++)
	{
		const KeyColumn key = {form->indkey.values[i], index->rd_opfamily[i], index->rd_indcollation[i]};

		if (key.attribute <= 0 || !TupleDescAttr(columns, key.attribute - 1)->attnotnull ||
			!is_partitioned_by(query, window, rel, &key))
			return false;
	}
	return true;
}

/// True if an index orders its first column, `column`, by the operator, for all rows of the table.
bool
orders_by(const Relation index, AttrNumber column, Oid op)
{
	return is_vectorgpu_method(index->rd_rel->relam) && index->rd_index->indisvalid &&
		index->rd_index->indkey.values[0] == column && RelationGetIndexPredicate(index) == NIL &&
		OidIsValid(get_op_opfamily_sortfamily(op, index->rd_opfamily[0]));
}

} // namespace

bool
partitions_are_rows(const Query *query, const WindowClause *window, int rel)
{
	const RangeTblEntry *entry = rt_fetch(rel, query->rtable);

	// A table's key says nothing of the tables that inherit from it; a partitioned table's does.
	if (entry->relkind != RELKIND_PARTITIONED_TABLE && entry->inh && has_subclass(entry->relid))
		return false;
	return any_index(entry,
		[&](Relation table, Relation index) { return is_key(query, window, rel, RelationGetDescr(table), index); });
}

bool
has_index_for(const Query *query, int rel, const OpExpr *distance)
{
	const RangeTblEntry *entry = rt_fetch(rel, query->rtable);
	const Var *column = static_cast<const Var *>(linitial(distance->args));
	Oid op = distance->opno;

	if (!IsA(column, Var) || static_cast<int>(column->varno) != rel)
	{
		column = static_cast<const Var *>(lsecond(distance->args));
		op = get_commutator(op);
	}
	if (!IsA(column, Var) || static_cast<int>(column->varno) != rel || entry->tablesample != nullptr || !OidIsValid(op))
		return false;
	return any_index(entry, [&](Relation, Relation index) { return orders_by(index, column->varattno, op); });
}

} // namespace vectorgpu::am
