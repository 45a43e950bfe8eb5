// Keys: 64-bit integers that order as scores do, and comparison of entries.
#pragma once

#include <cstdint>

#include "kernels/kernels.hpp"

namespace vectorgpu::kernels
{

__host__ __device__ __forceinline__ uint64_t
bits_to_key(uint64_t bits)
{
	return (bits >> 63) != 0 ? ~bits : bits | 0x8000000000000000u;
}

/// score: canonical, no -0. Infinity becomes 0xFFF0000000000000, below kNanKey.
__device__ __forceinline__ uint64_t
device_score_to_key(double score)
{
	return score != score ? kNanKey : bits_to_key(static_cast<uint64_t>(__double_as_longlong(score)));
}

__device__ __forceinline__ bool
entry_less(const Entry &a, const Entry &b)
{
	return a.key < b.key || (a.key == b.key && a.row < b.row);
}

/// Bits of a float as an unsigned number in the same order; NaN of any sign is the largest.
__device__ __forceinline__ uint32_t
float_to_order(float value)
{
	if (value != value)
		return 0xFFFFFFFFu;

	const uint32_t bits = __float_as_uint(value);

	return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float
order_to_float(uint32_t order)
{
	return __uint_as_float((order >> 31) != 0 ? order & 0x7FFFFFFFu : ~order);
}

__device__ __forceinline__ bool
row_is_dead(const Rows &rows, uint32_t row)
{
	if (rows.dead == nullptr)
		return false;

	const uint64_t bit = static_cast<uint64_t>(rows.dead_start + static_cast<int64_t>(row)); // negative: huge

	return bit < rows.dead_bits && ((rows.dead[bit / 8] >> (bit % 8)) & 1) != 0;
}

/// The part that contains the row of this number.
__device__ __forceinline__ uint32_t
part_of(const RowParts &parts, uint32_t number)
{
	uint32_t part = 0;

#pragma unroll
	for (uint32_t i = 1; i < kMostParts; i++)
		part = i < parts.n && number >= parts.first_row[i] ? i : part;
	return part;
}

} // namespace vectorgpu::kernels
