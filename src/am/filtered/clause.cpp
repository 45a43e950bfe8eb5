// See clause.hpp. Negations go down to the leaves, as the planner does where it can; what remains are operators of one
// column, each true, false or unknown; only true passes.
#include "am/filtered/clause.hpp"

#include "am/keys/key_kind.hpp"

extern "C"
{
#include "access/stratnum.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"
}

namespace vectorgpu::am
{

namespace
{

struct Reader
{
	PlannerInfo *root;
	IndexOptInfo *index;
	ReadClauses *read;
};

bool read_node(const Reader &reader, Node *node, bool negated);

/// The key column behind the first that is this expression, and has the operator under the collation; 0: none. opno: 0
/// for any.
int
find_column(const Reader &reader, Node *expression, Oid opno, Oid collation)
{
	IndexOptInfo *index = reader.index;

	for (int column = 1; column < index->nkeycolumns; column++)
		if (match_index_to_operand(expression, column, index) &&
			(!OidIsValid(opno) || op_in_opfamily(opno, index->opfamily[column])) &&
			(!OidIsValid(index->indexcollations[column]) || !OidIsValid(opno) ||
				index->indexcollations[column] == collation))
			return column;
	return 0;
}

/// True if the expression has one value for all rows of a scan.
bool
is_same_for_all_rows(const Reader &reader, Node *expression)
{
	return !bms_is_member(static_cast<int>(reader.index->rel->relid), pull_varnos(reader.root, expression)) &&
		!contain_volatile_functions(expression) && !contain_subplans(expression);
}

void
write_joint(const Reader &reader, ClauseOp op, int n)
{
	reader.read->numbers = lappend_int(lappend_int(reader.read->numbers, static_cast<int>(op)), n);
}

/// expression: null: none. opno: 0: none.
void
write_leaf(const Reader &reader, ClauseOp op, int column, Oid opno, Oid collation, Node *expression)
{
	ReadClauses *read = reader.read;
	int strategy = 0;
	Oid left = InvalidOid;
	Oid right = InvalidOid;

	if (OidIsValid(opno))
		get_op_opfamily_properties(opno, reader.index->opfamily[column], false, &strategy, &left, &right);
	read->numbers = lappend_int(read->numbers, static_cast<int>(op));
	read->numbers = lappend_int(read->numbers, column + 1);
	read->numbers = lappend_int(read->numbers, strategy);
	read->numbers = lappend_int(read->numbers, static_cast<int>(right));
	read->numbers = lappend_int(read->numbers, static_cast<int>(collation));
	read->numbers = lappend_int(read->numbers, list_length(read->expressions));
	if (expression != nullptr)
		read->expressions = lappend(read->expressions, expression);
}

void
write_null_test(const Reader &reader, int column, bool is_null)
{
	write_leaf(reader, is_null ? ClauseOp::kIsNull : ClauseOp::kNotNull, column, InvalidOid, InvalidOid, nullptr);
}

/// `column <op> expression`. op: one of kCompare, kAnyOf, kAllOf, kDistinct.
bool
read_comparison(
	const Reader &reader, ClauseOp op, Node *operand, Oid opno, Oid collation, Node *expression, bool negated)
{
	int column;

	if (negated)
		opno = get_negator(opno);
	if (!OidIsValid(opno) || !is_same_for_all_rows(reader, expression))
		return false;
	column = find_column(reader, operand, opno, collation);
	if (column == 0)
		return false;
	write_leaf(reader, op, column, opno, collation, expression);
	return true;
}

/// All operands of OR have to be read. Of AND one is enough: the rows that pass it are tested then. tested: they are in
/// any case.
bool
read_joint(const Reader &reader, const List *operands, ClauseOp op, bool negated, bool tested)
{
	ReadClauses *read = reader.read;
	const int at = list_length(read->numbers) + 1;
	int n_read = 0;
	ListCell *cell;

	write_joint(reader, op, 0);
	foreach (cell, operands)
		if (read_node(reader, static_cast<Node *>(lfirst(cell)), negated))
			n_read++;
		else if (op == ClauseOp::kOr)
			return false;
	tested = tested || n_read < list_length(operands);
	if (tested)
		read->numbers = lappend_int(read->numbers, static_cast<int>(ClauseOp::kMaybe));
	lfirst_int(list_nth_cell(read->numbers, at)) = n_read + (tested ? 1 : 0);
	return n_read > 0;
}

/// A call whose function knows conditions that follow from it, as LIKE has a range of texts with the pattern's prefix.
bool
read_by_support(const Reader &reader, Node *call, Oid function, const List *arguments, Oid collation)
{
	const RegProcedure support = get_func_support(function);

	if (!OidIsValid(support))
		return false;
	for (int i = 0; i < list_length(arguments); i++)
	{
		const int column = find_column(reader, static_cast<Node *>(list_nth(arguments, i)), InvalidOid, collation);
		SupportRequestIndexCondition request = {};
		List *conditions;

		if (column == 0)
			continue;
		request.type = T_SupportRequestIndexCondition;
		request.root = reader.root;
		request.funcid = function;
		request.node = call;
		request.indexarg = i;
		request.index = reader.index;
		request.indexcol = column;
		request.opfamily = reader.index->opfamily[column];
		request.indexcollation = reader.index->indexcollations[column];
		request.lossy = true;
		conditions = reinterpret_cast<List *>(DatumGetPointer(OidFunctionCall1(support, PointerGetDatum(&request))));
		if (conditions != NIL)
			return read_joint(reader, conditions, ClauseOp::kAnd, false, request.lossy);
	}
	return false;
}

bool
read_operator(const Reader &reader, const OpExpr *clause, ClauseOp op, bool negated)
{
	Node *left;
	Node *right;

	if (list_length(clause->args) != 2)
		return false;
	left = static_cast<Node *>(linitial(clause->args));
	right = static_cast<Node *>(lsecond(clause->args));
	return read_comparison(reader, op, left, clause->opno, clause->inputcollid, right, negated) ||
		read_comparison(reader, op, right, get_commutator(clause->opno), clause->inputcollid, left, negated);
}

bool
read_call(const Reader &reader, Node *call, bool negated)
{
	if (negated)
		return false;
	if (IsA(call, OpExpr))
	{
		OpExpr *clause = reinterpret_cast<OpExpr *>(call);

		return read_by_support(reader, call, get_opcode(clause->opno), clause->args, clause->inputcollid);
	}

	const FuncExpr *clause = reinterpret_cast<const FuncExpr *>(call);

	return read_by_support(reader, call, clause->funcid, clause->args, clause->inputcollid);
}

/// IS [NOT] DISTINCT FROM: negated, it is the equality that the node names.
bool
read_distinct(const Reader &reader, const DistinctExpr *clause, bool negated)
{
	return read_operator(reader, clause, ClauseOp::kDistinct, !negated);
}

/// `constant = ANY (column)` of an array column: the column contains an array of the constant.
bool
read_element(const Reader &reader, const ScalarArrayOpExpr *clause)
{
	Node *constant = static_cast<Node *>(linitial(clause->args));
	Node *operand = static_cast<Node *>(lsecond(clause->args));
	const Oid type = exprType(constant);
	const Oid array_type = get_array_type(type);
	ArrayExpr *array;

	if (!clause->useOr || !OidIsValid(array_type) || get_base_element_type(exprType(operand)) != type ||
		lookup_type_cache(type, TYPECACHE_EQ_OPR)->eq_opr != clause->opno)
		return false;
	array = makeNode(ArrayExpr);
	array->array_typeid = array_type;
	array->array_collid = exprCollation(constant);
	array->element_typeid = type;
	array->elements = list_make1(constant);
	array->location = -1;
	return read_comparison(reader, ClauseOp::kCompare, operand, OID_ARRAY_CONTAINS_OP, clause->inputcollid,
		reinterpret_cast<Node *>(array), false);
}

bool
read_list(const Reader &reader, const ScalarArrayOpExpr *clause, bool negated)
{
	Node *operand = static_cast<Node *>(linitial(clause->args));
	Node *array = static_cast<Node *>(lsecond(clause->args));

	return read_comparison(reader, clause->useOr != negated ? ClauseOp::kAnyOf : ClauseOp::kAllOf, operand,
			   clause->opno, clause->inputcollid, array, negated) ||
		(!negated && read_element(reader, clause));
}

bool
read_null_test(const Reader &reader, const NullTest *test, bool negated)
{
	const int column =
		test->argisrow ? 0 : find_column(reader, reinterpret_cast<Node *>(test->arg), InvalidOid, InvalidOid);

	if (column == 0)
		return false;
	write_null_test(reader, column, (test->nulltesttype == IS_NULL) != negated);
	return true;
}

/// A boolean column, or its negation.
bool
read_boolean(const Reader &reader, Node *expression, bool value)
{
	const int column = find_column(reader, expression, BooleanEqualOperator, InvalidOid);

	if (column == 0)
		return false;
	write_leaf(reader, ClauseOp::kCompare, column, BooleanEqualOperator, InvalidOid, makeBoolConst(value, false));
	return true;
}

/// A boolean column IS [NOT] TRUE, FALSE or UNKNOWN; of other expressions IS TRUE and IS FALSE.
bool
read_boolean_test(const Reader &reader, const BooleanTest *test, bool negated)
{
	Node *argument = reinterpret_cast<Node *>(test->arg);
	const int column = find_column(reader, argument, BooleanEqualOperator, InvalidOid);
	const BoolTestType type = test->booltesttype;
	const bool is_not = (type == IS_NOT_TRUE || type == IS_NOT_FALSE || type == IS_NOT_UNKNOWN) != negated;
	const bool of_true = type == IS_TRUE || type == IS_NOT_TRUE;

	if (type == IS_UNKNOWN || type == IS_NOT_UNKNOWN)
	{
		if (column == 0)
			return false;
		write_null_test(reader, column, !is_not);
		return true;
	}
	if (!is_not)
		return read_node(reader, argument, !of_true);
	if (column == 0)
		return false;
	write_joint(reader, ClauseOp::kOr, 2);
	write_null_test(reader, column, true);
	return read_boolean(reader, argument, !of_true);
}

bool
read_boolean_expression(const Reader &reader, const BoolExpr *clause, bool negated)
{
	if (clause->boolop == NOT_EXPR)
		return read_node(reader, static_cast<Node *>(linitial(clause->args)), !negated);
	return read_joint(
		reader, clause->args, (clause->boolop == AND_EXPR) != negated ? ClauseOp::kAnd : ClauseOp::kOr, negated, false);
}

/// A condition that all rows meet, or none, as `$1 IS NULL` in `$1 IS NULL OR tenant = $1`.
bool
read_test(const Reader &reader, Node *node, bool negated)
{
	if (exprType(node) != BOOLOID || !is_same_for_all_rows(reader, node))
		return false;
	if (negated)
		node = reinterpret_cast<Node *>(makeBoolExpr(NOT_EXPR, list_make1(node), -1));
	write_leaf(reader, ClauseOp::kTest, -1, InvalidOid, InvalidOid, node);
	return true;
}

bool
read_by_kind(const Reader &reader, Node *node, bool negated)
{
	switch (nodeTag(node))
	{
		case T_BoolExpr:
			return read_boolean_expression(reader, reinterpret_cast<BoolExpr *>(node), negated);
		case T_OpExpr:
			return read_operator(reader, reinterpret_cast<OpExpr *>(node), ClauseOp::kCompare, negated) ||
				read_call(reader, node, negated);
		case T_FuncExpr:
			return read_call(reader, node, negated);
		case T_DistinctExpr:
			return read_distinct(reader, reinterpret_cast<DistinctExpr *>(node), negated);
		case T_ScalarArrayOpExpr:
			return read_list(reader, reinterpret_cast<ScalarArrayOpExpr *>(node), negated);
		case T_NullTest:
			return read_null_test(reader, reinterpret_cast<NullTest *>(node), negated);
		case T_BooleanTest:
			return read_boolean_test(reader, reinterpret_cast<BooleanTest *>(node), negated);
		default:
			return false;
	}
}

/// Read a condition, or its negation. What is not read leaves nothing behind.
bool
read_node(const Reader &reader, Node *node, bool negated)
{
	ReadClauses *read = reader.read;
	const int n_numbers = list_length(read->numbers);
	const int n_expressions = list_length(read->expressions);

	check_stack_depth();
	if (read_by_kind(reader, node, negated))
		return true;
	read->numbers = list_truncate(read->numbers, n_numbers);
	read->expressions = list_truncate(read->expressions, n_expressions);
	return read_boolean(reader, node, !negated) || read_test(reader, node, negated);
}

} // namespace

bool
clause_read(PlannerInfo *root, IndexOptInfo *index, Node *clause, ReadClauses *read)
{
	return read_node({root, index, read}, clause, false);
}

bool
clause_is_key(PlannerInfo *root, IndexOptInfo *index, Node *clause)
{
	const Reader reader = {root, index, nullptr};
	const auto is_boolean = [&](Node *node)
	{ return find_column(reader, node, BooleanEqualOperator, InvalidOid) != 0; };
	Node *argument = clause;

	if (IsA(clause, BooleanTest))
	{
		const BooleanTest *test = reinterpret_cast<const BooleanTest *>(clause);

		if (test->booltesttype == IS_TRUE || test->booltesttype == IS_FALSE)
			argument = reinterpret_cast<Node *>(test->arg);
	}
	else if (is_notclause(clause))
		argument = reinterpret_cast<Node *>(get_notclausearg(clause));
	if (is_boolean(argument))
		return pg::kCoreTakesBooleans;
	return IsA(clause, OpExpr) || IsA(clause, FuncExpr) || IsA(clause, NullTest);
}

} // namespace vectorgpu::am
