// The k-NN graph of rows: the k nearest other rows of each. Exact for few rows; for more, rows are compared with those
// of the clusters near them, and then with the neighbours of their neighbours (NN-descent: Dong, Moses, Li 2011).
#pragma once

#include "engine/graph/graph.hpp"

namespace vectorgpu::engine::graph
{

struct KnnSpec
{
	uint32_t k = 48;            // neighbours of a row
	uint32_t n_compared = 2048; // rows of clusters that a row is compared with, about
	uint32_t n_refinements = 1; // passes over the neighbours of neighbours
	uint32_t refine_width = 12; // so many first neighbours of so many first neighbours
	uint32_t exact_rows = 4096; // up to so many rows all pairs are compared
	uint64_t seed = 1;
	// Rows that go into the others' lists at the end, when these are what they would be without them: of
	// stratified_row(i, n_aside, n_rows). For rows that a graph is measured with as queries that it has not seen
	// (hold_out.hpp): NN-descent would have led their neighbours to each other through them. Not where all pairs are
	// compared.
	uint32_t n_aside = 0;
};

/// Neighbours of all rows. ids, scores [n_rows, k]: by (score as float, order found); kNoNode and infinity where there
/// are no more: fewer rows than k, or rows whose score to all others is NaN or infinite.
struct KnnLists
{
	uint32_t *ids = nullptr;
	float *scores = nullptr;
	uint32_t k = 0;
};

/// Bytes of knn_graph's work memory.
size_t knn_graph_bytes(const GraphRows &rows, const KnnSpec &spec, size_t n_threads = 1);

/// Fills lists->ids and scores, the caller's [n_rows, spec.k]. Deterministic for a seed, and the same by any
/// number of call's threads (NN-descent takes one). Clusters are those of engine/ivf.
Outcome knn_graph(
	const GraphRows &rows, const KnnSpec &spec, KnnLists *lists, void *work, size_t work_bytes, const Call &call = {});

/// Dimensions of rows as clusters are made of them: their own, and of bit strings kMostClusterBits at most.
constexpr uint32_t kMostClusterBits = 512;

constexpr uint32_t
cluster_dim(const DistanceSpec &spec)
{
	return spec.element == ElementType::kBit && spec.dim > kMostClusterBits ? kMostClusterBits : spec.dim;
}

/// Rows [n] of `nodes` as float32 [n, cluster_dim()], as clusters are made of them: of length 1 for cosine and Jaccard.
/// A bit is 0 or 1, so that squared L2 is the Hamming distance; of longer strings each bit is added to one of the
/// dimensions, or taken from it (feature hashing: Weinberger et al. 2009), which leaves that so on average.
void rows_to_floats(const GraphRows &rows, const uint32_t *nodes, size_t n, float *floats);

} // namespace vectorgpu::engine::graph
