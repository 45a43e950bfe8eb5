// Conversion of a float to an element of a vector type. PG dialect.
#pragma once

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

} // namespace vectorgpu::types
