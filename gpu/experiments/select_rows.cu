// The launch of the selection from the rows of a matrix (select_rows_sampled.cuh).
#include "experiments/select_rows_sampled.cuh"

namespace vectorgpu::kernels
{

cudaError_t
launch_select_rows(const SelectRowsArgs &args, cudaStream_t stream)
{
	if (args.n_rows == 0 || args.k == 0)
		return cudaSuccess;
	if (args.k > kSelectRowsMostK || args.n_columns == 0)
		return cudaErrorInvalidValue;
#ifdef VECTORGPU_WARPSELECT
	if (args.k <= kSelectNetworksMostK)
		return launch_select_rows_networks(args, stream);
#endif

	const SelectRowsPlan plan = plan_select_rows(args.n_columns, args.k, kSelectThreads, kSelectLoads);
	const size_t shared = sampled_shared_bytes(plan);

	if (cudaError_t error = cudaFuncSetAttribute(
			select_rows_sampled_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
		error != cudaSuccess)
		return error;
	select_rows_sampled_kernel<<<args.n_rows, kSelectThreads, shared, stream>>>(args, plan);
	return cudaGetLastError();
}

} // namespace vectorgpu::kernels
