// The kernels of predicates with AVX2. Only predicate_kernels.cpp may call them, after it has checked the CPU.
// Thread-safe, no state.
#include <cstring>
#include <immintrin.h>

#include "engine/predicate/predicate_kernels.hpp"

namespace vectorgpu::engine::predicate
{
namespace
{

VECTORGPU_PREDICATE_INLINE __m256i
load(const uint8_t *at, int vector)
{
	return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(at) + vector);
}

template <class Code>
struct Compare;

template <>
struct Compare<uint8_t>
{
	__m256i low;
	__m256i span;

	Compare(uint8_t low_code, uint8_t code_span)
		: low(_mm256_set1_epi8(static_cast<char>(low_code))), span(_mm256_set1_epi8(static_cast<char>(code_span)))
	{
	}

	VECTORGPU_PREDICATE_INLINE uint64_t match(const uint8_t *at, int vector) const
	{
		const __m256i above = _mm256_sub_epi8(load(at, vector), low);

		return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_min_epu8(above, span), above)));
	}

	VECTORGPU_PREDICATE_INLINE uint64_t word(const uint8_t *at) const { return match(at, 0) | match(at, 1) << 32; }
};

template <>
struct Compare<uint16_t>
{
	__m256i low;
	__m256i span;

	Compare(uint16_t low_code, uint16_t code_span)
		: low(_mm256_set1_epi16(static_cast<short>(low_code))), span(_mm256_set1_epi16(static_cast<short>(code_span)))
	{
	}

	VECTORGPU_PREDICATE_INLINE __m256i match(const uint8_t *at, int vector) const
	{
		const __m256i above = _mm256_sub_epi16(load(at, vector), low);

		return _mm256_cmpeq_epi16(_mm256_min_epu16(above, span), above);
	}

	VECTORGPU_PREDICATE_INLINE uint64_t pair(const uint8_t *at, int vector) const
	{
		// Packing works in halves of 128 bits.
		const __m256i packed = _mm256_packs_epi16(match(at, vector), match(at, vector + 1));

		return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_permute4x64_epi64(packed, 0xD8)));
	}

	VECTORGPU_PREDICATE_INLINE uint64_t word(const uint8_t *at) const { return pair(at, 0) | pair(at, 2) << 32; }
};

template <>
struct Compare<uint32_t>
{
	__m256i low;
	__m256i span;

	Compare(uint32_t low_code, uint32_t code_span)
		: low(_mm256_set1_epi32(static_cast<int>(low_code))), span(_mm256_set1_epi32(static_cast<int>(code_span)))
	{
	}

	VECTORGPU_PREDICATE_INLINE uint64_t match(const uint8_t *at, int vector) const
	{
		const __m256i above = _mm256_sub_epi32(load(at, vector), low);
		const __m256i matches = _mm256_cmpeq_epi32(_mm256_min_epu32(above, span), above);

		return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(matches)));
	}

	VECTORGPU_PREDICATE_INLINE uint64_t word(const uint8_t *at) const
	{
		uint64_t bits = 0;

#pragma GCC unroll 8
		for (int i = 0; i < 8; i++)
			bits |= match(at, i) << (8 * i);
		return bits;
	}
};

template <>
struct Compare<uint64_t>
{
	__m256i low;
	__m256i span; // with its sign bit flipped, since comparisons are signed

	Compare(uint64_t low_code, uint64_t code_span)
		: low(_mm256_set1_epi64x(static_cast<long long>(low_code))),
		  span(_mm256_set1_epi64x(static_cast<long long>(code_span ^ uint64_t{1} << 63)))
	{
	}

	VECTORGPU_PREDICATE_INLINE uint64_t beyond(const uint8_t *at, int vector) const
	{
		const __m256i sign = _mm256_set1_epi64x(static_cast<long long>(uint64_t{1} << 63));
		const __m256i above = _mm256_xor_si256(_mm256_sub_epi64(load(at, vector), low), sign);

		return static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(above, span))));
	}

	VECTORGPU_PREDICATE_INLINE uint64_t word(const uint8_t *at) const
	{
		uint64_t bits = 0;

#pragma GCC unroll 16
		for (int i = 0; i < 16; i++)
			bits |= beyond(at, i) << (4 * i);
		return ~bits;
	}
};

} // namespace
} // namespace vectorgpu::engine::predicate

#include "engine/predicate/predicate_loops.hpp"

namespace vectorgpu::engine::predicate
{

const PredicateKernels kAvx2PredicateKernels = kKernels;

} // namespace vectorgpu::engine::predicate
