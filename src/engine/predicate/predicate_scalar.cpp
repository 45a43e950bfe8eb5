// The kernels of predicates in portable C++. Thread-safe, no state.
#include <cstring>

#include "engine/predicate/predicate_kernels.hpp"

namespace vectorgpu::engine::predicate
{
namespace
{

template <class Code>
struct Compare
{
	Code low;
	Code span;

	Compare(Code low_code, Code code_span) : low(low_code), span(code_span) {}

	VECTORGPU_PREDICATE_INLINE uint64_t word(const uint8_t *at) const
	{
		uint64_t bits = 0;

		for (int i = 0; i < 64; i++)
		{
			Code code;

			memcpy(&code, at + static_cast<size_t>(i) * sizeof(code), sizeof(code));
			bits |= uint64_t{static_cast<Code>(code - low) <= span} << i;
		}
		return bits;
	}
};

} // namespace
} // namespace vectorgpu::engine::predicate

#include "engine/predicate/predicate_loops.hpp"

namespace vectorgpu::engine::predicate
{

const PredicateKernels kScalarPredicateKernels = kKernels;

} // namespace vectorgpu::engine::predicate
