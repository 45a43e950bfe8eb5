// See sort_key.hpp. An expression serves if PostgreSQL's own arithmetic makes it monotone in the distance: additions,
// products and quotients with a constant round to the nearest number, which keeps the order of different values or
// makes them equal. Library functions such as exp() promise no such thing.
#include "am/filtered/sort_key.hpp"

#include "am/method/am_interface.hpp"
#include "am/method/distance_clause.hpp"

#include <cmath>
#include <cstring>
#include <limits>

extern "C"
{
#include "catalog/dependency.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr char kInnerProductName[] = "inner_product"; // of pgvector and of this extension: minus the operator <#>
constexpr double kNoLeast = -std::numeric_limits<double>::infinity();

/// An expression that is monotone in a distance of the index.
struct Monotone
{
	Expr *distance; // null: it is not
	bool decreasing;
	double least; // no value of it is less
};

/// An operator, or a call of a function.
struct Call
{
	Oid function;
	Oid collation;
	List *args;
};

bool
read_call(Expr *expression, Call *call)
{
	if (IsA(expression, OpExpr))
	{
		const OpExpr *op = reinterpret_cast<OpExpr *>(expression);

		*call = {get_opcode(op->opno), op->inputcollid, op->args};
		return true;
	}
	if (IsA(expression, FuncExpr))
	{
		const FuncExpr *function = reinterpret_cast<FuncExpr *>(expression);

		*call = {function->funcid, function->inputcollid, function->args};
		return true;
	}
	return false;
}

/// The index whose order is compared with a key, and what its operator class says of the first column.
struct Ordered
{
	IndexOptInfo *index;
	Metric metric;
	Oid opno;     // of the distance between two values of the column's type; invalid: the class has none
	bool foreign; // kForeignDistance
};

/// False if the operator class says nothing of its distance.
bool
read_class(IndexOptInfo *index, Ordered *ordered)
{
	const Oid type = index->opcintype[0];
	const Oid shape = get_opfamily_proc(index->opfamily[0], type, type, kShapeSupport);
	const Oid opno = get_opfamily_member(index->opfamily[0], type, type, kDistanceStrategy);
	int32 code;

	if (!OidIsValid(shape))
		return false;
	code = DatumGetInt32(OidFunctionCall0(shape));
	*ordered = {index, static_cast<Metric>(code & 0xFF), opno, (code & kForeignDistance) != 0};
	return true;
}

/// Return the operator expression if the index's first column is ordered by it, with the column on the left; or null.
Expr *
as_distance(IndexOptInfo *index, Expr *expression)
{
	OpExpr *order = index_distance(index, expression);
	Node *query;

	if (order == nullptr ||
		get_op_opfamily_sortfamily(order->opno, index->opfamily[0]) !=
			lookup_type_cache(FLOAT8OID, TYPECACHE_BTREE_OPFAMILY)->btree_opf)
		return nullptr;
	query = static_cast<Node *>(lsecond(order->args));
	if (contain_var_clause(query) || contain_volatile_functions(query) || contain_subplans(query))
		return nullptr;
	return reinterpret_cast<Expr *>(order);
}

/// True if the function is inner_product() of the extension whose operator has the function `negative`.
bool
is_inner_product(Oid function, Oid negative)
{
	const char *name = get_func_name(function);
	const Oid extension = getExtensionOfObject(ProcedureRelationId, function);

	return name != nullptr && strcmp(name, kInnerProductName) == 0 && OidIsValid(extension) &&
		extension == getExtensionOfObject(ProcedureRelationId, negative);
}

/// Return a call of the function behind the index's operator, or of inner_product(), as that operator.
Expr *
operator_of_call(const Ordered &ordered, const Call &call, bool *negated)
{
	const Oid type = ordered.index->opcintype[0];
	const Oid function = OidIsValid(ordered.opno) ? get_opcode(ordered.opno) : InvalidOid;
	Expr *order;

	if (!OidIsValid(function) || list_length(call.args) != 2 ||
		exprType(static_cast<Node *>(linitial(call.args))) != type ||
		exprType(static_cast<Node *>(lsecond(call.args))) != type)
		return nullptr;
	*negated = ordered.metric == Metric::kInnerProduct && is_inner_product(call.function, function);
	if (call.function != function && !*negated)
		return nullptr;
	order = make_opclause(ordered.opno, FLOAT8OID, false, static_cast<Expr *>(linitial(call.args)),
		static_cast<Expr *>(lsecond(call.args)), InvalidOid, call.collation);
	reinterpret_cast<OpExpr *>(order)->opfuncid = function;
	return order;
}

/// The distance itself, as an operator or a function.
Monotone
read_distance(const Ordered &ordered, Expr *expression)
{
	Monotone found = {nullptr, false, kNoLeast};
	Expr *order = expression;
	Call call;

	if (IsA(expression, FuncExpr) && read_call(expression, &call))
		order = operator_of_call(ordered, call, &found.decreasing);
	if (order != nullptr && IsA(order, OpExpr))
		found.distance = as_distance(ordered.index, order);
	if (found.distance == nullptr)
		return found;
	switch (ordered.metric)
	{
		case Metric::kL2:
		case Metric::kL1:
		case Metric::kHamming:
		case Metric::kJaccard:
			found.least = 0;
			break;
		case Metric::kCosine:
			found.least = -0.5; // 0, but for rounding
			break;
		default:
			break;
	}
	return found;
}

void
negate(Monotone *found)
{
	found->decreasing = !found->decreasing;
	found->least = kNoLeast;
}

/// A function of one expression. Casts may round a small number to 0.
bool
apply_function(Oid function, Monotone *found)
{
	switch (function)
	{
		case F_FLOAT8UM:
		case F_NUMERIC_UMINUS:
			negate(found);
			return true;
		case F_FLOAT8UP:
			return true;
		case F_FLOAT4_FLOAT8:
		case F_FLOAT8_FLOAT4:
		case F_NUMERIC_FLOAT8:
		case F_FLOAT8_NUMERIC:
		case F_ROUND_NUMERIC:
		case F_ROUND_NUMERIC_INT4:
			found->least = found->least >= 0 ? 0 : kNoLeast;
			return true;
		case F_SQRT_FLOAT8:
		case F_DSQRT:
			if (!(found->least >= 0)) // of a negative number it is an error
				return false;
			found->least = std::sqrt(found->least);
			return true;
		default:
			return false;
	}
}

/// <found> <function> <constant>
bool
apply_right(Oid function, double constant, Monotone *found)
{
	switch (function)
	{
		case F_FLOAT8PL:
			found->least += constant;
			return true;
		case F_FLOAT8MI:
			found->least -= constant;
			return true;
		case F_FLOAT8MUL:
		case F_FLOAT8DIV:
			if (constant == 0)
				return false;
			if (constant < 0)
				negate(found);
			else
				found->least = function == F_FLOAT8MUL ? found->least * constant : found->least / constant;
			return true;
		default:
			return false;
	}
}

/// <constant> <function> <found>
bool
apply_left(double constant, Oid function, Monotone *found)
{
	switch (function)
	{
		case F_FLOAT8MI:
			negate(found);
			return true;
		case F_FLOAT8DIV: // 1 / (1 + distance)
			if (constant == 0 || !(found->least > 0))
				return false;
			if (constant > 0)
				negate(found);
			found->least = constant > 0 ? 0 : kNoLeast;
			return true;
		case F_FLOAT8PL:
		case F_FLOAT8MUL:
			return apply_right(function, constant, found);
		default:
			return false;
	}
}

bool
read_number(const Node *node, double *number)
{
	const Const *constant = reinterpret_cast<const Const *>(node);

	if (!IsA(node, Const) || constant->constisnull || constant->consttype != FLOAT8OID)
		return false;
	*number = DatumGetFloat8(constant->constvalue);
	return std::isfinite(*number);
}

Monotone
read_monotone(const Ordered &ordered, Expr *expression)
{
	constexpr Monotone kNone = {nullptr, false, kNoLeast};
	Monotone found = read_distance(ordered, expression);
	double number;
	Call call;
	bool serves;

	check_stack_depth();
	if (found.distance != nullptr || !read_call(expression, &call) || call.args == NIL || list_length(call.args) > 2)
		return found.distance != nullptr ? found : kNone;
	if (list_length(call.args) == 1 || call.function == F_ROUND_NUMERIC_INT4)
	{
		const Node *digits = static_cast<Node *>(llast(call.args));

		if (list_length(call.args) == 2 &&
			(!IsA(digits, Const) || reinterpret_cast<const Const *>(digits)->constisnull))
			return kNone;
		found = read_monotone(ordered, static_cast<Expr *>(linitial(call.args)));
		serves = found.distance != nullptr && apply_function(call.function, &found);
	}
	else if (read_number(static_cast<Node *>(linitial(call.args)), &number))
	{
		found = read_monotone(ordered, static_cast<Expr *>(lsecond(call.args)));
		serves = found.distance != nullptr && apply_left(number, call.function, &found);
	}
	else if (read_number(static_cast<Node *>(lsecond(call.args)), &number))
	{
		found = read_monotone(ordered, static_cast<Expr *>(linitial(call.args)));
		serves = found.distance != nullptr && apply_right(call.function, number, &found);
	}
	else
		return kNone;
	return serves ? found : kNone;
}

} // namespace

SortKey
sort_key_find(PlannerInfo *root, IndexOptInfo *index)
{
	const PathKey *key = linitial_node(PathKey, root->query_pathkeys);
	const bool descending = pg::is_descending(key);
	Ordered ordered;
	ListCell *cell;

	if (key->pk_eclass->ec_has_volatile || !read_class(index, &ordered))
		return {};
	foreach (cell, pg::equal_expressions(key->pk_eclass, index->rel))
	{
		Expr *expression = static_cast<Expr *>(lfirst(cell));
		const Monotone found = read_monotone(ordered, expression);
		const Oid type = exprType(reinterpret_cast<Node *>(expression));

		// Not by another operator family's idea of the type's order.
		if (found.distance == nullptr || found.decreasing != descending ||
			lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY)->btree_opf != key->pk_opfamily)
			continue;
		return {
			.distance = found.distance,
			.expression = expression,
			.core = !descending && !key->pk_nulls_first && IsA(expression, OpExpr) &&
				as_distance(index, expression) != nullptr,
			.nulls_first = key->pk_nulls_first,
			.nan_first = descending && (ordered.metric == Metric::kCosine || ordered.metric == Metric::kInnerProduct),
			.rough = ordered.foreign,
		};
	}
	return {};
}

} // namespace vectorgpu::am
