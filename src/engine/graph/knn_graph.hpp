// The k-NN graph of rows: the k nearest other rows of each. Exact for few rows; for more, rows are compared with those
// of the clusters near them, and then with the neighbours of their neighbours (NN-descent: Dong, Moses, Li 2011).
#pragma once

#include "engine/graph/graph.hpp"

namespace vectorgpu::engine::graph
{

struct KnnSpec
{
	uint32_t k = 48;            // neighbours of a row
	uint32_t n_compared = 2048; // rows of near clusters that a row is compared with, about
	uint32_t n_refinements = 1; // passes over the neighbours of neighbours
	uint32_t refine_width =
		12; // a pass looks at the first refine_width neighbours of the first refine_width neighbours
	uint32_t exact_rows = 4096; // up to this many rows all pairs are compared
	uint64_t seed = 1;
	// Rows stratified_row(i, n_aside, n_rows) enter the lists of other rows only at the end, when these are as they
	// would be without them: queries of a calibration that the graph must not have seen (hold_out.hpp). NN-descent
	// would otherwise lead their neighbours to each other through them. Ignored where all pairs are compared.
	uint32_t n_aside = 0;
};

/// Neighbours of all rows. ids, scores [n_rows, k]: by (score as float, order found). kNoNode and infinity behind them,
/// if there are fewer than k rows, or rows whose score to all others is NaN or infinite.
struct KnnLists
{
	uint32_t *ids = nullptr;
	float *scores = nullptr;
	uint32_t k = 0;
};

/// Bytes of knn_graph's work memory.
size_t knn_graph_bytes(const GraphRows &rows, const KnnSpec &spec, size_t n_threads = 1);

/// Fill lists->ids and scores, the caller's [n_rows, spec.k]. Deterministic for a seed, whatever the number of call's
/// threads (NN-descent takes one). Clusters are made by engine/ivf.
Outcome knn_graph(
	const GraphRows &rows, const KnnSpec &spec, KnnLists *lists, void *work, size_t work_bytes, const Call &call = {});

/// Dimensions of a row in clustering: its own, but at most kMostClusterBits for a bit string.
constexpr uint32_t kMostClusterBits = 512;

constexpr uint32_t
cluster_dim(const DistanceSpec &spec)
{
	return spec.element == ElementType::kBit && spec.dim > kMostClusterBits ? kMostClusterBits : spec.dim;
}

/// floats [n, cluster_dim()]: the rows `nodes` [n] for clustering; of length 1 for cosine and Jaccard. A bit is 0 or 1,
/// so that squared L2 is the Hamming distance. Each bit of a longer string is added to one of the dimensions, or
/// subtracted from it (feature hashing: Weinberger et al. 2009), which keeps that on average.
void rows_to_floats(const GraphRows &rows, const uint32_t *nodes, size_t n, float *floats);

} // namespace vectorgpu::engine::graph
