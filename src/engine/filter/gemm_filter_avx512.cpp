// The filter's kernel for AVX-512: tiles of 12 rows and 32 queries.
#include <immintrin.h>

#include "engine/filter/gemm_filter_kernels.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr int kGroups = 4;

struct Vec
{
	static constexpr size_t kWidth = 16;

	__m512 value;

	static Vec zero() { return {_mm512_setzero_ps()}; }
	static Vec load(const float *p) { return {_mm512_loadu_ps(p)}; }
	static Vec broadcast(const float *p) { return {_mm512_set1_ps(*p)}; }
	void store(float *p) const { _mm512_storeu_ps(p, value); }
	static Vec multiply_add(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.value, b.value, c.value)}; }

	static Vec bound(Vec offset, Vec term, Vec slope, Vec norm)
	{
		return {_mm512_fnmadd_ps(slope.value, norm.value, _mm512_add_ps(offset.value, term.value))};
	}

	static uint32_t not_below(Vec a, Vec b)
	{
		return static_cast<uint32_t>(_mm512_cmp_ps_mask(a.value, b.value, _CMP_NLT_UQ));
	}
};

} // namespace
} // namespace vectorgpu::engine

#include "engine/filter/gemm_filter_loops.hpp"

namespace vectorgpu::engine
{

const FilterKernel kFilterKernelAvx512 = {kPanel, run_filter, sum_squares};

} // namespace vectorgpu::engine
