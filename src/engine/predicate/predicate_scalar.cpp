// The kernels of predicates in portable C++. Thread-safe, no state.
#include <cstring>

#include "engine/predicate/predicate_kernels.hpp"

namespace vectorgpu::engine::predicate
{
namespace
{

/// Bit i of the result: pass(code i of the 64 at `at`).
template <class Code, class Pass>
VECTORGPU_PREDICATE_INLINE uint64_t
word_of(const uint8_t *at, const Pass &pass)
{
	uint64_t bits = 0;

	for (int i = 0; i < 64; i++)
	{
		Code code;

		memcpy(&code, at + static_cast<size_t>(i) * sizeof(code), sizeof(code));
		bits |= uint64_t{pass(code)} << i;
	}
	return bits;
}

template <class Code>
struct InRange
{
	Code low;
	Code span;

	InRange(Code low_code, Code code_span) : low(low_code), span(code_span) {}

	VECTORGPU_PREDICATE_INLINE uint64_t word(const uint8_t *at) const
	{
		return word_of<Code>(at, [this](Code code) { return static_cast<Code>(code - low) <= span; });
	}
};

template <class Code>
struct HasBits
{
	Code mask;
	Code value;

	HasBits(Code code_mask, Code code_value) : mask(code_mask), value(code_value) {}

	VECTORGPU_PREDICATE_INLINE uint64_t word(const uint8_t *at) const
	{
		return word_of<Code>(at, [this](Code code) { return static_cast<Code>(code & mask) == value; });
	}
};

} // namespace
} // namespace vectorgpu::engine::predicate

#include "engine/predicate/predicate_loops.hpp"

namespace vectorgpu::engine::predicate
{

const PredicateKernels kScalarPredicateKernels = kKernels;

} // namespace vectorgpu::engine::predicate
