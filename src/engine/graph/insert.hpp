// A graph from another one: rows of it stay, some leave, new ones come (Malkov, Yashunin 2018 insert row by row; here
// all new rows at once). For merges that change little; see README.md ("Insertion").
#pragma once

#include "engine/graph/build.hpp"

namespace vectorgpu::engine::graph
{

/// The graph before: one that graph_build or graph_insert has made with the same degree and way of pruning.
struct BaseGraph
{
	uint32_t n_rows = 0;
	const uint32_t *edges = nullptr;   // [n_rows, degree]
	const uint32_t *entries = nullptr; // [n_entries]
	uint32_t n_entries = 0;
	const uint32_t *numbers = nullptr; // [n_rows] of each row in the new graph, ascending; kNoNode: it leaves
};

/// How much an insertion changes.
struct InsertShape
{
	uint32_t n_base = 0; // rows of the graph before
	uint32_t n_left = 0; // of these, that leave
};

constexpr uint32_t kLeastInsertRows =
	5000; // a graph of fewer rows is built from comparisons of all with all, exact and fast
constexpr uint32_t kInsertPercent = 15; // of the rows that may have changed since a graph was built anew

// Of the rows that may change in one insertion by an engine that could build anew with nearest rows by exact searches
// on a GPU. That takes as long (README.md, "When"): what insertion has for it is that it leaves the GPU to searches,
// and as good a graph.
constexpr uint32_t kBesideGpuInsertPercent = 5;

/// Rows that count as changed, for graph_insert_serves: ways that led through a row that leaves are mended from what is
/// left of them, which is less exact than a search for a new row's neighbours, and there are fewer of them.
inline uint64_t
changed_rows(uint64_t n_new, uint64_t n_left)
{
	return n_new + (2 * n_left + 2) / 3;
}

/// True if a graph of n_rows, of which so many have changed since it was built anew, is about as good by insertion.
inline bool
graph_insert_serves(uint64_t changed, uint64_t n_rows)
{
	return n_rows >= kLeastInsertRows && changed * 100 <= n_rows * kInsertPercent;
}

/// True if so few rows change that such an engine inserts as well; changed: in this insertion alone.
inline bool
graph_insert_serves_beside_gpu(uint64_t changed, uint64_t n_rows)
{
	return changed * 100 <= n_rows * kBesideGpuInsertPercent;
}

/// Bytes of graph_insert's work memory.
size_t graph_insert_bytes(const GraphRows &rows, const BuildSpec &spec, const InsertShape &shape, size_t n_threads = 1);

/// As graph_build: edges, entries and report of all rows, those that base.numbers does not name being new. New rows
/// find their neighbours by a search of the graph before and, among themselves, by knn_graph; rows that they are near
/// to, and those that had an edge to a row that leaves, choose edges anew. Deterministic; with call's threads, and the
/// same by any number of them. kInvalidArgument for a base whose edges, entries or numbers contradict each other, and
/// nothing outside of the caller's arrays is read then.
Outcome graph_insert(const GraphRows &rows, const BuildSpec &spec, const BaseGraph &base, uint32_t *edges,
	uint32_t *entries, BuildReport *report, void *work, size_t work_bytes, const Call &call = {},
	const BuildHooks &hooks = {});

} // namespace vectorgpu::engine::graph
