// Counters of a tile in shared memory, and the selection of its rows that may be among a query's first. Args:
// MatchTileArgs or MatchTextArgs.
#pragma once

#include "kernels/match/match.hpp"

namespace vectorgpu::kernels
{

/// A value that other blocks may be changing: read from where their atomics write, each time.
__device__ __forceinline__ uint32_t
load_shared_state(const uint32_t *at)
{
	uint32_t value;

	asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
	return value;
}

__device__ __forceinline__ bool
match_row_is_dead(const uint8_t *dead, uint32_t row)
{
	return dead != nullptr && ((dead[row / 8] >> (row % 8)) & 1) != 0;
}

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
	static __device__ __forceinline__ uint32_t at_least(uint32_t word, uint32_t least)
	{
		constexpr uint32_t kHalf = 1u << (kBits - 1);
		const uint32_t low = word & ~kTops;

		if (least > kMost)
			return 0;
		if (least <= kHalf) // low + (half - least) carries into the top bit if low is at least `least`
			return ((low + (kHalf - least) * kOnes) | word) & kTops;
		return (low + (kMost - least + 1) * kOnes) & word & kTops;
	}

	/// The value of the counter that contains this bit of the word.
	static __device__ __forceinline__ uint32_t value(uint32_t word, uint32_t bit)
	{
		return (word >> (bit / kBits * kBits)) & kMost;
	}
};

struct SelectShared
{
	uint32_t sums[2][32];
	uint32_t bound;
	uint32_t base;
	uint32_t cursor;
};

/// The sum over the block; rounds alternate between two places, so one barrier is enough.
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

/// The mark that k rows have reached by a zipper array whose bins a warp has, [32 * kEach] in order, kEach a lane; at
/// least 1.
constexpr uint32_t kZipperEach = kMatchZipperBins / 32;

__device__ __forceinline__ uint32_t
zipper_bound(const uint32_t (&bins)[kZipperEach], uint32_t shift, uint32_t k)
{
	constexpr uint32_t kEach = kZipperEach;
	const uint32_t lane = threadIdx.x % 32;
	uint32_t sum = 0;

#pragma unroll
	for (uint32_t i = 0; i < kEach; i++)
		sum += bins[i];

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

/// The mark that k of the taken rows have reached, by the gate; at least 1. By a warp.
__device__ __forceinline__ uint32_t
gate_bound(const uint32_t *zipper, uint32_t shift, uint32_t k)
{
	uint32_t bins[kZipperEach];

#pragma unroll
	for (uint32_t i = 0; i < kZipperEach; i++)
		bins[i] = load_shared_state(zipper + threadIdx.x % 32 * kZipperEach + i);
	return zipper_bound(bins, shift, k);
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

/// Set the marks of dead rows, and of rows not after `after`, to 0.
template <uint32_t kBits, class Args>
__device__ inline void
leave_out(const Args &args, uint32_t query, uint32_t first_row, uint32_t n_words, uint32_t *words)
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

/// Append the rows with marks above `tie`, and the first `quota` of those with that mark, in the order of rows. A warp
/// goes over neighbouring counters, so ties rank by warp, step, lane, counter.
template <uint32_t kBits, class Args>
__device__ inline void
append_rows(const Args &args, uint32_t query, uint32_t first_row, const uint4 *vectors, uint32_t n_vectors,
	uint32_t tie, uint32_t quota, uint32_t n_all, SelectShared *shared, uint32_t *round)
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

template <uint32_t kBits, class Args>
__device__ inline void
take_rows(const Args &args, uint32_t query, uint32_t first_row, const uint4 *vectors, uint32_t n_vectors,
	SelectShared *shared)
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
	append_rows<kBits>(args, query, first_row, vectors, n_vectors, tie, n_all > k ? k - n_above : 0,
		n_all > k ? k : n_all, shared, &round);
}

} // namespace vectorgpu::kernels
