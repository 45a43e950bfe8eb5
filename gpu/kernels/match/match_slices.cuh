// The slices of a tile that a query touches, and their places dealt out to warps. Long slices are cut into chunks of
// 1,024 places, so no warp waits for another one's long list (GENIE, section III-B: load balance).
#pragma once

#include "kernels/match/match.hpp"

namespace vectorgpu::kernels
{

constexpr uint32_t kMatchSlices = 512;       // of a query, looked up at a time
constexpr uint32_t kMatchChunkPlaces = 1024; // of a warp's turn: 4 loads of 8 places a lane

struct MatchSlices
{
	uint32_t from[kMatchSlices];
	uint32_t to[kMatchSlices];
	uint32_t first_chunk[kMatchSlices + 1];
	uint32_t warp_sums[32];
};

/// The first of codes [n] that is not below `code`.
__device__ __forceinline__ uint32_t
match_lower_bound(const uint32_t *codes, uint32_t n, uint32_t code)
{
	uint32_t low = 0;

	while (n > 0)
	{
		const uint32_t half = n / 2;

		if (__ldg(codes + low + half) < code)
		{
			low += half + 1;
			n -= half + 1;
		}
		else
			n = half;
	}
	return low;
}

/// Look up ranges [n], n <= kMatchSlices. Returns the number of chunks. All threads of the block call it; ends with a
/// barrier.
__device__ inline uint32_t
find_slices(const MatchTile &tile, const MatchRange *ranges, uint32_t n, MatchSlices *slices)
{
	uint32_t before = 0;

	for (uint32_t base = 0; base < n; base += blockDim.x)
	{
		const uint32_t i = base + threadIdx.x;
		uint32_t from = 0;
		uint32_t to = 0;

		if (i < n)
		{
			const MatchRange range = ranges[i];
			uint32_t first = min(range.first, tile.n_codes);
			uint32_t last = min(range.last, tile.n_codes);

			if (tile.codes != nullptr)
			{
				first = match_lower_bound(tile.codes, tile.n_codes, range.first);
				last = first + match_lower_bound(tile.codes + first, tile.n_codes - first, range.last);
			}
			if (first < last)
			{
				from = first == 0 ? 0 : __ldg(tile.ends + first - 1);
				to = __ldg(tile.ends + last - 1);
			}
		}

		const uint32_t n_chunks = from < to ? (to - (from & ~7u) + kMatchChunkPlaces - 1) / kMatchChunkPlaces : 0;
		uint32_t up_to = n_chunks; // inclusive prefix sum over the warp

		for (int offset = 1; offset < 32; offset *= 2)
		{
			const uint32_t other = __shfl_up_sync(0xFFFFFFFFu, up_to, offset);

			if (static_cast<int>(threadIdx.x % 32) >= offset)
				up_to += other;
		}
		__syncthreads(); // warp_sums of the round before have been read
		if (threadIdx.x % 32 == 31)
			slices->warp_sums[threadIdx.x / 32] = up_to;
		__syncthreads();

		uint32_t sum = 0;

		for (uint32_t warp = 0; warp < blockDim.x / 32; warp++)
		{
			if (warp == threadIdx.x / 32)
				up_to += before + sum;
			sum += slices->warp_sums[warp];
		}
		if (i < n)
		{
			slices->from[i] = from;
			slices->to[i] = to;
			slices->first_chunk[i] = up_to - n_chunks;
		}
		before += sum;
	}
	if (threadIdx.x == 0)
		slices->first_chunk[n] = before;
	__syncthreads();
	return before;
}

/// Call add(place) for every place of slices [n], a warp taking every n_warps-th of n_chunks chunks.
template <class Add>
__device__ __forceinline__ void
for_each_place(const MatchTile &tile, const MatchSlices &slices, uint32_t n, uint32_t n_chunks, const Add &add)
{
	const uint32_t lane = threadIdx.x % 32;

	for (uint32_t chunk = threadIdx.x / 32; chunk < n_chunks; chunk += blockDim.x / 32)
	{
		uint32_t slice = 0; // the last one whose first chunk is at most this one: it is not empty
		uint32_t end = n;

		while (end - slice > 1)
		{
			const uint32_t middle = (slice + end) / 2;

			if (slices.first_chunk[middle] <= chunk)
				slice = middle;
			else
				end = middle;
		}

		const uint32_t from = slices.from[slice];
		const uint32_t to = slices.to[slice];
		const uint32_t base = (from & ~7u) + (chunk - slices.first_chunk[slice]) * kMatchChunkPlaces + lane * 8;
		uint4 loaded[4];

#pragma unroll
		for (uint32_t load = 0; load < 4; load++)
			if (base + load * 256 < to)
				loaded[load] = __ldg(reinterpret_cast<const uint4 *>(tile.places + base + load * 256));
#pragma unroll
		for (uint32_t load = 0; load < 4; load++)
		{
			const uint32_t at = base + load * 256;
			const uint32_t words[4] = {loaded[load].x, loaded[load].y, loaded[load].z, loaded[load].w};

			if (at >= to)
				continue;
			if (at >= from && at + 8 <= to)
			{
#pragma unroll
				for (uint32_t i = 0; i < 8; i++)
					add((words[i / 2] >> (i % 2 * 16)) & 0xFFFFu);
			}
			else
			{
#pragma unroll
				for (uint32_t i = 0; i < 8; i++)
					if (at + i >= from && at + i < to)
						add((words[i / 2] >> (i % 2 * 16)) & 0xFFFFu);
			}
		}
	}
}

} // namespace vectorgpu::kernels
