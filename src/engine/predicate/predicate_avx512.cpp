// The kernels of predicates with AVX-512 (F, BW). Only predicate_kernels.cpp may call them, after it has checked the
// CPU. Thread-safe, no state.

// GCC 12's header spells "any value" as a self-initialised variable and warns of it where it is inlined (PR 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <cstring>
#include <immintrin.h>

#include "engine/predicate/predicate_kernels.hpp"

namespace vectorgpu::engine::predicate
{
namespace
{

VECTORGPU_PREDICATE_INLINE __m512i
load(const uint8_t *at, int vector)
{
	return _mm512_loadu_si512(at + 64 * vector);
}

/// A code in every place of a register.
VECTORGPU_PREDICATE_INLINE __m512i
spread(uint8_t code)
{
	return _mm512_set1_epi8(static_cast<char>(code));
}

VECTORGPU_PREDICATE_INLINE __m512i
spread(uint16_t code)
{
	return _mm512_set1_epi16(static_cast<short>(code));
}

VECTORGPU_PREDICATE_INLINE __m512i
spread(uint32_t code)
{
	return _mm512_set1_epi32(static_cast<int>(code));
}

VECTORGPU_PREDICATE_INLINE __m512i
spread(uint64_t code)
{
	return _mm512_set1_epi64(static_cast<long long>(code));
}

template <class Code>
VECTORGPU_PREDICATE_INLINE uint64_t
match_range(__m512i codes, __m512i low, __m512i span)
{
	if constexpr (sizeof(Code) == 1)
		return _mm512_cmple_epu8_mask(_mm512_sub_epi8(codes, low), span);
	else if constexpr (sizeof(Code) == 2)
		return _mm512_cmple_epu16_mask(_mm512_sub_epi16(codes, low), span);
	else if constexpr (sizeof(Code) == 4)
		return _mm512_cmple_epu32_mask(_mm512_sub_epi32(codes, low), span);
	else
		return _mm512_cmple_epu64_mask(_mm512_sub_epi64(codes, low), span);
}

template <class Code>
VECTORGPU_PREDICATE_INLINE uint64_t
match_bits(__m512i codes, __m512i mask, __m512i value)
{
	const __m512i bits = _mm512_and_si512(codes, mask);

	if constexpr (sizeof(Code) == 1)
		return _mm512_cmpeq_epi8_mask(bits, value);
	else if constexpr (sizeof(Code) == 2)
		return _mm512_cmpeq_epi16_mask(bits, value);
	else if constexpr (sizeof(Code) == 4)
		return _mm512_cmpeq_epi32_mask(bits, value);
	else
		return _mm512_cmpeq_epi64_mask(bits, value);
}

template <class Code>
struct InRange
{
	static constexpr int kVectors = sizeof(Code); // of 64 codes
	__m512i low;
	__m512i span;

	InRange(Code low_code, Code code_span) : low(spread(low_code)), span(spread(code_span)) {}

	VECTORGPU_PREDICATE_INLINE uint64_t word(const uint8_t *at) const
	{
		uint64_t bits = 0;

#pragma GCC unroll 8
		for (int i = 0; i < kVectors; i++)
			bits |= match_range<Code>(load(at, i), low, span) << (64 / kVectors * i);
		return bits;
	}
};

template <class Code>
struct HasBits
{
	static constexpr int kVectors = sizeof(Code); // of 64 codes
	__m512i mask;
	__m512i value;

	HasBits(Code code_mask, Code code_value) : mask(spread(code_mask)), value(spread(code_value)) {}

	VECTORGPU_PREDICATE_INLINE uint64_t word(const uint8_t *at) const
	{
		uint64_t bits = 0;

#pragma GCC unroll 8
		for (int i = 0; i < kVectors; i++)
			bits |= match_bits<Code>(load(at, i), mask, value) << (64 / kVectors * i);
		return bits;
	}
};

} // namespace
} // namespace vectorgpu::engine::predicate

#include "engine/predicate/predicate_loops.hpp"

namespace vectorgpu::engine::predicate
{

const PredicateKernels kAvx512PredicateKernels = kKernels;

} // namespace vectorgpu::engine::predicate
