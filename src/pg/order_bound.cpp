// See order_bound.hpp. At the executor's start each condition is decomposed into steps that lead from the distance d to
// the compared expression a * d + b. The constants a and b are computed at each start of the scan, when parameters are
// known.
#include "pg/order_bound.hpp"

#include <cfloat>
#include <cmath>
#include <limits>

extern "C"
{
#include "access/relscan.h"
#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"
}

namespace vectorgpu::pg
{

namespace
{

// Rounding of the steps moves the bound by a few units in the last place of the largest intermediate number.
constexpr double kRounding = 16 * DBL_EPSILON;
constexpr double kLeastNumber = 1e-250; // below this, products lose more digits than the margin covers

/// An operand that is the same for all rows.
struct Operand
{
	ExprState *state;
	bool is_float4;
};

/// One arithmetic operator around the distance, innermost first.
struct Step
{
	Oid function;        // F_FLOAT8PL, F_FLOAT8MI, F_FLOAT8MUL, F_FLOAT8DIV, F_FLOAT8UM
	bool distance_right; // the distance is the right operand
	Operand operand;
};

/// One condition: steps around the distance, compared with a limit.
struct Condition
{
	StrategyNumber strategy; // of (expression, limit)
	Operand limit;
	ExprState *
		query; // query operand of the distance if it differs from that of the ORDER BY; null: it is the same expression
	Oid query_type;
	List *steps; // of Step
};

/// State while the expression of a condition is analyzed.
struct Finder
{
	const OrderedScan &scan;
	const OpExpr *order;
	Condition *condition;
};

} // namespace

struct OrderBound
{
	OrderedScan scan;
	List *conditions; // of Condition
};

namespace
{

/// True if the expression has one value for all rows of a scan, and computing it early does no harm.
bool
is_same_for_all_rows(Node *expression)
{
	return !contain_var_clause(expression) && !contain_volatile_functions(expression) && !contain_subplans(expression);
}

/// Make an operand from an expression. Returns false unless it has a floating-point type and one value for all rows.
bool
make_operand(const Finder *finder, Node *expression, Operand *operand)
{
	const Oid type = exprType(expression);

	if ((type != FLOAT8OID && type != FLOAT4OID) || !is_same_for_all_rows(expression))
		return false;
	operand->state = ExecInitExpr(reinterpret_cast<Expr *>(expression), &finder->scan.state->ps);
	operand->is_float4 = type == FLOAT4OID;
	return true;
}

/// Get the two operands of an operator, or of a direct call of its function. Returns false for any other expression.
bool
two_operands(Node *expression, Oid *function, Node **left, Node **right)
{
	List *args = NIL;

	if (IsA(expression, OpExpr))
	{
		args = reinterpret_cast<OpExpr *>(expression)->args;
		*function = get_opcode(reinterpret_cast<OpExpr *>(expression)->opno);
	}
	else if (IsA(expression, FuncExpr))
	{
		args = reinterpret_cast<FuncExpr *>(expression)->args;
		*function = reinterpret_cast<FuncExpr *>(expression)->funcid;
	}
	if (list_length(args) != 2)
		return false;
	*left = static_cast<Node *>(linitial(args));
	*right = static_cast<Node *>(lsecond(args));
	return true;
}

/// True if the expression is the distance of the ORDER BY, to the same query or to one that is compared with it at the
/// start of each scan.
bool
is_distance(const Finder *finder, Node *expression)
{
	Node *const column = static_cast<Node *>(linitial(finder->order->args));
	Node *const ordered_query = static_cast<Node *>(lsecond(finder->order->args));
	const Oid commutator = get_commutator(finder->order->opno);
	Oid function;
	Node *left;
	Node *right;
	Node *query = nullptr;

	if (equal(expression, finder->order))
		return true;
	if (!two_operands(expression, &function, &left, &right))
		return false;
	if (function == get_opcode(finder->order->opno) && equal(left, column))
		query = right;
	else if (OidIsValid(commutator) && function == get_opcode(commutator) && equal(right, column))
		query = left;
	if (query == nullptr || exprType(query) != exprType(ordered_query) || !is_same_for_all_rows(query))
		return false;
	if (!equal(query, ordered_query))
	{
		finder->condition->query = ExecInitExpr(reinterpret_cast<Expr *>(query), &finder->scan.state->ps);
		finder->condition->query_type = exprType(query);
	}
	return true;
}

/// Decompose arithmetic around the distance into steps. Returns false if the expression has another form.
bool
take_apart(const Finder *finder, Node *expression)
{
	Step *step;
	Oid function = InvalidOid;
	Node *left;
	Node *right;

	check_stack_depth();
	if (is_distance(finder, expression))
		return true;
	step = static_cast<Step *>(palloc0(sizeof(Step)));
	if (IsA(expression, OpExpr) && list_length(reinterpret_cast<OpExpr *>(expression)->args) == 1 &&
		get_opcode(reinterpret_cast<OpExpr *>(expression)->opno) == F_FLOAT8UM)
	{
		step->function = F_FLOAT8UM;
		if (!take_apart(finder, static_cast<Node *>(linitial(reinterpret_cast<OpExpr *>(expression)->args))))
			return false;
		finder->condition->steps = lappend(finder->condition->steps, step);
		return true;
	}
	if (!two_operands(expression, &function, &left, &right) ||
		(function != F_FLOAT8PL && function != F_FLOAT8MI && function != F_FLOAT8MUL && function != F_FLOAT8DIV))
		return false;
	step->function = function;
	step->distance_right = make_operand(finder, left, &step->operand);
	if (step->distance_right ? function == F_FLOAT8DIV : !make_operand(finder, right, &step->operand))
		return false;
	if (!take_apart(finder, step->distance_right ? right : left))
		return false;
	finder->condition->steps = lappend(finder->condition->steps, step);
	return true;
}

/// Return the clause as a condition on the distance; null if it is not one.
Condition *
read_condition(const OrderedScan &scan, const OpExpr *order, Node *clause)
{
	Condition *condition = static_cast<Condition *>(palloc0(sizeof(Condition)));
	const Finder finder = {scan, order, condition};
	Oid opno;
	Node *left;
	Node *right;

	if (!IsA(clause, OpExpr) || list_length(reinterpret_cast<OpExpr *>(clause)->args) != 2)
		return nullptr;
	opno = reinterpret_cast<OpExpr *>(clause)->opno;
	left = static_cast<Node *>(linitial(reinterpret_cast<OpExpr *>(clause)->args));
	right = static_cast<Node *>(lsecond(reinterpret_cast<OpExpr *>(clause)->args));
	if (is_same_for_all_rows(left))
	{
		Node *swapped = left;

		opno = get_commutator(opno);
		left = right;
		right = swapped;
	}
	if (!OidIsValid(opno) || exprType(left) != FLOAT8OID)
		return nullptr;
	condition->strategy = static_cast<StrategyNumber>(
		get_op_opfamily_strategy(opno, lookup_type_cache(FLOAT8OID, TYPECACHE_BTREE_OPFAMILY)->btree_opf));
	if (condition->strategy == InvalidStrategy || !make_operand(&finder, right, &condition->limit) ||
		!take_apart(&finder, left))
		return nullptr;
	return condition;
}

/// True if the condition is only an upper bound on the distance, without arithmetic around it.
bool
only_bounds(const Condition *condition)
{
	return condition->steps == NIL && condition->query == nullptr &&
		(condition->strategy == BTLessStrategyNumber || condition->strategy == BTLessEqualStrategyNumber);
}

/// Compute an operand. Returns false if it is NULL.
bool
compute(const Operand *operand, ExprContext *econtext, double *value)
{
	bool is_null;
	const Datum datum = ExecEvalExprSwitchContext(operand->state, econtext, &is_null);

	if (!is_null)
		*value = operand->is_float4 ? static_cast<double>(DatumGetFloat4(datum)) : DatumGetFloat8(datum);
	return !is_null;
}

/// a * d + b after the steps applied so far. `largest`: the largest intermediate magnitude, for the rounding margin.
struct Line
{
	double a;
	double b;
	double largest;
};

void
apply(const Step *step, double operand, Line *line)
{
	const double sign = step->function == F_FLOAT8UM || (step->function == F_FLOAT8MI && step->distance_right) ? -1 : 1;

	line->a *= sign;
	line->b *= sign;
	if (step->function == F_FLOAT8PL || (step->function == F_FLOAT8MI && step->distance_right))
		line->b += operand;
	else if (step->function == F_FLOAT8MI)
		line->b -= operand;
	else if (step->function == F_FLOAT8MUL || step->function == F_FLOAT8DIV)
	{
		const double factor = step->function == F_FLOAT8MUL ? operand : 1 / operand;

		line->a *= factor;
		line->b *= factor;
		line->largest *= std::fabs(factor);
		return;
	}
	line->largest = Max(line->largest, Max(std::fabs(operand), std::fabs(line->b)));
}

/// True if the condition's distance is to the scan's current query.
bool
has_scans_query(const OrderedScan &scan, const Condition *condition, ExprContext *econtext)
{
	const ScanKey key = &(*scan.scan)->orderByData[0];
	bool is_null;
	bool by_value;
	int16 length;
	Datum query;

	if (condition->query == nullptr)
		return true;
	query = ExecEvalExprSwitchContext(condition->query, econtext, &is_null);
	if (is_null || (key->sk_flags & SK_ISNULL) != 0)
		return false;
	get_typlenbyval(condition->query_type, &length, &by_value);
	return datum_image_eq(query, key->sk_argument, by_value, length);
}

/// True if arithmetic with the number keeps its precision.
bool
is_precise(double number)
{
	return number == 0 || (std::fabs(number) > kLeastNumber && std::fabs(number) < 1 / kLeastNumber);
}

/// Compute the bound that a condition sets now. Returns false if it sets none.
bool
bound_of(const OrderedScan &scan, const Condition *condition, ExprContext *econtext, DistanceBound *bound)
{
	Line line = {1, 0, 0};
	double limit;
	bool is_less; // the condition holds below the limit
	const ListCell *cell;

	*bound = {-std::numeric_limits<double>::infinity(), true, false, true};
	if (!has_scans_query(scan, condition, econtext))
		return false;
	if (!compute(&condition->limit, econtext, &limit))
		return true; // a comparison with NULL passes no row
	foreach (cell, condition->steps)
	{
		const Step *step = static_cast<const Step *>(lfirst(cell));
		double operand = 0;

		if (step->function != F_FLOAT8UM && !compute(&step->operand, econtext, &operand))
			return true;
		apply(step, operand, &line);
	}
	bound->none = false;
	if (line.a == 0)
		return false;
	is_less = condition->strategy == BTLessStrategyNumber || condition->strategy == BTLessEqualStrategyNumber;
	if (condition->strategy != BTEqualStrategyNumber && is_less != (line.a > 0))
		return false;
	if (std::isnan(limit))
	{
		// All numbers are below it, the infinite one as well.
		bound->value = std::numeric_limits<double>::infinity();
		bound->open = false;
		bound->nan_passes = condition->strategy == BTLessEqualStrategyNumber;
		return is_less && line.a > 0;
	}
	if (condition->steps != NIL &&
		!(is_precise(line.a) && is_precise(line.b) && is_precise(line.largest) && is_precise(limit)))
		return false;
	bound->nan_passes = condition->strategy != BTEqualStrategyNumber && !is_less;
	bound->open = condition->strategy == BTLessStrategyNumber && condition->steps == NIL;
	bound->value = (limit - line.b) / line.a;
	if (condition->steps != NIL)
		bound->value += kRounding * (Max(line.largest, std::fabs(limit)) / std::fabs(line.a) + std::fabs(bound->value));
	return !std::isnan(bound->value);
}

} // namespace

OrderBound *
order_bound_find(const OrderedScan &scan, bool *only)
{
	const Plan *plan = scan.state->ps.plan;
	const MemoryContext before = MemoryContextSwitchTo(scan.state->ps.state->es_query_cxt);
	OrderBound *bound = nullptr;
	const ListCell *cell;

	*only = plan->qual != NIL;
	if (IsA(linitial(scan.order), OpExpr))
	{
		const OpExpr *order = linitial_node(OpExpr, scan.order);

		foreach (cell, plan->qual)
		{
			Condition *condition = read_condition(scan, order, static_cast<Node *>(lfirst(cell)));

			*only = *only && condition != nullptr && only_bounds(condition);
			if (condition == nullptr)
				continue;
			if (bound == nullptr)
			{
				bound = static_cast<OrderBound *>(palloc0(sizeof(OrderBound)));
				bound->scan = scan;
			}
			bound->conditions = lappend(bound->conditions, condition);
		}
	}
	*only = *only && bound != nullptr;
	MemoryContextSwitchTo(before);
	return bound;
}

bool
order_bound_compute(OrderBound *bound, DistanceBound *result)
{
	ExprContext *econtext = bound->scan.state->ps.ps_ExprContext;
	bool nan_passes = true;
	bool found = false;
	const ListCell *cell;

	foreach (cell, bound->conditions)
	{
		DistanceBound one;

		if (!bound_of(bound->scan, static_cast<const Condition *>(lfirst(cell)), econtext, &one))
			continue;
		nan_passes = nan_passes && one.nan_passes;
		if (!found || one.none || one.value < result->value || (one.value == result->value && one.open))
			*result = one;
		found = true;
		if (one.none)
			break;
	}
	if (found)
		result->nan_passes = nan_passes;
	return found;
}

} // namespace vectorgpu::pg
