// The layout of RaBitQ's codes on the device (codes_rabitq.cuh), from the index's and back.
#include "kernels/codes/codes_launch.hpp"
#include "kernels/codes/codes_rabitq.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kThreads = 256;

uint32_t
blocks_for(uint64_t n)
{
	return static_cast<uint32_t>(min(uint64_t{1} << 30, (n + kThreads - 1) / kThreads));
}

/// Where a word of a row's bits below the signs gets its bits from.
struct RestPart
{
	uint32_t width;
	uint32_t shift; // the lowest bit of the part
	uint32_t first; // its first word in a row
};

/// The part with word `word` of a row.
__device__ __forceinline__ RestPart
part_of_word(const RabitqShape &shape, uint32_t word)
{
	const uint32_t two = shape.part_words(4);
	const uint32_t one = two + shape.part_words(2);

	if (word < two)
		return {4, 0, 0};
	return word < one ? RestPart{2, shape.rest & 4, two} : RestPart{1, shape.rest & 6, one};
}

/// The part with bit `bit` of a number below the sign.
__device__ __forceinline__ RestPart
part_of_bit(const RabitqShape &shape, uint32_t bit)
{
	const uint32_t two = shape.part_words(4);

	if (bit < (shape.rest & 4))
		return {4, 0, 0};
	return bit < (shape.rest & 6) ? RestPart{2, shape.rest & 4, two}
								  : RestPart{1, shape.rest & 6, two + shape.part_words(2)};
}

/// Word `word` of the bits below the signs. planes: of the row, in the index's order.
__device__ uint32_t
rest_word(const RabitqShape &shape, const uint8_t *planes, uint32_t word)
{
	const RestPart part = part_of_word(shape, word);
	const uint32_t n_dims = 32 / part.width;
	const uint32_t first = (word - part.first) * n_dims;
	uint32_t bits = 0;

	for (uint32_t d = 0; d < n_dims && first + d < shape.padded_dim; d++)
		for (uint32_t x = 0; x < part.width; x++)
		{
			const uint32_t byte = planes[(part.shift + x) * shape.plane_bytes() + (first + d) / 8];

			bits |= ((byte >> ((first + d) % 8)) & 1) << (8 * (d % 4) + part.width * (d / 4) + x);
		}
	return bits;
}

/// A thread for each word of the result.
__global__ void __launch_bounds__(kThreads)
rabitq_layout_kernel(RabitqShape shape, const uint8_t *from, uint64_t first_block, uint64_t n_blocks, uint32_t *codes)
{
	const uint32_t block_words = shape.pitch_bytes() / 4 * kCodeRows;
	const uint32_t sign_words = shape.sign_bytes() / 4 * kCodeRows;
	const uint32_t factor_words = shape.n_factors() * kCodeRows;
	const uint32_t rest_words = shape.rest_words();
	const uint64_t n = n_blocks * block_words;

	for (uint64_t i = blockIdx.x * uint64_t{kThreads} + threadIdx.x; i < n; i += uint64_t{gridDim.x} * kThreads)
	{
		const uint8_t *block = from + i / block_words * shape.code_bytes() * kCodeRows;
		const uint8_t *factors = block + shape.plane_bytes() * kCodeRows;
		const uint32_t word = static_cast<uint32_t>(i % block_words);
		uint32_t made = 0;

		if (word < sign_words)
		{
			const uint32_t row = word / 4 % kCodeRows;
			const uint32_t byte = word / (4 * kCodeRows) * 16 + word % 4 * 4;

			for (uint32_t b = 0; b < 4 && byte + b < shape.plane_bytes(); b++)
				made |= static_cast<uint32_t>(block[(byte + b) * kCodeRows + row]) << (8 * b);
		}
		else if (word < sign_words + factor_words)
			for (uint32_t b = 0; b < 4; b++)
				made |= static_cast<uint32_t>(factors[(word - sign_words) * 4 + b]) << (8 * b);
		else
		{
			const uint32_t at = word - sign_words - factor_words;
			const uint8_t *planes = factors + factor_words * 4 + at / rest_words * shape.rest * shape.plane_bytes();

			made = rest_word(shape, planes, at % rest_words);
		}
		codes[first_block * block_words + i] = made;
	}
}

/// A byte of a block in the index's order.
__device__ uint32_t
byte_of_block(const RabitqShape &shape, const uint8_t *block, uint32_t at)
{
	const uint32_t plane_bytes = shape.plane_bytes();
	const uint8_t *factors = block + shape.sign_bytes() * kCodeRows;

	if (at < plane_bytes * kCodeRows)
	{
		const uint32_t byte = at / kCodeRows;

		return block[byte / 16 * (kCodeRows * 16) + at % kCodeRows * 16 + byte % 16];
	}
	at -= plane_bytes * kCodeRows;
	if (at < shape.n_factors() * 4 * kCodeRows)
		return factors[at];
	at -= shape.n_factors() * 4 * kCodeRows;

	const uint32_t row = at / (shape.rest * plane_bytes);
	const uint32_t bit = at / plane_bytes % shape.rest;
	const uint32_t first = at % plane_bytes * 8;
	const RestPart part = part_of_bit(shape, bit);
	const uint32_t *words =
		reinterpret_cast<const uint32_t *>(factors) + shape.n_factors() * kCodeRows + row * shape.rest_words();
	uint32_t bits = 0;

	for (uint32_t i = 0; i < 8; i++)
	{
		const uint32_t d = (first + i) % (32 / part.width);
		const uint32_t word = words[part.first + (first + i) / (32 / part.width)];

		bits |= ((word >> (8 * (d % 4) + part.width * (d / 4) + bit - part.shift)) & 1) << i;
	}
	return bits;
}

/// A thread for each byte of the result.
__global__ void __launch_bounds__(kThreads)
rabitq_layout_back_kernel(RabitqShape shape, const uint8_t *codes, uint64_t first_byte, uint64_t n_bytes, uint8_t *to)
{
	const uint32_t block_bytes = shape.code_bytes() * kCodeRows;

	for (uint64_t i = blockIdx.x * uint64_t{kThreads} + threadIdx.x; i < n_bytes; i += uint64_t{gridDim.x} * kThreads)
	{
		const uint64_t at = first_byte + i;

		to[i] = static_cast<uint8_t>(byte_of_block(shape, codes + at / block_bytes * shape.pitch_bytes() * kCodeRows,
			static_cast<uint32_t>(at % block_bytes)));
	}
}

} // namespace

uint32_t
rabitq_pitch_bytes(uint32_t dim, uint32_t bits)
{
	return rabitq_shape(dim, bits).pitch_bytes();
}

cudaError_t
launch_rabitq_layout(
	const Codes &codes, const uint8_t *from, uint64_t first_block, uint64_t n_blocks, uint8_t *to, cudaStream_t stream)
{
	if (n_blocks == 0)
		return cudaSuccess;
	rabitq_layout_kernel<<<blocks_for(n_blocks * (codes.pitch_bytes / 4) * kCodeRows), kThreads, 0, stream>>>(
		rabitq_shape(codes), from, first_block, n_blocks, reinterpret_cast<uint32_t *>(to));
	return cudaGetLastError();
}

cudaError_t
launch_rabitq_layout_back(const Codes &codes, uint64_t first_byte, uint64_t n_bytes, uint8_t *to, cudaStream_t stream)
{
	if (n_bytes == 0)
		return cudaSuccess;
	rabitq_layout_back_kernel<<<blocks_for(n_bytes), kThreads, 0, stream>>>(
		rabitq_shape(codes), codes.codes, first_byte, n_bytes, to);
	return cudaGetLastError();
}

} // namespace vectorgpu::kernels
