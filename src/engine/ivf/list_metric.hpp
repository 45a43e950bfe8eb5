// Rows and queries as inverted lists see them: what centroids are means of, and what lists of a query are ranked by.
// One definition for backends and engines. See README.md, "Metrics". Thread-safe; allocates nothing; never fails.
#pragma once

#include <cstddef>

#include "engine/distance/distance.hpp"
#include "engine/ivf/kmeans.hpp"

namespace vectorgpu::engine::ivf
{

/// What lists of rows of this metric are clusters of: spherical for cosine only.
ClusterKind list_kind(Metric metric);

/// Rows as float32: vectors [n, vector_bytes] of the element, host memory, any alignment; floats [n, rows.dim]. Bits
/// are 0 and 1. Exact, and no change of length (normalise_rows).
void list_floats(const DistanceSpec &rows, const void *vectors, size_t n, float *floats);

/// Scores of centroids [n, rows.dim] float32, `stride` bytes apart, aligned as floats, for a query of list_floats. Of
/// vectors those of the rows' metric (compute_scores); for Hamming distance the squared L2 distance; for Jaccard
/// distance 1 - Σ min(q, c) / Σ max(q, c), which is the Jaccard distance where the centroid is a bit string, and 1
/// where both are empty.
void centroid_scores(const DistanceSpec &rows, const float *query, const void *centroids, size_t stride, size_t n,
	double *scores, ptrdiff_t read_ahead = kReadAheadBytes);

} // namespace vectorgpu::engine::ivf
