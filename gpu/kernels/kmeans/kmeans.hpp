// Host side of the kernels of k-means: labels, errors, sums. See README.md, "k-means", and kernels.hpp for the rules of
// launchers.
//
// n_clusters centroids and n_rows rows lie in binary32, [.., dim_pad], dim_pad = dim rounded up to 32, zeros beyond
// dim. Products are of halves: (x - shift) * scale rounded to binary16, [.., narrow_pitch(dim)], zeros beyond dim,
// centroids padded to whole tiles.
#pragma once

#include <cuda_fp16.h>

#include "kernels/kernels.hpp"

namespace vectorgpu::kernels
{

constexpr uint32_t kClusterTile = 128;  // rows and centroids of a block's tile
constexpr uint32_t kMostCandidates = 8; // of a row, told apart without scoring all centroids
constexpr uint32_t kAllCandidates = 0;  // number of candidates that stands for all centroids

/// Elements of a narrowed row.
__host__ __device__ constexpr uint32_t
narrow_pitch(uint32_t dim)
{
	return (dim + 63) / 64 * 64;
}

__host__ __device__ constexpr uint32_t
padded_clusters(uint32_t n_clusters)
{
	return (n_clusters + kClusterTile - 1) / kClusterTile * kClusterTile;
}

/// The error of a narrowed vector, in scaled units; each rounded up.
struct NarrowError
{
	float norm;  // of the narrowed vector
	float error; // norm of (narrowed - exact)
};

struct NarrowArgs
{
	const float *vectors = nullptr; // [n, dim_pad]
	const float *shift = nullptr;   // [dim_pad]
	float scale = 1;                // a power of two
	uint32_t n = 0;
	uint32_t dim = 0;
	uint32_t dim_pad = 0;
	__half *narrow = nullptr;      // out [n, narrow_pitch(dim)]
	NarrowError *errors = nullptr; // out [n]; null for centroids
	float *half_norms = nullptr;   // out [n] ½ |exact|², rounded to nearest; centroids only
	// Out: the largest of all, by atomics on non-negative floats; zero before; centroids only.
	NarrowError *largest = nullptr;
	uint32_t *n_not_finite = nullptr; // out: counts vectors with an element that is not finite; zero before; or null
};

/// Narrow rows or centroids. Reproducible.
[[nodiscard]] cudaError_t launch_narrow(const NarrowArgs &args, cudaStream_t stream);

/// A row whose nearest centroid the products do not decide.
struct Doubtful
{
	uint32_t row;
	uint32_t n; // of candidates; kAllCandidates: any centroid may be the nearest
	uint32_t candidates[kMostCandidates];
};

struct AssignArgs
{
	const float *rows = nullptr; // [n_rows, dim_pad]
	const __half *narrow_rows = nullptr;
	const NarrowError *row_errors = nullptr;  // [n_rows]
	const float *centroids = nullptr;         // [n_clusters, dim_pad]
	const __half *narrow_centroids = nullptr; // [padded_clusters(n_clusters), ..]
	const float *half_norms = nullptr;        // [padded_clusters(n_clusters)], infinity beyond the last
	const NarrowError *largest = nullptr;     // of the centroids
	float scale = 1;
	uint32_t n_rows = 0;
	uint32_t n_clusters = 0;
	uint32_t dim = 0;
	uint32_t dim_pad = 0;
	uint32_t *labels = nullptr;   // out [n_rows]
	Doubtful *doubtful = nullptr; // scratch [n_rows]
	// Scratch; zero before. [0] all, [1] those with all candidates, [2] the next to be looked at.
	uint32_t *n_doubtful = nullptr;
};

/// Set labels [n_rows] to the first of the smallest canonical L2 scores (NaN last) of each row against the centroids,
/// whatever the precision of the products. Reproducible.
[[nodiscard]] cudaError_t launch_assign(const AssignArgs &args, cudaStream_t stream);

/// Set scores [n_rows] to the canonical L2 score of each row to the centroid of its label. Reproducible.
[[nodiscard]] cudaError_t launch_label_scores(const AssignArgs &args, float *scores, cudaStream_t stream);

/// Sort rows by (label, number). With temp == nullptr only *temp_bytes is set.
struct GroupArgs
{
	const uint32_t *labels = nullptr;  // [n_rows]
	const uint32_t *numbers = nullptr; // [n_rows] 0, 1, …
	uint32_t *sorted_labels = nullptr; // out [n_rows]
	uint32_t *order = nullptr;         // out [n_rows] rows by label
	uint32_t *first = nullptr;         // out [n_clusters + 1] where each cluster begins in `order`
	uint32_t n_rows = 0;
	uint32_t n_clusters = 0;
	void *temp = nullptr;
	size_t temp_bytes = 0;
};

[[nodiscard]] cudaError_t group_rows(GroupArgs *args, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_numbers(uint32_t *numbers, uint32_t n, cudaStream_t stream);

struct UpdateArgs
{
	const float *rows = nullptr;     // [n_rows, dim_pad]
	const float *errors = nullptr;   // [n_rows]
	const uint32_t *order = nullptr; // [n_rows]
	const uint32_t *first = nullptr; // [n_clusters + 1]
	uint32_t n_clusters = 0;
	uint32_t dim = 0;
	uint32_t dim_pad = 0;
	bool spherical = false;
	double *means = nullptr;      // scratch [n_clusters, dim_pad], spherical only
	float *centroids = nullptr;   // in, out [n_clusters, dim_pad]: means of clusters without rows stay
	double *error_sums = nullptr; // out [n_clusters]
};

/// Compute error_sums of the clusters, in double, in the order of rows. Reproducible.
[[nodiscard]] cudaError_t launch_error_sums(const UpdateArgs &args, cudaStream_t stream);

/// Compute the means of the clusters, in double and in the order of rows, scaled to length 1 if spherical, with the
/// bits of engine/ivf.
[[nodiscard]] cudaError_t launch_means(const UpdateArgs &args, cudaStream_t stream);

/// Set the shared-memory limits; once per device, before any launch.
[[nodiscard]] cudaError_t prepare_cluster_kernels();

} // namespace vectorgpu::kernels
