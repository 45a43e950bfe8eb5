// Macros that define the C functions named in the install script, from templates over the element type. The names begin
// with vectorgpu_ because PostgreSQL loads modules with RTLD_GLOBAL: no symbol may be shared with another vector
// extension in the same backend.
#pragma once

#include "types/vector_type.hpp"

/// Define extern "C" vectorgpu_<sql_name>, which returns `expression` (a Datum computed from fcinfo).
#define VG_SQL_FUNCTION(sql_name, expression)                                                                          \
	extern "C"                                                                                                         \
	{                                                                                                                  \
		PG_FUNCTION_INFO_V1(vectorgpu_##sql_name);                                                                     \
		Datum vectorgpu_##sql_name(PG_FUNCTION_ARGS)                                                                   \
		{                                                                                                              \
			return expression;                                                                                         \
		}                                                                                                              \
	}

/// Define vectorgpu_vector_<name> and vectorgpu_halfvec_<name> from vectorgpu::types::<name>_impl<E>(fcinfo).
#define VG_SQL_FUNCTION_BOTH(name)                                                                                     \
	VG_SQL_FUNCTION(vector_##name, vectorgpu::types::name##_impl<vectorgpu::types::Float32>(fcinfo))                   \
	VG_SQL_FUNCTION(halfvec_##name, vectorgpu::types::name##_impl<vectorgpu::types::Float16>(fcinfo))
