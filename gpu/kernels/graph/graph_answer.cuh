// The end of a search of a graph (graph_search.cuh): the nodes found become candidates on the device, or an answer on
// the host.
#pragma once

#include "kernels/graph/graph_search.cuh"

namespace vectorgpu::kernels
{

template <Metric metric, class Scorer, int warps, int lanes>
__device__ inline uint64_t
GraphSearch<metric, Scorer, warps, lanes>::key_of(double score, uint32_t node) const
{
	if (isnan(score) || (isinf(score) && score > 0) || row_is_dead(args_.rows, node))
		return kExcludedKey;
	return key_after(score, args_.queries, query_, args_.rows.row_ids, node);
}

template <Metric metric, class Scorer, int warps, int lanes>
__device__ inline uint64_t
GraphSearch<metric, Scorer, warps, lanes>::key_of_item(uint64_t item, uint32_t base) const
{
	const bool is_item = base + lane_ < size_;

	if constexpr (metric == Metric::kCosine)
	{
		nodes_[lane_] = node_of(item);
		Lanes::sync();

		const uint32_t n = min(kEach, size_ - base);
		double score;

		// A block of its own has registers enough; others would be few if this took as many.
		if constexpr (GraphWayScorer<Scorer> && !kAlone)
			score = scorer_.template exact_by_few < warps == 1 ? 2 : 4 > (nodes_, n, lane_);
		else
			score = scorer_.exact(nodes_, n, lane_);
		Lanes::sync();
		return is_item ? key_of(score, node_of(item)) : kExcludedKey;
	}
	else
		return is_item
			? key_of(static_cast<double>(order_to_float(static_cast<uint32_t>(item >> 32))) + 0.0, node_of(item))
			: kExcludedKey;
}

template <Metric metric, class Scorer, int warps, int lanes>
__device__ inline void
GraphSearch<metric, Scorer, warps, lanes>::write_found()
{
	if (warp_ != 0)
		return;

	const bool is_all = args_.best.entries != nullptr; // the query's answer
	const size_t offset = static_cast<size_t>(query_) * args_.candidates.capacity;
	uint64_t *keys = is_all ? list_ : args_.candidates.keys + offset;
	uint32_t n = 0;

	static_assert(kGraphMostRanked <= 64); // candidates_ and sorted_ have room for as many ids

	for (uint32_t base = 0; base < size_; base += kEach)
	{
		const uint32_t i = base + lane_;
		const uint64_t item = i < size_ ? list_[i] : ~uint64_t{0};
		const uint64_t key = key_of_item(item, base);
		const unsigned good = Lanes::ballot(key < kNanKey);

		Lanes::sync(); // all have read the list up to here, which is not written beyond
		if (key < kNanKey)
		{
			const uint32_t at = n + __popc(good & ((1u << lane_) - 1));

			keys[at] = key;
			if (is_all)
				candidates_[at] = args_.rows.row_ids[node_of(item)];
			else
				args_.candidates.rows[offset + at] = node_of(item);
		}
		n += __popc(good);
	}
	if (is_all)
		write_best(n);
	else if (lane_ == 0)
		args_.candidates.counts[query_] = n;
}

template <Metric metric, class Scorer, int warps, int lanes>
__device__ inline void
GraphSearch<metric, Scorer, warps, lanes>::write_best(uint32_t n)
{
	const uint32_t k = args_.queries.k[query_];

	Lanes::sync();
	for (uint32_t i = lane_; i < n; i += kEach)
	{
		const Entry entry = {list_[i], candidates_[i]};
		uint32_t rank = 0;

		for (uint32_t j = 0; j < n; j++)
			rank += entry_less({list_[j], candidates_[j]}, entry) ? 1 : 0;
		if (rank < k)
			args_.best.entries[static_cast<size_t>(query_) * args_.best.stride + rank] = entry;
	}
	if (lane_ == 0)
		args_.best.counts[query_] = min(n, k);
}

template <Metric metric, class Scorer, int warps, int lanes>
__device__ inline void
GraphSearch<metric, Scorer, warps, lanes>::answer(uint32_t k)
{
	uint64_t *keys = list_;
	uint64_t *ids = reinterpret_cast<uint64_t *>(
		counters_ + 8 + (args_.tuning.visited != GraphVisited::kNone ? 1u << args_.tuning.table_bits : 0));

	for (uint32_t base = warp_ * 32; base < size_; base += kThreads)
	{
		const uint32_t i = base + lane_;
		const uint64_t item = i < size_ ? list_[i] : ~uint64_t{0};
		const uint64_t key = key_of_item(item, base);
		const unsigned good = __ballot_sync(kFull, key < kNanKey);

		if (i < size_)
		{
			keys[i] = key;
			ids[i] = key < kNanKey ? args_.rows.row_ids[node_of(item)] : 0;
		}
		if (lane_ == 0)
			places_[base / 32] = __popc(good);
	}
	sync();
	for (uint32_t base = warp_ * 32; base < size_; base += kThreads)
	{
		const uint32_t i = base + lane_;
		const Entry entry = i < size_ ? Entry{keys[i], ids[i]} : Entry{kExcludedKey, 0};
		const uint32_t rank = rank_among(entry, i, __ballot_sync(kFull, entry.key < kNanKey), keys, ids);

		if (entry.key < kNanKey && rank < k)
			args_.answers.entries[static_cast<size_t>(query_) * args_.answers.stride + rank] = entry;
	}
	sync();
	if (thread_ == 0)
	{
		volatile AnswerHead *head = args_.answers.heads + query_;
		uint32_t n = 0;

		for (uint32_t i = 0; i < (size_ + 31) / 32; i++)
			n += places_[i];
		head->n_entries = min(k, n);
		head->n_rescored = 0;
		head->redo = 0;
		__threadfence_system(); // the block's writes come before the mark
		head->mark = args_.answers.mark;
	}
}

template <Metric metric, class Scorer, int warps, int lanes>
__device__ inline uint32_t
GraphSearch<metric, Scorer, warps, lanes>::rank_among(
	const Entry &entry, uint32_t i, unsigned good, const uint64_t *keys, const uint64_t *ids) const
{
	uint32_t rank = 0;

	if constexpr (metric == Metric::kCosine) // the list is in order of rounded scores
	{
#pragma unroll 4
		for (uint32_t j = 0; j < size_; j++)
			rank += entry_less({keys[j], ids[j]}, entry) ? 1 : 0;
	}
	else
	{
		for (uint32_t chunk = 0; chunk < i / 32; chunk++)
			rank += places_[chunk];
		rank += __popc(good & ((1u << lane_) - 1));
		if (entry.key < kNanKey)
		{
			// Among equal scores ids decide; the list is ordered by row numbers.
			for (uint32_t j = i; j > 0 && (keys[j - 1] == entry.key || keys[j - 1] >= kNanKey); j--)
				rank -= keys[j - 1] == entry.key && ids[j - 1] > entry.row ? 1 : 0;
			for (uint32_t j = i + 1; j < size_ && (keys[j] == entry.key || keys[j] >= kNanKey); j++)
				rank += keys[j] == entry.key && ids[j] < entry.row ? 1 : 0;
		}
	}
	return rank;
}

} // namespace vectorgpu::kernels
