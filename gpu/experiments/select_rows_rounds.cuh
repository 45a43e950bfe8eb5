// Selection from one row by rounds, for one block: right and bounded in time whatever the numbers and their order. A
// threshold from the row's first numbers, a comparison per number, survivors to a buffer in shared memory. When the
// buffer is full, radix selection cuts it back to k and sharpens the threshold. Columns go up, so after a cut only
// numbers below the k-th pass.
#pragma once

#include "kernels/select/kth.cuh"
#include "experiments/select_rows.hpp"

namespace vectorgpu::kernels
{

constexpr int kRoundsPerThread = 16;

/// Shared memory of select_row_by_rounds, before the buffer.
struct RoundsScratch
{
	RadixScratchOf<unsigned long long> key_radix;
	uint32_t fill;
	uint32_t kept;
	RadixScratch radix;
};

/// A number's order; both zeros have the same.
__device__ __forceinline__ uint32_t
number_order(float value)
{
	return float_to_order(value == 0.0f ? 0.0f : value);
}

/// A number and its column: ascending keys are ascending numbers, NaN last, ties by column. Keys of a row differ.
__device__ __forceinline__ uint64_t
pair_key(float value, uint32_t column)
{
	return static_cast<uint64_t>(number_order(value)) << 32 | column;
}

/// Cut the buffer back to the k smallest. fill > k. Returns an upper bound of the k-th key.
template <int kThreads>
__device__ __noinline__ uint64_t
cut(uint64_t *keys, uint32_t fill, uint32_t k, RoundsScratch *scratch)
{
	const uint64_t bound = block_kth_smallest<true>(
		[&](uint32_t i) { return static_cast<unsigned long long>(keys[i]); }, fill, k, &scratch->key_radix);

	if (threadIdx.x == 0)
		scratch->kept = 0;
	__syncthreads();
	for (uint32_t base = 0; base < fill; base += kThreads)
	{
		const uint32_t i = base + threadIdx.x;
		const uint64_t key = i < fill ? keys[i] : ~uint64_t{0};
		const bool keep = i < fill && key <= bound;

		__syncthreads(); // all have read this part: places up to it may be written
		if (keep)
			keys[atomicAdd(&scratch->kept, 1u)] = key;
		__syncthreads();
	}
	if (threadIdx.x == 0)
		scratch->fill = scratch->kept;
	__syncthreads();
	return bound;
}

/// Set keys[0, k) to the k smallest keys of row [n], in any order; keys [capacity], capacity >= k + 256, k <= n. All
/// threads call it; ends with a barrier.
template <int kThreads>
__device__ __noinline__ void
select_row_by_rounds(
	const float *row, uint32_t n, uint32_t k, RoundsScratch *scratch, uint64_t *keys, uint32_t capacity)
{
	constexpr uint32_t kRound = kThreads * kRoundsPerThread;
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t n_sample = min(n, max(kRound, 4 * k));
	// Orders up to it pass.
	uint32_t limit = block_kth_smallest([&](uint32_t i) { return number_order(row[i]); }, n_sample, k, &scratch->radix);

	if (threadIdx.x == 0)
		scratch->fill = 0;
	__syncthreads();

	auto sharpen = [&](uint32_t fill)
	{
		// k numbers of smaller columns come before an equal number that is still to come.
		if (fill > k)
			limit = static_cast<uint32_t>(cut<kThreads>(keys, fill, k, scratch) >> 32) - 1;
	};

	for (uint32_t base = 0; base < n; base += kRound)
	{
		const uint32_t before = scratch->fill;
		float value[kRoundsPerThread];
		uint32_t passed = 0;

#pragma unroll
		for (int j = 0; j < kRoundsPerThread; j++)
		{
			const uint32_t column = base + j * kThreads + threadIdx.x;

			value[j] = column < n ? __ldg(row + column) : 0.0f;
		}
#pragma unroll
		for (int j = 0; j < kRoundsPerThread; j++)
			passed |= static_cast<uint32_t>(number_order(value[j]) <= limit && base + j * kThreads + threadIdx.x < n)
				<< j;
		__syncthreads(); // all have read fill
		if (__any_sync(0xFFFFFFFFu, passed != 0))
		{
			const uint32_t mine = __popc(passed);
			uint32_t at = mine;

#pragma unroll
			for (int offset = 1; offset < 32; offset *= 2)
			{
				const uint32_t other = __shfl_up_sync(0xFFFFFFFFu, at, offset);

				at += lane >= static_cast<uint32_t>(offset) ? other : 0;
			}

			uint32_t first = 0;

			if (lane == 31)
				first = atomicAdd(&scratch->fill, at);
			at += __shfl_sync(0xFFFFFFFFu, first, 31) - mine;
#pragma unroll
			for (int j = 0; j < kRoundsPerThread; j++)
				if (((passed >> j) & 1) != 0)
				{
					if (at < capacity)
						keys[at] = pair_key(value[j], base + j * kThreads + threadIdx.x);
					at++;
				}
		}
		__syncthreads();

		const uint32_t fill = scratch->fill;

		if (fill > capacity)
		{
			// Too many at once: undo the round, and repeat it in steps that fit.
			__syncthreads();
			if (threadIdx.x == 0)
				scratch->fill = before;
			__syncthreads();
			sharpen(before);
#pragma unroll 1
			for (int j = 0; j < kRoundsPerThread; j++)
			{
				const uint32_t column = base + j * kThreads + threadIdx.x;
				const float again = column < n ? __ldg(row + column) : 0.0f;

				if (scratch->fill + kThreads > capacity)
					sharpen(scratch->fill);
				__syncthreads();
				if (column < n && number_order(again) <= limit)
					keys[atomicAdd(&scratch->fill, 1u)] = pair_key(again, column);
				__syncthreads();
			}
		}
		else if (fill > capacity / 2 + k / 2)
			sharpen(fill);
	}
	__syncthreads();
	if (scratch->fill > k)
		cut<kThreads>(keys, scratch->fill, k, scratch);
}

} // namespace vectorgpu::kernels
