// See predicate_kernels.hpp. The kernels are those of the instruction set that the canonical distance uses.
#include "engine/predicate/predicate_kernels.hpp"

#include "engine/distance/distance.hpp"

namespace vectorgpu::engine::predicate
{

const PredicateKernels &
predicate_kernels()
{
	switch (simd_level())
	{
		case SimdLevel::kAvx512:
			return kAvx512PredicateKernels;
		case SimdLevel::kAvx2:
			return kAvx2PredicateKernels;
		default:
			return kScalarPredicateKernels;
	}
}

} // namespace vectorgpu::engine::predicate
