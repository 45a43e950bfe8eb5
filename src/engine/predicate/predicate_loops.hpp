// The loops of the kernels, included by predicate_scalar.cpp, predicate_avx2.cpp and predicate_avx512.cpp after each
// has defined, in the anonymous namespace of vectorgpu::engine::predicate, for Code = uint8_t, uint16_t, uint32_t,
// uint64_t:
//
//   template <class Code> struct Compare   Compare(low, span); word(p): bit i is set if code i of the 64 at p, less
//   low,
//                                          is at most span
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

template <class Code>
void
range_kernel(const void *codes, size_t n_rows, uint64_t low, uint64_t high, uint64_t *bits)
{
	const uint8_t *at = static_cast<const uint8_t *>(codes);
	const Code least = static_cast<Code>(low);
	const Code span = static_cast<Code>(high - low);
	const Compare<Code> compare(least, span);

	for (; n_rows >= 64; n_rows -= 64, at += 64 * sizeof(Code))
		*bits++ = compare.word(at);
	if (n_rows == 0)
		return;
	*bits = 0;
	for (size_t i = 0; i < n_rows; i++)
	{
		Code code;

		memcpy(&code, at + i * sizeof(Code), sizeof(Code));
		*bits |= uint64_t{static_cast<Code>(code - least) <= span} << i;
	}
}

constexpr PredicateKernels kKernels = {
	{range_kernel<uint8_t>, range_kernel<uint16_t>, range_kernel<uint32_t>, range_kernel<uint64_t>}};

} // namespace
} // namespace vectorgpu::engine::predicate
