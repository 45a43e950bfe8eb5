// Match counts tile by tile in shared memory. See match.hpp; README.md, "Match counts".
#include <algorithm>

#include "kernels/match/match_select.cuh"
#include "kernels/match/match_slices.cuh"
#include "kernels/select/merge.cuh"

namespace vectorgpu::kernels
{

namespace
{

template <uint32_t kBits>
__global__ void __launch_bounds__(kTileThreads, 3)
match_tile_kernel(MatchTileArgs args, uint32_t n_parts)
{
	using C = Counters<kBits>;
	extern __shared__ uint4 match_counters[];
	__shared__ MatchSlices slices;
	__shared__ SelectShared shared;
	uint32_t *words = reinterpret_cast<uint32_t *>(match_counters);
	const uint32_t query = blockIdx.x;
	const MatchTile tile = args.tiles[blockIdx.y / n_parts];
	const uint32_t part_first = blockIdx.y % n_parts * C::kPartRows;
	const uint32_t n_rows = part_first < tile.n_rows ? min(tile.n_rows - part_first, C::kPartRows) : 0;
	const uint32_t n_vectors = (n_rows + C::kEach * 4 - 1) / (C::kEach * 4);
	const uint32_t first_range = query == 0 ? 0 : args.queries.range_ends[query - 1];
	const uint32_t n_ranges = args.queries.range_ends[query] - first_range;

	if (n_rows == 0)
		return;

	uint32_t n = min(n_ranges, kMatchSlices);
	uint32_t n_chunks = find_slices(tile, args.queries.ranges + first_range, n, &slices);

	if (n_chunks == 0 && n == n_ranges)
	{
		// Nothing matches in this tile: it adds nothing once k rows that match something have been taken.
		const uint32_t bound = gate_bound(args.candidates.zipper + static_cast<size_t>(query) * kMatchZipperBins,
			args.candidates.zipper_shift, args.queries.k[query]);

		if (__syncthreads_or(bound > 1))
			return;
	}
	for (uint32_t i = threadIdx.x; i < n_vectors * 4; i += kTileThreads)
	{
		const uint32_t left = n_rows - min(n_rows, i * C::kEach);

		words[i] = left >= C::kEach ? C::kOnes : left == 0 ? 0 : C::kOnes & (0xFFFFFFFFu >> (32 - left * kBits));
	}
	__syncthreads();
	for (uint32_t done = 0;;)
	{
		for_each_place(tile, slices, n, n_chunks,
			[&](uint32_t place)
			{
				const uint32_t row = place - part_first;

				if (kBits > 8 && row >= C::kPartRows)
					return;
				// 1 << (row % kEach * kBits): the shift is taken modulo 32.
				atomicAdd(words + row / C::kEach, __funnelshift_l(0u, 1u, row * kBits));
			});
		__syncthreads();
		done += n;
		if (done >= n_ranges)
			break;
		n = min(n_ranges - done, kMatchSlices);
		n_chunks = find_slices(tile, args.queries.ranges + first_range + done, n, &slices);
	}
	if (args.dead != nullptr || args.queries.after_marks != nullptr)
	{
		leave_out<kBits>(args, query, tile.first_row + part_first, n_vectors * 4, words);
		__syncthreads();
	}
	take_rows<kBits>(args, query, tile.first_row + part_first, match_counters, n_vectors, &shared);
}

__global__ void __launch_bounds__(kMergeThreads)
match_merge_kernel(MatchQueries queries, MatchCandidates candidates, uint64_t *out, uint32_t *n_out, uint32_t stride,
	uint32_t n_entries)
{
	extern __shared__ Entry merge_entries_shared[];
	__shared__ uint32_t shared_bound;
	__shared__ uint32_t shared_fill;
	const uint32_t query = blockIdx.x;
	const uint32_t k = queries.k[query];
	const uint32_t count = min(candidates.counts[query], candidates.capacity);
	const uint64_t *entries = candidates.entries + static_cast<size_t>(query) * candidates.capacity;
	uint32_t fill = 0;
	uint64_t threshold = kExcludedKey;

	if (threadIdx.x < 32)
	{
		const uint32_t bound =
			gate_bound(candidates.zipper + static_cast<size_t>(query) * kMatchZipperBins, candidates.zipper_shift, k);

		if (threadIdx.x == 0)
		{
			shared_bound = bound;
			shared_fill = 0;
		}
	}
	__syncthreads();
	threshold = (static_cast<uint64_t>(~shared_bound) << 32) + 0xFFFFFFFFu; // rows with that mark are all within
	for (uint32_t base = 0; base < count; base += blockDim.x)
	{
		const uint32_t i = base + threadIdx.x;
		const uint64_t entry = i < count ? entries[i] : kExcludedKey;

		if (i < count && entry <= threshold)
			merge_entries_shared[atomicAdd(&shared_fill, 1u)] = {entry, 0};
		__syncthreads();
		fill = shared_fill;
		__syncthreads(); // all have read it before the next round adds
		if (fill + blockDim.x > n_entries)
		{
			fill = flush_entries(merge_entries_shared, fill, k);
			if (threadIdx.x == 0)
				shared_fill = fill;
			if (fill >= k)
				threshold = merge_entries_shared[k - 1].key;
			__syncthreads();
		}
	}
	fill = flush_entries(merge_entries_shared, fill, k);
	for (uint32_t i = threadIdx.x; i < fill; i += blockDim.x)
		out[static_cast<size_t>(query) * stride + i] = merge_entries_shared[i].key;
	if (threadIdx.x == 0)
		n_out[query] = fill;
}

/// Room for k entries and a round of the block, a power of two for the sort.
uint32_t
match_merge_entries(uint32_t max_k)
{
	uint32_t n = kMergeLeast;

	while (n < max_k + kMergeThreads)
		n *= 2;
	return n;
}

template <uint32_t kBits>
cudaError_t
launch_tiles(const MatchTileArgs &args, cudaStream_t stream)
{
	const uint32_t n_parts = match_parts(kBits);

	match_tile_kernel<kBits>
		<<<dim3(args.queries.n_queries, args.n_tiles * n_parts), kTileThreads, Counters<kBits>::kWords * 4, stream>>>(
			args, n_parts);
	return cudaGetLastError();
}

} // namespace

uint32_t
match_parts(uint32_t bits)
{
	return bits <= 8 ? 1 : bits / 8;
}

uint32_t
match_zipper_shift(uint32_t most_mark)
{
	uint32_t shift = 0;

	while (most_mark >> shift >= kMatchZipperBins)
		shift++;
	return shift;
}

cudaError_t
launch_match_tiles(const MatchTileArgs &args, cudaStream_t stream)
{
	constexpr uint32_t kMostGridY = 65535;
	const uint32_t at_a_time = kMostGridY / match_parts(args.queries.bits);

	if (args.queries.n_queries == 0)
		return cudaSuccess;
	for (uint32_t first = 0; first < args.n_tiles; first += at_a_time)
	{
		MatchTileArgs some = args;
		cudaError_t error = cudaErrorInvalidValue;

		some.tiles = args.tiles + first;
		some.n_tiles = std::min(at_a_time, args.n_tiles - first);
		switch (args.queries.bits)
		{
			case 4:
				error = launch_tiles<4>(some, stream);
				break;
			case 8:
				error = launch_tiles<8>(some, stream);
				break;
			case 16:
				error = launch_tiles<16>(some, stream);
				break;
			case 32:
				error = launch_tiles<32>(some, stream);
				break;
			default:
				break;
		}
		if (error != cudaSuccess)
			return error;
	}
	return cudaSuccess;
}

cudaError_t
launch_match_merge(const MatchQueries &queries, const MatchCandidates &candidates, uint32_t max_k, uint64_t *out,
	uint32_t *n_out, uint32_t stride, cudaStream_t stream)
{
	const uint32_t n = match_merge_entries(max_k);

	if (queries.n_queries == 0)
		return cudaSuccess;
	match_merge_kernel<<<queries.n_queries, kMergeThreads, n * sizeof(Entry), stream>>>(
		queries, candidates, out, n_out, stride, n);
	return cudaGetLastError();
}

cudaError_t
prepare_match_kernels()
{
	constexpr auto kLimit = cudaFuncAttributeMaxDynamicSharedMemorySize;
	cudaError_t error = cudaFuncSetAttribute(match_tile_kernel<4>, kLimit, Counters<4>::kWords * 4);

	if (error == cudaSuccess)
		error = cudaFuncSetAttribute(match_tile_kernel<8>, kLimit, Counters<8>::kWords * 4);
	if (error == cudaSuccess)
		error = cudaFuncSetAttribute(match_tile_kernel<16>, kLimit, Counters<16>::kWords * 4);
	if (error == cudaSuccess)
		error = cudaFuncSetAttribute(match_tile_kernel<32>, kLimit, Counters<32>::kWords * 4);
	if (error == cudaSuccess)
		error = cudaFuncSetAttribute(
			match_merge_kernel, kLimit, static_cast<int>(match_merge_entries(kMaxSelectK) * sizeof(Entry)));
	if (error == cudaSuccess)
		error = prepare_match_text_kernels();
	return error;
}

} // namespace vectorgpu::kernels
