// Clusters of rows near each other, for the k-NN graph. Internal to the folder.
#pragma once

#include "engine/graph/graph.hpp"

namespace vectorgpu::engine::graph
{

/// The caller's arrays. n: number of clusters wanted; make_clusters lowers it to those that have rows.
struct Clusters
{
	uint32_t n = 0;
	uint32_t *order = nullptr;    // [n_rows] rows, cluster by cluster, ascending within one
	uint32_t *first_of = nullptr; // [n + 1] into order
	float *centroids = nullptr;   // [n, cluster_dim()]
};

/// Bytes of make_clusters' work memory.
size_t make_clusters_bytes(const GraphRows &rows, uint32_t n_clusters, size_t n_threads);

/// Train k-means (engine/ivf) on a sample, then assign every row to its nearest centroid.
Outcome make_clusters(
	const GraphRows &rows, uint64_t seed, Clusters *clusters, void *work, size_t work_bytes, const Call &call);

} // namespace vectorgpu::engine::graph
