// SONG's search of a graph (Zhao, Tan, Li 2020, algorithm 1). A query is searched by a warp, by four, by a block of
// eight that does all of it, or by some lanes of a warp (graph_lanes_search.cuh). One list in shared memory, ascending,
// is both of SONG's queues: the nearest nodes seen, with a mark on those that were expanded. The nearest without a mark
// is the head of the queue to expand; when all have a mark, the search ends. Stages of a step: locate the unvisited
// neighbours of the next nodes (a lane an edge), score them (all lanes a row), merge those that are near enough into
// the list. A node's score is the same each time, so a node that is already in the list is met at its place and left
// out: no set of visited nodes has to be exact. Merging is in graph_merge.cuh, the end in graph_answer.cuh;
// graph_launch.cuh includes both.
#pragma once

#include "kernels/graph/graph.hpp"
#include "kernels/graph/graph_alone.cuh"
#include "kernels/graph/graph_lanes.cuh"
#include "kernels/graph/graph_list.cuh"
#include "kernels/graph/graph_scorers.cuh"
#include "kernels/graph/graph_visited.cuh"

namespace vectorgpu::kernels
{

/// A scorer by which a search only chooses its way. Its type Canonical chooses the entry points; `exact` gives the
/// scores of what was found.
template <class Scorer>
concept GraphWayScorer = requires { typename Scorer::Canonical; };

/// One query's search by `warps` warps, or by 16 or 8 lanes of one: then other lanes of the warp search for other
/// queries, independently.
template <Metric metric, class Scorer, int warps, int lanes = 32>
class GraphSearch
{
	static_assert(lanes == 32 || warps == 1);
	static_assert(static_cast<int>(kGraphMostBegin) <= lanes); // begin_in_order: a lane each

public:
	__device__ GraphSearch(const GraphArgs &args, uint32_t query, uint8_t *shared, uint32_t thread)
		: args_(args), query_(query), thread_(thread), lane_(thread % 32), warp_(thread / 32),
		  width_(args.widths[query]), steps_(args.tuning.steps), list_(reinterpret_cast<uint64_t *>(shared)),
		  candidates_(list_ + (args.max_width + 1) / 2 * 2), sorted_(candidates_ + steps_ * 32),
		  places_(reinterpret_cast<uint32_t *>(sorted_ + steps_ * 32)),
		  nodes_(places_ + steps_ * 32 + (thread / 32) * 32),
		  parents_(places_ + steps_ * 32 + graph_scored_nodes(warps, lanes)), counters_(parents_ + kGraphMostSteps),
		  visited_(args.tuning.visited, counters_ + 8, args.tuning.table_bits), scorer_(args, query, thread % 32)
	{
	}

	__device__ void run()
	{
		const uint32_t k = kAlone ? args_.queries.k[query_] : 0; // before all else: it may lie on the host

		if constexpr (kAlone)
			begin_alone();
		else
			begin();
		for (;;)
		{
			const uint32_t n_parents = choose_parents();

			if (n_parents == 0)
				break;
			for (uint32_t edge = 0; edge < args_.degree; edge += 32)
			{
				uint32_t n;

				if constexpr (kOneWarp)
					n = score_together(n_parents, edge);
				else
					n = locate_and_score(n_parents, edge);
				if (n > 0 && (!kAlone || !merge_at_once(n)))
					merge(n);
			}
		}
		if constexpr (kAlone)
			answer(k);
		else
			write_found();
	}

protected:
	static constexpr bool kAlone = warps == kGraphAloneWarps;
	static constexpr bool kOneWarp = warps == 1 && lanes == 32;
	static constexpr uint32_t kThreads = warps * lanes;
	// Items of the list that a warp, or a query's part of it, looks at together.
	static constexpr uint32_t kEach = lanes;
	static constexpr uint32_t kChunk =
		kAlone ? 16 : lanes; // edges that a warp takes at a time: more loads are under way at once
	static constexpr unsigned kFull = 0xFFFFFFFFu;
	using Lanes = GraphLanes<lanes>;

	__device__ static void sync()
	{
		if constexpr (warps == 1)
			Lanes::sync();
		else
			__syncthreads();
	}

	/// Begin with the entry points nearest to the query.
	__device__ void begin()
	{
		visited_.clear(thread_, kThreads);
		size_ = min(args_.n_begin, width_);
		if constexpr (!GraphWayScorer<Scorer>)
			for (uint32_t i = thread_; i < args_.n_begin; i += kThreads)
				candidates_[i] = item_of(args_.begin[static_cast<size_t>(query_) * args_.n_begin + i]);
		sync();
		if (warp_ == 0)
		{
			if constexpr (GraphWayScorer<Scorer>)
				score_begin(lane_ < args_.n_begin
						? args_.entry_nodes[args_.begin[static_cast<size_t>(query_) * args_.n_begin + lane_].row]
						: 0);
			begin_in_order();
		}
		sync();
	}

	/// The item of an entry point.
	__device__ __forceinline__ uint64_t item_of(const Entry &entry) const
	{
		const uint64_t bits = (entry.key >> 63) != 0 ? entry.key & 0x7FFFFFFFFFFFFFFFu : ~entry.key;
		const float score = entry.key >= kNanKey
			? __uint_as_float(0x7F800000u)
			: static_cast<float>(__longlong_as_double(static_cast<long long>(bits)));

		return graph_item(score, args_.entry_nodes[entry.row]);
	}

	/// Lane i gets the i-th nearest entry point (score, number) among those that warp `number` of n_warps looks at,
	/// `most` at a time.
	template <uint32_t most>
	__device__ __forceinline__ uint64_t nearest_entries(uint32_t number, uint32_t n_warps) const
	{
		if (args_.entry_items != nullptr)
			return first_entry_items(args_, query_, number, n_warps, lane_);
		if constexpr (GraphWayScorer<Scorer>)
			return score_entries<most>(args_, scorer_.canonical, nodes_, number, n_warps, lane_);
		else
			return score_entries<most>(args_, scorer_, nodes_, number, n_warps, lane_);
	}

	/// Put the items of the nodes of the first n_begin lanes, by the way's scores, into candidates_. By one warp.
	__device__ __forceinline__ void score_begin(uint32_t node)
	{
		nodes_[lane_] = node;
		Lanes::sync();

		const float score = scorer_.template score<32>(nodes_, args_.n_begin, lane_);

		if (lane_ < args_.n_begin)
			candidates_[lane_] = graph_item(score, node);
		Lanes::sync();
	}

	/// Begin the list with the size_ first of the n_begin items in candidates_, in the list's order: that of the entry
	/// points differs, for it has NaN behind infinities and is by canonical scores. By one warp.
	__device__ __forceinline__ void begin_in_order()
	{
		const uint64_t item = lane_ < args_.n_begin ? candidates_[lane_] : ~uint64_t{0};
		uint32_t rank = 0;

#pragma unroll 1
		for (uint32_t i = 0; i < args_.n_begin; i++)
			rank += candidates_[i] < item || (candidates_[i] == item && i < lane_) ? 1 : 0;
		if (rank < size_) // lanes from n_begin on have rank n_begin
		{
			list_[rank] = item;
			(void) visited_.insert(node_of(item));
		}
		Lanes::sync();
	}

	/// Begin the list with the n_begin first of all lanes' a and b, from nearest_entries. By one warp.
	__device__ __forceinline__ void begin_list(uint64_t a, uint64_t b)
	{
		const uint64_t first = warp_first(a, b, args_.n_begin, lane_);
		const uint32_t node = lane_ < args_.n_begin ? args_.entry_nodes[static_cast<uint32_t>(first)] : 0;

		if constexpr (GraphWayScorer<Scorer>)
			score_begin(node);
		else
		{
			if (lane_ < args_.n_begin)
				candidates_[lane_] = graph_item(order_to_float(static_cast<uint32_t>(first >> 32)), node);
			Lanes::sync();
		}
		begin_in_order();
	}

	/// As begin, but finds the nearest among all entry points here.
	__device__ void begin_alone()
	{
		const uint64_t first = nearest_entries<32>(warp_, warps);

		if (lane_ < kGraphMostBegin)
			candidates_[warp_ * kGraphMostBegin + lane_] = first; // and into sorted_, which follows
		if (thread_ == 0)
			counters_[kFirst] = 0xFFFFFFFFu;
		visited_.clear(thread_, kThreads);
		size_ = min(args_.n_begin, width_);
		sync();
		if (warp_ == 0)
			begin_list(candidates_[lane_], candidates_[lane_ + 32]);
		sync();
	}

	/// Mark the first nodes to expand. Every thread gets their number.
	__device__ uint32_t choose_parents()
	{
		if (warp_ == 0)
		{
			uint32_t n = 0;

			for (uint32_t base = hint_ / kEach * kEach; base < size_ && n < steps_; base += kEach)
			{
				const uint32_t i = base + lane_;
				const uint64_t item = i < size_ ? list_[i] : 1;
				const unsigned open = Lanes::ballot((item & 1) == 0);
				const uint32_t rank = n + __popc(open & ((1u << lane_) - 1));

				if ((item & 1) == 0 && rank < steps_)
				{
					parents_[rank] = node_of(item);
					list_[i] = item | 1;
				}
				if (n == 0)
					hint_ = open != 0 ? base + __ffs(static_cast<int>(open)) - 1 : min(base + kEach, size_);
				n += __popc(open);
			}
			if (lane_ == 0)
				counters_[0] = min(n, steps_);
		}
		sync();
		return counters_[0];
	}

	/// State that all warps of a query use to score edges.
	struct Scoring
	{
		const uint32_t *parents;
		uint32_t n_parents;
		uint64_t last; // only nearer nodes become candidates
		GraphSet &visited;
		uint64_t *candidates;
		uint32_t *n_candidates; // counted if a query has several warps
	};

	/// The part of warp `number` of n_warps in locate_and_score: 32 edges of each parent from `edge` on, `chunk` at a
	/// time. Returns how many candidates this warp has added.
	template <uint32_t chunk>
	__device__ __forceinline__ uint32_t score_edges(
		const Scoring &of, uint32_t edge, uint32_t number, uint32_t n_warps) const
	{
		constexpr uint32_t kChunksOfParent = 32 / chunk;
		uint32_t count = 0;

		for (uint32_t c = number; c < of.n_parents * kChunksOfParent; c += n_warps)
		{
			const uint32_t at = edge + c % kChunksOfParent * chunk + lane_;
			const bool here = lane_ < chunk && at < args_.degree;
			const uint32_t node = here
				? __ldg(args_.edges + static_cast<size_t>(of.parents[c / kChunksOfParent]) * args_.degree + at)
				: 0xFFFFFFFFu;
			const bool fresh = is_fresh(of.visited, node);
			const unsigned fresh_lanes = Lanes::ballot(fresh);
			const uint32_t n = __popc(fresh_lanes);

			if (n == 0)
				continue;
			if (fresh)
				nodes_[__popc(fresh_lanes & ((1u << lane_) - 1))] = node;
			Lanes::sync();
			count += take_near<chunk>(of, nodes_, n, count);
			Lanes::sync(); // nodes_ is used again
		}
		return count;
	}

	/// True if a node is to be scored. It counts as visited from now on, or once it is taken.
	__device__ __forceinline__ bool is_fresh(GraphSet &visited, uint32_t node) const
	{
		if (node >= args_.rows.n_rows)
			return false;
		return args_.tuning.selected_insertion ? !visited.contains(node) : visited.insert(node);
	}

	/// Score nodes [n], at most `chunk`, and put those that are near enough for the list behind the `count` candidates
	/// of this warp. Returns how many. By one warp, or all lanes of a query in it.
	template <uint32_t chunk>
	__device__ __forceinline__ uint32_t take_near(
		const Scoring &of, const uint32_t *nodes, uint32_t n, uint32_t count) const
	{
		const float score = scorer_.template score<chunk>(nodes, n, lane_);
		const uint64_t item = lane_ < n ? graph_item(score, nodes[lane_]) : ~uint64_t{0};
		const bool take = item < of.last;
		const unsigned taken = Lanes::ballot(take);
		uint32_t to = count;

		if (args_.tuning.selected_insertion && take)
			(void) of.visited.insert(node_of(item));
		if constexpr (warps > 1)
		{
			if (lane_ == 0)
				to = atomicAdd(of.n_candidates, static_cast<uint32_t>(__popc(taken)));
			to = __shfl_sync(kFull, to, 0);
		}
		if constexpr (kAlone)
			if (take)
				prefetch_to_l2(
					args_.edges + static_cast<size_t>(node_of(item)) * args_.degree); // it may be expanded soon
		if (take)
			of.candidates[to + __popc(taken & ((1u << lane_) - 1))] = item;
		return __popc(taken);
	}

	/// As locate_and_score, by one warp: the edges of four nodes are read at once, and their new neighbours scored 32
	/// at a time, whichever node they are of. So a step waits for memory less often.
	__device__ __forceinline__ uint32_t score_together(uint32_t n_parents, uint32_t edge)
	{
		constexpr uint32_t kParents = graph_scored_nodes(1, 32) / 32; // nodes_ has room for all of their edges
		const Scoring of = {
			parents_, n_parents, size_ == width_ ? list_[width_ - 1] : ~uint64_t{0}, visited_, candidates_, nullptr};
		const bool here = edge + lane_ < args_.degree;
		uint32_t count = 0;

		for (uint32_t first = 0; first < n_parents; first += kParents)
		{
			const uint32_t n_edges = min(kParents, n_parents - first);
			uint32_t node[kParents];
			uint32_t n = 0;

#pragma unroll
			for (uint32_t i = 0; i < kParents; i++)
				node[i] = here && i < n_edges
					? __ldg(args_.edges + static_cast<size_t>(parents_[first + i]) * args_.degree + edge + lane_)
					: 0xFFFFFFFFu;
#pragma unroll
			for (uint32_t i = 0; i < kParents; i++)
				nodes_[i * 32 + lane_] = node[i];
#pragma unroll 1
			for (uint32_t i = 0; i < n_edges; i++)
			{
				const uint32_t neighbor = nodes_[i * 32 + lane_];
				const bool fresh = is_fresh(visited_, neighbor);
				const unsigned fresh_lanes = Lanes::ballot(fresh);

				Lanes::sync(); // all have read; what is written lies not beyond these
				if (fresh)
					nodes_[n + __popc(fresh_lanes & ((1u << lane_) - 1))] = neighbor;
				n += __popc(fresh_lanes);
			}
			Lanes::sync();
			for (uint32_t base = 0; base < n; base += 32)
				count += take_near<32>(of, nodes_ + base, min(32u, n - base), count);
			Lanes::sync(); // nodes_ is used again
		}
		return count;
	}

	/// Put the neighbours that are near enough for the list into candidates_. Every thread gets their number.
	__device__ uint32_t locate_and_score(uint32_t n_parents, uint32_t edge)
	{
		const uint64_t last = size_ == width_ ? list_[width_ - 1] : ~uint64_t{0};
		uint32_t *n_candidates = candidate_counter(edge);

		if constexpr (warps > 1)
		{
			if (thread_ == 0)
				*n_candidates = 0;
			sync();
		}

		const uint32_t count =
			score_edges<kChunk>({parents_, n_parents, last, visited_, candidates_, n_candidates}, edge, warp_, warps);

		sync();
		return warps > 1 ? *n_candidates : count;
	}

	/// Two in turn, so that none is set while it is read.
	__device__ uint32_t *candidate_counter(uint32_t edge) const { return &counters_[4 + edge / 32 % 2]; }

	__device__ bool any(bool here) const
	{
		if constexpr (warps == 1)
			return Lanes::any(here);
		else
			return __syncthreads_or(here) != 0;
	}

	/// Fill sorted_ and places_ from candidates_ [n]. True if some are there twice.
	__device__ bool find_places(uint32_t n);

	/// Set sorted_ to candidates_ [n], ascending.
	__device__ void sort_candidates(uint32_t n);

	/// Remove from sorted_ [n] the items that are there twice, or in the list. Returns how many stay.
	__device__ uint32_t drop_twins(uint32_t n);

	/// How many of candidates_ [n] are below `item`; *same: how many equal it.
	__device__ uint32_t candidates_below(uint64_t item, uint32_t n, uint32_t *same) const;

	/// As merge, where a thread holds one item of the list and one candidate: all read, then all write. False, and
	/// nothing has changed, if there are more items than threads or some are there twice.
	__device__ bool merge_at_once(uint32_t n);

	/// Merge candidates_ [n], in any order, into the list.
	__device__ void merge(uint32_t n);

	/// The key of a node that was found; kExcludedKey if it is not a result.
	__device__ uint64_t key_of(double score, uint32_t node) const;

	/// The key of item number base + lane_ of the list, by its exact score; kExcludedKey also if there is no such item.
	/// By all lanes of the query in a warp.
	__device__ uint64_t key_of_item(uint64_t item, uint32_t base) const;

	__device__ void write_found();

	/// Write the k nearest of n nodes found: keys in list_ [n], row ids in candidates_ [n]. By all lanes of a query in
	/// a warp.
	__device__ void write_best(uint32_t n);

	/// Write the k nearest of the nodes found to the host. Their order is that of scores and ids, not that of rounded
	/// scores and nodes.
	__device__ void answer(uint32_t k);

	/// The rank of an entry among all in their order: keys, ids [size_], excluded keys among them; places_: how many
	/// are not excluded, of each 32; good: which of these 32 are not. By all lanes.
	__device__ uint32_t rank_among(
		const Entry &entry, uint32_t i, unsigned good, const uint64_t *keys, const uint64_t *ids) const;

	static constexpr uint32_t kFirst = 6; // counter: the first place of the list that a merge has changed

	const GraphArgs &args_;
	const uint32_t query_;
	const uint32_t thread_;
	const uint32_t lane_;
	const uint32_t warp_;
	const uint32_t width_;
	const uint32_t steps_;
	uint64_t *const list_;       // [width_] ascending; bit 0: expanded
	uint64_t *const candidates_; // [32 steps_]
	uint64_t *const sorted_;     // [32 steps_]
	uint32_t *const places_;     // [32 steps_] items of the list below each of sorted_
	uint32_t *const nodes_;      // [kEach] of each warp; room for graph_scored_nodes
	uint32_t *const parents_;    // [kGraphMostSteps]
	uint32_t *const counters_;   // [8]
	GraphSet visited_;
	Scorer scorer_;
	uint32_t size_ = 0;
	uint32_t hint_ = 0; // all items before it are expanded; warp 0's
};

/// Threads of a block: those of a query, so that a short search waits for no longer one before the next takes its
/// place.
__host__ __device__ constexpr uint32_t
graph_block_threads(int warps)
{
	return static_cast<uint32_t>(warps) * 32;
}

/// Blocks that a multiprocessor has registers for at least; 0: as the compiler chooses. A warp waits for memory most of
/// the time: the number of warps decides how many queries are answered. A block of eight leaves no registers for
/// others: without the bound the compiler would save some by spilling.
template <class Scorer>
__host__ __device__ constexpr int
graph_least_blocks(int warps)
{
	if constexpr (requires { Scorer::kLeastBlocks; })
		if (warps == 1)
			return Scorer::kLeastBlocks;
	if (GraphWayScorer<Scorer> && warps == 4)
		return 4;
	return warps == kGraphAloneWarps ? 1 : 0;
}

/// args.tuning is complete. Grid n_queries, block graph_block_threads. Shared memory: graph_shared_bytes.
template <Metric metric, class Scorer, int warps>
__global__ void __launch_bounds__(graph_block_threads(warps), graph_least_blocks<Scorer>(warps))
graph_search_kernel(GraphArgs args)
{
	extern __shared__ __align__(16) uint8_t graph_shared[];

	GraphSearch<metric, Scorer, warps>(args, blockIdx.x, graph_shared, threadIdx.x).run();
}

} // namespace vectorgpu::kernels
