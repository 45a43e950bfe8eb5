// Comparison of rows with the rows of clusters near them, for the k-NN graph. Internal to the folder.
#pragma once

#include "engine/graph/knn_clusters.hpp"
#include "engine/graph/knn_graph.hpp"

namespace vectorgpu::engine::graph
{

/// Bytes of the work memory of compare_all (n_clusters 1) and compare_near.
size_t compare_bytes(const GraphRows &rows, uint32_t n_clusters, size_t n_threads);

/// Insert into every row's list its nearest rows of all. order [n_rows]: all rows.
Outcome compare_all(const GraphRows &rows, const uint32_t *order, const KnnLists &lists, void *work, size_t work_bytes,
	const Call &call);

/// Insert into every row's list its nearest rows of the clusters near it, about spec.n_compared rows. aside: bitmap of
/// the rows that go into no list. Work memory for clusters.n clusters or more.
Outcome compare_near(const GraphRows &rows, const KnnSpec &spec, const Clusters &clusters, const uint8_t *aside,
	const KnnLists &lists, void *work, size_t work_bytes, const Call &call);

} // namespace vectorgpu::engine::graph
