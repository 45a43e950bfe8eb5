// The filter's kernel for AVX2 and FMA: tiles of 6 rows and 16 queries.
#include <immintrin.h>

#include "engine/filter/gemm_filter_kernels.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr int kGroups = 2;

struct Vec
{
	static constexpr size_t kWidth = 8;

	__m256 value;

	static Vec zero() { return {_mm256_setzero_ps()}; }
	static Vec load(const float *p) { return {_mm256_loadu_ps(p)}; }
	static Vec broadcast(const float *p) { return {_mm256_broadcast_ss(p)}; }
	void store(float *p) const { _mm256_storeu_ps(p, value); }
	static Vec multiply_add(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.value, b.value, c.value)}; }

	static Vec bound(Vec offset, Vec term, Vec slope, Vec norm)
	{
		return {_mm256_fnmadd_ps(slope.value, norm.value, _mm256_add_ps(offset.value, term.value))};
	}

	static uint32_t not_below(Vec a, Vec b)
	{
		return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a.value, b.value, _CMP_NLT_UQ)));
	}
};

} // namespace
} // namespace vectorgpu::engine

#include "engine/filter/gemm_filter_loops.hpp"

namespace vectorgpu::engine
{

const FilterKernel kFilterKernelAvx2 = {kPanel, run_filter, sum_squares};

} // namespace vectorgpu::engine
