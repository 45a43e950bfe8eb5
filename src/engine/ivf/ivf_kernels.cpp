// See ivf_kernels.hpp. The kernels are those of the instruction set that the canonical distance uses.
#include "engine/ivf/ivf_kernels.hpp"

#include <initializer_list>

#include "engine/distance/distance.hpp"

namespace vectorgpu::engine::ivf
{

const IvfKernels &
ivf_kernels()
{
	switch (simd_level())
	{
		case SimdLevel::kAvx512:
			return kAvx512IvfKernels;
		case SimdLevel::kAvx2:
			return kAvx2IvfKernels;
		default:
			return kScalarIvfKernels;
	}
}

const IvfKernels &
ivf_kernels_of_width(size_t panel_width)
{
	for (const IvfKernels *kernels : {&kAvx512IvfKernels, &kAvx2IvfKernels})
		if (kernels->panel_width == panel_width)
			return *kernels;
	return kScalarIvfKernels;
}

} // namespace vectorgpu::engine::ivf
