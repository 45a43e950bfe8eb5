// Labels of k-means and of rows put into lists: products of halves on tensor cores with the two best of each thread
// kept in registers, so no matrix of n_rows x n_clusters exists. Where the products' error leaves the label open,
// canonical scores decide. See README.md, "k-means".
#include <cfloat>

#include "kernels/canonical/canonical.cuh"
#include "kernels/kmeans/kmeans.hpp"

namespace vectorgpu::kernels
{
namespace
{

constexpr int kThreads = 256;
constexpr int kWarpsM = 4;
constexpr int kWarpsN = 2;
constexpr int MT = 2; // of 16 rows, a warp
constexpr int NT = 8; // of 8 centroids, a warp
constexpr int kStages = 3;
constexpr uint32_t kChunkElements = 64; // of a vector, a step
constexpr uint32_t kTileBytes = kClusterTile * kChunkElements * sizeof(__half);
constexpr uint32_t kMostResidentChunks = 4; // up to this many the tile's rows stay in shared memory
constexpr uint32_t kParts = kWarpsN * 4;    // threads that see a row
constexpr float kMostHalf = 65504.0f;

static_assert(MT * 16 * kWarpsM == kClusterTile && NT * 8 * kWarpsN == kClusterTile && kParts == kMostCandidates);

__device__ __forceinline__ uint32_t
shared_address(const void *p)
{
	return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void
copy_16(uint32_t to, const void *from)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void
load_fragments(uint32_t (&r)[4], uint32_t address)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		: "r"(address)
		: "memory");
}

__device__ __forceinline__ void
multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
	asm volatile(
		"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Start the copy of 64 elements of a tile's vectors. Units of 16 bytes are permuted within a vector's 128, so that
/// fragments are read without bank conflicts. n: number of vectors; beyond the last, the last again.
__device__ __forceinline__ void
load_tile(uint32_t to, const __half *vectors, uint32_t first, uint32_t n, uint32_t pitch, uint32_t chunk)
{
#pragma unroll
	for (int i = threadIdx.x; i < static_cast<int>(kClusterTile * 8); i += kThreads)
	{
		const uint32_t row = i / 8;
		const uint32_t unit = i % 8;

		copy_16(to + row * 128 + (unit ^ (row & 7)) * 16,
			vectors + static_cast<size_t>(min(first + row, n - 1)) * pitch + chunk * kChunkElements + unit * 8);
	}
}

/// A thread's results for a row: the largest of x·c - ½|c|², its centroid, and the second largest.
struct Part
{
	float best;
	float second;
	uint32_t at;
};

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

/// Grid ceil(n_rows / 128), block 256, shared: see shared_bytes. kResident: the tile's rows stay in shared memory.
template <bool kResident>
__global__ void __launch_bounds__(kThreads, 2)
assign_kernel(const AssignArgs args)
{
	extern __shared__ __align__(128) unsigned char shared[];
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp_m = threadIdx.x / 32 % kWarpsM;
	const uint32_t warp_n = threadIdx.x / 32 / kWarpsM;
	const uint32_t first_row = blockIdx.x * kClusterTile;
	const uint32_t pitch = narrow_pitch(args.dim);
	const uint32_t n_chunks = pitch / kChunkElements;
	const uint32_t n_tiles = padded_clusters(args.n_clusters) / kClusterTile;
	const uint32_t n_steps = n_tiles * n_chunks;
	const uint32_t base = shared_address(shared);
	constexpr uint32_t kStageBytes = kResident ? kTileBytes : 2 * kTileBytes; // centroids, then rows
	const uint32_t resident = base + kStages * kStageBytes;

	auto load_step = [&](uint32_t step)
	{
		if (step < n_steps)
		{
			const uint32_t tile = step / n_chunks;
			const uint32_t chunk = step % n_chunks;
			const uint32_t stage = base + step % kStages * kStageBytes;

			load_tile(stage, args.narrow_centroids, tile * kClusterTile, n_tiles * kClusterTile, pitch, chunk);
			if constexpr (!kResident)
				load_tile(stage + kTileBytes, args.narrow_rows, first_row, args.n_rows, pitch, chunk);
			else if (tile == 0)
				load_tile(resident + chunk * kTileBytes, args.narrow_rows, first_row, args.n_rows, pitch, chunk);
		}
		asm volatile("cp.async.commit_group;" ::: "memory");
	};

	Part parts[MT * 2];
	float sums[MT][NT][4];

#pragma unroll
	for (Part &part : parts)
		part = {-__int_as_float(0x7F800000), -__int_as_float(0x7F800000), 0};
#pragma unroll
	for (int i = 0; i < kStages - 1; i++)
		load_step(i);

	uint32_t chunk = 0;
	uint32_t tile = 0;

	for (uint32_t step = 0; step < n_steps; step++)
	{
		asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
		__syncthreads(); // the stage is there for all, and all have left the one that is loaded now
		load_step(step + kStages - 1);

		const uint32_t column = tile * kClusterTile + warp_n * NT * 8 + lane % 4 * 2;

		if (chunk == 0)
		{
#pragma unroll
			for (int n = 0; n < NT; n++)
			{
				const float2 norm = __ldg(reinterpret_cast<const float2 *>(args.half_norms + column + n * 8));

#pragma unroll
				for (int m = 0; m < MT; m++)
				{
					sums[m][n][0] = sums[m][n][2] = -norm.x;
					sums[m][n][1] = sums[m][n][3] = -norm.y;
				}
			}
		}

		const uint32_t b_tile = base + step % kStages * kStageBytes;
		const uint32_t a_tile = kResident ? resident + chunk * kTileBytes : b_tile + kTileBytes;

#pragma unroll
		for (int k = 0; k < static_cast<int>(kChunkElements / 16); k++)
		{
			uint32_t a[MT][4];

#pragma unroll
			for (int m = 0; m < MT; m++)
			{
				const uint32_t row = (warp_m * MT + m) * 16 + lane % 16;

				load_fragments(a[m], a_tile + row * 128 + ((k * 2 + lane / 16) ^ (row & 7)) * 16);
			}
#pragma unroll
			for (int n = 0; n < NT; n += 2)
			{
				const uint32_t row = (warp_n * NT + n) * 8 + lane % 8 + lane / 16 * 8;
				uint32_t b[4];

				load_fragments(b, b_tile + row * 128 + ((k * 2 + lane / 8 % 2) ^ (row & 7)) * 16);
#pragma unroll
				for (int m = 0; m < MT; m++)
				{
					multiply(sums[m][n], a[m], b[0], b[1]);
					multiply(sums[m][n + 1], a[m], b[2], b[3]);
				}
			}
		}
		if (++chunk < n_chunks)
			continue;
		chunk = 0;
		tile++;
#pragma unroll
		for (int n = 0; n < NT; n++)
#pragma unroll
			for (int e = 0; e < 2; e++)
			{
				const uint32_t at = column + n * 8 + e;

#pragma unroll
				for (int r = 0; r < MT * 2; r++)
				{
					const float sum = sums[r / 2][n][r % 2 * 2 + e];
					Part &part = parts[r];

					part.second = fmaxf(part.second, fminf(part.best, sum));
					part.at = sum > part.best ? at : part.at;
					part.best = fmaxf(part.best, sum);
				}
			}
	}

	asm volatile("cp.async.wait_group 0;" ::: "memory");
	__syncthreads();

	Part(*found)[kParts + 1] = reinterpret_cast<Part(*)[kParts + 1]>(shared); // one more against bank conflicts

#pragma unroll
	for (int r = 0; r < MT * 2; r++)
		found[(warp_m * MT + r / 2) * 16 + r % 2 * 8 + lane / 4][warp_n * 4 + lane % 4] = parts[r];
	__syncthreads();

	const uint32_t row = first_row + threadIdx.x;

	if (threadIdx.x >= kClusterTile || row >= args.n_rows)
		return;

	const Part(&own)[kParts + 1] = found[threadIdx.x];
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

__device__ __forceinline__ double
warp_sum(double value)
{
#pragma unroll
	for (int width = 16; width >= 1; width /= 2)
		value += __shfl_xor_sync(0xFFFFFFFFu, value, width);
	return value;
}

/// A float not below the number; NaN stays.
__device__ __forceinline__ float
rounded_up(double value)
{
	return __double2float_ru(value * (1 + 0x1p-40));
}

/// Grid ceil(n / 8), block 256: a warp takes a vector.
__global__ void __launch_bounds__(kThreads)
narrow_kernel(const NarrowArgs args)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t i = blockIdx.x * (kThreads / 32) + threadIdx.x / 32;
	const uint32_t pitch = narrow_pitch(args.dim);
	double norm = 0;
	double error = 0;
	double exact_norm = 0;

	if (i >= args.n)
		return;

	const float *vector = args.vectors + static_cast<size_t>(i) * args.dim_pad;
	__half *narrow = args.narrow + static_cast<size_t>(i) * pitch;

	for (uint32_t e = lane; e < pitch; e += 32)
	{
		const double exact = e < args.dim
			? (static_cast<double>(__ldg(vector + e)) - static_cast<double>(__ldg(args.shift + e))) *
				static_cast<double>(args.scale)
			: 0.0;
		const float rounded = static_cast<float>(exact);
		const __half half = __float2half_rn(rounded > kMostHalf ? kMostHalf
				: rounded < -kMostHalf                          ? -kMostHalf
																: rounded);
		const double kept = static_cast<double>(__half2float(half));

		narrow[e] = half;
		norm += kept * kept;
		error += (kept - exact) * (kept - exact);
		exact_norm += exact * exact;
	}
	norm = warp_sum(norm);
	error = warp_sum(error);
	exact_norm = warp_sum(exact_norm);
	if (lane != 0)
		return;

	const NarrowError found = {rounded_up(sqrt(norm)), rounded_up(sqrt(error))};

	if (args.n_not_finite != nullptr && !isfinite(exact_norm)) // binary64 has room for the squares of floats
		atomicAdd(args.n_not_finite, 1u);
	if (args.errors != nullptr)
		args.errors[i] = found;
	if (args.half_norms != nullptr)
		args.half_norms[i] = static_cast<float>(exact_norm / 2);
	if (args.largest != nullptr)
	{
		// Non-negative floats order as their bits do as integers, with NaN above all.
		atomicMax(reinterpret_cast<uint32_t *>(&args.largest->norm), __float_as_uint(found.norm) & 0x7FFFFFFFu);
		atomicMax(reinterpret_cast<uint32_t *>(&args.largest->error), __float_as_uint(found.error) & 0x7FFFFFFFu);
	}
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
launch_narrow(const NarrowArgs &args, cudaStream_t stream)
{
	constexpr uint32_t kEach = kThreads / 32;

	if (args.n == 0)
		return cudaSuccess;
	narrow_kernel<<<(args.n + kEach - 1) / kEach, kThreads, 0, stream>>>(args);
	return cudaGetLastError();
}

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
