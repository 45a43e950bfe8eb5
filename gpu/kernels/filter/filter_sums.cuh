// Functions that the filter's kernels share besides the products: how sums begin, and how they are judged in registers,
// in the layout of mma's accumulators. Thread `lane` of a warp has, of each 16 x 8 block of sums, rows lane / 4 + {0,
// 8} and queries 2 (lane % 4) + {0, 1}; MT blocks of rows by NT of queries.
#pragma once

#include "kernels/filter/filter.hpp"
#include "kernels/warp_block/mma.cuh"
#include "kernels/warp_block/order.cuh"

namespace vectorgpu::kernels
{

constexpr uint32_t kChunkBytes = 128; // of a row, per stage of the pipeline

constexpr int kLargestByteThreshold =
	1 << 30; // added to any sum of products of bytes and any |y|² / 2 it is still an int

__device__ __forceinline__ int
byte_start(float threshold)
{
	constexpr float kMost = static_cast<float>(kLargestByteThreshold);

	return __float2int_ru(fminf(fmaxf(threshold, -kMost), kMost - 128.0f)) + 1; // rounded so that no row is lost
}

/// A threshold in the form that registers keep: for bytes an int, except for cosine, where rows scale it.
template <Form form>
__device__ __forceinline__ uint32_t
kept_threshold(float threshold, bool is_cosine)
{
	if (form == Form::kByte && !is_cosine)
		return static_cast<uint32_t>(byte_start(threshold));
	return __float_as_uint(threshold);
}

/// The start of a sum of products of bytes that ends negative if and only if the estimate is above the threshold:
/// threshold minus the part of the estimate without products. norm: |y|, cosine only. Other forms: see start_sums.
__device__ __forceinline__ int
start_byte_sum(uint32_t kept, float norm, float value, bool is_cosine)
{
	return is_cosine ? byte_start(fmaf(__uint_as_float(kept), norm, 1.0f))
					 : static_cast<int>(kept) - __float2int_rd(value);
}

/// The estimate of a row that passed.
template <Form form>
__device__ __forceinline__ float
estimate_of(typename Accumulator<form>::Type sum, float threshold, float value, bool is_cosine)
{
	if (value != value)
		return value;
	if constexpr (form == Form::kByte)
	{
		const uint32_t kept = kept_threshold<form>(threshold, is_cosine);
		const float products =
			static_cast<float>(sum - start_byte_sum(kept, is_cosine ? -1.0f / value : 1.0f, value, is_cosine));

		return is_cosine ? products * value : value - products;
	}
	else
		return is_cosine ? threshold + sum * value : threshold - sum;
}

__device__ __forceinline__ uint32_t
sum_bits(float sum)
{
	return __float_as_uint(sum);
}

__device__ __forceinline__ uint32_t
sum_bits(int sum)
{
	return static_cast<uint32_t>(sum);
}

/// The sum with these bits.
template <class Sum>
__device__ __forceinline__ Sum
bits_sum(uint32_t bits)
{
	if constexpr (std::is_same_v<Sum, int>)
		return static_cast<int>(bits);
	else
		return __uint_as_float(bits);
}

/// Bytes of a query's operand.
VECTORGPU_HOST_DEVICE inline size_t
operand_bytes(Form form, uint32_t dim_pad)
{
	const size_t bytes = static_cast<size_t>(dim_pad) *
		(form == Form::kByte || form == Form::kScaled ? 1
				: form == Form::kFloat16              ? 2
													  : 4);

	return (bytes + kChunkBytes - 1) / kChunkBytes * kChunkBytes;
}

/// A candidate that waits in shared memory. Appending there takes a fraction of the time of an append to memory. The
/// steps that read memory (its estimate, whether it is dead) are done for many candidates together.
struct Staged
{
	uint32_t row;
	uint32_t query;
	uint32_t sum; // bits of the accumulator
};

static __device__ __noinline__ void
append(
	uint32_t *counts, uint32_t *rows, float *estimates, uint32_t capacity, uint32_t query, uint32_t row, float estimate)
{
	const uint32_t at = atomicAdd(&counts[query], 1u);

	if (at < capacity)
	{
		rows[static_cast<size_t>(query) * capacity + at] = row;
		estimates[static_cast<size_t>(query) * capacity + at] = estimate;
	}
}

/// Write a candidate's estimate to memory, unless it is dead.
template <Form form>
__device__ __forceinline__ void
pass_on(const FilterArgs &args, const Staged &candidate)
{
	if (row_is_dead(args.rows, candidate.row))
		return;

	const float estimate = estimate_of<form>(bits_sum<typename Accumulator<form>::Type>(candidate.sum),
		args.thresholds[candidate.query], __ldg(args.row_values + candidate.row), args.metric == Metric::kCosine);

	append(args.candidates.counts, args.candidates.rows, args.candidates.estimates, args.candidates.capacity,
		candidate.query, candidate.row, estimate);
}

/// Set a thread's sums of two rows of an m to their start before the first product. thresholds: kept_threshold of its
/// queries; at_zero: sums are the products alone; byte_cosine: for bytes, whether the metric is cosine (a template
/// parameter: a branch here would keep products of warp groups from overlapping).
template <Form form, bool at_zero, bool byte_cosine, int NT>
__device__ __forceinline__ void start_sums(typename Accumulator<form>::Type (&sums)[NT][4],
	const uint32_t (&thresholds)[2 * NT], const float (&values)[2], bool is_cosine)
{
	using Sum = typename Accumulator<form>::Type;

#pragma unroll
	for (int half = 0; half < 2; half++)
	{
		const float norm = is_cosine ? -1.0f / values[half] : 1.0f;
		const float besides = is_cosine ? 0.0f : values[half]; // the part of the estimate without products
		const int rounded = form == Form::kByte ? __float2int_rd(besides) : 0;

#pragma unroll
		for (int i = 0; i < 2 * NT; i++)
		{
			Sum &sum = sums[i / 2][half * 2 + i % 2];

			if constexpr (at_zero)
				sum = Sum{0};
			else if constexpr (form != Form::kByte)
				sum = __fmaf_rn(__uint_as_float(thresholds[i]), norm,
					-besides); // rounds once: one of the two subtractions changes nothing
			else if constexpr (byte_cosine)
				sum = start_byte_sum(thresholds[i], norm, 0.0f, true);
			else
				sum = static_cast<int>(thresholds[i]) - rounded;
		}
	}
}

/// For sums that began at zero: per query, the smaller of `smallest` and the estimates of the thread's row.
template <int NT, class Sum>
__device__ __forceinline__ void
take_smallest(float (&smallest)[2 * NT], const Sum (&sums)[NT][4], int half, float value, bool counts, bool is_cosine)
{
#pragma unroll
	for (int i = 0; i < 2 * NT; i++)
	{
		const float estimate = __fmaf_rn(
			static_cast<float>(sums[i / 2][half * 2 + i % 2]), is_cosine ? value : -1.0f, is_cosine ? 0.0f : value);

		smallest[i] = counts ? fminf(smallest[i], estimate) : smallest[i]; // fminf ignores NaN
	}
}

/// The smallest of the 8 threads that have the same queries.
__device__ __forceinline__ float
smallest_of_rows(float least)
{
	least = fminf(least, __shfl_xor_sync(0xFFFFFFFFu, least, 4));
	least = fminf(least, __shfl_xor_sync(0xFFFFFFFFu, least, 8));
	return fminf(least, __shfl_xor_sync(0xFFFFFFFFu, least, 16));
}

/// The sum of a row for the thread's query i. Registers cannot be indexed, so the set is halved bit by bit.
template <int NT, class Sum>
__device__ __forceinline__ Sum
select_sum(const Sum (&sums)[NT][4], int half, int i)
{
	Sum left[2 * NT];

#pragma unroll
	for (int j = 0; j < 2 * NT; j++)
		left[j] = sums[j / 2][half * 2 + j % 2];
#pragma unroll
	for (int bit = 1; bit < 2 * NT; bit *= 2)
#pragma unroll
		for (int j = 0; j < 2 * NT; j += 2 * bit)
			left[j] = (i & bit) != 0 ? left[j + bit] : left[j];
	return left[0];
}

/// Call found(i, sum) for each of the thread's queries i that the row passes for. Sums began at values that leave them
/// negative unless the row passes: the signs decide. is_wanted(): whether the row may be a candidate, asked for rows
/// that pass alone.
template <int NT, class Sum, class IsWanted, class Found>
__device__ __forceinline__ void
find_passed(const Sum (&sums)[NT][4], int half, float value, IsWanted is_wanted, Found found)
{
	uint32_t signs = 0x80000000u;

#pragma unroll
	for (int i = 0; i < 2 * NT; i++)
		signs &= sum_bits(sums[i / 2][half * 2 + i % 2]);
	if (signs != 0 && value == value) // NaN: a row that the bound does not cover, always passed on
		return;
	if (!is_wanted())
		return;

	uint32_t missed = 0; // the signs, the first in the highest of 2 NT bits

#pragma unroll
	for (int i = 0; i < 2 * NT; i++)
		missed = __funnelshift_l(sum_bits(sums[i / 2][half * 2 + i % 2]), missed, 1);

	uint32_t passed = value != value ? ~0u : ~missed;

	for (passed <<= 32 - 2 * NT; passed != 0;)
	{
		const int hit = __clz(static_cast<int>(passed));

		found(hit, select_sum<NT>(sums, half, hit));
		passed &= ~(0x80000000u >> hit);
	}
}

} // namespace vectorgpu::kernels
