// The search of a query alone (graph_search.cuh) by a thread-block cluster of two or four blocks, on devices that have
// them (sm_90 on). Block 0 of a cluster keeps the list, the candidates, the set of visited nodes and the counters in
// its shared memory; it chooses nodes to expand, merges and answers. All blocks score entry points and edges, with
// fewer rows a warp and more of each row under way at once (score_few_rows): for wide rows, where a step is a chain of
// loads. They write candidates into block 0's shared memory, and block 0 writes the next step into theirs. Answers are
// the same as by one block: candidates may come in any order.
//
// Barriers of the cluster, each passed by all of its threads: one when all blocks have their entry points. For each
// step, A when all blocks have been told of it; B when the next 32 edges of all parents have been scored; between two
// B, C when all have been told of the new end of the list. The number of turns depends on the step that was told and on
// the graph's degree. After an A without parents no block reads another's shared memory, and the others leave before
// block 0.
#pragma once

#include <cooperative_groups.h>

#include "kernels/graph/graph_launch.cuh"
#include "kernels/warp_block/per_device.hpp"

namespace vectorgpu::kernels
{

/// A step as the blocks of a cluster are told of it: in shared memory of each, after the search's own.
struct GraphClusterStep
{
	uint64_t last; // of the list, if it is full; else all ones
	uint32_t n_parents;
	uint32_t parents[kGraphMostSteps];
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/// One query's search by `blocks` blocks of kGraphAloneWarps warps. The base's pointers are into the block's own shared
/// memory; all work except scoring is done by block 0.
template <Metric metric, class Scorer, int blocks>
class GraphClusterSearch : GraphSearch<metric, Scorer, kGraphAloneWarps>
{
	static_assert(blocks == 2 || blocks == 4);

	using Base = GraphSearch<metric, Scorer, kGraphAloneWarps>;

public:
	__device__ GraphClusterSearch(
		const GraphArgs &args, uint32_t query, uint8_t *shared, uint32_t shared_bytes, uint32_t thread)
		: Base(args, query, shared, thread), rank_(cooperative_groups::this_cluster().block_rank()),
		  number_(warp_ * blocks + rank_), step_(reinterpret_cast<GraphClusterStep *>(shared + shared_bytes)),
		  found_(of_first(candidates_)),
		  visited_by_all_(args.tuning.visited, of_first(counters_ + 8), args.tuning.table_bits)
	{
	}

	__device__ void run()
	{
		const bool first = rank_ == 0;
		const uint32_t k = first ? args_.queries.k[query_] : 0; // before all else: it may lie on the host

		begin();
		for (;;)
		{
			if (first)
				tell(Base::choose_parents(), 0);
			sync_all(); // A

			const uint32_t n_parents = step_->n_parents;

			if (n_parents == 0)
				break;
			for (uint32_t edge = 0; edge < args_.degree; edge += 32)
			{
				if (edge > 0)
				{
					if (first)
						tell(n_parents, edge);
					sync_all(); // C
				}
				(void) Base::template score_edges<kRows>({step_->parents, n_parents, step_->last, visited_by_all_,
															 found_, of_first(Base::candidate_counter(edge))},
					edge, number_, kWarps);
				sync_all(); // B
				if (first)
					merge_found(edge);
			}
		}
		if (first)
			Base::answer(k);
	}

private:
	using Base::args_;
	using Base::candidates_;
	using Base::counters_;
	using Base::lane_;
	using Base::list_;
	using Base::parents_;
	using Base::query_;
	using Base::size_;
	using Base::thread_;
	using Base::warp_;
	using Base::width_;

	static constexpr uint32_t kWarps = blocks * kGraphAloneWarps;
	static constexpr uint32_t kRows = 16 / blocks; // edges that a warp takes at a time

	static_assert(blocks * kGraphMostBegin <= 32 && blocks * kGraphMostSteps <= 32); // lanes of a warp

	__device__ static void sync_all() { cooperative_groups::this_cluster().sync(); }

	/// The object in block 0's shared memory that corresponds to this block's.
	template <class T>
	__device__ T *of_first(T *own) const
	{
		return rank_ == 0 ? own : cooperative_groups::this_cluster().map_shared_rank(own, 0);
	}

	/// Find the entry points nearest to the query: each block finds its first, block 0 the first of those.
	__device__ void begin()
	{
		// Integers are scored fast, so the cost of a turn counts; for others the chain of loads does.
		uint64_t item = Base::template nearest_entries<Scorer::kByIntegers ? 32 : kRows>(number_, kWarps);

		if (lane_ < kGraphMostBegin)
			candidates_[warp_ * kGraphMostBegin + lane_] = item; // and into sorted_, which follows
		if (rank_ == 0)
		{
			if (thread_ == 0)
				counters_[Base::kFirst] = 0xFFFFFFFFu;
			Base::visited_.clear(thread_, Base::kThreads);
		}
		size_ = min(args_.n_begin, width_);
		Base::sync();
		if (warp_ == 0)
		{
			item = warp_first(candidates_[lane_], candidates_[lane_ + 32], args_.n_begin, lane_);
			__syncwarp();
			if (lane_ < kGraphMostBegin)
				candidates_[lane_] = item;
		}
		sync_all();
		if (rank_ != 0)
			return; // to A: the values that block 0 reads here do not change
		if (warp_ == 0)
		{
			item = ~uint64_t{0};
			if (lane_ < blocks * kGraphMostBegin)
				item = cooperative_groups::this_cluster().map_shared_rank(
					candidates_, lane_ / kGraphMostBegin)[lane_ % kGraphMostBegin];
			Base::begin_list(item, ~uint64_t{0});
		}
		Base::sync();
	}

	/// By block 0: tell all blocks, itself included, which nodes to expand, and set the count of candidates of the
	/// edges from `edge` on to zero. All blocks see the work of its threads before the last barrier of the block.
	__device__ void tell(uint32_t n_parents, uint32_t edge)
	{
		if (thread_ < blocks * kGraphMostSteps)
		{
			GraphClusterStep *step =
				cooperative_groups::this_cluster().map_shared_rank(step_, thread_ / kGraphMostSteps);
			const uint32_t i = thread_ % kGraphMostSteps;

			if (i < n_parents)
				step->parents[i] = parents_[i];
			if (i == 0)
			{
				step->n_parents = n_parents;
				step->last = size_ == width_ ? list_[width_ - 1] : ~uint64_t{0};
			}
		}
		if (thread_ == 0)
			*Base::candidate_counter(edge) = 0;
	}

	__device__ void merge_found(uint32_t edge)
	{
		const uint32_t n = *Base::candidate_counter(edge);

		if (n > 0 && !Base::merge_at_once(n))
			Base::merge(n);
	}

	const uint32_t rank_; // of the block
	const uint32_t
		number_; // of the warp: neighbouring numbers are in different blocks, so few parents are shared by all
	GraphClusterStep *const step_; // this block's
	uint64_t *const found_;        // block 0's candidates_
	GraphSet visited_by_all_;      // block 0's visited_
};

#endif

/// args.tuning is complete. Grid n_queries * blocks, block kGraphAloneWarps * 32, clusters of `blocks`. Shared memory:
/// shared_bytes (graph_shared_bytes) and a GraphClusterStep. Writes args.answers. Reproducible.
template <Metric metric, class Scorer, int blocks>
__global__ void __launch_bounds__(kGraphAloneWarps * 32, 1)
graph_cluster_kernel(GraphArgs args, uint32_t shared_bytes)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900 // other devices have no clusters, and it is not launched there
	extern __shared__ __align__(16) uint8_t graph_shared[];

	GraphClusterSearch<metric, Scorer, blocks>(args, blockIdx.x / blocks, graph_shared, shared_bytes, threadIdx.x)
		.run();
#endif
}

/// Set *room to the number of such clusters that this device holds at a time, whatever the queries; 0: none. prepare:
/// also prepare the kernel, which loads it. config: for any query. known: the number + 1; 0: not asked yet. If the
/// number cannot be found, for want of memory for instance, it counts as 0 and is asked again.
template <class Kernel>
cudaError_t
find_graph_cluster_room(Kernel kernel, bool prepare, cudaLaunchConfig_t config, PerDevice *known, uint32_t *room)
{
	int device = 0;
	int has_clusters = 0;
	int n_clusters = 0;

	*room = 0;
	if (const uint64_t plus_one = known->get(); plus_one != 0 && !prepare)
	{
		*room = static_cast<uint32_t>(plus_one - 1);
		return cudaSuccess;
	}
	if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess)
		return error;
	if (const cudaError_t error = cudaDeviceGetAttribute(&has_clusters, cudaDevAttrClusterLaunch, device);
		error != cudaSuccess)
		return error;
	if (has_clusters != 0)
	{
		cudaError_t error = allow_graph_shared(kernel);

		config.gridDim = config.attrs->val.clusterDim.x; // any grid but an empty one, for which asking is an error
		config.dynamicSmemBytes =
			graph_shared_bytes(kGraphMostWidth, kGraphMostSteps, kGraphAloneTableBits, true, kGraphAloneWarps) +
			sizeof(GraphClusterStep);
		if (error == cudaSuccess)
			error = cudaOccupancyMaxActiveClusters(&n_clusters, kernel, &config);
		if (error != cudaSuccess)
		{
			(void) cudaGetLastError(); // then the caller uses one block
			return cudaSuccess;
		}
	}
	*room = n_clusters > 0 ? static_cast<uint32_t>(n_clusters) : 0;
	known->set(uint64_t{*room} + 1);
	return cudaSuccess;
}

/// The launch of a kernel for args' queries; `cluster` outlives it.
inline cudaLaunchConfig_t
graph_cluster_config(
	const GraphArgs &args, uint32_t shared_bytes, uint32_t blocks, cudaLaunchAttribute *cluster, cudaStream_t stream)
{
	cudaLaunchConfig_t config = {};

	*cluster = {};
	cluster->id = cudaLaunchAttributeClusterDimension;
	cluster->val.clusterDim.x = blocks;
	cluster->val.clusterDim.y = 1;
	cluster->val.clusterDim.z = 1;
	config.gridDim = dim3(args.queries.n_queries * blocks);
	config.blockDim = dim3(kGraphAloneWarps * 32);
	config.dynamicSmemBytes = shared_bytes + sizeof(GraphClusterStep);
	config.stream = stream;
	config.attrs = cluster;
	config.numAttrs = 1;
	return config;
}

/// prepare, *room: as above. launched: null, or set to whether the kernel was launched: not if the device has no room
/// for such clusters, and then nothing has happened.
template <Metric metric, class Scorer, int blocks>
cudaError_t
launch_graph_cluster_kernel(const GraphArgs &args, bool prepare, uint32_t *room, bool *launched, cudaStream_t stream)
{
	static PerDevice known;
	const uint32_t shared_bytes = graph_shared_bytes(args.max_width, args.tuning.steps, args.tuning.table_bits,
		args.tuning.visited != GraphVisited::kNone, kGraphAloneWarps);
	cudaLaunchAttribute cluster;
	const cudaLaunchConfig_t config = graph_cluster_config(args, shared_bytes, blocks, &cluster, stream);

	if (const cudaError_t error =
			find_graph_cluster_room(graph_cluster_kernel<metric, Scorer, blocks>, prepare, config, &known, room);
		error != cudaSuccess || *room == 0 || launched == nullptr)
		return error;

	const cudaError_t error =
		cudaLaunchKernelEx(&config, graph_cluster_kernel<metric, Scorer, blocks>, args, shared_bytes);

	if (error == cudaErrorInvalidClusterSize || error == cudaErrorInvalidConfiguration ||
		error == cudaErrorLaunchOutOfResources || error == cudaErrorNotSupported)
	{
		(void) cudaGetLastError();
		known.set(1); // not to be tried again
		return cudaSuccess;
	}
	*launched = error == cudaSuccess;
	return error;
}

template <Metric metric>
cudaError_t
launch_graph_clusters(const GraphArgs &args, bool prepare, uint32_t *room, bool *launched, cudaStream_t stream)
{
	return with_graph_scorer<metric, 32, GraphScorer>(args,
		[&]<class Scorer>(Scorer *)
		{
			return args.tuning.blocks == 4
				? launch_graph_cluster_kernel<metric, Scorer, 4>(args, prepare, room, launched, stream)
				: launch_graph_cluster_kernel<metric, Scorer, 2>(args, prepare, room, launched, stream);
		});
}

} // namespace vectorgpu::kernels
