// Lower bounds of the distances of sparse vectors. A warp takes a row: its lanes read elements side by side and look
// their indices up in the query's hash table, most of whose slots are empty, so that one look is enough nearly always.
// The row is read from device memory once and from the cache for the other queries of the batch.
#include "engine/distance/sparse_bound.hpp"
#include "kernels/sparse/sparse.hpp"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kWarpLanes = 32;
constexpr uint32_t kWarps = 8; // of a block

/// The query's element at an index, 0 if it has none. An empty slot ends the search: there is one.
__device__ __forceinline__ float
element_at(const engine::SparseSlot *slots, int32_t shift, int32_t index)
{
	const uint32_t mask = (1u << (32 - shift)) - 1;

	for (uint32_t slot = engine::sparse::slot_of(index, shift);; slot = (slot + 1) & mask)
	{
		const int2 held = __ldg(reinterpret_cast<const int2 *>(slots) + slot);

		if (held.x == index)
			return __int_as_float(held.y);
		if (held.x < 0)
			return 0;
	}
}

__device__ __forceinline__ double
warp_sum(double value)
{
	for (uint32_t step = kWarpLanes / 2; step > 0; step /= 2)
		value += __shfl_xor_sync(0xFFFFFFFFu, value, static_cast<int>(step));
	return value;
}

/// Grid: n_rows / kWarps blocks; no dynamic shared memory.
template <class Terms>
__global__ void __launch_bounds__(kWarps * kWarpLanes)
sparse_bounds_kernel(SparseArgs args)
{
	const uint32_t lane = threadIdx.x % kWarpLanes;
	const uint32_t at = blockIdx.x * kWarps + threadIdx.x / kWarpLanes;

	if (at >= args.n_rows)
		return;

	const uint64_t row = uint64_t{args.first_row} + at;
	const uint64_t start = row == 0 ? 0 : args.ends[row - 1];
	const uint32_t n = static_cast<uint32_t>((args.ends[row] - start) / engine::kSparseElementBytes);
	const int32_t *const indices = reinterpret_cast<const int32_t *>(args.elements + start);
	const float *const values = reinterpret_cast<const float *>(indices + n);

	for (uint32_t q = 0; q < args.n_queries; q++)
	{
		const SparseBoundQuery query = args.queries[q];
		engine::sparse::Sums sums = {0, 0};

		for (uint32_t i = lane; i < n; i += kWarpLanes)
		{
			const double a = __ldg(values + i);
			const double b = element_at(args.slots + query.first_slot, query.shift, __ldg(indices + i));

			sums.shared += Terms::shared(a, b);
			sums.own += Terms::own(a, b);
		}
		sums.shared = warp_sum(sums.shared);
		sums.own = warp_sum(sums.own);
		if (lane == 0)
			args.bounds[uint64_t{q} * args.n_rows + at] = __double2float_rd(
				engine::sparse::least_distance(args.metric, {query.sum, query.squares}, sums, query.n + n));
	}
}

template <class Terms>
cudaError_t
launch(const SparseArgs &args, cudaStream_t stream)
{
	sparse_bounds_kernel<Terms><<<(args.n_rows + kWarps - 1) / kWarps, kWarps * kWarpLanes, 0, stream>>>(args);
	return cudaGetLastError();
}

} // namespace

cudaError_t
launch_sparse_bounds(const SparseArgs &args, cudaStream_t stream)
{
	if (args.n_rows == 0 || args.n_queries == 0)
		return cudaSuccess;
	switch (args.metric)
	{
		case Metric::kL2:
		case Metric::kCosine:
			return launch<engine::sparse::Products>(args, stream);
		case Metric::kInnerProduct:
			return launch<engine::sparse::ProductsWithSize>(args, stream);
		case Metric::kL1:
			return launch<engine::sparse::Absolutes>(args, stream);
		default:
			return cudaErrorInvalidValue;
	}
}

} // namespace vectorgpu::kernels
