// Conversions that the casts of all vector types share: of a float to an element, of an array. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "utils/array.h"
}

#include "types/vector_type.hpp"

namespace vectorgpu::types
{

/// Return a float as an element. Raises the range error, which shows the number, if it is finite but too large for the
/// type.
template <class E>
typename E::Storage element_from_float(float value);

template <>
inline float
element_from_float<Float32>(float value)
{
	return value;
}

template <>
uint16_t element_from_float<Float16>(float value);

/// An array of int4, float4, float8 or numeric, taken apart.
struct ArrayElements
{
	Oid type;
	Datum *datums; // [n], palloc'd
	int n;
};

/// Raises an error unless the array has one dimension at most, one of these types, and no NULL.
ArrayElements array_elements(ArrayType *array);

/// Return element i as a float. A double that is too large becomes an infinity, which check_element refuses.
float float_from_array(const ArrayElements &elements, int i);

} // namespace vectorgpu::types
