// The kernels of the inverted file with AVX2 and FMA: tiles of 6 rows and 16 columns. Only ivf_kernels.cpp may call
// them, after it has checked the CPU. Thread-safe, no state.
#include <cstring>
#include <immintrin.h>

#include "engine/ivf/ivf_kernels.hpp"

namespace vectorgpu::engine::ivf
{
namespace
{

constexpr int kGroups = 2;

struct Vec
{
	static constexpr size_t kWidth = 8;
	using Index = __m256i;

	__m256 value;

	static VECTORGPU_IVF_INLINE Vec zero() { return {_mm256_setzero_ps()}; }
	static VECTORGPU_IVF_INLINE Vec load(const float *p) { return {_mm256_loadu_ps(p)}; }
	static VECTORGPU_IVF_INLINE Vec broadcast(float x) { return {_mm256_set1_ps(x)}; }
	VECTORGPU_IVF_INLINE void store(float *p) const { _mm256_storeu_ps(p, value); }
	static VECTORGPU_IVF_INLINE __m256i widen(const uint8_t *p)
	{
		return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(p)));
	}
	static VECTORGPU_IVF_INLINE Vec load_bytes(const uint8_t *p) { return {_mm256_cvtepi32_ps(widen(p))}; }
	static VECTORGPU_IVF_INLINE Vec gather(const float *table, const uint8_t *p)
	{
		return {_mm256_i32gather_ps(table, widen(p), 4)};
	}
	static VECTORGPU_IVF_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.value, b.value, c.value)}; }
	static VECTORGPU_IVF_INLINE Vec loose_fma(Vec a, Vec b, Vec c) { return fma(a, b, c); }
	static VECTORGPU_IVF_INLINE Vec fnma(Vec a, Vec b, Vec c) { return {_mm256_fnmadd_ps(a.value, b.value, c.value)}; }
	static VECTORGPU_IVF_INLINE Vec add(Vec a, Vec b) { return {_mm256_add_ps(a.value, b.value)}; }
	static VECTORGPU_IVF_INLINE Vec subtract(Vec a, Vec b) { return {_mm256_sub_ps(a.value, b.value)}; }
	static VECTORGPU_IVF_INLINE Vec absolute(Vec a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.value)}; }
	static VECTORGPU_IVF_INLINE Index load_index(const uint32_t *p)
	{
		return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p));
	}
	static VECTORGPU_IVF_INLINE void store_index(uint32_t *p, Index index)
	{
		_mm256_storeu_si256(reinterpret_cast<__m256i *>(p), index);
	}
	static VECTORGPU_IVF_INLINE void keep_smaller(Vec v, uint32_t group, Vec &best, Index &which, Vec &second)
	{
		const __m256 smaller = _mm256_cmp_ps(v.value, best.value, _CMP_LT_OQ);

		second.value = _mm256_min_ps(second.value, _mm256_max_ps(best.value, v.value));
		best.value = _mm256_blendv_ps(best.value, v.value, smaller);
		which = _mm256_blendv_epi8(which, _mm256_set1_epi32(static_cast<int>(group)), _mm256_castps_si256(smaller));
	}
};

VECTORGPU_IVF_INLINE float
reduce(const Vec *lanes)
{
	const __m256 eight =
		_mm256_add_ps(_mm256_add_ps(lanes[0].value, lanes[2].value), _mm256_add_ps(lanes[1].value, lanes[3].value));
	const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
	const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));

	return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/// Add 16-bit sums of even and odd rows to 32-bit sums, and clear them.
VECTORGPU_IVF_INLINE void
flush(__m256i &even, __m256i &odd, uint32_t *sums)
{
	uint16_t e[16], o[16];

	_mm256_storeu_si256(reinterpret_cast<__m256i *>(e), even);
	_mm256_storeu_si256(reinterpret_cast<__m256i *>(o), odd);
	for (size_t i = 0; i < 16; i++)
	{
		sums[2 * i] += e[i];
		sums[2 * i + 1] += o[i];
	}
	even = odd = _mm256_setzero_si256();
}

/// Take one code byte of 32 rows at a time. A 16-bit sum grows by at most 2 * 255 a step, so 128 steps before a flush.
void
sum_nibbles(const uint8_t *codes, size_t code_bytes, const uint8_t *table, uint32_t *sums)
{
	constexpr size_t kStepsPerFlush = 128;
	const __m256i nibble = _mm256_set1_epi8(0x0F);
	const __m256i byte = _mm256_set1_epi16(0x00FF);
	__m256i even = _mm256_setzero_si256();
	__m256i odd = _mm256_setzero_si256();
	size_t step = 0;

	memset(sums, 0, 32 * sizeof(uint32_t));
	for (size_t j = 0; j < code_bytes; j++)
	{
		const __m128i *t = reinterpret_cast<const __m128i *>(table + j * 32);
		const __m256i c = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(codes + j * 32));
		const __m256i low =
			_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(t)), _mm256_and_si256(c, nibble));
		const __m256i high = _mm256_shuffle_epi8(
			_mm256_broadcastsi128_si256(_mm_loadu_si128(t + 1)), _mm256_and_si256(_mm256_srli_epi16(c, 4), nibble));

		even = _mm256_add_epi16(even, _mm256_add_epi16(_mm256_and_si256(low, byte), _mm256_and_si256(high, byte)));
		odd = _mm256_add_epi16(odd, _mm256_add_epi16(_mm256_srli_epi16(low, 8), _mm256_srli_epi16(high, 8)));
		if (++step == kStepsPerFlush)
		{
			flush(even, odd, sums);
			step = 0;
		}
	}
	flush(even, odd, sums);
}

/// 32 dimensions at a time: a byte for each, 0xFF where its bit is set. Numbers are at most 127, so that sums of two
/// products fit 16 bits.
int32_t
dot_planes(const uint8_t *planes, size_t n_planes, size_t plane_bytes, const int8_t *elements)
{
	const __m256i spread = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
	const __m256i bits = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
	const __m256i ones = _mm256_set1_epi16(1);
	__m256i sum = _mm256_setzero_si256();
	int32_t lanes[8];

	for (size_t j = 0; j < plane_bytes; j += 4)
	{
		const size_t here = plane_bytes - j < 4 ? plane_bytes - j : 4;
		__m256i number = _mm256_setzero_si256();

		for (size_t plane = 0; plane < n_planes; plane++)
		{
			uint32_t word = 0;

			if (here == 4)
				memcpy(&word, planes + plane * plane_bytes + j, 4);
			else
				memcpy(&word, planes + plane * plane_bytes + j, here);

			const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(word)), spread);
			const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bits), bits);

			number = _mm256_or_si256(number, _mm256_and_si256(set, _mm256_set1_epi8(static_cast<char>(1 << plane))));
		}

		const __m256i element = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(elements + 8 * j));

		sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(number, element), ones));
	}
	_mm256_storeu_si256(reinterpret_cast<__m256i *>(lanes), sum);
	return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

VECTORGPU_IVF_INLINE uint32_t
not_above(const double *scores, double limit)
{
	const __m256d limits = _mm256_set1_pd(limit);
	uint32_t mask = 0;

	for (size_t i = 0; i < 32; i += 4)
		mask |=
			static_cast<uint32_t>(_mm256_movemask_pd(_mm256_cmp_pd(_mm256_loadu_pd(scores + i), limits, _CMP_NGT_UQ)))
			<< i;
	return mask;
}

} // namespace
} // namespace vectorgpu::engine::ivf

#include "engine/ivf/ivf_loops.hpp"

namespace vectorgpu::engine::ivf
{

const IvfKernels kAvx2IvfKernels = kKernels;

} // namespace vectorgpu::engine::ivf
