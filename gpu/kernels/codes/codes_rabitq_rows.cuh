// What the scan of RaBitQ's codes reads of rows: where a row lies, sums of look-ups by its signs, and products of its
// other bits with a query's elements. For codes_scan_rabitq.cu.
#pragma once

#include "kernels/codes/codes_rabitq.cuh"

namespace vectorgpu::kernels
{

/// The block with a place.
__device__ __forceinline__ const uint8_t *
block_of(const Codes &codes, uint32_t place)
{
	return codes.codes + static_cast<size_t>(place / kCodeRows) * (kCodeRows * codes.pitch_bytes);
}

__device__ __forceinline__ const float *
factors_of(const Codes &codes, uint32_t place)
{
	return reinterpret_cast<const float *>(block_of(codes, place) + rabitq_shape(codes).sign_bytes() * kCodeRows) +
		place % kCodeRows;
}

/// The sum of the first 8 N entries of the table at `at` (its lowest byte is 0) that the signs choose.
template <int N>
__device__ __forceinline__ uint32_t
look_up(const uint8_t *shared, uint32_t at, const uint4 &signs)
{
	const uint32_t words[4] = {signs.x, signs.y, signs.z, signs.w};
	uint32_t sum = 0;

#pragma unroll
	for (int w = 0; w < N; w++)
	{
		const uint32_t even = words[w] & 0x0F0F0F0Fu;
		const uint32_t odd = (words[w] >> 4) & 0x0F0F0F0Fu;

#pragma unroll
		for (int i = 0; i < 4; i++) // one instruction brings out a byte and adds `at`
		{
			const uint8_t *group = shared + w * 128 + i * 32;

			sum += group[__byte_perm(even, at, 0x7650 + i)] + group[16 + __byte_perm(odd, at, 0x7650 + i)];
		}
	}
	return sum;
}

/// Words of four rows' bits below the signs, of one of four lanes.
struct RestOfFour
{
	const uint32_t *rows[4];
	int sums[4];
};

/// Add the products of a part of the bits with the elements; width: 4, 2, 1. Sums so far count `earlier` times as much.
template <uint32_t kWidth>
__device__ __forceinline__ void
multiply_part(const RabitqShape &shape, uint32_t earlier, const int *elements, uint32_t lane, RestOfFour *four)
{
	constexpr uint32_t kMask = ((1u << kWidth) - 1) * 0x01010101u;
	constexpr uint32_t kGroups = 8 / kWidth; // of four elements, of a word
	const uint32_t n_words = shape.part_words(kWidth);

#pragma unroll
	for (int b = 0; b < 4; b++)
		four->sums[b] *= static_cast<int>(earlier);
	for (uint32_t w = lane % 4; w < n_words; w += 4)
	{
		uint32_t words[4];

#pragma unroll
		for (int b = 0; b < 4; b++)
			words[b] = __ldg(four->rows[b] + w);
#pragma unroll
		for (uint32_t g = 0; g < kGroups; g += 2)
		{
			const int2 pair = reinterpret_cast<const int2 *>(elements)[(w * kGroups + g) / 2];

#pragma unroll
			for (int b = 0; b < 4; b++)
			{
				const int low = static_cast<int>((words[b] >> (kWidth * g)) & kMask);
				const int high = static_cast<int>((words[b] >> (kWidth * (g + 1))) & kMask);

				four->sums[b] = __dp4a(high, pair.y, __dp4a(low, pair.x, four->sums[b]));
			}
		}
	}
}

/// The bits below the sign of the row at `place`, times the elements. By all lanes of a warp: four lanes share the
/// reads of their four rows. places: of these.
__device__ __forceinline__ int
multiply_rows(const Codes &codes, const uint32_t (&places)[4], const int *elements, uint32_t lane)
{
	const RabitqShape shape = rabitq_shape(codes);
	const uint32_t ahead = (shape.sign_bytes() + shape.n_factors() * 4) * kCodeRows;
	const uint32_t one = shape.part_words(4) + shape.part_words(2); // the parts lie before each other
	RestOfFour four;

#pragma unroll
	for (int b = 0; b < 4; b++)
	{
		four.rows[b] = reinterpret_cast<const uint32_t *>(block_of(codes, places[b]) + ahead) +
			places[b] % kCodeRows * shape.rest_words() + one;
		four.sums[b] = 0;
	}
	if ((shape.rest & 1) != 0)
		multiply_part<1>(shape, 1, elements, lane, &four);
#pragma unroll
	for (int b = 0; b < 4; b++)
		four.rows[b] -= shape.part_words(2);
	if ((shape.rest & 2) != 0)
		multiply_part<2>(shape, 4, elements, lane, &four);
#pragma unroll
	for (int b = 0; b < 4; b++)
		four.rows[b] -= shape.part_words(4);
	if ((shape.rest & 4) != 0)
		multiply_part<4>(shape, 16, elements, lane, &four);

	// Each lane gives away the sums of others' rows, and gets those of its own.
	const bool odd = (lane & 1) != 0;
	const bool upper = (lane & 2) != 0;
	const int first =
		(odd ? four.sums[1] : four.sums[0]) + __shfl_xor_sync(0xFFFFFFFFu, odd ? four.sums[0] : four.sums[1], 1);
	const int second =
		(odd ? four.sums[3] : four.sums[2]) + __shfl_xor_sync(0xFFFFFFFFu, odd ? four.sums[2] : four.sums[3], 1);

	return (upper ? second : first) + __shfl_xor_sync(0xFFFFFFFFu, upper ? first : second, 2);
}

} // namespace vectorgpu::kernels
