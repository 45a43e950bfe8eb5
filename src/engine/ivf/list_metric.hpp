// Rows and queries as inverted lists see them: which vectors centroids are means of, and the scores by which a query
// ranks lists. One definition for backends and engines. See README.md, "Metrics". Thread-safe; allocates nothing; never
// fails.
#pragma once

#include <cstddef>

#include "engine/distance/distance.hpp"
#include "engine/ivf/kmeans.hpp"

namespace vectorgpu::engine::ivf
{

/// The kind of clusters of lists: spherical for cosine only.
ClusterKind list_kind(Metric metric);

/// Convert vectors [n, vector_bytes] of any element type and alignment, host memory, to floats [n, rows.dim]. Bits
/// become 0 and 1. Exact; lengths do not change (normalise_rows).
void list_floats(const DistanceSpec &rows, const void *vectors, size_t n, float *floats);

/// Compute scores [n] of centroids [n, rows.dim] float32, `stride` bytes apart, aligned as floats, for a query of
/// list_floats. For vectors: those of the rows' metric (compute_scores); for Hamming distance: the squared L2 distance;
/// for Jaccard distance: 1 - Σ min(q, c) / Σ max(q, c), which is the Jaccard distance if the centroid is a bit string,
/// and 1 if both are empty.
void centroid_scores(const DistanceSpec &rows, const float *query, const void *centroids, size_t stride, size_t n,
	double *scores, ptrdiff_t read_ahead = kReadAheadBytes);

} // namespace vectorgpu::engine::ivf
