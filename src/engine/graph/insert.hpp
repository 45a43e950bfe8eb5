// Makes a graph from another one: some of its rows are kept, others removed, new ones added (Malkov, Yashunin 2018
// insert row by row; here all new rows at once). For merges that change little; see README.md ("Insertion").
#pragma once

#include "engine/graph/build.hpp"

namespace vectorgpu::engine::graph
{

/// The old graph, made by graph_build or graph_insert with the same degree and kind of pruning.
struct BaseGraph
{
	uint32_t n_rows = 0;
	const uint32_t *edges = nullptr;   // [n_rows, degree]
	const uint32_t *entries = nullptr; // [n_entries]
	uint32_t n_entries = 0;
	const uint32_t *numbers = nullptr; // [n_rows] new number of each row, each its own; kNoNode: removed
};

/// How much an insertion changes.
struct InsertShape
{
	uint32_t n_base = 0; // rows of the old graph
	uint32_t n_left = 0; // of these, removed ones
};

constexpr uint32_t kLeastInsertRows = 5000; // a build of fewer rows compares all pairs, which is exact and fast
constexpr uint32_t kInsertPercent = 15;     // of the rows may have changed since the last build

// The percentage of rows that may change in one insertion by an engine that could build with nearest rows by exact
// searches on a GPU. The build takes as long (README.md, "When"); the insertion leaves the GPU to searches, and its
// graph is as good.
constexpr uint32_t kBesideGpuInsertPercent = 5;

/// The number of rows that count as changed, for graph_insert_serves. A removed row counts for less than a new one:
/// there are fewer paths through it, but they are mended from what is left of them, which is less exact than a search
/// for a new row's neighbours.
inline uint64_t
changed_rows(uint64_t n_new, uint64_t n_left)
{
	return n_new + (2 * n_left + 2) / 3;
}

/// Whether a graph of n_rows, `changed` of them since the last build, is about as good by insertion.
inline bool
graph_insert_serves(uint64_t changed, uint64_t n_rows)
{
	return n_rows >= kLeastInsertRows && changed * 100 <= n_rows * kInsertPercent;
}

/// Whether so few rows change that an engine with a GPU inserts as well. changed: in this insertion alone.
inline bool
graph_insert_serves_beside_gpu(uint64_t changed, uint64_t n_rows)
{
	return changed * 100 <= n_rows * kBesideGpuInsertPercent;
}

/// Bytes of graph_insert's work memory.
size_t graph_insert_bytes(const GraphRows &rows, const BuildSpec &spec, const InsertShape &shape, size_t n_threads = 1);

/// Set edges, entries and report, as graph_build, for all rows; rows that base.numbers does not name are new. New rows
/// find their neighbours by a search of the old graph and, among themselves, by knn_graph. Rows near to them, and rows
/// that had an edge to a removed row, choose edges anew. Deterministic, whatever the number of call's threads.
/// kInvalidArgument if edges, entries or numbers of the base contradict each other; nothing outside of the caller's
/// arrays is read then.
Outcome graph_insert(const GraphRows &rows, const BuildSpec &spec, const BaseGraph &base, uint32_t *edges,
	uint32_t *entries, BuildReport *report, void *work, size_t work_bytes, const Call &call = {},
	const BuildHooks &hooks = {});

} // namespace vectorgpu::engine::graph
