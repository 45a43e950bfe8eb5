// Labels of k-means and of rows put into lists: products of halves on tensor cores with the two best of each thread
// kept in registers, so no matrix of n_rows x n_clusters exists. Where the products' error leaves the label open,
// canonical scores decide. See README.md, "k-means".
#include "kernels/canonical/canonical.cuh"
#include "kernels/kmeans/kmeans_product.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr int kThreads = kAssignThreads;

/// The least x·c - ½|c|² that a centroid may have and still be the canonical nearest, if the largest computed is
/// `best`: README.md, "k-means". -infinity or NaN if the bound does not hold.
__device__ double
least_of_interest(const AssignArgs &args, const NarrowError &row, float best)
{
	constexpr double u = 0x1p-24;
	const double dim = narrow_pitch(args.dim);
	const double x = row.norm;
	const double c =
		static_cast<double>(args.largest->norm) + static_cast<double>(args.largest->error); // at least |c| exactly
	const double product = x * static_cast<double>(args.largest->error) + static_cast<double>(row.error) * c;
	const double sums = (dim + 32) * 4 * u * x * c + ((dim / 16 + 2) * 8 * u + 4 * u) * (c * c + x * c);
	const double error = (product + sums) * (1 + 0x1p-40);
	const double exact = x + static_cast<double>(row.error);
	const double nearest =
		fmax(exact * exact * (1 + 0x1p-40) - 2 * (static_cast<double>(best) - error), 0.0); // |x - c|² of the best
	const double roundings = (args.dim_pad / 32 + 8) * u;
	const double scale = args.scale;
	const double underflow = (4.0 * args.dim + 32) * 0x1p-126 * scale * scale;

	// Beyond 2^60 canonical sums, or these, may overflow.
	if (!(fmax(exact, c) < 0x1p60 * fmin(scale, 1.0)))
		return -1.0 / 0.0;
	return static_cast<double>(best) - 2 * error - 1.1 * (roundings / (1 - roundings)) * nearest - 4 * underflow;
}

/// Decide a row's label from what the threads that saw it have found, or list the row as doubtful.
__device__ __forceinline__ void
label_row(const AssignArgs &args, uint32_t row, const Part (&own)[kParts + 1])
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < kParts; i++)
		if (own[i].best > own[best].best)
			best = i;

	const double limit = least_of_interest(args, args.row_errors[row], own[best].best);
	Doubtful doubtful = {row, 0, {}};
	bool all = !(limit > -1.0 / 0.0);

	for (uint32_t i = 0; i < kParts; i++)
	{
		all = all || !(static_cast<double>(own[i].second) < limit);
		if (!(static_cast<double>(own[i].best) < limit))
			doubtful.candidates[doubtful.n++] = own[i].at;
	}
	args.labels[row] = own[best].at;
	if (!all && doubtful.n == 1)
		return;
	if (all)
	{
		doubtful.n = kAllCandidates;
		atomicAdd(&args.n_doubtful[1], 1u);
	}
	args.doubtful[atomicAdd(&args.n_doubtful[0], 1u)] = doubtful;
}

/// Grid ceil(n_rows / 128), block 256, shared: see shared_bytes. kResident: the tile's rows stay in shared memory.
template <bool kResident>
__global__ void __launch_bounds__(kThreads, 2)
assign_kernel(const AssignArgs args)
{
	extern __shared__ __align__(128) unsigned char shared[];
	const AssignThread thread;
	const uint32_t first_row = blockIdx.x * kClusterTile;
	const AssignSteps<kResident> steps(args, shared);
	Part parts[kRowTiles * 2];
	float sums[kRowTiles][kCentroidTiles][4];

#pragma unroll
	for (Part &part : parts)
		part = {-__int_as_float(0x7F800000), -__int_as_float(0x7F800000), 0};
#pragma unroll
	for (int i = 0; i < kStages - 1; i++)
		steps.load(args, first_row, i);

	uint32_t chunk = 0;
	uint32_t tile = 0;

	for (uint32_t step = 0; step < steps.n_steps; step++)
	{
		copies_wait<kStages - 2>();
		__syncthreads(); // the stage is there for all, and all have left the one that is loaded now
		steps.load(args, first_row, step + kStages - 1);
		if (chunk == 0)
			start_products(sums, args.half_norms, thread.first_centroid(tile));
		multiply_chunk(sums, thread, steps.rows_of(step, chunk), steps.centroids_of(step));
		if (++chunk < steps.n_chunks)
			continue;
		take_best(parts, sums, thread.first_centroid(tile));
		chunk = 0;
		tile++;
	}
	copies_wait<0>();
	__syncthreads();

	Part(*found)[kParts + 1] = reinterpret_cast<Part(*)[kParts + 1]>(shared); // one more against bank conflicts

#pragma unroll
	for (int r = 0; r < kRowTiles * 2; r++)
		found[thread.row(r)][thread.warp_n * 4 + thread.lane % 4] = parts[r];
	__syncthreads();

	const uint32_t row = first_row + threadIdx.x;

	if (threadIdx.x < kClusterTile && row < args.n_rows)
		label_row(args, row, found[threadIdx.x]);
}

/// The canonical L2 score of one row and one centroid; every lane gets it.
__device__ __forceinline__ double
score_pair(const float *row, const float *centroid, uint32_t dim_pad, uint32_t lane)
{
	float sum = 0.0f;

	for (uint32_t e = lane; e < dim_pad; e += kLanes)
		sum = canonical_step<Metric::kL2>(__ldg(row + e), __ldg(centroid + e), sum);
#pragma unroll
	for (int width = 16; width >= 1; width /= 2)
		sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, width));
	return canonical_score<Metric::kL2>(sum, 0.0f, 0.0f);
}

/// Any grid, block 256: each warp takes the next doubtful row.
__global__ void __launch_bounds__(kThreads)
decide_kernel(const AssignArgs args)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t n = args.n_doubtful[0];

	for (;;)
	{
		uint32_t next = 0;

		if (lane == 0)
			next = atomicAdd(&args.n_doubtful[2], 1u);
		next = __shfl_sync(0xFFFFFFFFu, next, 0);
		if (next >= n)
			return;

		const Doubtful &doubtful = args.doubtful[next];
		const float *row = args.rows + static_cast<size_t>(doubtful.row) * args.dim_pad;
		uint64_t key = kExcludedKey;
		uint32_t label = 0xFFFFFFFFu;

		if (doubtful.n != kAllCandidates)
			for (uint32_t i = 0; i < doubtful.n; i++)
			{
				const uint32_t candidate = doubtful.candidates[i];
				const uint64_t other = device_score_to_key(score_pair(
					row, args.centroids + static_cast<size_t>(candidate) * args.dim_pad, args.dim_pad, lane));

				if (other < key || (other == key && candidate < label))
				{
					key = other;
					label = candidate;
				}
			}
		else
		{
			for (uint32_t first = 0; first < args.n_clusters; first += 32)
			{
				const double score = score_pairs<Metric::kL2, Float32Form, 32, 1>(
					[&](int r)
					{
						return args.centroids + static_cast<size_t>(min(first + r, args.n_clusters - 1)) * args.dim_pad;
					},
					row, 1, args.dim_pad, 0.0f, lane);
				const uint64_t other = device_score_to_key(score);

				if (first + lane < args.n_clusters && other < key) // in ascending order: the first wins ties
				{
					key = other;
					label = first + lane;
				}
			}
#pragma unroll
			for (int width = 16; width >= 1; width /= 2)
			{
				const uint64_t other = __shfl_xor_sync(0xFFFFFFFFu, static_cast<unsigned long long>(key), width);
				const uint32_t other_label = __shfl_xor_sync(0xFFFFFFFFu, label, width);

				if (other < key || (other == key && other_label < label))
				{
					key = other;
					label = other_label;
				}
			}
		}
		if (lane == 0)
			args.labels[doubtful.row] = label;
	}
}

/// Grid ceil(n_rows / 256), block 256: a warp takes 32 rows.
__global__ void __launch_bounds__(kThreads)
label_scores_kernel(const AssignArgs args, float *scores)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t first = (blockIdx.x * kThreads + threadIdx.x) / 32 * 32;
	const uint32_t own = min(first + lane, args.n_rows - 1);
	float sums[32];

	if (first >= args.n_rows)
		return;

	const uint32_t label = args.labels[own];

#pragma unroll
	for (float &sum : sums)
		sum = 0.0f;
	for (uint32_t e = lane; e < args.dim_pad; e += kLanes)
	{
#pragma unroll
		for (int i = 0; i < 32; i++)
		{
			const uint32_t row = min(first + i, args.n_rows - 1);
			const uint32_t centroid = __shfl_sync(0xFFFFFFFFu, label, i);

			sums[i] = canonical_step<Metric::kL2>(__ldg(args.rows + static_cast<size_t>(row) * args.dim_pad + e),
				__ldg(args.centroids + static_cast<size_t>(centroid) * args.dim_pad + e), sums[i]);
		}
	}

	const float sum = reduce_pairs(sums, lane);

	if (first + lane < args.n_rows)
		scores[first + lane] = static_cast<float>(canonical_score<Metric::kL2>(sum, 0.0f, 0.0f));
}

size_t
shared_bytes(uint32_t dim)
{
	const uint32_t n_chunks = narrow_pitch(dim) / kChunkElements;

	return n_chunks <= kMostResidentChunks ? (kStages + n_chunks) * kTileBytes : 2 * kStages * kTileBytes;
}

bool
is_resident(uint32_t dim)
{
	return narrow_pitch(dim) / kChunkElements <= kMostResidentChunks;
}

constexpr uint32_t kDecideBlocks = 132 * 4;

} // namespace

cudaError_t
launch_assign(const AssignArgs &args, cudaStream_t stream)
{
	const uint32_t n_blocks = (args.n_rows + kClusterTile - 1) / kClusterTile;

	if (args.n_rows == 0)
		return cudaSuccess;
	if (is_resident(args.dim))
		assign_kernel<true><<<n_blocks, kThreads, shared_bytes(args.dim), stream>>>(args);
	else
		assign_kernel<false><<<n_blocks, kThreads, shared_bytes(args.dim), stream>>>(args);
	if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
		return error;
	decide_kernel<<<min(kDecideBlocks, (args.n_rows + kThreads / 32 - 1) / (kThreads / 32)), kThreads, 0, stream>>>(
		args);
	return cudaGetLastError();
}

cudaError_t
launch_label_scores(const AssignArgs &args, float *scores, cudaStream_t stream)
{
	if (args.n_rows == 0)
		return cudaSuccess;
	label_scores_kernel<<<(args.n_rows + kThreads - 1) / kThreads, kThreads, 0, stream>>>(args, scores);
	return cudaGetLastError();
}

cudaError_t
prepare_cluster_kernels()
{
	constexpr auto kLimit = cudaFuncAttributeMaxDynamicSharedMemorySize;
	const cudaError_t error = cudaFuncSetAttribute(
		assign_kernel<true>, kLimit, static_cast<int>((kStages + kMostResidentChunks) * kTileBytes));

	return error != cudaSuccess
		? error
		: cudaFuncSetAttribute(assign_kernel<false>, kLimit, static_cast<int>(2 * kStages * kTileBytes));
}

} // namespace vectorgpu::kernels
