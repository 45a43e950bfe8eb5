// See pass_bits.hpp.
#include "kernels/select/pass_bits.hpp"

#include "kernels/warp_block/order.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kThreads = 256;

__device__ __forceinline__ bool
row_passes(const PassBits &pass, uint32_t row)
{
	const int64_t number = pass.numbers == nullptr ? row : pass.numbers[row];
	const uint64_t bit = static_cast<uint64_t>(pass.start + number); // negative: huge

	return bit < pass.n_bits && ((pass.bits[bit / 8] >> (bit % 8)) & 1) != 0;
}

/// Grid ceil(n_rows / 2048), block 256: a thread writes a byte.
__global__ void __launch_bounds__(kThreads)
join_dead_kernel(const PassBits pass, const Rows rows, uint8_t *dead)
{
	const uint32_t byte = blockIdx.x * kThreads + threadIdx.x;
	uint32_t joined = 0;

	if (byte > (rows.n_rows - 1) / 8)
		return;
	for (uint32_t i = 0; i < 8; i++)
	{
		const uint32_t row = byte * 8 + i;

		if (row < rows.n_rows && (row_is_dead(rows, row) || !row_passes(pass, row)))
			joined |= 1u << i;
	}
	dead[byte] = static_cast<uint8_t>(joined);
}

} // namespace

cudaError_t
launch_join_dead(const PassBits &pass, const Rows &rows, uint8_t *dead, cudaStream_t stream)
{
	constexpr uint32_t kRowsPerBlock = kThreads * 8;

	if (rows.n_rows == 0)
		return cudaSuccess; // an empty grid is an error
	join_dead_kernel<<<(rows.n_rows - 1) / kRowsPerBlock + 1, kThreads, 0, stream>>>(pass, rows, dead);
	return cudaGetLastError();
}

} // namespace vectorgpu::kernels
