// Casts of vector and halfvec: to a type modifier, from and to arrays, between the two types. PG dialect.
#include "types/cast.hpp"
#include "types/sql_function.hpp"

extern "C"
{
#include "catalog/pg_type.h"
#include "common/shortest_dec.h"
#include "utils/lsyscache.h"
}

namespace vectorgpu::types
{

template <>
uint16_t
element_from_float<Float16>(float value)
{
	const uint16_t half = float_to_half(value);

	if (unlikely(half_is_infinite(half) && !std::isinf(value)))
	{
		char number[FLOAT_SHORTEST_DECIMAL_LEN];

		float_to_shortest_decimal_buf(value, number);
		ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				errmsg("\"%s\" is out of range for type %s", number, Float16::kTypeName)));
	}
	return half;
}

ArrayElements
array_elements(ArrayType *array)
{
	ArrayElements elements;
	int16 length;
	bool by_value;
	char align;

	elements.type = ARR_ELEMTYPE(array);
	if (ARR_NDIM(array) > 1)
		ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION), errmsg("array must be 1-D")));
	if (array_contains_nulls(array))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("array must not contain nulls")));
	if (elements.type != INT4OID && elements.type != FLOAT4OID && elements.type != FLOAT8OID &&
		elements.type != NUMERICOID)
		ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION), errmsg("unsupported array type")));

	get_typlenbyvalalign(elements.type, &length, &by_value, &align);
	deconstruct_array(array, elements.type, length, by_value, align, &elements.datums, NULL, &elements.n);
	return elements;
}

float
float_from_array(const ArrayElements &elements, int i)
{
	switch (elements.type)
	{
		case INT4OID:
			return static_cast<float>(DatumGetInt32(elements.datums[i]));
		case FLOAT4OID:
			return DatumGetFloat4(elements.datums[i]);
		case FLOAT8OID:
			return static_cast<float>(DatumGetFloat8(elements.datums[i]));
		default:
			return DatumGetFloat4(DirectFunctionCall1(numeric_float4, elements.datums[i]));
	}
}

namespace
{

/// check_expected_dim for a coercion (value, typmod, explicit). The hint is for users who expect a cast to shorten a
/// vector as one to varchar(n) does.
void
check_cast_dim(FunctionCallInfo fcinfo, int dim)
{
	const int32 typmod = PG_GETARG_INT32(1);

	if (PG_GETARG_BOOL(2) && typmod != -1 && dim > typmod)
		ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION), errmsg("expected %d dimensions, not %d", typmod, dim),
				errhint("A cast does not shorten a vector; subvector(value, 1, %d) does.", typmod)));
	check_expected_dim(typmod, dim);
}

// typmod(value, typmod, explicit): the length coercion.
template <class E>
Datum
typmod_impl(PG_FUNCTION_ARGS)
{
	const VectorValue *value = vector_from_datum(PG_GETARG_DATUM(0));

	check_cast_dim(fcinfo, value->dim);
	PG_RETURN_POINTER(value);
}

// from_array(array, typmod, explicit). The array is of int4, float4, float8 or numeric.
template <class E>
Datum
from_array_impl(PG_FUNCTION_ARGS)
{
	ArrayType *array = PG_GETARG_ARRAYTYPE_P(0);
	const int32 typmod = PG_GETARG_INT32(1);
	const ArrayElements from = array_elements(array);
	const int dim = from.n;

	check_dim<E>(dim);
	check_expected_dim(typmod, dim);

	VectorValue *result = new_vector<E>(dim);
	typename E::Storage *elements = elements_of<E>(result);

	for (int i = 0; i < dim; i++)
	{
		elements[i] = element_from_float<E>(float_from_array(from, i));
		check_element<E>(elements[i]);
	}
	pfree(from.datums);
	PG_RETURN_POINTER(result);
}

template <class E>
Datum
to_float4_impl(PG_FUNCTION_ARGS)
{
	const VectorValue *value = vector_from_datum(PG_GETARG_DATUM(0));
	const typename E::Storage *elements = elements_of<E>(value);
	Datum *datums = static_cast<Datum *>(palloc(value->dim * sizeof(Datum)));

	for (int i = 0; i < value->dim; i++)
		datums[i] = Float4GetDatum(E::to_float(elements[i]));

	ArrayType *array = construct_array(datums, value->dim, FLOAT4OID, sizeof(float4), true, TYPALIGN_INT);

	pfree(datums);
	PG_RETURN_ARRAYTYPE_P(array);
}

// convert(value, typmod, explicit): from type From to type To.
template <class From, class To>
Datum
convert(FunctionCallInfo fcinfo)
{
	const VectorValue *value = vector_from_datum(PG_GETARG_DATUM(0));
	const typename From::Storage *from = elements_of<From>(value);

	check_dim<To>(value->dim);
	check_cast_dim(fcinfo, value->dim);

	VectorValue *result = new_vector<To>(value->dim);
	typename To::Storage *to = elements_of<To>(result);

	for (int i = 0; i < value->dim; i++)
		to[i] = element_from_float<To>(From::to_float(from[i]));
	PG_RETURN_POINTER(result);
}

} // namespace
} // namespace vectorgpu::types

VG_SQL_FUNCTION_BOTH(typmod)
VG_SQL_FUNCTION_BOTH(to_float4)
VG_SQL_FUNCTION_BOTH(from_array)
VG_SQL_FUNCTION(
	vector_to_halfvec, (vectorgpu::types::convert<vectorgpu::types::Float32, vectorgpu::types::Float16>(fcinfo)))
VG_SQL_FUNCTION(
	halfvec_to_vector, (vectorgpu::types::convert<vectorgpu::types::Float16, vectorgpu::types::Float32>(fcinfo)))
