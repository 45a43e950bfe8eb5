// The distance functions and ordering operators of vector and halfvec: the canonical distance of the engine on two
// values. PG dialect.
#include "types/sql_function.hpp"

#include "engine/distance/distance.hpp"

namespace vectorgpu::types
{
namespace
{

struct Operands
{
	engine::DistanceSpec spec;
	const void *a; // elements [spec.dim]
	const void *b; // elements [spec.dim]
};

template <class E>
inline Operands
get_operands(FunctionCallInfo fcinfo, Metric metric)
{
	const VectorValue *a = vector_from_datum(PG_GETARG_DATUM(0));
	const VectorValue *b = vector_from_datum(PG_GETARG_DATUM(1));

	check_same_dim<E>(a, b);
	return {{metric, E::kElement, static_cast<uint32_t>(a->dim)}, a->elements(), b->elements()};
}

template <class E, Metric metric>
Datum
distance_impl(PG_FUNCTION_ARGS)
{
	const Operands operands = get_operands<E>(fcinfo, metric);

	PG_RETURN_FLOAT8(engine::distance(operands.spec, operands.a, operands.b));
}

template <class E>
Datum
l2_distance_impl(PG_FUNCTION_ARGS)
{
	return distance_impl<E, Metric::kL2>(fcinfo);
}

template <class E>
Datum
l1_distance_impl(PG_FUNCTION_ARGS)
{
	return distance_impl<E, Metric::kL1>(fcinfo);
}

template <class E>
Datum
cosine_distance_impl(PG_FUNCTION_ARGS)
{
	return distance_impl<E, Metric::kCosine>(fcinfo);
}

template <class E>
Datum
negative_inner_product_impl(PG_FUNCTION_ARGS)
{
	return distance_impl<E, Metric::kInnerProduct>(fcinfo);
}

template <class E>
Datum
inner_product_impl(PG_FUNCTION_ARGS)
{
	const Operands operands = get_operands<E>(fcinfo, Metric::kInnerProduct);

	// a subtraction, not a sign change: 0 stays 0
	PG_RETURN_FLOAT8(0.0 - engine::distance(operands.spec, operands.a, operands.b));
}

template <class E>
Datum
l2_squared_distance_impl(PG_FUNCTION_ARGS)
{
	const Operands operands = get_operands<E>(fcinfo, Metric::kL2);
	const size_t row_bytes = vector_bytes(E::kElement, operands.spec.dim);
	double score;

	// the engine's score of L2 is the sum of squares
	engine::compute_scores(operands.spec, operands.a, operands.b, row_bytes, 1, &score);
	PG_RETURN_FLOAT8(score);
}

// The angle between two vectors of length 1, in half turns.
template <class E>
Datum
spherical_distance_impl(PG_FUNCTION_ARGS)
{
	const Operands operands = get_operands<E>(fcinfo, Metric::kInnerProduct);
	double cosine = 0.0 - engine::distance(operands.spec, operands.a, operands.b);

	if (cosine > 1)
		cosine = 1;
	else if (cosine < -1)
		cosine = -1;
	PG_RETURN_FLOAT8(acos(cosine) / M_PI);
}

} // namespace
} // namespace vectorgpu::types

VG_SQL_FUNCTION_BOTH(l2_distance)
VG_SQL_FUNCTION_BOTH(l1_distance)
VG_SQL_FUNCTION_BOTH(cosine_distance)
VG_SQL_FUNCTION_BOTH(inner_product)
VG_SQL_FUNCTION_BOTH(negative_inner_product)
VG_SQL_FUNCTION_BOTH(l2_squared_distance)
VG_SQL_FUNCTION_BOTH(spherical_distance)
