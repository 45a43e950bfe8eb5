// Planner support functions that estimate the cost of a distance. Core assumes the same cost for every function call,
// whatever its arguments' length, in the row or in the TOAST table. A sequential scan over long vectors would therefore
// look many times cheaper than it is, and an exact index scan would never be chosen. PG dialect.
#include "types/sql_function.hpp"

extern "C"
{
#include "access/heaptoast.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
}

namespace vectorgpu::types
{
namespace
{

// The cost of a value in the TOAST table: an index descent and the pages of its chunks. Measured on 784 dimensions,
// cached (test/bench/cost_check.sql).
constexpr double kDescentCost = 600; // x cpu_operator_cost
constexpr double kPageCost = 1.0;    // x seq_page_cost for each page of chunks
// The distance itself. For 16 dimensions .05 us, for 128 .2 and for 480 .3 to .4, where a cached page costs 1 to 3.
constexpr double kCallCost = 6;        // x cpu_operator_cost
constexpr double kByteCost = 1.0 / 20; // x cpu_operator_cost for each byte of the row's vector

/// Return the size of a value from its type modifier; 0 if the type has none.
double
value_bytes(ElementType element, const Node *argument)
{
	const int32 typmod = exprTypmod(argument);

	return typmod > 0 ? static_cast<double>(vector_bytes(element, static_cast<size_t>(typmod))) : 0;
}

Cost
argument_cost(ElementType element, const Node *argument)
{
	double bytes;

	if (IsA(argument, Const) || IsA(argument, Param))
		return 0; // a constant is detoasted once
	bytes = value_bytes(element, argument);
	if (bytes <= TOAST_TUPLE_TARGET)
		return kByteCost * cpu_operator_cost * bytes;
	return (kDescentCost + kByteCost * bytes) * cpu_operator_cost + kPageCost * seq_page_cost * bytes / BLCKSZ;
}

Datum
distance_support(FunctionCallInfo fcinfo, ElementType element)
{
	Node *request = reinterpret_cast<Node *>(PG_GETARG_POINTER(0));
	SupportRequestCost *cost;
	const List *arguments = NIL;

	if (!IsA(request, SupportRequestCost))
		PG_RETURN_POINTER(nullptr);
	cost = reinterpret_cast<SupportRequestCost *>(request);
	if (cost->node != nullptr && IsA(cost->node, OpExpr))
		arguments = reinterpret_cast<const OpExpr *>(cost->node)->args;
	else if (cost->node != nullptr && IsA(cost->node, FuncExpr))
		arguments = reinterpret_cast<const FuncExpr *>(cost->node)->args;
	cost->startup = 0;
	cost->per_tuple = kCallCost * cpu_operator_cost;
	for (int i = 0; i < list_length(arguments); i++)
		cost->per_tuple += argument_cost(element, static_cast<const Node *>(list_nth(arguments, i)));
	PG_RETURN_POINTER(cost);
}

} // namespace
} // namespace vectorgpu::types

VG_SQL_FUNCTION(vector_distance_support, vectorgpu::types::distance_support(fcinfo, vectorgpu::ElementType::kFloat32))
VG_SQL_FUNCTION(halfvec_distance_support, vectorgpu::types::distance_support(fcinfo, vectorgpu::ElementType::kFloat16))
VG_SQL_FUNCTION(bit_distance_support, vectorgpu::types::distance_support(fcinfo, vectorgpu::ElementType::kBit))
