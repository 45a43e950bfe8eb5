// Inverted lists: rows reordered from their numbers to their places, the queries of each list, and the choice of a scan
// kernel for a metric.
#include "kernels/ivf/ivf_cut.cuh"
#include "kernels/ivf/ivf_scan.cuh"

namespace vectorgpu::kernels
{

extern template cudaError_t launch_ivf_metric<Metric::kL2>(IvfKernel, const IvfScanArgs &, cudaStream_t);
extern template cudaError_t launch_ivf_metric<Metric::kInnerProduct>(IvfKernel, const IvfScanArgs &, cudaStream_t);
extern template cudaError_t launch_ivf_metric<Metric::kCosine>(IvfKernel, const IvfScanArgs &, cudaStream_t);
extern template cudaError_t launch_ivf_metric<Metric::kL1>(IvfKernel, const IvfScanArgs &, cudaStream_t);

namespace
{

constexpr uint32_t kThreads = 256;
constexpr uint32_t kScanThreads = 1024;

uint32_t
blocks_for(uint64_t n)
{
	return static_cast<uint32_t>(min(uint64_t{1} << 30, (n + kThreads - 1) / kThreads));
}

/// Grid ceil(n_rows / 256), block 256.
__global__ void __launch_bounds__(kThreads)
row_ids_kernel(const uint64_t *by_number, const uint32_t *numbers, uint32_t n_rows, uint64_t *by_place)
{
	const uint32_t place = blockIdx.x * kThreads + threadIdx.x;

	if (place < n_rows)
		by_place[place] = by_number[numbers[place]];
}

/// Grid ceil(n_rows / 256), block 256: a thread per place.
__global__ void __launch_bounds__(kThreads)
places_kernel(const uint32_t *numbers, uint32_t n_rows, uint32_t first, uint32_t n, uint32_t *places)
{
	const uint32_t place = blockIdx.x * kThreads + threadIdx.x;

	if (place < n_rows && numbers[place] - first < n) // a number before `first`: huge
		places[numbers[place] - first] = place;
}

/// Grid ceil(n_rows / 8 / 256), block 256: a thread per byte.
__global__ void __launch_bounds__(kThreads)
bits_kernel(const uint8_t *by_number, const uint32_t *numbers, uint32_t n_rows, uint8_t *by_place)
{
	const uint32_t byte = blockIdx.x * kThreads + threadIdx.x;
	uint32_t bits = 0;

	if (byte >= (n_rows + 7) / 8)
		return;
	for (uint32_t i = 0; i < 8 && byte * 8 + i < n_rows; i++)
	{
		const uint32_t number = numbers[byte * 8 + i];

		bits |= ((by_number[number / 8] >> (number % 8)) & 1u) << i;
	}
	by_place[byte] = static_cast<uint8_t>(bits);
}

/// Grid ceil(n_rows / 256), block 256: a thread per place.
__global__ void __launch_bounds__(kThreads)
bits_back_kernel(
	const uint8_t *by_place, const uint32_t *numbers, uint32_t n_rows, uint32_t first, uint32_t n, uint32_t *by_number)
{
	const uint32_t place = blockIdx.x * kThreads + threadIdx.x;

	if (place >= n_rows || ((by_place[place / 8] >> (place % 8)) & 1) == 0)
		return;

	const uint32_t at = numbers[place] - first; // large of rows before

	if (at < n)
		atomicOr(by_number + at / 32, 1u << (at % 32));
}

__global__ void __launch_bounds__(kThreads)
iota_kernel(uint64_t *ids, uint32_t n)
{
	const uint32_t i = blockIdx.x * kThreads + threadIdx.x;

	if (i < n)
		ids[i] = i;
}

/// Grid ceil(n_queries * stride / 256), block 256.
__global__ void __launch_bounds__(kThreads)
count_kernel(const IvfProbes probes, uint32_t n_queries, const IvfPlan plan)
{
	const uint64_t i = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
	const uint32_t query = static_cast<uint32_t>(i / probes.stride);

	if (query < n_queries && i % probes.stride < probes.counts[query])
		atomicAdd(&plan.counts[probes.ranked[i].row], 1u);
}

/// One block of 1024: running sums of queries and of tiles over all lists.
__global__ void __launch_bounds__(kScanThreads)
firsts_kernel(const IvfProbes probes, const IvfPlan plan)
{
	__shared__ uint32_t sums[2][32];
	__shared__ uint32_t before[2];
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = threadIdx.x / 32;

	if (threadIdx.x < 2)
		before[threadIdx.x] = 0;
	if (threadIdx.x == 0)
		*plan.next_tile = 0;
	__syncthreads();
	for (uint32_t base = 0; base < probes.n_lists; base += kScanThreads)
	{
		const uint32_t list = base + threadIdx.x;
		const uint32_t count = list < probes.n_lists ? plan.counts[list] : 0;
		const uint32_t rows =
			list < probes.n_lists ? static_cast<uint32_t>(probes.offsets[list + 1] - probes.offsets[list]) : 0;
		const uint32_t tiles = (count + plan.queries_per_tile - 1) / plan.queries_per_tile *
			((rows + kIvfRowsPerTile - 1) / kIvfRowsPerTile);
		uint32_t sum[2] = {count, tiles};

#pragma unroll
		for (int offset = 1; offset < 32; offset *= 2)
		{
#pragma unroll
			for (int which = 0; which < 2; which++)
			{
				const uint32_t other = __shfl_up_sync(0xFFFFFFFFu, sum[which], offset);

				if (static_cast<int>(lane) >= offset)
					sum[which] += other;
			}
		}
		if (lane == 31)
		{
			sums[0][warp] = sum[0];
			sums[1][warp] = sum[1];
		}
		__syncthreads();
		for (uint32_t w = 0; w < warp; w++)
		{
			sum[0] += sums[0][w];
			sum[1] += sums[1][w];
		}
		sum[0] += before[0];
		sum[1] += before[1];
		if (list < probes.n_lists)
		{
			plan.firsts[list] = plan.cursors[list] = sum[0] - count;
			plan.tile_firsts[list] = sum[1] - tiles;
		}
		__syncthreads(); // all have read `before`
		if (threadIdx.x == kScanThreads - 1)
		{
			before[0] = sum[0];
			before[1] = sum[1];
		}
		__syncthreads();
	}
	if (threadIdx.x == 0)
	{
		plan.firsts[probes.n_lists] = before[0];
		plan.tile_firsts[probes.n_lists] = before[1];
	}
}

/// As count_kernel. The order of a list's queries is not reproducible, and does not matter.
__global__ void __launch_bounds__(kThreads)
fill_kernel(const IvfProbes probes, uint32_t n_queries, const IvfPlan plan)
{
	const uint64_t i = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
	const uint32_t query = static_cast<uint32_t>(i / probes.stride);

	if (query < n_queries && i % probes.stride < probes.counts[query])
		plan.queries[atomicAdd(&plan.cursors[probes.ranked[i].row], 1u)] = query;
}

/// Grid ceil(n_lists / 8), block 256: a warp counts the rows of a list, 32 at a time.
__global__ void __launch_bounds__(kThreads)
count_live_kernel(const uint64_t *offsets, uint32_t n_lists, const Rows rows, uint32_t *n_pass)
{
	const uint32_t list = blockIdx.x * (kThreads / 32) + threadIdx.x / 32;
	uint32_t n = 0;

	if (list >= n_lists)
		return;
	for (uint64_t place = offsets[list] + threadIdx.x % 32; place < offsets[list + 1]; place += 32)
		n += row_is_dead(rows, static_cast<uint32_t>(place)) ? 0 : 1;
	n = __reduce_add_sync(0xFFFFFFFFu, n);
	if (threadIdx.x % 32 == 0)
	{
		n_pass[list] = n;
		atomicAdd(n_pass + n_lists, n);
	}
}

/// Grid n_queries, block kCutThreads.
__global__ void __launch_bounds__(kCutThreads)
cut_kernel(const IvfProbes probes, const IvfCut cut, uint32_t *counts, uint8_t *redo)
{
	__shared__ CutScratch scratch;
	const uint32_t query = blockIdx.x;
	const uint32_t most = counts[query];

	if (most == probes.n_lists) // of all threads alike
		return;

	const uint64_t list =
		threadIdx.x < most ? probes.ranked[static_cast<size_t>(query) * probes.stride + threadIdx.x].row : 0;
	const uint32_t n = cut_lists(cut, passing_share(cut, probes.offsets, probes.n_lists), cut.n_pass[list],
		static_cast<uint32_t>(probes.offsets[list + 1] - probes.offsets[list]), most, &scratch);

	if (threadIdx.x != 0)
		return;
	counts[query] = n;
	if (n == 0)
		redo[query] = kAnswerIsAway;
}

/// Grid ceil(n_queries / 256), block 256.
__global__ void __launch_bounds__(kThreads)
skip_kernel(const uint8_t *redo, uint32_t n_queries, uint32_t *counts)
{
	const uint32_t query = blockIdx.x * kThreads + threadIdx.x;

	if (query < n_queries && redo[query] != 0)
		counts[query] = 0;
}

cudaError_t
launch_ivf(IvfKernel kernel, const IvfScanArgs &args, cudaStream_t stream)
{
	if (args.rows.n_rows == 0 || args.queries.n_queries == 0)
		return cudaSuccess; // an empty grid is an error
	switch (args.metric)
	{
		case Metric::kL2:
			return launch_ivf_metric<Metric::kL2>(kernel, args, stream);
		case Metric::kInnerProduct:
			return launch_ivf_metric<Metric::kInnerProduct>(kernel, args, stream);
		case Metric::kCosine:
			return launch_ivf_metric<Metric::kCosine>(kernel, args, stream);
		case Metric::kL1:
			return launch_ivf_metric<Metric::kL1>(kernel, args, stream);
		default:
			return cudaErrorInvalidValue;
	}
}

} // namespace

cudaError_t
launch_ivf_minima(const IvfScanArgs &args, cudaStream_t stream)
{
	return launch_ivf(IvfKernel::kMinima, args, stream);
}

cudaError_t
launch_ivf_thresholds(const IvfScanArgs &args, cudaStream_t stream)
{
	return launch_ivf(IvfKernel::kThresholds, args, stream);
}

cudaError_t
launch_ivf_scan_queries(const IvfScanArgs &args, cudaStream_t stream)
{
	return launch_ivf(IvfKernel::kScanQueries, args, stream);
}

cudaError_t
launch_ivf_scan_lists(const IvfScanArgs &args, cudaStream_t stream)
{
	return launch_ivf(IvfKernel::kScanLists, args, stream);
}

cudaError_t
launch_ivf_count_live(
	const uint64_t *offsets, uint32_t n_lists, const Rows &rows, uint32_t *n_pass, cudaStream_t stream)
{
	constexpr uint32_t kWarps = kThreads / 32;

	if (const cudaError_t error = cudaMemsetAsync(n_pass + n_lists, 0, sizeof(uint32_t), stream);
		error != cudaSuccess || n_lists == 0)
		return error;
	count_live_kernel<<<(n_lists + kWarps - 1) / kWarps, kThreads, 0, stream>>>(offsets, n_lists, rows, n_pass);
	return cudaGetLastError();
}

cudaError_t
launch_ivf_cut(const IvfProbes &probes, const IvfCut &cut, uint32_t n_queries, uint32_t *counts, uint8_t *redo,
	cudaStream_t stream)
{
	if (n_queries == 0)
		return cudaSuccess;
	cut_kernel<<<n_queries, kCutThreads, 0, stream>>>(probes, cut, counts, redo);
	return cudaGetLastError();
}

cudaError_t
launch_ivf_skip(const uint8_t *redo, uint32_t n_queries, uint32_t *counts, cudaStream_t stream)
{
	if (n_queries == 0)
		return cudaSuccess;
	skip_kernel<<<blocks_for(n_queries), kThreads, 0, stream>>>(redo, n_queries, counts);
	return cudaGetLastError();
}

cudaError_t
launch_ivf_plan(const IvfProbes &probes, uint32_t n_queries, const IvfPlan &plan, cudaStream_t stream)
{
	const uint64_t n = static_cast<uint64_t>(n_queries) * probes.stride;

	if (n == 0)
		return cudaSuccess;
	count_kernel<<<blocks_for(n), kThreads, 0, stream>>>(probes, n_queries, plan);
	firsts_kernel<<<1, kScanThreads, 0, stream>>>(probes, plan);
	fill_kernel<<<blocks_for(n), kThreads, 0, stream>>>(probes, n_queries, plan);
	return cudaGetLastError();
}

cudaError_t
launch_ivf_row_ids(
	const uint64_t *by_number, const uint32_t *numbers, uint32_t n_rows, uint64_t *by_place, cudaStream_t stream)
{
	if (n_rows == 0)
		return cudaSuccess;
	row_ids_kernel<<<blocks_for(n_rows), kThreads, 0, stream>>>(by_number, numbers, n_rows, by_place);
	return cudaGetLastError();
}

cudaError_t
launch_ivf_bits(
	const uint8_t *by_number, const uint32_t *numbers, uint32_t n_rows, uint8_t *by_place, cudaStream_t stream)
{
	if (n_rows == 0)
		return cudaSuccess;
	bits_kernel<<<blocks_for((n_rows + 7) / 8), kThreads, 0, stream>>>(by_number, numbers, n_rows, by_place);
	return cudaGetLastError();
}

cudaError_t
launch_ivf_bits_back(const uint8_t *by_place, const uint32_t *numbers, uint32_t n_rows, uint32_t first, uint32_t n,
	uint32_t *by_number, cudaStream_t stream)
{
	if (n == 0 || n_rows == 0)
		return cudaSuccess;
	if (const cudaError_t error = cudaMemsetAsync(by_number, 0, (n + size_t{31}) / 32 * sizeof(uint32_t), stream);
		error != cudaSuccess)
		return error;
	bits_back_kernel<<<blocks_for(n_rows), kThreads, 0, stream>>>(by_place, numbers, n_rows, first, n, by_number);
	return cudaGetLastError();
}

cudaError_t
launch_ivf_places(
	const uint32_t *numbers, uint32_t n_rows, uint32_t first, uint32_t n, uint32_t *places, cudaStream_t stream)
{
	if (n == 0 || n_rows == 0)
		return cudaSuccess;
	places_kernel<<<blocks_for(n_rows), kThreads, 0, stream>>>(numbers, n_rows, first, n, places);
	return cudaGetLastError();
}

cudaError_t
launch_ivf_iota(uint64_t *ids, uint32_t n, cudaStream_t stream)
{
	if (n == 0)
		return cudaSuccess;
	iota_kernel<<<blocks_for(n), kThreads, 0, stream>>>(ids, n);
	return cudaGetLastError();
}

} // namespace vectorgpu::kernels
