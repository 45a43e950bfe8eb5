// Element-wise arithmetic of vector and halfvec, and functions of one value: norm, normalisation, parts, bits. PG
// dialect. Arithmetic is done in float and rounded to the element type; a result out of range is an error.
#include "types/sql_function.hpp"

extern "C"
{
#include "utils/float.h"
#include "utils/varbit.h"
}

namespace vectorgpu::types
{
namespace
{

struct Add
{
	static constexpr bool kCanUnderflow = false; // a sum of floats is exact if it is subnormal
	static float apply(float a, float b) { return a + b; }
};

struct Subtract
{
	static constexpr bool kCanUnderflow = false;
	static float apply(float a, float b) { return a - b; }
};

struct Multiply
{
	static constexpr bool kCanUnderflow = true;
	static float apply(float a, float b) { return a * b; }
};

template <class E, class Operation>
Datum
elementwise(FunctionCallInfo fcinfo)
{
	const VectorValue *a = vector_from_datum(PG_GETARG_DATUM(0));
	const VectorValue *b = vector_from_datum(PG_GETARG_DATUM(1));

	check_same_dim<E>(a, b);

	const int dim = a->dim;
	const typename E::Storage *a_elements = elements_of<E>(a);
	const typename E::Storage *b_elements = elements_of<E>(b);
	VectorValue *result = new_vector<E>(dim);
	typename E::Storage *elements = elements_of<E>(result);

	for (int i = 0; i < dim; i++)
		elements[i] = E::from_float(Operation::apply(E::to_float(a_elements[i]), E::to_float(b_elements[i])));

	// checked in a separate loop, so that the one above can be vectorised
	for (int i = 0; i < dim; i++)
	{
		if (unlikely(E::is_infinite(elements[i])))
			float_overflow_error();
		if (Operation::kCanUnderflow && unlikely(E::to_float(elements[i]) == 0.0f) &&
			E::to_float(a_elements[i]) != 0.0f && E::to_float(b_elements[i]) != 0.0f)
			float_underflow_error();
	}
	PG_RETURN_POINTER(result);
}

template <class E>
Datum
add_impl(PG_FUNCTION_ARGS)
{
	return elementwise<E, Add>(fcinfo);
}

template <class E>
Datum
sub_impl(PG_FUNCTION_ARGS)
{
	return elementwise<E, Subtract>(fcinfo);
}

template <class E>
Datum
mul_impl(PG_FUNCTION_ARGS)
{
	return elementwise<E, Multiply>(fcinfo);
}

template <class E>
Datum
concat_impl(PG_FUNCTION_ARGS)
{
	using Storage = typename E::Storage;
	const VectorValue *a = vector_from_datum(PG_GETARG_DATUM(0));
	const VectorValue *b = vector_from_datum(PG_GETARG_DATUM(1));
	const int dim = a->dim + b->dim;

	check_dim<E>(dim);

	VectorValue *result = new_vector<E>(dim);

	memcpy(elements_of<E>(result), a->elements(), a->dim * sizeof(Storage));
	memcpy(elements_of<E>(result) + a->dim, b->elements(), b->dim * sizeof(Storage));
	PG_RETURN_POINTER(result);
}

// The Euclidean norm, summed in double so that it does not overflow.
template <class E>
double
euclidean_norm(const VectorValue *value)
{
	const typename E::Storage *elements = elements_of<E>(value);
	double sum = 0;

	for (int i = 0; i < value->dim; i++)
	{
		const double element = E::to_float(elements[i]);

		sum += element * element;
	}
	return sqrt(sum);
}

template <class E>
Datum
norm_impl(PG_FUNCTION_ARGS)
{
	PG_RETURN_FLOAT8(euclidean_norm<E>(vector_from_datum(PG_GETARG_DATUM(0))));
}

// A zero vector has no direction and is returned unchanged.
template <class E>
Datum
l2_normalize_impl(PG_FUNCTION_ARGS)
{
	const VectorValue *value = vector_from_datum(PG_GETARG_DATUM(0));
	const typename E::Storage *elements = elements_of<E>(value);
	const double norm = euclidean_norm<E>(value);
	VectorValue *result = new_vector<E>(value->dim);
	typename E::Storage *result_elements = elements_of<E>(result);

	for (int i = 0; i < value->dim; i++)
	{
		const double element = E::to_float(elements[i]);

		// no element is larger than the norm, so the division cannot overflow
		result_elements[i] = E::from_float(norm > 0 ? static_cast<float>(element / norm) : 0.0f);
	}
	PG_RETURN_POINTER(result);
}

template <class E>
Datum
dims_impl(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(vector_from_datum(PG_GETARG_DATUM(0))->dim);
}

// subvector(value, start, count): positions start .. start + count - 1, counted from 1, restricted to the value.
template <class E>
Datum
subvector_impl(PG_FUNCTION_ARGS)
{
	const VectorValue *value = vector_from_datum(PG_GETARG_DATUM(0));
	const int64 start = PG_GETARG_INT32(1);
	const int64 end =
		Min(start + PG_GETARG_INT32(2), static_cast<int64>(value->dim) + 1); // the position after the last one
	const int64 first = Max(start, 1);

	check_dim<E>(end - first);

	const int dim = static_cast<int>(end - first);
	VectorValue *result = new_vector<E>(dim);

	memcpy(result->elements(), elements_of<E>(value) + (first - 1), dim * sizeof(typename E::Storage));
	PG_RETURN_POINTER(result);
}

// One bit per element: 1 if the element is positive.
template <class E>
Datum
binary_quantize_impl(PG_FUNCTION_ARGS)
{
	const VectorValue *value = vector_from_datum(PG_GETARG_DATUM(0));
	const typename E::Storage *elements = elements_of<E>(value);
	const Size size = VARBITTOTALLEN(value->dim);
	VarBit *result = static_cast<VarBit *>(palloc0(size));
	bits8 *bits = VARBITS(result);

	SET_VARSIZE(result, size);
	VARBITLEN(result) = value->dim;
	for (int i = 0; i < value->dim; i++)
		bits[i / 8] |= static_cast<bits8>((E::to_float(elements[i]) > 0) << (7 - i % 8));
	PG_RETURN_VARBIT_P(result);
}

} // namespace
} // namespace vectorgpu::types

VG_SQL_FUNCTION_BOTH(add)
VG_SQL_FUNCTION_BOTH(sub)
VG_SQL_FUNCTION_BOTH(mul)
VG_SQL_FUNCTION_BOTH(concat)
VG_SQL_FUNCTION_BOTH(norm)
VG_SQL_FUNCTION_BOTH(l2_normalize)
VG_SQL_FUNCTION_BOTH(dims)
VG_SQL_FUNCTION_BOTH(subvector)
VG_SQL_FUNCTION_BOTH(binary_quantize)
