// The aggregate avg of vector and halfvec; sum is the + operator. PG dialect.
//
// State: double precision[], the number of rows and then the sums of the elements; {0} before the first row.
#include "types/cast.hpp"
#include "types/sql_function.hpp"

extern "C"
{
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/float.h"
}

namespace vectorgpu::types
{
namespace
{

// values [1 + dim]: the row count, then the sums. Points into an array.
struct State
{
	float8 *values;
	int dim; // 0 before the first row
};

template <class E>
State
state_from_array(ArrayType *array, const char *caller)
{
	if (ARR_NDIM(array) != 1 || ARR_DIMS(array)[0] < 1 || ARR_HASNULL(array) || ARR_ELEMTYPE(array) != FLOAT8OID)
		elog(ERROR, "%s_%s: expected state array", E::kTypeName, caller);
	return {reinterpret_cast<float8 *>(ARR_DATA_PTR(array)), ARR_DIMS(array)[0] - 1};
}

// Return a new state array for `dim` sums, all zero.
ArrayType *
new_state_array(int dim)
{
	const Size size = ARR_OVERHEAD_NONULLS(1) + (static_cast<Size>(dim) + 1) * sizeof(float8);
	ArrayType *array = static_cast<ArrayType *>(palloc0(size));

	SET_VARSIZE(array, size);
	array->ndim = 1;
	array->dataoffset = 0;
	array->elemtype = FLOAT8OID;
	ARR_DIMS(array)[0] = dim + 1;
	ARR_LBOUND(array)[0] = 1;
	return array;
}

// Return the array itself if an aggregate owns it, otherwise a copy.
ArrayType *
writable_state_array(FunctionCallInfo fcinfo, ArrayType *array)
{
	if (AggCheckCallContext(fcinfo, NULL))
		return array;

	void *copy = palloc(VARSIZE(array));

	memcpy(copy, array, VARSIZE(array));
	return static_cast<ArrayType *>(copy);
}

inline void
add_to_sum(float8 *sum, float8 value)
{
	*sum += value;
	if (unlikely(std::isinf(*sum)))
		float_overflow_error();
}

// accum(state, value): the transition function.
template <class E>
Datum
accum_impl(PG_FUNCTION_ARGS)
{
	ArrayType *array = PG_GETARG_ARRAYTYPE_P(0);
	const VectorValue *value = vector_from_datum(PG_GETARG_DATUM(1));
	const typename E::Storage *elements = elements_of<E>(value);
	const State old_state = state_from_array<E>(array, "accum");
	const float8 n_rows = old_state.values[0];

	if (old_state.dim == 0)
		array = new_state_array(value->dim);
	else
	{
		check_expected_dim(old_state.dim, value->dim);
		array = writable_state_array(fcinfo, array);
	}

	const State state = state_from_array<E>(array, "accum");

	state.values[0] = n_rows + 1;
	for (int i = 0; i < value->dim; i++)
		add_to_sum(&state.values[i + 1], E::to_float(elements[i]));
	PG_RETURN_ARRAYTYPE_P(array);
}

// combine(state, state), for parallel aggregation.
template <class E>
Datum
combine_impl(PG_FUNCTION_ARGS)
{
	ArrayType *left_array = PG_GETARG_ARRAYTYPE_P(0);
	ArrayType *right_array = PG_GETARG_ARRAYTYPE_P(1);
	const State left = state_from_array<E>(left_array, "combine");
	const State right = state_from_array<E>(right_array, "combine");

	if (left.dim > 0)
		check_dim<E>(left.dim);
	if (right.dim > 0)
		check_dim<E>(right.dim);

	// A state without rows adds nothing. The result is a new array: the arguments stay unchanged.
	const bool left_counts = left.values[0] != 0;
	const bool right_counts = right.values[0] != 0;

	if (left_counts && right_counts)
		check_expected_dim(left.dim, right.dim);

	ArrayType *array = new_state_array(left_counts || !right_counts ? left.dim : right.dim);
	const State sum = state_from_array<E>(array, "combine");

	for (int i = 0; i <= sum.dim; i++)
	{
		if (left_counts)
			add_to_sum(&sum.values[i], left.values[i]);
		if (right_counts)
			add_to_sum(&sum.values[i], right.values[i]);
	}
	PG_RETURN_ARRAYTYPE_P(array);
}

// avg(state): the final function. Returns NULL if there are no rows.
template <class E>
Datum
avg_impl(PG_FUNCTION_ARGS)
{
	const State state = state_from_array<E>(PG_GETARG_ARRAYTYPE_P(0), "avg");
	const float8 n_rows = state.values[0];

	if (n_rows == 0)
		PG_RETURN_NULL();
	check_dim<E>(state.dim);

	VectorValue *result = new_vector<E>(state.dim);
	typename E::Storage *elements = elements_of<E>(result);

	for (int i = 0; i < state.dim; i++)
	{
		elements[i] = element_from_float<E>(static_cast<float>(state.values[i + 1] / n_rows));
		check_element<E>(elements[i]);
	}
	PG_RETURN_POINTER(result);
}

} // namespace
} // namespace vectorgpu::types

VG_SQL_FUNCTION_BOTH(accum)
VG_SQL_FUNCTION_BOTH(combine)
VG_SQL_FUNCTION_BOTH(avg)
