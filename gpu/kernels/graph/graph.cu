// The choice of a search kernel for a metric, its sizes, and the small kernels of graphs.
#include <algorithm>
#include <bit>
#include <type_traits>

#include "kernels/graph/graph_bits.hpp"
#include "kernels/graph/graph_narrow.hpp"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kGatherThreads = 256;
constexpr uint32_t kManyQueries = 1024; // from here on a warp each keeps the device busy

/// Pieces of 16 bytes. Grid (blocks), block kGatherThreads.
__global__ void
gather_kernel(const uint4 *from, uint32_t pieces, const uint32_t *nodes, uint32_t n, uint4 *to)
{
	for (size_t i = blockIdx.x * size_t{kGatherThreads} + threadIdx.x; i < static_cast<size_t>(n) * pieces;
		i += size_t{gridDim.x} * kGatherThreads)
		to[i] = __ldg(from + static_cast<size_t>(nodes[i / pieces]) * pieces + i % pieces);
}

/// Call launch(metric), an std::integral_constant.
template <class Launch>
cudaError_t
with_metric(Metric metric, const Launch &launch)
{
	switch (metric)
	{
		case Metric::kL2:
			return launch(std::integral_constant<Metric, Metric::kL2>());
		case Metric::kInnerProduct:
			return launch(std::integral_constant<Metric, Metric::kInnerProduct>());
		case Metric::kCosine:
			return launch(std::integral_constant<Metric, Metric::kCosine>());
		case Metric::kL1:
			return launch(std::integral_constant<Metric, Metric::kL1>());
		default:
			return cudaErrorInvalidValue;
	}
}

cudaError_t
launch_narrow(const GraphArgs &args, bool prepare, cudaStream_t stream)
{
	switch (args.metric)
	{
		case Metric::kL2:
			return launch_graph_narrow<Metric::kL2>(args, prepare, stream);
		case Metric::kInnerProduct:
			return launch_graph_narrow<Metric::kInnerProduct>(args, prepare, stream);
		case Metric::kCosine:
			return launch_graph_narrow<Metric::kCosine>(args, prepare, stream);
		default:
			return cudaErrorInvalidValue;
	}
}

} // namespace

bool
graph_bytes_are_exact(Metric metric, Form form, uint32_t dim_pad)
{
	return form == Form::kByte && dim_pad <= kGraphMostByteDims &&
		(metric == Metric::kL2 || metric == Metric::kInnerProduct);
}

cudaError_t
launch_graph_search(const GraphArgs &args, cudaStream_t stream, uint32_t *n_blocks)
{
	GraphArgs complete = args;
	GraphTuning &tuning = complete.tuning;

	if (n_blocks != nullptr)
		*n_blocks = 1;
	if (args.queries.n_queries == 0 || args.rows.n_rows == 0)
		return cudaSuccess;
	const bool alone = args.answers.heads != nullptr;
	const bool bits = args.rows.form == Form::kBit;

	if (args.max_width < 1 || args.max_width > kGraphMostWidth || args.degree == 0 || args.n_begin > kGraphMostBegin ||
		(!alone && args.candidates.capacity < args.max_width) || (alone && args.entries.n_rows > kGraphMostEntries))
		return cudaErrorInvalidValue;
	if (tuning.steps == 0)
		tuning.steps = kGraphDefaultSteps;
	tuning.steps = std::min(tuning.steps, kGraphMostSteps);
	const bool narrow = args.narrow.rows != nullptr;

	if (alone || bits || narrow || (tuning.lanes != 16 && tuning.lanes != 8))
		tuning.lanes = 0;
	if (alone)
		tuning.warps = kGraphAloneWarps;
	else if (tuning.lanes != 0)
		tuning.warps = 1; // as small for the set of visited nodes: it limits how many queries a multiprocessor has
	else if (tuning.warps != 1 && tuning.warps != 4)
		tuning.warps = args.queries.n_queries >= kManyQueries ? 1 : 4;
	// A search scores about 20 rows for each item of the list. If many queries share shared memory it is better to
	// score some rows twice (README.md).
	if (tuning.table_bits == 0 && alone) // no other query shares it, and a taken slot costs all another step
		tuning.table_bits = static_cast<uint32_t>(
			std::bit_width(std::clamp(args.max_width * 128, 2048u, 1u << kGraphAloneTableBits) - 1));
	else if (tuning.table_bits == 0)
		tuning.table_bits = tuning.warps == 1
			? static_cast<uint32_t>(std::bit_width(std::clamp(args.max_width * 8, 512u, 4096u) - 1))
			: static_cast<uint32_t>(std::bit_width(std::clamp(args.max_width * 20, 512u, 8192u) - 1));
	tuning.table_bits = std::clamp(tuning.table_bits, 6u, alone ? kGraphAloneTableBits : kGraphMostTableBits);
	if (bits)
		return launch_graph_bits(complete, false, stream);
	if (narrow)
		return launch_narrow(complete, false, stream);
	if (tuning.lanes != 0)
		return with_metric(
			args.metric, [&](auto metric) { return launch_graph_lanes<metric.value>(complete, stream); });
	if (alone && (tuning.blocks == 2 || tuning.blocks == 4))
	{
		uint32_t room = 0;
		bool launched = false;
		const cudaError_t error = with_metric(args.metric, [&](auto metric)
			{ return launch_graph_clusters<metric.value>(complete, false, &room, &launched, stream); });

		if (launched && n_blocks != nullptr)
			*n_blocks = tuning.blocks;
		if (launched || error != cudaSuccess)
			return error;
	}
	return with_metric(
		args.metric, [&](auto metric) { return launch_graph_metric<metric.value>(complete, false, stream); });
}

cudaError_t
launch_graph_entries(const GraphArgs &args, uint64_t *items, cudaStream_t stream)
{
	if (args.queries.n_queries == 0)
		return cudaSuccess;
	if (args.n_begin > kGraphMostBegin || args.entries.n_rows == 0)
		return cudaErrorInvalidValue;
	return with_metric(
		args.metric, [&](auto metric) { return launch_graph_entries_metric<metric.value>(args, items, stream); });
}

cudaError_t
graph_cluster_room(const GraphArgs &args, uint32_t *room)
{
	return with_metric(args.metric,
		[&](auto metric) { return launch_graph_clusters<metric.value>(args, false, room, nullptr, nullptr); });
}

cudaError_t
launch_graph_gather(const Rows &rows, const uint32_t *nodes, uint32_t n, void *to, cudaStream_t stream)
{
	const uint32_t pieces = rows.pitch_bytes / 16;

	if (n == 0)
		return cudaSuccess;
	gather_kernel<<<std::min<uint32_t>(1024, (n * pieces + kGatherThreads - 1) / kGatherThreads), kGatherThreads, 0,
		stream>>>(static_cast<const uint4 *>(rows.vectors), pieces, nodes, n, static_cast<uint4 *>(to));
	return cudaGetLastError();
}

cudaError_t
prepare_graph_kernels()
{
	GraphArgs args;
	uint32_t room = 0;

	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1})
	{
		if (const cudaError_t error =
				with_metric(metric, [&](auto m) { return launch_graph_metric<m.value>({}, true, nullptr); });
			error != cudaSuccess)
			return error;
		for (const Form form : {Form::kFloat32, Form::kFloat16,
				 Form::kByte}) // searches of rows scored by integers do not use them (cuda/search/graph_alone.cpp)
			for (const uint32_t blocks : {2u, 4u})
			{
				args.metric = metric;
				args.rows.form = form;
				args.tuning.blocks = blocks;
				if (const cudaError_t error = with_metric(metric,
						[&](auto m) { return launch_graph_clusters<m.value>(args, true, &room, nullptr, nullptr); });
					error != cudaSuccess)
					return error;
			}
	}
	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
	{
		args.metric = metric;
		if (const cudaError_t error = launch_narrow(args, true, nullptr); error != cudaSuccess)
			return error;
	}
	return launch_graph_bits({}, true, nullptr);
}

} // namespace vectorgpu::kernels
