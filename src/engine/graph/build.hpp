// A graph of rows from beginning to end: k-NN graph, pruning, reverse edges, entry points, connections.
#pragma once

#include "engine/graph/hold_out.hpp"
#include "engine/graph/prune.hpp"

namespace vectorgpu::engine::graph
{

constexpr uint32_t kMaxEntries = 1024;

struct BuildSpec
{
	uint32_t degree = 32; // kMinDegree .. kMaxDegree
	PruneKind prune = PruneKind::kRank;
	KnnSpec knn;            // k: of the k-NN graph that the edges are taken from; 0: as degree wants
	uint32_t n_entries = 0; // at most kMaxEntries; 0: as the number of rows wants
};

/// What a build does, one after the other: what its progress is of.
enum class BuildStage : uint8_t
{
	kNeighbors = 0,
	kEdges = 1, // pruning, reverse edges, connections
};

/// Told that a stage begins.
using StageFn = void (*)(void *context, BuildStage stage);

/// Whether somebody else has found the nearest rows.
enum class Found : uint8_t
{
	kYes = 0, // the lists are as knn_graph leaves them
	kNo = 1,  // they are as they were: knn_graph does it
	kCancelled = 2,
};

/// Finds the nearest rows of each in place of knn_graph: lists->k of them, by (score as float, node).
using NeighborsFn = Found (*)(void *context, const GraphRows &rows, const KnnLists &lists);

/// What the caller of graph_build does on the way; each may be null. context: of the Call.
struct BuildHooks
{
	StageFn on_stage = nullptr;
	NeighborsFn neighbors = nullptr;
};

struct BuildReport
{
	uint32_t n_entries = 0;
	uint32_t n_connected = 0; // edges that were added for nodes that no edge led to
};

/// The distance that a graph is built by: an inner product is no distance, rows near each other are those of L2.
inline Metric
build_metric(Metric metric)
{
	return metric == Metric::kInnerProduct ? Metric::kL2 : metric;
}

/// The entry points that a graph of so many rows has at most.
uint32_t entry_count(uint32_t n_rows, const BuildSpec &spec);

/// The k-NN graph that a build of such rows begins with: spec.knn, with the k that a degree wants.
KnnSpec knn_spec(const GraphRows &rows, const BuildSpec &spec);

/// Bytes of graph_build's work memory.
size_t graph_build_bytes(const GraphRows &rows, const BuildSpec &spec, size_t n_threads = 1);

/// edges [n_rows, degree]; entries [entry_count()], of which report->n_entries are there, ascending: rows near the
/// centroids of some of the rows. Every node can be reached from them. No node has itself or another twice for a
/// neighbour. Metrics: scores of rows.spec order the neighbours; for an inner product give L2. Deterministic; with
/// call's threads, and the same by any number of them.
Outcome graph_build(const GraphRows &rows, const BuildSpec &spec, uint32_t *edges, uint32_t *entries,
	BuildReport *report, void *work, size_t work_bytes, const Call &call = {}, const BuildHooks &hooks = {});

/// After graph_build with the same rows, spec, memory (as that has left it) and number of threads: hold_out_copies from
/// its lists.
Outcome graph_hold_out_copies(const GraphRows &rows, const BuildSpec &spec, uint32_t n_wanted, uint32_t most,
	HeldOutRows *held, void *work, size_t work_bytes, size_t n_threads = 1);

/// After graph_build likewise, with its entry points: the graph as it would be without the rows of `held`
/// (hold_out.hpp), where the neighbours were exact ones, or those rows aside. All others can be reached. *edges
/// [n_rows, degree] lies in the work memory. kUnsupported, with nothing done, if edges are not chosen by rank, the
/// lists are shorter than the edges of a row, or all entry points go.
Outcome graph_build_held_out(const GraphRows &rows, const BuildSpec &spec, const HeldOutRows &held, uint32_t n_nearest,
	uint32_t *nearest, const uint32_t *entries, uint32_t n_entries, const uint32_t **edges, void *work,
	size_t work_bytes, const Call &call = {});

/// What graph_build makes, from the nearest rows of each, whoever has found them: lists [n_rows, k] as knn_graph gives
/// them.
size_t graph_from_neighbors_bytes(const GraphRows &rows, const BuildSpec &spec, uint32_t k, size_t n_threads);
Outcome graph_from_neighbors(const GraphRows &rows, const BuildSpec &spec, const KnnLists &lists, uint32_t *edges,
	uint32_t *entries, BuildReport *report, void *work, size_t work_bytes, const Call &call = {});

} // namespace vectorgpu::engine::graph
