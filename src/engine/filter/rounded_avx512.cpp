// Inner products of bytes for AVX-512: with VNNI four products a lane and instruction, else as for AVX2.
// GCC 12 takes the unused lanes of its own intrinsics for uninitialised variables.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#include "engine/filter/rounded_kernels.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr size_t kAhead = 8; // rows prefetched

inline void
ask(const int8_t *const *rows, size_t n, size_t i, size_t at)
{
	if (i + kAhead < n)
		__builtin_prefetch(rows[i + kAhead] + at);
}

} // namespace

void
rounded_products_avx512(const int8_t *const *rows, size_t n, size_t n_bytes, const int8_t *query, int32_t *products)
{
	for (size_t i = 0; i < n; i++)
	{
		const int8_t *row = rows[i];
		__m512i sums[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};

		for (size_t at = 0; at < n_bytes; at += kRoundedStep)
		{
			ask(rows, n, i, at);
			for (size_t half = 0; half < 2; half++)
			{
				const size_t from = at + half * 32;
				const __m512i a =
					_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(row + from)));
				const __m512i b =
					_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(query + from)));

				sums[half] = _mm512_add_epi32(sums[half], _mm512_madd_epi16(a, b));
			}
		}
		products[i] = _mm512_reduce_add_epi32(_mm512_add_epi32(sums[0], sums[1]));
	}
}

// One operand of the instruction is unsigned: 128 is added to the rows' bytes, and 128 times the query's sum taken off.
__attribute__((target("avx512vnni"))) void
rounded_products_vnni(const int8_t *const *rows, size_t n, size_t n_bytes, const int8_t *query, int32_t *products)
{
	const __m512i flip = _mm512_set1_epi8(static_cast<char>(0x80));
	__m512i query_sums = _mm512_setzero_si512();

	for (size_t at = 0; at < n_bytes; at += kRoundedStep)
		query_sums = _mm512_dpbusd_epi32(query_sums, flip, _mm512_loadu_si512(query + at));

	const int32_t too_much = _mm512_reduce_add_epi32(query_sums);

	for (size_t i = 0; i < n; i++)
	{
		const int8_t *row = rows[i];
		__m512i sum = _mm512_setzero_si512();

		for (size_t at = 0; at < n_bytes; at += kRoundedStep)
		{
			ask(rows, n, i, at);
			sum = _mm512_dpbusd_epi32(
				sum, _mm512_xor_si512(_mm512_loadu_si512(row + at), flip), _mm512_loadu_si512(query + at));
		}
		products[i] = _mm512_reduce_add_epi32(sum) - too_much;
	}
}

} // namespace vectorgpu::engine
