// The choice of a search kernel for a metric, its sizes, and the small kernels of graphs.
#include <algorithm>
#include <bit>
#include <type_traits>

#include "kernels/graph/graph_alone.cuh"
#include "kernels/graph/graph_bits.hpp"
#include "kernels/graph/graph_narrow.hpp"
#include "kernels/warp_block/launch.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kGatherThreads = 256;
constexpr uint32_t kBeginThreads = 256;
constexpr uint32_t kBeginKeys = 8;      // of a lane at a time
constexpr uint32_t kManyQueries = 1024; // from here on a warp each keeps the device busy

/// Pieces of 16 bytes. Grid (blocks), block kGatherThreads.
__global__ void
gather_kernel(const uint4 *from, uint32_t pieces, const uint32_t *nodes, uint32_t n, uint4 *to)
{
	for (size_t i = blockIdx.x * size_t{kGatherThreads} + threadIdx.x; i < static_cast<size_t>(n) * pieces;
		i += size_t{gridDim.x} * kGatherThreads)
		to[i] = __ldg(from + static_cast<size_t>(nodes[i / pieces]) * pieces + i % pieces);
}

/// Grid ceil(n_queries / 8), block kBeginThreads: a warp a query. Lane i keeps the i-th first of the keys so far.
__global__ void __launch_bounds__(kBeginThreads)
begin_kernel(const uint64_t *keys, uint32_t n_entries, uint32_t n_queries, uint32_t n_begin, Entry *begin)
{
	constexpr unsigned kFull = 0xFFFFFFFFu;
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t query = blockIdx.x * (kBeginThreads / 32) + threadIdx.x / 32;
	uint64_t first_key = kExcludedKey;
	uint32_t first_number = 0;

	wait_for_stream();
	let_next_start();
	if (query >= n_queries)
		return;

	const uint64_t *of_query = keys + static_cast<size_t>(query) * n_entries;

	for (uint32_t base = lane; base < n_entries + lane;
		base += 32 * kBeginKeys) // the same number of turns in all lanes
	{
		uint64_t key[kBeginKeys];
		uint64_t next_key = kExcludedKey;
		uint32_t next_number = 0;
		bool nearer = false;
		const uint64_t last = __shfl_sync(kFull, first_key, static_cast<int>(n_begin - 1));

#pragma unroll
		for (uint32_t i = 0; i < kBeginKeys; i++)
		{
			key[i] = base + i * 32 < n_entries ? of_query[base + i * 32] : kExcludedKey;
			nearer |= key[i] < last;
		}
		if (!__any_sync(kFull, nearer))
			continue;
		for (uint32_t rank = 0; rank < n_begin; rank++)
		{
			uint64_t least = first_key; // its number is below those of this turn
			uint32_t number = first_number;

#pragma unroll
			for (uint32_t i = 0; i < kBeginKeys; i++)
				if (key[i] < least)
				{
					least = key[i];
					number = base + i * 32;
				}

			const uint64_t least_of_all = warp_least(least);
			const uint32_t number_of_all = __reduce_min_sync(kFull, least == least_of_all ? number : 0xFFFFFFFFu);

			if (lane == rank)
			{
				next_key = least_of_all;
				next_number = number_of_all;
			}
			if (least != least_of_all || number != number_of_all)
				continue;
			if (first_key == least && first_number == number)
				first_key = kExcludedKey;
#pragma unroll
			for (uint32_t i = 0; i < kBeginKeys; i++)
				if (base + i * 32 == number)
					key[i] = kExcludedKey;
		}
		first_key = next_key;
		first_number = next_number;
	}
	if (lane < n_begin)
		begin[static_cast<size_t>(query) * n_begin + lane] = {first_key, first_number};
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
		(!alone && args.best.entries == nullptr && args.candidates.capacity < args.max_width) ||
		(args.best.entries != nullptr && args.max_width > kGraphMostRanked) ||
		(alone && args.entries.n_rows > kGraphMostEntries))
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
			? static_cast<uint32_t>(
				  std::bit_width(std::clamp(args.max_width * 8, args.max_width < 20 ? 512u : 1024u, 4096u) - 1))
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
launch_graph_begin(
	const uint64_t *keys, uint32_t n_entries, uint32_t n_queries, uint32_t n_begin, Entry *begin, cudaStream_t stream)
{
	constexpr uint32_t kQueries = kBeginThreads / 32;

	if (n_queries == 0 || n_begin == 0)
		return cudaSuccess;
	if (n_begin > kGraphMostBegin || n_begin > n_entries)
		return cudaErrorInvalidValue;
	return launch_after(begin_kernel, (n_queries + kQueries - 1) / kQueries, kBeginThreads, 0, stream, keys, n_entries,
		n_queries, n_begin, begin);
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
