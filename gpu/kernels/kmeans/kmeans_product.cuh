// The layers of k-means' products below assign_kernel (kmeans_assign.cu): how a block brings vectors as halves to
// shared memory, and how a warp multiplies a chunk of them and keeps the two best centroids of each row.
#pragma once

#include "kernels/kmeans/kmeans.hpp"
#include "kernels/warp_block/mma.cuh"

namespace vectorgpu::kernels
{

constexpr int kAssignThreads = 256;
constexpr int kWarpsM = 4;
constexpr int kWarpsN = 2;
constexpr int kRowTiles = 2;      // of 16 rows, a warp
constexpr int kCentroidTiles = 8; // of 8 centroids, a warp
constexpr int kStages = 3;
constexpr uint32_t kChunkElements = 64; // of a vector, a step
constexpr uint32_t kTileBytes = kClusterTile * kChunkElements * sizeof(__half);
constexpr uint32_t kMostResidentChunks = 4; // up to this many the tile's rows stay in shared memory
constexpr uint32_t kParts = kWarpsN * 4;    // threads that see a row

static_assert(kRowTiles * 16 * kWarpsM == kClusterTile && kCentroidTiles * 8 * kWarpsN == kClusterTile &&
	kParts == kMostCandidates);

/// The rows and centroids of a thread's sums [kRowTiles][kCentroidTiles][4] of a tile.
struct AssignThread
{
	uint32_t lane = threadIdx.x % 32;
	uint32_t warp_m = threadIdx.x / 32 % kWarpsM;
	uint32_t warp_n = threadIdx.x / 32 / kWarpsM;

	/// Row r / 2 of the thread's tiles of rows, its half r % 2.
	__device__ __forceinline__ uint32_t row(int r) const
	{
		return (warp_m * kRowTiles + r / 2) * 16 + r % 2 * 8 + lane / 4;
	}

	__device__ __forceinline__ uint32_t first_centroid(uint32_t tile) const
	{
		return tile * kClusterTile + warp_n * kCentroidTiles * 8 + lane % 4 * 2;
	}
};

/// Start the copy of 64 elements of a tile's vectors. Units of 16 bytes are permuted within a vector's 128, so that
/// fragments are read without bank conflicts. n: number of vectors; beyond the last, the last again.
__device__ __forceinline__ void
load_tile(uint32_t to, const __half *vectors, uint32_t first, uint32_t n, uint32_t pitch, uint32_t chunk)
{
#pragma unroll
	for (int i = threadIdx.x; i < static_cast<int>(kClusterTile * 8); i += kAssignThreads)
	{
		const uint32_t row = i / 8;
		const uint32_t unit = i % 8;

		copy_async_16(to + row * 128 + (unit ^ (row & 7)) * 16,
			vectors + static_cast<size_t>(min(first + row, n - 1)) * pitch + chunk * kChunkElements + unit * 8);
	}
}

/// A block's copies, a chunk of a tile of centroids at a time. kResident: its rows are copied once and stay in shared
/// memory; else they come with each chunk.
template <bool kResident>
struct AssignSteps
{
	static constexpr uint32_t kStageBytes = kResident ? kTileBytes : 2 * kTileBytes; // centroids, then rows

	uint32_t pitch;
	uint32_t n_chunks;
	uint32_t n_tiles;
	uint32_t n_steps;
	uint32_t base; // the stages
	uint32_t resident;

	__device__ __forceinline__ AssignSteps(const AssignArgs &args, const unsigned char *shared)
		: pitch(narrow_pitch(args.dim)), n_chunks(pitch / kChunkElements),
		  n_tiles(padded_clusters(args.n_clusters) / kClusterTile), n_steps(n_tiles * n_chunks),
		  base(shared_address(shared)), resident(base + kStages * kStageBytes)
	{
	}

	__device__ __forceinline__ uint32_t centroids_of(uint32_t step) const
	{
		return base + step % kStages * kStageBytes;
	}

	__device__ __forceinline__ uint32_t rows_of(uint32_t step, uint32_t chunk) const
	{
		return kResident ? resident + chunk * kTileBytes : centroids_of(step) + kTileBytes;
	}

	__device__ __forceinline__ void load(const AssignArgs &args, uint32_t first_row, uint32_t step) const
	{
		if (step < n_steps)
		{
			const uint32_t tile = step / n_chunks;
			const uint32_t chunk = step % n_chunks;

			load_tile(
				centroids_of(step), args.narrow_centroids, tile * kClusterTile, n_tiles * kClusterTile, pitch, chunk);
			if (!kResident || tile == 0)
				load_tile(rows_of(step, chunk), args.narrow_rows, first_row, args.n_rows, pitch, chunk);
		}
		copies_commit();
	}
};

/// Begin the sums of a tile with -½|c|².
__device__ __forceinline__ void
start_products(float (&sums)[kRowTiles][kCentroidTiles][4], const float *half_norms, uint32_t first_centroid)
{
#pragma unroll
	for (int n = 0; n < kCentroidTiles; n++)
	{
		const float2 norm = __ldg(reinterpret_cast<const float2 *>(half_norms + first_centroid + n * 8));

#pragma unroll
		for (int m = 0; m < kRowTiles; m++)
		{
			sums[m][n][0] = sums[m][n][2] = -norm.x;
			sums[m][n][1] = sums[m][n][3] = -norm.y;
		}
	}
}

/// sums += the products of a chunk of rows and centroids in shared memory.
__device__ __forceinline__ void
multiply_chunk(
	float (&sums)[kRowTiles][kCentroidTiles][4], const AssignThread &thread, uint32_t rows, uint32_t centroids)
{
	const uint32_t lane = thread.lane;

#pragma unroll
	for (int k = 0; k < static_cast<int>(kChunkElements / 16); k++)
	{
		uint32_t a[kRowTiles][4];

#pragma unroll
		for (int m = 0; m < kRowTiles; m++)
		{
			const uint32_t row = (thread.warp_m * kRowTiles + m) * 16 + lane % 16;

			load_matrix_x4(a[m], rows + row * 128 + ((k * 2 + lane / 16) ^ (row & 7)) * 16);
		}
#pragma unroll
		for (int n = 0; n < kCentroidTiles; n += 2)
		{
			const uint32_t row = (thread.warp_n * kCentroidTiles + n) * 8 + lane % 8 + lane / 16 * 8;
			uint32_t b[4];

			load_matrix_x4(b, centroids + row * 128 + ((k * 2 + lane / 8 % 2) ^ (row & 7)) * 16);
#pragma unroll
			for (int m = 0; m < kRowTiles; m++)
			{
				multiply<Form::kFloat16>(sums[m][n], a[m], {b[0], b[1]});
				multiply<Form::kFloat16>(sums[m][n + 1], a[m], {b[2], b[3]});
			}
		}
	}
}

/// A thread's results for a row: the largest of x·c - ½|c|², its centroid, and the second largest.
struct Part
{
	float best;
	float second;
	uint32_t at;
};

/// Take the sums of a tile into the results of the thread's rows.
__device__ __forceinline__ void
take_best(Part (&parts)[kRowTiles * 2], const float (&sums)[kRowTiles][kCentroidTiles][4], uint32_t first_centroid)
{
#pragma unroll
	for (int n = 0; n < kCentroidTiles; n++)
#pragma unroll
		for (int e = 0; e < 2; e++)
		{
			const uint32_t at = first_centroid + n * 8 + e;

#pragma unroll
			for (int r = 0; r < kRowTiles * 2; r++)
			{
				const float sum = sums[r / 2][n][r % 2 * 2 + e];
				Part &part = parts[r];

				part.second = fmaxf(part.second, fminf(part.best, sum));
				part.at = sum > part.best ? at : part.at;
				part.best = fmaxf(part.best, sum);
			}
		}
}

} // namespace vectorgpu::kernels
