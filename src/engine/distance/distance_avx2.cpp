// The canonical distance with AVX2, FMA and F16C: four registers of eight lanes. Compiled with these flags, so only
// distance.cpp may call this code, and only after it has checked the CPU. Thread-safe, no state.
#include <cstdint>
#include <cstring>
#include <immintrin.h>

#include "engine/distance/score_kernels.hpp"

namespace vectorgpu::engine
{
namespace
{

/// Eight lanes of ones, then eight of zeros: a load at 8 - n is the mask of the first n lanes.
alignas(32) constexpr int32_t kTailMask[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

struct Lanes
{
	__m256 a, b, c, d; // lanes 0-7, 8-15, 16-23, 24-31

	static VECTORGPU_INLINE Lanes zero()
	{
		return {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
	}

	static VECTORGPU_INLINE Lanes load_float(const unsigned char *p)
	{
		const float *f = reinterpret_cast<const float *>(p);

		return {_mm256_loadu_ps(f), _mm256_loadu_ps(f + 8), _mm256_loadu_ps(f + 16), _mm256_loadu_ps(f + 24)};
	}

	/// Lanes first .. first + 7 of n: a masked load touches no byte outside the mask.
	static VECTORGPU_INLINE __m256 load_float_part(const unsigned char *p, size_t n, size_t first)
	{
		const size_t here = n <= first ? 0 : n - first < 8 ? n - first : 8;
		const __m256i mask = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(kTailMask + 8 - here));

		return _mm256_maskload_ps(reinterpret_cast<const float *>(p) + first, mask);
	}

	static VECTORGPU_INLINE Lanes load_float_tail(const unsigned char *p, size_t n)
	{
		return {
			load_float_part(p, n, 0), load_float_part(p, n, 8), load_float_part(p, n, 16), load_float_part(p, n, 24)};
	}

	static VECTORGPU_INLINE Lanes load_half(const unsigned char *p)
	{
		const __m128i *h = reinterpret_cast<const __m128i *>(p);

		return {_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1)),
			_mm256_cvtph_ps(_mm_loadu_si128(h + 2)), _mm256_cvtph_ps(_mm_loadu_si128(h + 3))};
	}

	static VECTORGPU_INLINE Lanes load_half_tail(const unsigned char *p, size_t n)
	{
		alignas(32) unsigned char padded[64] = {};

		memcpy(padded, p, n * 2);
		return load_half(padded);
	}

	VECTORGPU_INLINE void store(float *p) const
	{
		_mm256_storeu_ps(p, a);
		_mm256_storeu_ps(p + 8, b);
		_mm256_storeu_ps(p + 16, c);
		_mm256_storeu_ps(p + 24, d);
	}

	static VECTORGPU_INLINE Lanes subtract(const Lanes &x, const Lanes &y)
	{
		return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b), _mm256_sub_ps(x.c, y.c), _mm256_sub_ps(x.d, y.d)};
	}

	static VECTORGPU_INLINE Lanes multiply_add(const Lanes &x, const Lanes &y, const Lanes &z)
	{
		return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b), _mm256_fmadd_ps(x.c, y.c, z.c),
			_mm256_fmadd_ps(x.d, y.d, z.d)};
	}

	static VECTORGPU_INLINE Lanes add_absolute(const Lanes &sum, const Lanes &x)
	{
		const __m256 sign = _mm256_set1_ps(-0.0f);

		return {_mm256_add_ps(sum.a, _mm256_andnot_ps(sign, x.a)), _mm256_add_ps(sum.b, _mm256_andnot_ps(sign, x.b)),
			_mm256_add_ps(sum.c, _mm256_andnot_ps(sign, x.c)), _mm256_add_ps(sum.d, _mm256_andnot_ps(sign, x.d))};
	}

	static VECTORGPU_INLINE float reduce(const Lanes &sum)
	{
		const __m256 eight = _mm256_add_ps(_mm256_add_ps(sum.a, sum.c), _mm256_add_ps(sum.b, sum.d));
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

const ScoreKernels kAvx2ScoreKernels = kKernels;

} // namespace vectorgpu::engine
