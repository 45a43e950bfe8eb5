// Launches of the kernels that search graphs: the number of warps of a query, and the scorer of rows.
// graph_lanes_search.cuh and graph_cluster_search.cuh share parts of it.
#pragma once

#include "kernels/graph/graph_answer.cuh"
#include "kernels/graph/graph_merge.cuh"
#include "kernels/graph/graph_search.cuh"

namespace vectorgpu::kernels
{

/// Let a kernel use all shared memory that a block of this device can have.
template <class Kernel>
cudaError_t
allow_graph_shared(Kernel kernel)
{
	int device = 0;
	int most = 0;
	cudaError_t error = cudaGetDevice(&device);

	if (error == cudaSuccess)
		error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
	return error != cudaSuccess ? error
								: cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
}

template <Metric metric, class Scorer, int warps>
cudaError_t
launch_graph_kernel(const GraphArgs &args, bool prepare, cudaStream_t stream)
{
	const uint32_t shared_bytes = graph_shared_bytes(
		args.max_width, args.tuning.steps, args.tuning.table_bits, args.tuning.visited != GraphVisited::kNone, warps);

	if (prepare)
		return allow_graph_shared(graph_search_kernel<metric, Scorer, warps>);
	graph_search_kernel<metric, Scorer, warps>
		<<<args.queries.n_queries, graph_block_threads(warps), shared_bytes, stream>>>(args);
	return cudaGetLastError();
}

template <Metric metric, class Scorer>
cudaError_t
launch_graph_scorer(const GraphArgs &args, bool prepare, cudaStream_t stream)
{
	if (prepare)
	{
		cudaError_t error = launch_graph_kernel<metric, Scorer, 1>(args, true, stream);

		if (error == cudaSuccess)
			error = launch_graph_kernel<metric, Scorer, 4>(args, true, stream);
		return error != cudaSuccess ? error : launch_graph_kernel<metric, Scorer, kGraphAloneWarps>(args, true, stream);
	}
	switch (args.tuning.warps)
	{
		case 1:
			return launch_graph_kernel<metric, Scorer, 1>(args, false, stream);
		case 4:
			return launch_graph_kernel<metric, Scorer, 4>(args, false, stream);
		default:
			return launch_graph_kernel<metric, Scorer, kGraphAloneWarps>(args, false, stream);
	}
}

/// Call launch(scorer) with a null pointer to the scorer that the arguments need: for a query's 32, 16 or 8 lanes;
/// Vectors for rows that are not scored as whole numbers.
template <Metric metric, int lanes, template <Metric, class> class Vectors, class Launch>
cudaError_t
with_graph_scorer(const GraphArgs &args, const Launch &launch)
{
	if constexpr (metric == Metric::kL2 || metric == Metric::kInnerProduct)
	{
		if (args.byte_queries != nullptr && graph_bytes_are_exact(metric, args.rows.form, args.queries.dim_pad))
			return args.queries.dim_pad <= 128 ? launch(static_cast<GraphByteScorer<metric, 1, lanes> *>(nullptr))
											   : launch(static_cast<GraphByteScorer<metric, 2, lanes> *>(nullptr));
	}
	switch (args.rows.form)
	{
		case Form::kFloat32:
			return launch(static_cast<Vectors<metric, Float32Form> *>(nullptr));
		case Form::kFloat16:
			return launch(static_cast<Vectors<metric, Float16Form> *>(nullptr));
		case Form::kByte:
			return launch(static_cast<Vectors<metric, ByteForm> *>(nullptr));
		case Form::kBit:
		case Form::kScaled:
			break;
	}
	return cudaErrorInvalidValue;
}

template <Metric metric>
cudaError_t
launch_graph_metric(const GraphArgs &args, bool prepare, cudaStream_t stream)
{
	cudaError_t error = cudaSuccess;

	if (!prepare)
		return with_graph_scorer<metric, 32, GraphScorer>(
			args, [&]<class Scorer>(Scorer *) { return launch_graph_scorer<metric, Scorer>(args, false, stream); });
	if constexpr (metric == Metric::kL2 || metric == Metric::kInnerProduct)
	{
		error = launch_graph_scorer<metric, GraphByteScorer<metric, 1>>(args, true, stream);
		if (error == cudaSuccess)
			error = launch_graph_scorer<metric, GraphByteScorer<metric, 2>>(args, true, stream);
	}
	if (error == cudaSuccess)
		error = launch_graph_scorer<metric, GraphScorer<metric, Float32Form>>(args, true, stream);
	if (error == cudaSuccess)
		error = launch_graph_scorer<metric, GraphScorer<metric, Float16Form>>(args, true, stream);
	return error != cudaSuccess ? error
								: launch_graph_scorer<metric, GraphScorer<metric, ByteForm>>(args, true, stream);
}

} // namespace vectorgpu::kernels
