// The kernels of the inverted file with AVX-512 (F, BW, DQ, VL): tiles of 12 rows and 32 columns. Only ivf_kernels.cpp
// may call them, after it has checked the CPU. Thread-safe, no state.

// GCC 12's header spells "any value" as a self-initialised variable and warns of it where it is inlined (PR 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <cstring>
#include <immintrin.h>

#include "engine/ivf/ivf_kernels.hpp"

namespace vectorgpu::engine::ivf
{
namespace
{

constexpr int kGroups = 4;

struct Vec
{
	static constexpr size_t kWidth = 16;
	using Index = __m512i;

	__m512 value;

	static VECTORGPU_IVF_INLINE Vec zero() { return {_mm512_setzero_ps()}; }
	static VECTORGPU_IVF_INLINE Vec load(const float *p) { return {_mm512_loadu_ps(p)}; }
	static VECTORGPU_IVF_INLINE Vec broadcast(float x) { return {_mm512_set1_ps(x)}; }
	VECTORGPU_IVF_INLINE void store(float *p) const { _mm512_storeu_ps(p, value); }
	static VECTORGPU_IVF_INLINE __m512i widen(const uint8_t *p)
	{
		return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
	}
	static VECTORGPU_IVF_INLINE Vec load_bytes(const uint8_t *p) { return {_mm512_cvtepi32_ps(widen(p))}; }
	static VECTORGPU_IVF_INLINE Vec gather(const float *table, const uint8_t *p)
	{
		return {_mm512_i32gather_ps(widen(p), table, 4)};
	}
	static VECTORGPU_IVF_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.value, b.value, c.value)}; }
	static VECTORGPU_IVF_INLINE Vec loose_fma(Vec a, Vec b, Vec c) { return fma(a, b, c); }
	static VECTORGPU_IVF_INLINE Vec fnma(Vec a, Vec b, Vec c) { return {_mm512_fnmadd_ps(a.value, b.value, c.value)}; }
	static VECTORGPU_IVF_INLINE Vec add(Vec a, Vec b) { return {_mm512_add_ps(a.value, b.value)}; }
	static VECTORGPU_IVF_INLINE Vec subtract(Vec a, Vec b) { return {_mm512_sub_ps(a.value, b.value)}; }
	static VECTORGPU_IVF_INLINE Vec absolute(Vec a) { return {_mm512_abs_ps(a.value)}; }
	static VECTORGPU_IVF_INLINE Index load_index(const uint32_t *p) { return _mm512_loadu_si512(p); }
	static VECTORGPU_IVF_INLINE void store_index(uint32_t *p, Index index) { _mm512_storeu_si512(p, index); }
	static VECTORGPU_IVF_INLINE void keep_smaller(Vec v, uint32_t group, Vec &best, Index &which, Vec &second)
	{
		const __mmask16 smaller = _mm512_cmp_ps_mask(v.value, best.value, _CMP_LT_OQ);

		second.value = _mm512_min_ps(second.value, _mm512_max_ps(best.value, v.value));
		best.value = _mm512_mask_mov_ps(best.value, smaller, v.value);
		which = _mm512_mask_mov_epi32(which, smaller, _mm512_set1_epi32(static_cast<int>(group)));
	}
};

VECTORGPU_IVF_INLINE float
reduce(const Vec *lanes)
{
	const __m512 sixteen = _mm512_add_ps(lanes[0].value, lanes[1].value);
	const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(sixteen), _mm512_extractf32x8_ps(sixteen, 1));
	const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
	const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));

	return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/// Add 16-bit sums of even and odd rows to 32-bit sums, and clear them. The low half of the registers has sums of the
/// even code bytes, the high half those of the odd ones.
VECTORGPU_IVF_INLINE void
flush(__m512i &even, __m512i &odd, uint32_t *sums)
{
	const __m256i e = _mm512_castsi512_si256(even);
	const __m256i e_high = _mm512_extracti64x4_epi64(even, 1);
	const __m256i o = _mm512_castsi512_si256(odd);
	const __m256i o_high = _mm512_extracti64x4_epi64(odd, 1);
	const __m512i es = _mm512_add_epi32(_mm512_cvtepu16_epi32(e), _mm512_cvtepu16_epi32(e_high));
	const __m512i os = _mm512_add_epi32(_mm512_cvtepu16_epi32(o), _mm512_cvtepu16_epi32(o_high));
	// even rows are 0, 2, …, odd ones 1, 3, …: merge them in order
	const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
	const __m512i high = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);

	_mm512_storeu_si512(sums, _mm512_add_epi32(_mm512_loadu_si512(sums), _mm512_permutex2var_epi32(es, low, os)));
	_mm512_storeu_si512(
		sums + 16, _mm512_add_epi32(_mm512_loadu_si512(sums + 16), _mm512_permutex2var_epi32(es, high, os)));
	even = odd = _mm512_setzero_si512();
}

/// Take two code bytes of 32 rows at a time. A 16-bit sum grows by at most 2 * 255 a step, so 128 steps before a flush.
void
sum_nibbles(const uint8_t *codes, size_t code_bytes, const uint8_t *table, uint32_t *sums)
{
	constexpr size_t kStepsPerFlush = 128;
	const __m512i nibble = _mm512_set1_epi8(0x0F);
	const __m512i byte = _mm512_set1_epi16(0x00FF);
	// Lanes of 128 bits: byte j of rows 0-15, of rows 16-31, byte j + 1 of rows 0-15, of rows 16-31.
	const __m512i low_tables = _mm512_set_epi64(5, 4, 5, 4, 1, 0, 1, 0);
	const __m512i high_tables = _mm512_set_epi64(7, 6, 7, 6, 3, 2, 3, 2);
	__m512i even = _mm512_setzero_si512();
	__m512i odd = _mm512_setzero_si512();
	size_t step = 0;

	memset(sums, 0, 32 * sizeof(uint32_t));
	for (size_t j = 0; j < code_bytes; j += 2)
	{
		const bool pair = j + 1 < code_bytes;
		const __m512i c = pair
			? _mm512_loadu_si512(codes + j * 32)
			: _mm512_zextsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(codes + j * 32)));
		// without a second byte its tables are zero, so that its codes add zero
		const __m512i t = pair
			? _mm512_loadu_si512(table + j * 32)
			: _mm512_zextsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(table + j * 32)));
		const __m512i low = _mm512_shuffle_epi8(_mm512_permutexvar_epi64(low_tables, t), _mm512_and_si512(c, nibble));
		const __m512i high = _mm512_shuffle_epi8(
			_mm512_permutexvar_epi64(high_tables, t), _mm512_and_si512(_mm512_srli_epi16(c, 4), nibble));

		even = _mm512_add_epi16(even, _mm512_add_epi16(_mm512_and_si512(low, byte), _mm512_and_si512(high, byte)));
		odd = _mm512_add_epi16(odd, _mm512_add_epi16(_mm512_srli_epi16(low, 8), _mm512_srli_epi16(high, 8)));
		if (++step == kStepsPerFlush)
		{
			flush(even, odd, sums);
			step = 0;
		}
	}
	flush(even, odd, sums);
}

/// 64 dimensions at a time: a byte for each. Numbers are at most 127, so that sums of two products fit 16 bits.
int32_t
dot_planes(const uint8_t *planes, size_t n_planes, size_t plane_bytes, const int8_t *elements)
{
	const __m512i ones = _mm512_set1_epi16(1);
	__m512i sum = _mm512_setzero_si512();

	for (size_t j = 0; j < plane_bytes; j += 8)
	{
		const size_t here = plane_bytes - j < 8 ? plane_bytes - j : 8;
		__m512i number = _mm512_setzero_si512();

		for (size_t plane = 0; plane < n_planes; plane++)
		{
			uint64_t word = 0;

			if (here == 8)
				memcpy(&word, planes + plane * plane_bytes + j, 8);
			else
				memcpy(&word, planes + plane * plane_bytes + j, here);
			number = _mm512_mask_add_epi8(number, word, number, _mm512_set1_epi8(static_cast<char>(1 << plane)));
		}
		sum = _mm512_add_epi32(
			sum, _mm512_madd_epi16(_mm512_maddubs_epi16(number, _mm512_loadu_si512(elements + 8 * j)), ones));
	}
	return _mm512_reduce_add_epi32(sum);
}

VECTORGPU_IVF_INLINE uint32_t
not_above(const double *scores, double limit)
{
	const __m512d limits = _mm512_set1_pd(limit);
	uint32_t mask = 0;

	for (size_t i = 0; i < 32; i += 8)
		mask |= static_cast<uint32_t>(_mm512_cmp_pd_mask(_mm512_loadu_pd(scores + i), limits, _CMP_NGT_UQ)) << i;
	return mask;
}

} // namespace
} // namespace vectorgpu::engine::ivf

#include "engine/ivf/ivf_loops.hpp"

namespace vectorgpu::engine::ivf
{

const IvfKernels kAvx512IvfKernels = kKernels;

} // namespace vectorgpu::engine::ivf
