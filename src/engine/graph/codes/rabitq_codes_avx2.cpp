// Products of codes of RaBitQ with AVX2. Only rabitq_codes.cpp may call them, after it has checked the CPU.
#include <immintrin.h>

#include "engine/graph/codes/rabitq_codes.hpp"

namespace vectorgpu::engine::graph
{
namespace
{

constexpr size_t kWide = 32; // bytes of a register

__m256i
load(const void *bytes)
{
	return _mm256_loadu_si256(static_cast<const __m256i *>(bytes));
}

/// A sum of two products is at most 2 * 15 * 127, which fits 16 bits.
template <uint32_t kBits>
int32_t
product(const uint8_t *numbers, const int8_t *elements, size_t n_bytes)
{
	const __m256i mask = _mm256_set1_epi8((1 << kBits) - 1);
	const __m256i ones = _mm256_set1_epi16(1);
	__m256i sums = _mm256_setzero_si256();

	for (size_t i = 0; i < n_bytes; i += kWide)
	{
		// n_bytes is a multiple of half a register. Elements behind them are multiplied by zeros.
		__m256i bytes = i + kWide <= n_bytes
			? load(numbers + i)
			: _mm256_zextsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i *>(numbers + i)));

		for (uint32_t part = 0; part < 8 / kBits; part++)
		{
			const __m256i pairs =
				_mm256_maddubs_epi16(_mm256_and_si256(bytes, mask), load(elements + part * n_bytes + i));

			sums = _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, ones));
			bytes = _mm256_srli_epi16(bytes, kBits);
		}
	}

	__m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));

	four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
	four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1));
	return _mm_cvtsi128_si32(four);
}

} // namespace

RabitqProduct
rabitq_product_avx2(uint32_t bits)
{
	return bits == 1 ? product<1> : bits == 2 ? product<2> : product<4>;
}

} // namespace vectorgpu::engine::graph
