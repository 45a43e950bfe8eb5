// How a search of a graph (graph_search.cuh) merges the candidates of a step into its list.
#pragma once

#include "kernels/graph/graph_search.cuh"

namespace vectorgpu::kernels
{

template <Metric metric, class Scorer, int warps, int lanes>
__device__ inline bool
GraphSearch<metric, Scorer, warps, lanes>::find_places(uint32_t n)
{
	bool twice = false;

	for (uint32_t i = thread_; i < n; i += kThreads)
	{
		const uint64_t item = sorted_[i];
		const uint32_t place = place_of(list_, size_, item);

		places_[i] = place;
		twice |= (i > 0 && sorted_[i - 1] == item) || (place < size_ && list_[place] >> 1 == item >> 1);
	}
	return any(twice);
}

template <Metric metric, class Scorer, int warps, int lanes>
__device__ inline uint32_t
GraphSearch<metric, Scorer, warps, lanes>::drop_twins(uint32_t n)
{
	sync();
	if (thread_ == 0)
	{
		uint32_t kept = 0;
		uint64_t before = ~uint64_t{0};

		for (uint32_t i = 0; i < n; i++)
		{
			const uint64_t item = sorted_[i];
			const uint32_t place = places_[i];

			if (item == before || (place < size_ && list_[place] >> 1 == item >> 1))
				continue;
			before = item;
			places_[kept] = place;
			sorted_[kept++] = item;
		}
		counters_[2] = kept;
	}
	sync();
	return counters_[2];
}

template <Metric metric, class Scorer, int warps, int lanes>
__device__ inline uint32_t
GraphSearch<metric, Scorer, warps, lanes>::candidates_below(uint64_t item, uint32_t n, uint32_t *same) const
{
	constexpr uint32_t kTogether = 8; // loads under way
	uint32_t below = 0;

	*same = 0;

	for (uint32_t j = 0; j < n; j += kTogether)
	{
		uint64_t other[kTogether];

#pragma unroll
		for (uint32_t i = 0; i < kTogether; i++)
			other[i] = j + i < n ? candidates_[j + i] : ~uint64_t{0};
#pragma unroll
		for (uint32_t i = 0; i < kTogether; i++)
		{
			below += other[i] < item ? 1 : 0;
			*same += other[i] == item ? 1 : 0;
		}
	}
	return below;
}

template <Metric metric, class Scorer, int warps, int lanes>
__device__ inline bool
GraphSearch<metric, Scorer, warps, lanes>::merge_at_once(uint32_t n)
{
	const uint32_t number = kThreads - 1 - thread_; // of a candidate: those at the end have no item of a short list
	uint64_t item = 0;
	uint64_t candidate = 0;
	uint32_t item_to = width_;
	uint32_t candidate_to = width_;
	uint32_t same = 0;
	bool twin = false;

	if (size_ > kThreads || n > kThreads || args_.tuning.visited_deletion)
		return false;
	if (thread_ < size_)
	{
		item = list_[thread_];
		item_to = thread_ + candidates_below(item, n, &same);
	}
	if (number < n)
	{
		candidate = candidates_[number];

		const uint32_t place = place_of(list_, size_, candidate);

		candidate_to = place + candidates_below(candidate, n, &same);
		twin = same > 1 || (place < size_ && list_[place] >> 1 == candidate >> 1);
		atomicMin(&counters_[kFirst], place);
	}
	if (any(twin))
		return false;
	if (item_to < width_)
		list_[item_to] = item;
	if (candidate_to < width_)
		list_[candidate_to] = candidate;
	size_ = min(width_, size_ + n);
	if (warp_ == 0)
	{
		hint_ = min(hint_, counters_[kFirst]);
		__syncwarp();
		if (lane_ == 0)
			counters_[kFirst] = 0xFFFFFFFFu; // the next write to it comes after the barriers of another step
	}
	sync();
	return true;
}

template <Metric metric, class Scorer, int warps, int lanes>
__device__ inline void
GraphSearch<metric, Scorer, warps, lanes>::merge(uint32_t n)
{
	for (uint32_t i = thread_; i < n; i += kThreads)
	{
		const uint64_t item = candidates_[i];
		uint32_t rank = 0;

		for (uint32_t j = 0; j < n; j++)
		{
			const uint64_t other = candidates_[j];

			rank += other < item || (other == item && j < i) ? 1 : 0;
		}
		sorted_[rank] = item;
	}
	sync();
	if (find_places(n))
		n = drop_twins(n);
	else
		sync();
	if (n == 0)
		return;

	const uint32_t first = places_[0];

	// From the end, so no place is written before it has been read.
	if (size_ > first)
		for (uint32_t base = (size_ - 1) / kThreads * kThreads;; base -= kThreads)
		{
			const uint32_t i = base + thread_;
			uint64_t item = 0;
			uint32_t to = width_;

			if (i >= first && i < size_)
			{
				item = list_[i];
				to = i + place_of(sorted_, n, item);
			}
			sync();
			if (to < width_)
				list_[to] = item;
			else if (item != 0 && args_.tuning.visited_deletion)
				visited_.erase(node_of(item));
			sync();
			if (base <= first)
				break;
		}
	for (uint32_t i = thread_; i < n; i += kThreads)
	{
		if (places_[i] + i < width_)
			list_[places_[i] + i] = sorted_[i];
		else if (args_.tuning.visited_deletion)
			visited_.erase(node_of(sorted_[i]));
	}
	size_ = min(width_, size_ + n);
	hint_ = min(hint_, first);
	sync();
}

} // namespace vectorgpu::kernels
