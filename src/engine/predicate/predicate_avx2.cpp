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

/// A code in every place of a register.
VECTORGPU_PREDICATE_INLINE __m256i
spread(uint8_t code)
{
	return _mm256_set1_epi8(static_cast<char>(code));
}

VECTORGPU_PREDICATE_INLINE __m256i
spread(uint16_t code)
{
	return _mm256_set1_epi16(static_cast<short>(code));
}

VECTORGPU_PREDICATE_INLINE __m256i
spread(uint32_t code)
{
	return _mm256_set1_epi32(static_cast<int>(code));
}

VECTORGPU_PREDICATE_INLINE __m256i
spread(uint64_t code)
{
	return _mm256_set1_epi64x(static_cast<long long>(code));
}

constexpr uint64_t kSign = uint64_t{1} << 63;

/// All bits of a place are set where code - low <= span. Codes of 8 bytes: where it is greater, and span has its sign
/// bit flipped, since there are only signed comparisons.
template <class Code>
VECTORGPU_PREDICATE_INLINE __m256i
match_range(__m256i codes, __m256i low, __m256i span)
{
	if constexpr (sizeof(Code) == 1)
	{
		const __m256i above = _mm256_sub_epi8(codes, low);

		return _mm256_cmpeq_epi8(_mm256_min_epu8(above, span), above);
	}
	else if constexpr (sizeof(Code) == 2)
	{
		const __m256i above = _mm256_sub_epi16(codes, low);

		return _mm256_cmpeq_epi16(_mm256_min_epu16(above, span), above);
	}
	else if constexpr (sizeof(Code) == 4)
	{
		const __m256i above = _mm256_sub_epi32(codes, low);

		return _mm256_cmpeq_epi32(_mm256_min_epu32(above, span), above);
	}
	else
		return _mm256_cmpgt_epi64(_mm256_xor_si256(_mm256_sub_epi64(codes, low), spread(kSign)), span);
}

/// All bits of a place are set where the code has of the mask's bits those of value.
template <class Code>
VECTORGPU_PREDICATE_INLINE __m256i
match_bits(__m256i codes, __m256i mask, __m256i value)
{
	const __m256i bits = _mm256_and_si256(codes, mask);

	if constexpr (sizeof(Code) == 1)
		return _mm256_cmpeq_epi8(bits, value);
	else if constexpr (sizeof(Code) == 2)
		return _mm256_cmpeq_epi16(bits, value);
	else if constexpr (sizeof(Code) == 4)
		return _mm256_cmpeq_epi32(bits, value);
	else
		return _mm256_cmpeq_epi64(bits, value);
}

/// One bit for each of the 64 codes at `at` whose place match(codes of one register) sets.
template <class Code, class Match>
VECTORGPU_PREDICATE_INLINE uint64_t
word_of(const uint8_t *at, const Match &match)
{
	uint64_t bits = 0;

	if constexpr (sizeof(Code) == 1)
	{
#pragma GCC unroll 2
		for (int i = 0; i < 2; i++)
			bits |= uint64_t{static_cast<uint32_t>(_mm256_movemask_epi8(match(load(at, i))))} << (32 * i);
	}
	else if constexpr (sizeof(Code) == 2)
	{
#pragma GCC unroll 2
		for (int i = 0; i < 2; i++)
		{
			// Packing works in halves of 128 bits.
			const __m256i packed = _mm256_packs_epi16(match(load(at, 2 * i)), match(load(at, 2 * i + 1)));
			const int mask = _mm256_movemask_epi8(_mm256_permute4x64_epi64(packed, 0xD8));

			bits |= uint64_t{static_cast<uint32_t>(mask)} << (32 * i);
		}
	}
	else if constexpr (sizeof(Code) == 4)
	{
#pragma GCC unroll 8
		for (int i = 0; i < 8; i++)
			bits |= uint64_t{static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(match(load(at, i)))))}
				<< (8 * i);
	}
	else
	{
#pragma GCC unroll 16
		for (int i = 0; i < 16; i++)
			bits |= uint64_t{static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(match(load(at, i)))))}
				<< (4 * i);
	}
	return bits;
}

template <class Code>
struct InRange
{
	__m256i low;
	__m256i span;

	InRange(Code low_code, Code code_span)
		: low(spread(low_code)), span(sizeof(Code) == 8 ? spread(code_span ^ kSign) : spread(code_span))
	{
	}

	VECTORGPU_PREDICATE_INLINE uint64_t word(const uint8_t *at) const
	{
		const uint64_t bits = word_of<Code>(at, [this](__m256i codes) { return match_range<Code>(codes, low, span); });

		return sizeof(Code) == 8 ? ~bits : bits;
	}
};

template <class Code>
struct HasBits
{
	__m256i mask;
	__m256i value;

	HasBits(Code code_mask, Code code_value) : mask(spread(code_mask)), value(spread(code_value)) {}

	VECTORGPU_PREDICATE_INLINE uint64_t word(const uint8_t *at) const
	{
		return word_of<Code>(at, [this](__m256i codes) { return match_bits<Code>(codes, mask, value); });
	}
};

} // namespace
} // namespace vectorgpu::engine::predicate

#include "engine/predicate/predicate_loops.hpp"

namespace vectorgpu::engine::predicate
{

const PredicateKernels kAvx2PredicateKernels = kKernels;

} // namespace vectorgpu::engine::predicate
