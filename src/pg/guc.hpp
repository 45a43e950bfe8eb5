// The configuration parameters vectorgpu.*. PG dialect.
#pragma once

namespace vectorgpu::pg
{

/// How the SIMD level of the distance kernels is asked for and set; levels are numbered as engine::SimdLevel.
struct SimdControl
{
	bool (*supported)(int level);
	bool (*set)(int level);
};

/// Defines all parameters and reserves the prefix. Called once, from _PG_init.
void guc_define(const SimdControl &simd);

} // namespace vectorgpu::pg
