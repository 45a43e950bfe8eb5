// The k smallest of each row of a matrix in the papers' own form: WarpSelect (a warp per row, all in registers) and
// BlockSelect (several warps per row, their queues joined through shared memory). Built with -DVECTORGPU_WARPSELECT=ON,
// for comparison.
#ifdef VECTORGPU_WARPSELECT

#include "kernels/warp_block/order.cuh"
#include "experiments/select_rows.hpp"
#include "experiments/warp_select.hpp"

namespace vectorgpu::kernels
{
namespace
{

constexpr int kRowWarps = 4;             // rows of a block, a warp each
constexpr int kBlockWarps = 8;           // warps of a row
constexpr uint32_t kBlockMostRows = 512; // with fewer rows a warp each would leave the device idle

/// A number and its column: see select_rows.cu.
__device__ __forceinline__ uint64_t
network_key(float value, uint32_t column)
{
	return static_cast<uint64_t>(float_to_order(value == 0.0f ? 0.0f : value)) << 32 | column;
}

/// Columns first, first + step, ... of a row, 32 at a time.
template <int W, int T>
__device__ __forceinline__ void
add_columns(WarpSelect<DeviceWarp, W, T> *select, const float *row, uint32_t n, uint32_t first, uint32_t step)
{
	const uint32_t lane = threadIdx.x % 32;

	for (uint64_t base = first; base < n; base += step)
	{
		const uint64_t column = base + lane;

		select->add(column < n ? network_key(__ldg(row + column), static_cast<uint32_t>(column)) : kWarpSelectMost);
	}
	select->finish();
}

template <int W>
__device__ __forceinline__ void
write_queue(const uint64_t (&queue)[W], const SelectRowsArgs &args, uint32_t row)
{
	const float *values = args.values + static_cast<size_t>(row) * args.n_columns;
	const uint32_t k = min(args.k, args.n_columns);

#pragma unroll
	for (int w = 0; w < W; w++)
	{
		const uint32_t i = w * 32 + threadIdx.x % 32;

		if (i < k)
		{
			const uint32_t column = static_cast<uint32_t>(queue[w]);

			args.out_values[static_cast<size_t>(row) * args.k + i] = values[column];
			args.out_columns[static_cast<size_t>(row) * args.k + i] = column;
		}
	}
}

/// Grid ceil(n_rows / 4), block 128. Reproducible.
template <int W, int T>
__global__ void __launch_bounds__(kRowWarps * 32)
warp_select_kernel(const SelectRowsArgs args)
{
	const uint32_t row = blockIdx.x * kRowWarps + threadIdx.x / 32;
	WarpSelect<DeviceWarp, W, T> select;

	if (row >= args.n_rows) // the whole warp
		return;
	select.init();
	add_columns(&select, args.values + static_cast<size_t>(row) * args.n_columns, args.n_columns, 0, 32);
	write_queue(select.warp_queue, args, row);
}

/// Grid n_rows, block 256. In rounds, half of the remaining warps hand their queue to the other half. Reproducible.
template <int W, int T>
__global__ void __launch_bounds__(kBlockWarps * 32)
block_select_kernel(const SelectRowsArgs args)
{
	__shared__ uint64_t handed[kBlockWarps / 2][W * 32];
	const uint32_t warp = threadIdx.x / 32;
	const uint32_t lane = threadIdx.x % 32;
	WarpSelect<DeviceWarp, W, T> select;

	select.init();
	add_columns(&select, args.values + static_cast<size_t>(blockIdx.x) * args.n_columns, args.n_columns, warp * 32,
		kBlockWarps * 32);
	for (uint32_t left = kBlockWarps / 2; left > 0; left /= 2)
	{
		if (warp >= left && warp < 2 * left)
		{
#pragma unroll
			for (int w = 0; w < W; w++)
				handed[warp - left][w * 32 + lane] = select.warp_queue[w];
		}
		__syncthreads();
		if (warp < left)
		{
			uint64_t other[W];

#pragma unroll
			for (int w = 0; w < W; w++)
				other[w] = handed[warp][w * 32 + lane];
			Network<DeviceWarp>::merge<W, W>(select.warp_queue, other);
		}
		__syncthreads();
	}
	if (warp == 0)
		write_queue(select.warp_queue, args, blockIdx.x);
}

template <int W, int T>
cudaError_t
launch(const SelectRowsArgs &args, cudaStream_t stream)
{
	if (args.n_rows <= kBlockMostRows)
		block_select_kernel<W, T><<<args.n_rows, kBlockWarps * 32, 0, stream>>>(args);
	else
		warp_select_kernel<W, T><<<(args.n_rows + kRowWarps - 1) / kRowWarps, kRowWarps * 32, 0, stream>>>(args);
	return cudaGetLastError();
}

} // namespace

/// k and t: section 4.3 of the paper.
cudaError_t
launch_select_rows_networks(const SelectRowsArgs &args, cudaStream_t stream)
{
	if (args.k <= 32)
		return launch<1, 2>(args, stream);
	if (args.k <= 128)
		return launch<4, 3>(args, stream);
	if (args.k <= 256)
		return launch<8, 4>(args, stream);
	if (args.k <= kSelectNetworksMostK)
		return launch<32, 8>(args, stream);
	return cudaErrorInvalidValue;
}

} // namespace vectorgpu::kernels

#endif
