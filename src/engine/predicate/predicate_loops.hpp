// The loops of the kernels, included by predicate_scalar.cpp, predicate_avx2.cpp and predicate_avx512.cpp after each
// has defined, in the anonymous namespace of vectorgpu::engine::predicate, for Code = uint8_t, uint16_t, uint32_t,
// uint64_t:
//
//   InRange<Code>(low, span)    word(p): bit i is set if code i of the 64 at p, less low, is at most span
//   HasBits<Code>(mask, value)  word(p): bit i is set if code i has of the mask's bits those of value
//
// Everything is in an anonymous namespace and uses no standard template.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/predicate/predicate_kernels.hpp"

namespace vectorgpu::engine::predicate
{
namespace
{

/// Set bits [ceil(n_rows / 64)] by a comparison of 64 codes at a time.
template <class Code, class Compare>
VECTORGPU_PREDICATE_INLINE void
match_rows(const Compare &compare, const void *codes, size_t n_rows, uint64_t *bits)
{
	const uint8_t *at = static_cast<const uint8_t *>(codes);

	for (; n_rows >= 64; n_rows -= 64, at += 64 * sizeof(Code))
		*bits++ = compare.word(at);
	if (n_rows == 0)
		return;

	uint8_t last[64 * sizeof(Code)] = {}; // a read beyond the last row may fault

	memcpy(last, at, n_rows * sizeof(Code));
	*bits = compare.word(last) & ~(~uint64_t{0} << n_rows);
}

template <class Code>
void
range_kernel(const void *codes, size_t n_rows, uint64_t low, uint64_t high, uint64_t *bits)
{
	match_rows<Code>(InRange<Code>(static_cast<Code>(low), static_cast<Code>(high - low)), codes, n_rows, bits);
}

template <class Code>
void
bits_kernel(const void *codes, size_t n_rows, uint64_t mask, uint64_t value, uint64_t *bits)
{
	match_rows<Code>(HasBits<Code>(static_cast<Code>(mask), static_cast<Code>(value)), codes, n_rows, bits);
}

constexpr PredicateKernels kKernels = {
	{range_kernel<uint8_t>, range_kernel<uint16_t>, range_kernel<uint32_t>, range_kernel<uint64_t>},
	{bits_kernel<uint8_t>, bits_kernel<uint16_t>, bits_kernel<uint32_t>, bits_kernel<uint64_t>}};

} // namespace
} // namespace vectorgpu::engine::predicate
