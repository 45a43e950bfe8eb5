// See prepare_kernels.hpp.
#include "cuda/prepare_kernels.hpp"

#include "kernels/canonical/listed.hpp"
#include "kernels/codes/codes.hpp"
#include "kernels/filter/filter.hpp"
#include "kernels/graph/graph.hpp"
#include "kernels/graph/graph_codes.hpp"
#include "kernels/ivf/ivf_few.hpp"
#include "kernels/ivf/ivf_rounded.hpp"
#include "kernels/kernels.hpp"
#include "kernels/kmeans/kmeans.hpp"

namespace vectorgpu::cuda
{

Status
prepare_kernels(const Device &device)
{
	VECTORGPU_TRY(device.check(kernels::prepare_select_kernels(), "prepare the selection kernels"));
	VECTORGPU_TRY(device.check(kernels::prepare_listed_kernels(), "prepare the kernels of listed rows"));
	VECTORGPU_TRY(device.check(kernels::prepare_ivf_few(), "prepare the kernels of few queries over lists"));
	VECTORGPU_TRY(device.check(kernels::prepare_graph_kernels(), "prepare the graph kernels"));
	VECTORGPU_TRY(device.check(kernels::prepare_code_graph_kernels(), "prepare the kernels of graphs with codes"));
	VECTORGPU_TRY(device.check(kernels::prepare_code_kernels(), "prepare the kernels of codes"));
	VECTORGPU_TRY(device.check(kernels::prepare_filter_kernels(), "prepare the filter kernels"));
	VECTORGPU_TRY(device.check(kernels::prepare_ivf_rounded(), "prepare the scan of lists of rounded rows"));
	return device.check(kernels::prepare_cluster_kernels(), "prepare the kernels of k-means");
}

} // namespace vectorgpu::cuda
