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
	if (warp_ == 0)
	{
		uint32_t kept = 0;

		for (uint32_t base = 0; base < n; base += kEach)
		{
			const uint32_t i = base + lane_;
			const uint64_t item = i < n ? sorted_[i] : 0;
			const uint64_t before = i > 0 && i < n ? sorted_[i - 1] : ~uint64_t{0};
			const uint32_t place = i < n ? places_[i] : 0;
			const bool keep = i < n && item != before && !(place < size_ && list_[place] >> 1 == item >> 1);
			const unsigned kept_lanes = Lanes::ballot(keep);
			const uint32_t to = kept + __popc(kept_lanes & ((1u << lane_) - 1));

			Lanes::sync(); // all have read; what is written lies not beyond these
			if (keep)
			{
				places_[to] = place;
				sorted_[to] = item;
			}
			kept += __popc(kept_lanes);
			Lanes::sync(); // the next read the last of these: if it was written, it is the same
		}
		if (lane_ == 0)
			counters_[2] = kept;
	}
	sync();
	return counters_[2];
}

/// Sort items [32 * each] of a warp, ascending; those of lane i are numbers each * i and following.
template <uint32_t each>
__device__ __forceinline__ void
warp_sort(uint64_t (&items)[each], uint32_t lane)
{
#pragma unroll
	for (uint32_t size = 2; size <= 32 * each; size *= 2) // bitonic
#pragma unroll
		for (uint32_t stride = size / 2; stride > 0; stride /= 2)
#pragma unroll
			for (uint32_t i = 0; i < each; i++)
			{
				const bool up = ((lane * each + i) & size) == 0; // the last size: always

				if (stride >= each)
				{
					const uint64_t other = __shfl_xor_sync(0xFFFFFFFFu, items[i], static_cast<int>(stride / each));

					items[i] = (other < items[i]) == (((lane * each & stride) == 0) == up) ? other : items[i];
				}
				else if ((i & stride) == 0)
				{
					const uint64_t a = items[i];
					const uint64_t b = items[i + stride];

					items[i] = (b < a) == up ? b : a;
					items[i + stride] = (b < a) == up ? a : b;
				}
			}
}

template <Metric metric, class Scorer, int warps, int lanes>
__device__ inline void
GraphSearch<metric, Scorer, warps, lanes>::sort_candidates(uint32_t n)
{
	constexpr uint32_t kOfLane = 4;

	if constexpr (kOneWarp)
		if (n > 32 && n <= 32 * kOfLane) // a beginning: counting would take n / 32 times n steps
		{
			uint64_t items[kOfLane];

#pragma unroll
			for (uint32_t i = 0; i < kOfLane; i++)
				items[i] = lane_ * kOfLane + i < n ? candidates_[lane_ * kOfLane + i] : ~uint64_t{0};
			warp_sort<kOfLane>(items, lane_);
#pragma unroll
			for (uint32_t i = 0; i < kOfLane; i++)
				if (lane_ * kOfLane + i < n)
					sorted_[lane_ * kOfLane + i] = items[i];
			return;
		}
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
	sort_candidates(n);
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
