// Builds a graph of rows: k-NN graph, pruning, reverse edges, entry points, connection.
#pragma once

#include "engine/graph/calibrate/hold_out.hpp"
#include "engine/graph/helper.hpp"
#include "engine/graph/prune.hpp"

namespace vectorgpu::engine::graph
{

constexpr uint32_t kMaxEntries = 8192; // kernels::kGraphMostEntries: a multiprocessor looks at all of them

struct BuildSpec
{
	uint32_t degree = 32; // kMinDegree .. kMaxDegree
	PruneKind prune = PruneKind::kRank;
	KnnSpec knn;            // k: of the k-NN graph that the edges are chosen from; 0: a default for the degree
	uint32_t n_entries = 0; // at most kMaxEntries; 0: a default for the number of rows
};

/// The stages of a build, in order, for its progress.
enum class BuildStage : uint8_t
{
	kNeighbors = 0,
	kEdges = 1, // pruning, reverse edges, connections
};

/// Called when a stage begins.
using StageFn = void (*)(void *context, BuildStage stage);

/// Result of NeighborsFn.
enum class Found : uint8_t
{
	kYes = 0, // the lists are filled as by knn_graph
	kNo = 1,  // the lists are unchanged: knn_graph fills them
	kCancelled = 2,
};

/// Find the nearest rows of each row instead of knn_graph: lists->k of them, by (score as float, node).
using NeighborsFn = Found (*)(void *context, const GraphRows &rows, const KnnLists &lists);

/// Set the entry points as choose_entries does, which needs the rows alone; *n_entries: their number. kNo: nothing is
/// set, and the build does it.
using EntriesFn = Found (*)(void *context, uint32_t *entries, uint32_t *n_entries);

/// Callbacks of graph_build; each may be null. context: of the Call.
struct BuildHooks
{
	StageFn on_stage = nullptr;
	NeighborsFn neighbors = nullptr;
	EntriesFn entries = nullptr;
	const Helper *helper = nullptr; // asked from the choice of edges on
};

struct BuildReport
{
	uint32_t n_entries = 0;
	uint32_t n_connected = 0; // edges added for nodes that could not be reached
	uint32_t n_unreached = 0; // entry points added for groups that searches did not find
};

/// The metric that a graph is built by. An inner product is no distance: neighbours are those of L2.
inline Metric
build_metric(Metric metric)
{
	return metric == Metric::kInnerProduct ? Metric::kL2 : metric;
}

/// The greatest number of entry points of a graph of n_rows rows.
uint32_t entry_count(uint32_t n_rows, const BuildSpec &spec);

/// The k-NN graph that a build begins with: spec.knn, with its k set from the degree if it is 0.
KnnSpec knn_spec(const GraphRows &rows, const BuildSpec &spec);

/// Bytes of graph_build's work memory.
size_t graph_build_bytes(const GraphRows &rows, const BuildSpec &spec, size_t n_threads = 1);

/// Build a graph by the scores of rows.spec (for an inner product give L2). edges [n_rows, degree]; entries
/// [entry_count()]: rows near the centroids of a sample, and rows that searches would not find (reach.hpp), ascending,
/// report->n_entries of them. Every node can be reached from them; no node has itself or another one twice as a
/// neighbour. Deterministic, whatever the number of call's threads.
Outcome graph_build(const GraphRows &rows, const BuildSpec &spec, uint32_t *edges, uint32_t *entries,
	BuildReport *report, void *work, size_t work_bytes, const Call &call = {}, const BuildHooks &hooks = {});

/// hold_out_copies with the lists of graph_build. Call it after graph_build, with the same rows, spec and number of
/// threads and the work memory that it left.
Outcome graph_hold_out_copies(const GraphRows &rows, const BuildSpec &spec, uint32_t n_wanted, uint32_t most,
	HeldOutRows *held, void *work, size_t work_bytes, size_t n_threads = 1);

/// The graph without the rows of `held` (hold_out.hpp). Call it after graph_build likewise, with its entry points; the
/// neighbours have to be exact, or these rows aside. All other rows can be reached. *edges [n_rows, degree] lies in the
/// work memory. kUnsupported, with nothing done, if edges are not chosen by rank, the lists are shorter than the edges
/// of a row, or no entry point is left.
Outcome graph_build_held_out(const GraphRows &rows, const BuildSpec &spec, const HeldOutRows &held, uint32_t n_nearest,
	uint32_t *nearest, const uint32_t *entries, uint32_t n_entries, const uint32_t **edges, void *work,
	size_t work_bytes, const Call &call = {}, const Helper *helper = nullptr);

/// Build a graph as graph_build does, from given lists [n_rows, k] as knn_graph makes them.
size_t graph_from_neighbors_bytes(const GraphRows &rows, const BuildSpec &spec, uint32_t k, size_t n_threads);
Outcome graph_from_neighbors(const GraphRows &rows, const BuildSpec &spec, const KnnLists &lists, uint32_t *edges,
	uint32_t *entries, BuildReport *report, void *work, size_t work_bytes, const Call &call = {});

} // namespace vectorgpu::engine::graph
