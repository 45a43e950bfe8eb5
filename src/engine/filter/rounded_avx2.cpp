// Inner products of bytes for AVX2: widened to 16 bits, pairs of products summed in 32.
#include <immintrin.h>

#include "engine/filter/rounded_kernels.hpp"

namespace vectorgpu::engine
{

void
rounded_products_avx2(const int8_t *const *rows, size_t n, size_t n_bytes, const int8_t *query, int32_t *products)
{
	constexpr size_t kAhead = 4; // rows prefetched

	for (size_t i = 0; i < n; i++)
	{
		const int8_t *row = rows[i];
		__m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};

		for (size_t at = 0; at < n_bytes; at += 32)
		{
			if (i + kAhead < n && at % 64 == 0)
				__builtin_prefetch(rows[i + kAhead] + at);
			for (size_t half = 0; half < 2; half++)
			{
				const size_t from = at + half * 16;
				const __m256i a = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(row + from)));
				const __m256i b =
					_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(query + from)));

				sums[half] = _mm256_add_epi32(sums[half], _mm256_madd_epi16(a, b));
			}
		}

		const __m256i both = _mm256_add_epi32(sums[0], sums[1]);
		__m128i sum = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));

		sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
		sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
		products[i] = _mm_cvtsi128_si32(sum);
	}
}

} // namespace vectorgpu::engine
