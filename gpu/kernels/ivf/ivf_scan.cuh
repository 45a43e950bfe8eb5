// Scans of inverted lists, instantiated per metric by ivf_scan_<metric>.cu. Scores are canonical, so nothing is
// rescored.
#pragma once

#include "kernels/select/kth.cuh"
#include "kernels/canonical/canonical.cuh"
#include "kernels/ivf/ivf.hpp"

namespace vectorgpu::kernels
{

constexpr int kIvfThreads = 256;
constexpr int kIvfWarps = kIvfThreads / 32;
constexpr uint32_t kIvfChunkRows = 32; // a warp's rows at a time

/// Shared memory of for_each_chunk: kIvfThreads of a query's lists. The sums come first and fill whole units of 16
/// bytes: loads of several of them at once must not reach into data that other threads write meanwhile.
struct alignas(16) IvfSlots
{
	uint32_t warp_sums[kIvfWarps];
	uint32_t first[kIvfThreads];
	uint32_t end[kIvfThreads];
	uint32_t chunk_first[kIvfThreads + 1];
};

/// Call visit(first place, end of the list, number of the chunk) for every n_warps-th chunk of 32 rows of the lists
/// that the query looks at, in the order of the lists, until chunk `most`. All threads of the block call it. Returns
/// the number of chunks, or a number that is at least `most`.
template <class Visit>
__device__ __forceinline__ uint32_t
for_each_chunk(const IvfProbes &probes, uint32_t query, uint32_t warp, uint32_t n_warps, uint32_t most, IvfSlots *slots,
	const Visit &visit)
{
	const Entry *ranked = probes.ranked + static_cast<size_t>(query) * probes.stride;
	const uint32_t n_probes = probes.counts[query];
	const uint32_t lane = threadIdx.x % 32;
	uint32_t before = 0; // chunks of the lists before
	uint32_t next = warp;

	for (uint32_t base = 0; base < n_probes && before < most; base += kIvfThreads)
	{
		const uint32_t slot = base + threadIdx.x;
		uint32_t first = 0;
		uint32_t end = 0;

		if (slot < n_probes)
		{
			const uint64_t list = ranked[slot].row;

			first = static_cast<uint32_t>(probes.offsets[list]);
			end = static_cast<uint32_t>(probes.offsets[list + 1]);
		}

		const uint32_t n_chunks = (end - first + kIvfChunkRows - 1) / kIvfChunkRows;
		uint32_t sum = n_chunks;

#pragma unroll
		for (int offset = 1; offset < 32; offset *= 2)
		{
			const uint32_t other = __shfl_up_sync(0xFFFFFFFFu, sum, offset);

			if (static_cast<int>(lane) >= offset)
				sum += other;
		}
		__syncthreads(); // the last round has been read
		if (lane == 31)
			slots->warp_sums[threadIdx.x / 32] = sum;
		__syncthreads();
		for (uint32_t w = 0; w < threadIdx.x / 32; w++)
			sum += slots->warp_sums[w];
		slots->first[threadIdx.x] = first;
		slots->end[threadIdx.x] = end;
		slots->chunk_first[threadIdx.x + 1] = sum;
		if (threadIdx.x == 0)
			slots->chunk_first[0] = 0;
		__syncthreads();

		const uint32_t total = slots->chunk_first[kIvfThreads];

		for (; next < min(before + total, most); next += n_warps)
		{
			const uint32_t chunk = next - before;
			uint32_t low = 0; // the last slot whose first chunk is not behind `chunk`
			uint32_t high = kIvfThreads;

			while (high - low > 1)
			{
				const uint32_t middle = (low + high) / 2;

				if (slots->chunk_first[middle] <= chunk)
					low = middle;
				else
					high = middle;
			}
			visit(slots->first[low] + (chunk - slots->chunk_first[low]) * kIvfChunkRows, slots->end[low], next);
		}
		before += total;
	}
	return before;
}

/// Key of place `first + lane` for the query, kExcludedKey if it does not count.
template <Metric metric, class FormT>
__device__ __forceinline__ uint64_t
ivf_chunk_key(
	const IvfScanArgs &args, uint32_t query, const float *vector, float aa, uint32_t first, uint32_t end, uint32_t lane)
{
	const char *block = static_cast<const char *>(args.rows.vectors);
	const double score = score_pairs<metric, FormT, 32, 1>([&](int r)
		{ return block + static_cast<size_t>(min(first + r, end - 1)) * args.rows.pitch_bytes; }, vector, 1,
		args.queries.dim_pad, aa, lane);
	const uint32_t place = first + lane;

	return place >= end || row_is_dead(args.rows, place)
		? kExcludedKey
		: key_after(score, args.queries, query, args.rows.row_ids, place);
}

constexpr uint32_t kIvfGroupsPerChunk = kIvfChunkRows / kIvfGroupRows;

/// Call put(group, smallest key) for the first n_groups groups of the query's rows that have rows: the part of warp
/// `warp` of n_warps. Returns how many have rows.
template <Metric metric, class FormT, class Put>
__device__ __forceinline__ uint32_t
ivf_sample(const IvfScanArgs &args, uint32_t query, uint32_t warp, uint32_t n_warps, IvfSlots *slots, const Put &put)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t dim_pad = args.queries.dim_pad;
	const float *vector = static_cast<const float *>(args.queries.vectors) + static_cast<size_t>(query) * dim_pad;
	float aa = 0.0f;

	if constexpr (metric == Metric::kCosine)
		aa = query_square_sum(vector, dim_pad, lane);

	const uint32_t n_chunks = for_each_chunk(args.probes, query, warp, n_warps, args.n_groups / kIvfGroupsPerChunk,
		slots,
		[&](uint32_t first, uint32_t end, uint32_t chunk)
		{
			uint64_t key = ivf_chunk_key<metric, FormT>(args, query, vector, aa, first, end, lane);

			key = key == kNanKey ? kExcludedKey : key;
#pragma unroll
			for (int width = kIvfGroupRows / 2; width >= 1; width /= 2)
				key = min(key,
					static_cast<uint64_t>(__shfl_xor_sync(0xFFFFFFFFu, static_cast<unsigned long long>(key), width)));
			if (lane % kIvfGroupRows == 0)
				put(chunk * kIvfGroupsPerChunk + lane / kIvfGroupRows, key);
		});

	return min(n_chunks * kIvfGroupsPerChunk, args.n_groups);
}

/// Grid (blocks, n_queries), block 256.
template <Metric metric, class FormT>
__global__ void __launch_bounds__(kIvfThreads)
ivf_minima_kernel(const IvfScanArgs args)
{
	__shared__ IvfSlots slots;
	uint64_t *minima = args.minima + static_cast<size_t>(blockIdx.y) * kMaxGroups;
	const uint32_t n_groups = ivf_sample<metric, FormT>(args, blockIdx.y, blockIdx.x * kIvfWarps + threadIdx.x / 32,
		gridDim.x * kIvfWarps, &slots, [&](uint32_t group, uint64_t key) { minima[group] = key; });

	if (blockIdx.x == 0)
		for (uint32_t i = n_groups + threadIdx.x; i < args.n_groups; i += kIvfThreads)
			minima[i] = kExcludedKey;
}

/// Grid n_queries, block 256. As thresholds_kernel.
template <Metric metric, class FormT>
__global__ void __launch_bounds__(kIvfThreads)
ivf_thresholds_kernel(const IvfScanArgs args)
{
	__shared__ IvfSlots slots;
	__shared__ RadixScratch scratch;
	__shared__ uint32_t high[kIvfMostSampled];
	const uint32_t query = blockIdx.x;
	const uint32_t k = args.queries.k[query];
	uint64_t threshold = kNanKey;
	const uint32_t n_groups = ivf_sample<metric, FormT>(args, query, threadIdx.x / 32, kIvfWarps, &slots,
		[&](uint32_t group, uint64_t key) { high[group] = static_cast<uint32_t>(key >> 32); });

	__syncthreads();
	if (k <= n_groups)
	{
		const uint32_t kth = block_kth_smallest([&](uint32_t i) { return high[i]; }, n_groups, k, &scratch);

		threshold = min(threshold, (static_cast<uint64_t>(kth) << 32) | 0xFFFFFFFFu);
	}
	if (threadIdx.x == 0)
	{
		if (args.best.counts[query] >= k)
			threshold = min(threshold, args.best.entries[static_cast<size_t>(query) * args.best.stride + k - 1].key);
		args.thresholds[query] = threshold;
		args.candidates.counts[query] = 0;
	}
}

/// Append places whose key passes. `taken` may be set in any of the warp's threads; all call it with candidates of one
/// query.
__device__ __forceinline__ void
ivf_append(const Candidates &candidates, uint32_t query, bool taken, uint64_t key, uint32_t place, uint32_t lane)
{
	const uint32_t ballot = __ballot_sync(0xFFFFFFFFu, taken);
	uint32_t at = 0;

	if (ballot == 0)
		return;
	if (lane == 0)
		at = atomicAdd(&candidates.counts[query], static_cast<uint32_t>(__popc(ballot)));
	at = __shfl_sync(0xFFFFFFFFu, at, 0) + __popc(ballot & ((1u << lane) - 1));
	if (taken && at < candidates.capacity)
	{
		candidates.keys[static_cast<size_t>(query) * candidates.capacity + at] = key;
		candidates.rows[static_cast<size_t>(query) * candidates.capacity + at] = place;
	}
}

/// Grid (blocks, n_queries), block 256.
template <Metric metric, class FormT>
__global__ void __launch_bounds__(kIvfThreads)
ivf_scan_queries_kernel(const IvfScanArgs args)
{
	__shared__ IvfSlots slots;
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = blockIdx.x * kIvfWarps + threadIdx.x / 32;
	const uint32_t query = blockIdx.y;
	const uint32_t dim_pad = args.queries.dim_pad;
	const float *vector = static_cast<const float *>(args.queries.vectors) + static_cast<size_t>(query) * dim_pad;
	const uint64_t threshold = args.thresholds[query];
	float aa = 0.0f;

	if constexpr (metric == Metric::kCosine)
		aa = query_square_sum(vector, dim_pad, lane);
	for_each_chunk(args.probes, query, warp, gridDim.x * kIvfWarps, 0xFFFFFFFFu, &slots,
		[&](uint32_t first, uint32_t end, uint32_t)
		{
			const uint32_t place = first + lane;

			if (first + kIvfChunkRows <= args.first_place || first >= args.end_place)
				return;

			const uint64_t key = ivf_chunk_key<metric, FormT>(args, query, vector, aa, first, end, lane);

			ivf_append(args.candidates, query,
				key <= threshold && key < kNanKey && place >= args.first_place && place < args.end_place, key, place,
				lane);
		});
}

/// Scores of n_queries queries of a list, at most Q, by the places [first, end) of a tile: Q * R = 32 scores at a time,
/// so fewer queries take more rows, and no score is computed for an absent query.
template <Metric metric, class FormT, int Q>
__device__ __forceinline__ void
ivf_scan_tile(
	const IvfScanArgs &args, const uint32_t *numbers, uint32_t n_queries, uint32_t first, uint32_t end, uint32_t lane)
{
	constexpr int R = 32 / Q;
	const uint32_t dim_pad = args.queries.dim_pad;
	const float *vectors = static_cast<const float *>(args.queries.vectors);
	const char *block = static_cast<const char *>(args.rows.vectors);
	const bool used = lane % Q < n_queries;
	const uint32_t query = numbers[used ? lane % Q : n_queries - 1];
	const uint64_t threshold = args.thresholds[query];
	const float *query_vectors[Q];
	float aa = 0.0f;

#pragma unroll
	for (int q = 0; q < Q; q++)
		query_vectors[q] = vectors + static_cast<size_t>(__shfl_sync(0xFFFFFFFFu, query, q)) * dim_pad;
	if constexpr (metric == Metric::kCosine)
	{
#pragma unroll
		for (int q = 0; q < Q; q++)
		{
			const float sum = query_square_sum(query_vectors[q], dim_pad, lane);

			aa = q == static_cast<int>(lane % Q) ? sum : aa;
		}
	}
	for (uint32_t base = first; base < end; base += R)
	{
		const double score = score_pairs_at<metric, FormT, R, Q>([&](int r)
			{ return block + static_cast<size_t>(min(base + r, end - 1)) * args.rows.pitch_bytes; },
			[&](int q) { return query_vectors[q]; }, dim_pad, aa, lane);
		const uint32_t place = base + lane / Q;

		if (!used || place >= end || device_score_to_key(score) > threshold || row_is_dead(args.rows, place))
			continue;

		const uint64_t key = key_after(score, args.queries, query, args.rows.row_ids, place);

		if (key > threshold || key >= kNanKey)
			continue;

		const uint32_t at = atomicAdd(&args.candidates.counts[query], 1u);

		if (at < args.candidates.capacity)
		{
			args.candidates.keys[static_cast<size_t>(query) * args.candidates.capacity + at] = key;
			args.candidates.rows[static_cast<size_t>(query) * args.candidates.capacity + at] = place;
		}
	}
}

/// Any grid, block 256: each warp takes the next tile, up to 8 queries of a list by up to 256 of its rows.
template <Metric metric, class FormT>
__global__ void __launch_bounds__(kIvfThreads)
ivf_scan_lists_kernel(const IvfScanArgs args)
{
	constexpr uint32_t Q = kIvfQueriesPerTile;
	const uint32_t lane = threadIdx.x % 32;
	const IvfPlan &plan = args.plan;
	const uint32_t n_tiles = plan.tile_firsts[args.probes.n_lists];

	for (;;)
	{
		uint32_t tile = 0;

		if (lane == 0)
			tile = atomicAdd(plan.next_tile, 1u);
		tile = __shfl_sync(0xFFFFFFFFu, tile, 0);
		if (tile >= n_tiles)
			return;

		uint32_t list = 0; // the last whose first tile is not behind `tile`
		uint32_t high = args.probes.n_lists;

		while (high - list > 1)
		{
			const uint32_t middle = (list + high) / 2;

			if (plan.tile_firsts[middle] <= tile)
				list = middle;
			else
				high = middle;
		}

		const uint32_t n_in_list = plan.firsts[list + 1] - plan.firsts[list];
		const uint32_t n_groups = (n_in_list + Q - 1) / Q;
		const uint32_t local = tile - plan.tile_firsts[list];
		const uint32_t group = local % n_groups; // tiles that follow each other share rows
		const uint32_t part = local / n_groups;
		const uint32_t n_queries = min(Q, n_in_list - group * Q);
		const uint32_t *numbers = plan.queries + plan.firsts[list] + group * Q;
		const uint32_t first = static_cast<uint32_t>(args.probes.offsets[list]) + part * kIvfRowsPerTile;
		const uint32_t end = min(static_cast<uint32_t>(args.probes.offsets[list + 1]), first + kIvfRowsPerTile);

		if (n_queries == 1)
			ivf_scan_tile<metric, FormT, 1>(args, numbers, n_queries, first, end, lane);
		else if (n_queries == 2)
			ivf_scan_tile<metric, FormT, 2>(args, numbers, n_queries, first, end, lane);
		else if (n_queries <= 4)
			ivf_scan_tile<metric, FormT, 4>(args, numbers, n_queries, first, end, lane);
		else
			ivf_scan_tile<metric, FormT, 8>(args, numbers, n_queries, first, end, lane);
	}
}

enum class IvfKernel : uint8_t
{
	kMinima,
	kThresholds,
	kScanQueries,
	kScanLists,
};

template <Metric metric, class FormT>
cudaError_t
launch_ivf_form(IvfKernel kernel, const IvfScanArgs &args, cudaStream_t stream)
{
	constexpr uint32_t kFullGrid = 132 * 8; // blocks that keep a large device busy
	const uint32_t n = args.queries.n_queries;

	switch (kernel)
	{
		case IvfKernel::kMinima:
		{
			const uint32_t most =
				(args.n_groups * kIvfGroupRows + kIvfThreads - 1) / kIvfThreads; // a chunk for each warp

			ivf_minima_kernel<metric, FormT>
				<<<dim3(max(1u, min(most, kFullGrid / n)), n), kIvfThreads, 0, stream>>>(args);
			break;
		}
		case IvfKernel::kThresholds:
			ivf_thresholds_kernel<metric, FormT><<<n, kIvfThreads, 0, stream>>>(args);
			break;
		case IvfKernel::kScanQueries:
		{
			const uint32_t wanted = kFullGrid / n;
			const uint32_t most = (args.rows.n_rows + kIvfThreads - 1) / kIvfThreads;

			ivf_scan_queries_kernel<metric, FormT>
				<<<dim3(max(1u, min(wanted, most)), n), kIvfThreads, 0, stream>>>(args);
			break;
		}
		case IvfKernel::kScanLists:
			ivf_scan_lists_kernel<metric, FormT><<<kFullGrid, kIvfThreads, 0, stream>>>(args);
			break;
	}
	return cudaGetLastError();
}

template <Metric metric>
cudaError_t
launch_ivf_metric(IvfKernel kernel, const IvfScanArgs &args, cudaStream_t stream)
{
	switch (args.rows.form)
	{
		case Form::kFloat32:
			return launch_ivf_form<metric, Float32Form>(kernel, args, stream);
		case Form::kFloat16:
			return launch_ivf_form<metric, Float16Form>(kernel, args, stream);
		case Form::kByte:
			return launch_ivf_form<metric, ByteForm>(kernel, args, stream);
		case Form::kBit:
		case Form::kScaled:
			break;
	}
	return cudaErrorInvalidValue;
}

} // namespace vectorgpu::kernels
