// The C functions that the install script names, made from templates over the element type. Their names begin with
// vectorgpu_ because PostgreSQL loads modules with RTLD_GLOBAL: beside another vector extension in the same backend no
// symbol may be shared.
#pragma once

#include "types/vector_type.hpp"

/// Defines extern "C" vectorgpu_<sql_name> that runs `expression` (a Datum made from fcinfo).
#define VG_SQL_FUNCTION(sql_name, expression)                                                                          \
	extern "C"                                                                                                         \
	{                                                                                                                  \
		PG_FUNCTION_INFO_V1(vectorgpu_##sql_name);                                                                     \
		Datum vectorgpu_##sql_name(PG_FUNCTION_ARGS)                                                                   \
		{                                                                                                              \
			return expression;                                                                                         \
		}                                                                                                              \
	}

/// Defines vectorgpu_vector_<name> and vectorgpu_halfvec_<name> from vectorgpu::types::<name>_impl<E>(fcinfo).
#define VG_SQL_FUNCTION_BOTH(name)                                                                                     \
	VG_SQL_FUNCTION(vector_##name, vectorgpu::types::name##_impl<vectorgpu::types::Float32>(fcinfo))                   \
	VG_SQL_FUNCTION(halfvec_##name, vectorgpu::types::name##_impl<vectorgpu::types::Float16>(fcinfo))
