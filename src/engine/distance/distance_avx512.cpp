// The canonical distance with AVX-512 (F, BW, DQ, VL): two registers of sixteen lanes. Compiled with these flags, so
// only distance.cpp may call this code, and only after it has checked the CPU. Thread-safe, no state.
#include <cstdint>
#include <cstring>

// GCC 12's header spells "any value" as a self-initialised variable and warns of it where it is inlined (PR 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "engine/distance/score_kernels.hpp"

namespace vectorgpu::engine
{
namespace
{

struct Lanes
{
	__m512 a, b; // lanes 0-15, 16-31

	static VECTORGPU_INLINE Lanes zero() { return {_mm512_setzero_ps(), _mm512_setzero_ps()}; }

	static VECTORGPU_INLINE Lanes load_float(const unsigned char *p)
	{
		return {_mm512_loadu_ps(p), _mm512_loadu_ps(p + 64)};
	}

	static VECTORGPU_INLINE Lanes load_float_tail(const unsigned char *p, size_t n)
	{
		const uint32_t mask = (1u << n) - 1; // n < 32

		return {_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), p),
			_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), p + 64)};
	}

	static VECTORGPU_INLINE Lanes load_half(const unsigned char *p)
	{
		const __m256i *h = reinterpret_cast<const __m256i *>(p);

		return {_mm512_cvtph_ps(_mm256_loadu_si256(h)), _mm512_cvtph_ps(_mm256_loadu_si256(h + 1))};
	}

	static VECTORGPU_INLINE Lanes load_half_tail(const unsigned char *p, size_t n)
	{
		const __m512i halves = _mm512_maskz_loadu_epi16((1u << n) - 1, p);

		return {_mm512_cvtph_ps(_mm512_castsi512_si256(halves)), _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1))};
	}

	VECTORGPU_INLINE void store(float *p) const
	{
		_mm512_storeu_ps(p, a);
		_mm512_storeu_ps(p + 16, b);
	}

	static VECTORGPU_INLINE Lanes subtract(const Lanes &x, const Lanes &y)
	{
		return {_mm512_sub_ps(x.a, y.a), _mm512_sub_ps(x.b, y.b)};
	}

	static VECTORGPU_INLINE Lanes multiply_add(const Lanes &x, const Lanes &y, const Lanes &z)
	{
		return {_mm512_fmadd_ps(x.a, y.a, z.a), _mm512_fmadd_ps(x.b, y.b, z.b)};
	}

	static VECTORGPU_INLINE Lanes add_absolute(const Lanes &sum, const Lanes &x)
	{
		return {_mm512_add_ps(sum.a, _mm512_abs_ps(x.a)), _mm512_add_ps(sum.b, _mm512_abs_ps(x.b))};
	}

	static VECTORGPU_INLINE float reduce(const Lanes &sum)
	{
		const __m512 sixteen = _mm512_add_ps(sum.a, sum.b);
		const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(sixteen), _mm512_extractf32x8_ps(sixteen, 1));
		const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
		const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));

		return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
	}
};

} // namespace
} // namespace vectorgpu::engine

#include "engine/distance/score_loops.hpp"

namespace vectorgpu::engine
{

const ScoreKernels kAvx512ScoreKernels = kKernels;

} // namespace vectorgpu::engine
