// The configuration parameters vectorgpu.*. PG dialect.
#pragma once

namespace vectorgpu::pg
{

/// Functions to query and set the SIMD level of the distance kernels; levels are numbered as engine::SimdLevel.
struct SimdControl
{
	bool (*supported)(int level);
	bool (*set)(int level);
};

/// Define all parameters and reserve the prefix. Called once, from _PG_init.
void guc_define(const SimdControl &simd);

} // namespace vectorgpu::pg
