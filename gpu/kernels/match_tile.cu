// Match counts tile by tile in shared memory. See match.hpp; README.md, "Match counts".
#include <algorithm>

#include "kernels/match_slices.cuh"
#include "kernels/merge.cuh"

namespace vectorgpu::kernels
{

namespace
{

constexpr int kTileThreads = 512;
constexpr uint32_t kTileWarps = kTileThreads / 32;

/// Counters of kBits each, packed into words.
template <uint32_t kBits>
struct Counters
{
	static constexpr uint32_t kEach = 32 / kBits; // of a word
	static constexpr uint32_t kPartRows = kBits <= 8 ? kMatchTileRows : kMatchTileRows * 8 / kBits;
	static constexpr uint32_t kWords = kPartRows / kEach;
	static constexpr uint32_t kMost = 0xFFFFFFFFu >> (32 - kBits); // largest mark
	static constexpr uint32_t kOnes = 0xFFFFFFFFu / kMost;         // 1 in each
	static constexpr uint32_t kTops = kOnes << (kBits - 1);        // the top bit of each

	/// The top bit of each counter of the word that is at least `least` (from 1).
	static __device__ __forceinline__ uint32_t
	at_least(uint32_t word, uint32_t least)
	{
		constexpr uint32_t kHalf = 1u << (kBits - 1);
		const uint32_t low = word & ~kTops;

		if (least > kMost)
			return 0;
		if (least <= kHalf) // low + (half - least) carries into the top bit if low is at least `least`
			return ((low + (kHalf - least) * kOnes) | word) & kTops;
		return (low + (kMost - least + 1) * kOnes) & word & kTops;
	}

	/// The value of the counter that a bit of the word lies in.
	static __device__ __forceinline__ uint32_t
	value(uint32_t word, uint32_t bit)
	{
		return (word >> (bit / kBits * kBits)) & kMost;
	}
};

struct TileShared
{
	MatchSlices slices;
	uint32_t sums[2][32];
	uint32_t bound;
	uint32_t base;
	uint32_t cursor;
};

/// The sum over the block; rounds alternate between two places, so that one barrier is enough.
__device__ __forceinline__ uint32_t
block_sum(uint32_t value, uint32_t (*sums)[32], uint32_t *round)
{
	uint32_t *places = sums[(*round)++ % 2];

	value = __reduce_add_sync(0xFFFFFFFFu, value);
	if (threadIdx.x % 32 == 0)
		places[threadIdx.x / 32] = value;
	__syncthreads();
	return __reduce_add_sync(0xFFFFFFFFu, threadIdx.x % 32 < kTileWarps ? places[threadIdx.x % 32] : 0);
}

/// The mark that k rows taken have reached, by the gate; 1 at least. A warp calls it.
__device__ __forceinline__ uint32_t
gate_bound(const uint32_t *zipper, uint32_t shift, uint32_t k)
{
	constexpr uint32_t kEach = kMatchZipperBins / 32;
	const uint32_t lane = threadIdx.x % 32;
	uint32_t bins[kEach];
	uint32_t sum = 0;

#pragma unroll
	for (uint32_t i = 0; i < kEach; i++)
	{
		bins[i] = load_shared_state(zipper + lane * kEach + i);
		sum += bins[i];
	}

	uint32_t from_here = sum; // of this lane's bins and all above

	for (int offset = 1; offset < 32; offset *= 2)
	{
		const uint32_t other = __shfl_down_sync(0xFFFFFFFFu, from_here, offset);

		if (lane + offset < 32)
			from_here += other;
	}

	uint32_t reached = from_here - sum;
	uint32_t bound = 0;

#pragma unroll
	for (int i = kEach - 1; i >= 0; i--)
	{
		reached += bins[i];
		if (reached >= k)
			bound = max(bound, (lane * kEach + i) << shift);
	}
	return max(1u, __reduce_max_sync(0xFFFFFFFFu, bound));
}

template <uint32_t kBits>
__device__ __forceinline__ uint32_t
count_at_least(const uint4 *words, uint32_t n_vectors, uint32_t least)
{
	uint32_t n = 0;

	for (uint32_t i = threadIdx.x; i < n_vectors; i += kTileThreads)
	{
		const uint4 four = words[i];

		n += __popc(Counters<kBits>::at_least(four.x, least)) + __popc(Counters<kBits>::at_least(four.y, least)) +
			 __popc(Counters<kBits>::at_least(four.z, least)) + __popc(Counters<kBits>::at_least(four.w, least));
	}
	return n;
}

/// Marks of dead rows, and of those that are not after `after`, become 0.
template <uint32_t kBits>
__device__ inline void
leave_out(const MatchTileArgs &args, uint32_t query, uint32_t first_row, uint32_t n_words, uint32_t *words)
{
	constexpr uint32_t kEach = Counters<kBits>::kEach;
	const bool has_after = args.queries.after_marks != nullptr;
	const uint32_t after_mark = has_after ? args.queries.after_marks[query] : 0;
	const uint32_t after_row = has_after ? args.queries.after_rows[query] : 0;

	for (uint32_t i = threadIdx.x; i < n_words; i += kTileThreads)
	{
		const uint32_t word = words[i];
		uint32_t kept = 0;

		for (uint32_t j = 0; j < kEach; j++)
		{
			const uint32_t row = first_row + i * kEach + j;
			const uint32_t mark = (word >> (j * kBits)) & Counters<kBits>::kMost;
			const bool out = mark == 0 || match_row_is_dead(args.dead, row) ||
							 (has_after && (mark > after_mark || (mark == after_mark && row < after_row)));

			kept |= out ? 0 : mark << (j * kBits);
		}
		words[i] = kept;
	}
}

/// Appends the rows with marks above `tie`, and the first `quota` of those with that mark, in the order of rows. A warp goes over
/// neighbouring counters, so that ties rank by warp, step, lane, counter.
template <uint32_t kBits>
__device__ inline void
append_rows(const MatchTileArgs &args, uint32_t query, uint32_t first_row, const uint4 *vectors, uint32_t n_vectors, uint32_t tie,
	uint32_t quota, uint32_t n_all, TileShared *shared, uint32_t *round)
{
	using C = Counters<kBits>;
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = threadIdx.x / 32;
	const uint32_t per_warp = (n_vectors + kTileThreads - 1) / kTileThreads * 32;
	const uint32_t begin = warp * per_warp;
	const uint32_t end = min(begin + per_warp, n_vectors);
	uint64_t *entries = args.candidates.entries + static_cast<size_t>(query) * args.candidates.capacity;
	uint32_t *zipper = args.candidates.zipper + static_cast<size_t>(query) * kMatchZipperBins;
	uint32_t n_before = 0; // ties of the warps before

	if (quota > 0)
	{
		uint32_t *places = shared->sums[(*round)++ % 2];
		uint32_t n_ties = 0;

		for (uint32_t i = begin + lane; i < end; i += 32)
		{
			const uint32_t words[4] = {vectors[i].x, vectors[i].y, vectors[i].z, vectors[i].w};

#pragma unroll
			for (const uint32_t word : words)
				n_ties += __popc(C::at_least(word, tie) & ~C::at_least(word, tie + 1));
		}
		n_ties = __reduce_add_sync(0xFFFFFFFFu, n_ties);
		if (lane == 0)
			places[warp] = n_ties;
		__syncthreads();
		n_before = __reduce_add_sync(0xFFFFFFFFu, lane < warp ? places[lane] : 0);
	}
	if (threadIdx.x == 0)
	{
		shared->base = atomicAdd(args.candidates.counts + query, n_all);
		shared->cursor = 0;
	}
	__syncthreads();

	const uint32_t base = shared->base;

	for (uint32_t step = begin; step < end; step += 32)
	{
		const uint32_t i = step + lane;
		const uint4 four = i < end ? vectors[i] : uint4{0, 0, 0, 0};
		const uint32_t words[4] = {four.x, four.y, four.z, four.w};
		uint32_t rank = 0;

		if (quota > 0)
		{
			uint32_t n_ties = 0;

#pragma unroll
			for (const uint32_t word : words)
				n_ties += __popc(C::at_least(word, tie) & ~C::at_least(word, tie + 1));
			if (__any_sync(0xFFFFFFFFu, n_ties > 0))
			{
				uint32_t up_to = n_ties;

				for (int offset = 1; offset < 32; offset *= 2)
				{
					const uint32_t other = __shfl_up_sync(0xFFFFFFFFu, up_to, offset);

					if (static_cast<int>(lane) >= offset)
						up_to += other;
				}
				rank = n_before + up_to - n_ties;
				n_before += __shfl_sync(0xFFFFFFFFu, up_to, 31);
			}
		}
		for (uint32_t w = 0; w < 4; w++)
		{
			const uint32_t above = C::at_least(words[w], tie + 1);
			uint32_t hits = quota > 0 ? C::at_least(words[w], tie) : above;

			while (hits != 0)
			{
				const uint32_t bit = static_cast<uint32_t>(__ffs(static_cast<int>(hits))) - 1;

				hits &= hits - 1;
				if ((above >> bit & 1) == 0 && rank++ >= quota)
					continue;

				const uint32_t mark = C::value(words[w], bit);
				const uint32_t row = first_row + (i * 4 + w) * C::kEach + bit / kBits;
				const uint32_t place = base + atomicAdd(&shared->cursor, 1u);

				if (place < args.candidates.capacity)
					entries[place] = static_cast<uint64_t>(~mark) << 32 | row;
				atomicAdd(zipper + (mark >> args.candidates.zipper_shift), 1u);
			}
		}
	}
}

template <uint32_t kBits>
__device__ inline void
take_rows(const MatchTileArgs &args, uint32_t query, uint32_t first_row, const uint4 *vectors, uint32_t n_vectors, TileShared *shared)
{
	const uint32_t k = args.queries.k[query];
	uint32_t round = 0;

	if (threadIdx.x < 32)
	{
		const uint32_t bound = gate_bound(
			args.candidates.zipper + static_cast<size_t>(query) * kMatchZipperBins, args.candidates.zipper_shift, k);

		if (threadIdx.x == 0)
			shared->bound = bound;
	}
	__syncthreads();

	const uint32_t bound = shared->bound;
	const uint32_t n_all = block_sum(count_at_least<kBits>(vectors, n_vectors, bound), shared->sums, &round);
	uint32_t tie = bound - 1;
	uint32_t n_above = n_all;

	if (n_all == 0)
		return;
	if (n_all > k)
	{
		uint32_t high = Counters<kBits>::kMost; // one less than a mark that no row reaches

		tie = bound; // the largest mark that k rows of the part reach
		n_above = 0;
		while (tie < high)
		{
			const uint32_t middle = high - (high - tie) / 2;
			const uint32_t n = block_sum(count_at_least<kBits>(vectors, n_vectors, middle), shared->sums, &round);

			if (n >= k)
				tie = middle;
			else
			{
				high = middle - 1;
				n_above = n;
			}
		}
	}
	append_rows<kBits>(args, query, first_row, vectors, n_vectors, tie, n_all > k ? k - n_above : 0, n_all > k ? k : n_all, shared, &round);
}

template <uint32_t kBits>
__global__ void
__launch_bounds__(kTileThreads, 3)
match_tile_kernel(MatchTileArgs args, uint32_t n_parts)
{
	using C = Counters<kBits>;
	extern __shared__ uint4 match_counters[];
	__shared__ TileShared shared;
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
	uint32_t n_chunks = find_slices(tile, args.queries.ranges + first_range, n, &shared.slices);

	if (n_chunks == 0 && n == n_ranges)
	{
		// Nothing matches here: of no interest once k rows that match something have been taken.
		const uint32_t bound = gate_bound(
			args.candidates.zipper + static_cast<size_t>(query) * kMatchZipperBins, args.candidates.zipper_shift, args.queries.k[query]);

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
		for_each_place(
			tile, shared.slices, n, n_chunks,
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
		n_chunks = find_slices(tile, args.queries.ranges + first_range + done, n, &shared.slices);
	}
	if (args.dead != nullptr || args.queries.after_marks != nullptr)
	{
		leave_out<kBits>(args, query, tile.first_row + part_first, n_vectors * 4, words);
		__syncthreads();
	}
	take_rows<kBits>(args, query, tile.first_row + part_first, match_counters, n_vectors, &shared);
}

__global__ void
__launch_bounds__(kMergeThreads)
match_merge_kernel(MatchQueries queries, MatchCandidates candidates, uint64_t *out, uint32_t *n_out, uint32_t stride, uint32_t n_entries)
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
		const uint32_t bound = gate_bound(candidates.zipper + static_cast<size_t>(query) * kMatchZipperBins, candidates.zipper_shift, k);

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

	match_tile_kernel<kBits><<<dim3(args.queries.n_queries, args.n_tiles * n_parts), kTileThreads, Counters<kBits>::kWords * 4, stream>>>(
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
launch_match_merge(const MatchQueries &queries, const MatchCandidates &candidates, uint32_t max_k, uint64_t *out, uint32_t *n_out,
	uint32_t stride, cudaStream_t stream)
{
	const uint32_t n = match_merge_entries(max_k);

	if (queries.n_queries == 0)
		return cudaSuccess;
	match_merge_kernel<<<queries.n_queries, kMergeThreads, n * sizeof(Entry), stream>>>(queries, candidates, out, n_out, stride, n);
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
		error = cudaFuncSetAttribute(match_merge_kernel, kLimit, static_cast<int>(match_merge_entries(kMaxSelectK) * sizeof(Entry)));
	return error;
}

} // namespace vectorgpu::kernels
