// See pack_rows.hpp.
#include "kernels/select/pack_rows.hpp"

#include "kernels/warp_block/order.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kThreads = 256;
constexpr uint64_t kMostBlocks = 132 * 16; // keep a large device busy

__device__ __forceinline__ uint32_t
row_at(const PackOrder &order, uint32_t i)
{
	const uint32_t number = __ldg(order.numbers + i);

	return order.places == nullptr ? number : __ldg(order.places + number);
}

/// Grid-stride over the pieces of all rows, block 256: n_pieces of a row, which lie one after another.
template <class Piece>
__global__ void __launch_bounds__(kThreads)
pack_kernel(const PackOrder order, const Piece *from, uint32_t n_pieces, Piece *to)
{
	const uint64_t n = static_cast<uint64_t>(order.n) * n_pieces;
	const uint64_t step = static_cast<uint64_t>(gridDim.x) * kThreads;

	for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n; i += step)
	{
		const uint32_t row = row_at(order, static_cast<uint32_t>(i / n_pieces));

		to[i] = from[static_cast<uint64_t>(row) * n_pieces + i % n_pieces];
	}
}

/// Grid ceil(n / 256), block 256: a warp writes a word.
__global__ void __launch_bounds__(kThreads)
pack_dead_kernel(const PackOrder order, const Rows rows, uint32_t *dead)
{
	const uint64_t i = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
	const bool is_dead = i < order.n && row_is_dead(rows, row_at(order, static_cast<uint32_t>(i)));
	const uint32_t word = __ballot_sync(0xFFFFFFFFu, is_dead);

	if (threadIdx.x % 32 == 0 && i < order.n)
		dead[i / 32] = word;
}

template <class Piece>
cudaError_t
launch_pieces(const PackOrder &order, const void *from, uint32_t bytes, void *to, cudaStream_t stream)
{
	const uint32_t n_pieces = bytes / sizeof(Piece);
	const uint64_t n_blocks = (static_cast<uint64_t>(order.n) * n_pieces + kThreads - 1) / kThreads;

	pack_kernel<Piece><<<static_cast<uint32_t>(n_blocks < kMostBlocks ? n_blocks : kMostBlocks), kThreads, 0, stream>>>(
		order, static_cast<const Piece *>(from), n_pieces, static_cast<Piece *>(to));
	return cudaGetLastError();
}

} // namespace

cudaError_t
launch_pack(const PackOrder &order, const void *from, uint32_t bytes, void *to, cudaStream_t stream)
{
	if (order.n == 0)
		return cudaSuccess; // an empty grid is an error
	if (bytes == sizeof(uint32_t))
		return launch_pieces<uint32_t>(order, from, bytes, to, stream);
	if (bytes == sizeof(uint2))
		return launch_pieces<uint2>(order, from, bytes, to, stream);
	if (bytes == 0 || bytes % sizeof(uint4) != 0)
		return cudaErrorInvalidValue;
	return launch_pieces<uint4>(order, from, bytes, to, stream);
}

cudaError_t
launch_pack_dead(const PackOrder &order, const Rows &rows, uint32_t *dead, cudaStream_t stream)
{
	if (order.n == 0)
		return cudaSuccess;
	pack_dead_kernel<<<(order.n - 1) / kThreads + 1, kThreads, 0, stream>>>(order, rows, dead);
	return cudaGetLastError();
}

} // namespace vectorgpu::kernels
