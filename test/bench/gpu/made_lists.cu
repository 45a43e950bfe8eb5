// See made_lists.hpp. A warp makes a row at a time.
#include "made_lists.hpp"

#include "support/splitmix.hpp"

namespace vectorgpu::bench
{
namespace
{

using vectorgpu::test::splitmix64;

constexpr uint32_t kThreads = 256;
constexpr uint32_t kBlockRows = 32; // of codes that lie together

/// Any grid, block 256.
__global__ void __launch_bounds__(kThreads)
make_lists_kernel(const MadeLists made)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t sub_dim = made.dim / made.m;
	const uint64_t n_warps = static_cast<uint64_t>(gridDim.x) * (kThreads / 32);

	for (uint64_t place = static_cast<uint64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32; place < made.n_rows;
		place += n_warps)
	{
		const uint64_t own = splitmix64(made.seed ^ splitmix64(place));
		uint8_t *code = made.codes + place / kBlockRows * kBlockRows * made.pitch_bytes + place % kBlockRows * 16;
		uint32_t list = 0; // the last that does not begin after the place; an empty one begins where the next does
		uint32_t high = made.n_lists;
		float term = 0;

		while (high - list > 1)
		{
			const uint32_t middle = (list + high) / 2;

			if (made.offsets[middle] <= place)
				list = middle;
			else
				high = middle;
		}
		for (uint32_t d = lane; d < made.dim_pad; d += 32)
		{
			const uint32_t part = d / sub_dim;
			float value = 0;

			if (d < made.dim)
			{
				const uint32_t word = static_cast<uint32_t>(splitmix64(own + part)) & 0xFF;
				const float center = made.centroids[static_cast<size_t>(list) * made.dim_pad + d];
				const float y = made.codebook[(static_cast<size_t>(part) * sub_dim + d % sub_dim) * 256 + word];

				term += y * y + 2 * center * y;
				value = center + y +
					made.noise * (static_cast<float>(splitmix64(own ^ (d + 0x10000u)) >> 40) * 0x1p-23f - 1.0f);
				if (d % sub_dim == 0)
					code[part / 16 * kBlockRows * 16 + part % 16] = static_cast<uint8_t>(word);
			}
			made.vectors[place * made.dim_pad + d] = value;
		}
		for (int width = 16; width >= 1; width /= 2)
			term += __shfl_xor_sync(0xFFFFFFFFu, term, width);
		if (lane == 0)
		{
			made.terms[place] = term;
			made.row_ids[place] = 3 * place + 7;
		}
	}
}

} // namespace

cudaError_t
launch_make_lists(const MadeLists &made, cudaStream_t stream)
{
	constexpr uint32_t kBlocks = 132 * 16;

	make_lists_kernel<<<kBlocks, kThreads, 0, stream>>>(made);
	return cudaGetLastError();
}

} // namespace vectorgpu::bench
