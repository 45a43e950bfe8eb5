// Codes of RaBitQ (src/engine/ivf/rabitq) as they lie on the device, and what a query keeps for them. For the files of
// this folder.
//
// A block of 32 rows: the signs, [16-byte group, row, 16], padded with zeros; the factors, [factor, row] float; then
// the bits below the signs, row by row. These lie in up to three parts, of the lowest bits first: four bits of each
// dimension, two, one, as many parts as the number of these bits has ones. A part is words of 32 / width dimensions:
// dimension d of a word lies in byte d % 4, from bit width * (d / 4) on, so that a shift and a mask bring out the four
// numbers of neighbouring dimensions as bytes.
#pragma once

#include "kernels/codes/codes.hpp"

namespace vectorgpu::kernels
{

struct RabitqShape
{
	uint32_t padded_dim; // a multiple of 8
	uint32_t rest;       // bits below the sign

	/// Bytes of one bit of all dimensions, in the index.
	__host__ __device__ uint32_t plane_bytes() const { return padded_dim / 8; }
	/// Of the signs of a row here.
	__host__ __device__ uint32_t sign_bytes() const { return (plane_bytes() + 15) / 16 * 16; }
	__host__ __device__ uint32_t n_factors() const { return rest == 0 ? 2 : 5; }
	/// Bytes of a row's code in the index.
	__host__ __device__ uint32_t code_bytes() const { return (rest + 1) * plane_bytes() + n_factors() * 4; }

	/// Words of a part of the bits below the signs; width: 4, 2, 1.
	__host__ __device__ uint32_t part_words(uint32_t width) const
	{
		return (rest & width) != 0 ? (padded_dim * width + 31) / 32 : 0;
	}
	__host__ __device__ uint32_t rest_words() const { return part_words(4) + part_words(2) + part_words(1); }
	__host__ __device__ uint32_t pitch_bytes() const { return sign_bytes() + (n_factors() + rest_words()) * 4; }

	/// Words of 32 signs, the last one padded.
	__host__ __device__ uint32_t sign_words() const { return (padded_dim + 31) / 32; }
	/// Of a query: [8 * sign_words, 16] bytes, for groups of four signs.
	__host__ __device__ uint32_t table_bytes() const { return sign_words() * 128; }
	/// Of a query: its elements, int8, padded with zeros.
	__host__ __device__ uint32_t element_bytes() const { return sign_words() * 32; }
	__host__ __device__ uint32_t state_bytes() const;
};

__host__ __device__ inline RabitqShape
rabitq_shape(uint32_t dim, uint32_t bits)
{
	return {(dim + 7) / 8 * 8, bits - 1};
}

__host__ __device__ inline RabitqShape
rabitq_shape(const Codes &codes)
{
	return rabitq_shape(codes.dim, codes.bits);
}

/// The beginning of a query's state; table and elements follow. As engine/ivf's RabitqQuery.
struct alignas(16) RabitqState
{
	double element_scale;
	double element_sum;
	float table_scale;
	float table_base;
	float table_slack;
	uint32_t unused;
};

__host__ __device__ inline uint32_t
RabitqShape::state_bytes() const
{
	return static_cast<uint32_t>(sizeof(RabitqState)) + table_bytes() + element_bytes();
}

} // namespace vectorgpu::kernels
