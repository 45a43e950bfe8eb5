// Removes rows from a graph as if it had been built without them: a calibration takes them as queries that the graph
// has not seen.
#pragma once

#include "engine/graph/graph.hpp"
#include "engine/graph/helper.hpp"
#include "engine/graph/prune.hpp"
#include "engine/recall/stratified.hpp"

namespace vectorgpu::engine::graph
{

/// The rows that are a calibration's queries (calibrate.hpp): stratified_row(i, n, n_rows), with n =
/// query_rows(n_rows). A recall of 0.9 of 1,000 has a standard error of 0.004; from fewer rows fewer are taken, so that
/// the graph without them is nearly whole.
constexpr uint32_t kMostQueryRows = 1000;
constexpr uint32_t kRowsPerQueryRow = 20;

constexpr uint32_t
query_rows(uint32_t n_rows)
{
	return n_rows / kRowsPerQueryRow < kMostQueryRows ? n_rows / kRowsPerQueryRow : kMostQueryRows;
}

/// The number of rows held out of a graph of exact neighbours: a recall of 0.9 has a standard error of 0.003 then.
constexpr uint32_t kMostExactQueryRows = 2000;
constexpr uint32_t kRowsPerExactQueryRow = 50;

constexpr uint32_t
exact_query_rows(uint32_t n_rows)
{
	return n_rows / kRowsPerExactQueryRow < kMostExactQueryRows ? n_rows / kRowsPerExactQueryRow : kMostExactQueryRows;
}

/// Row `u`, or the next one that no calibration takes as a query: for rows that a graph must not lose when queries are
/// held out, such as entry points.
constexpr uint32_t
not_a_query(uint32_t u, uint32_t n_rows)
{
	while (u + 1 < n_rows &&
		(is_stratified_row(u, query_rows(n_rows), n_rows) || is_stratified_row(u, exact_query_rows(n_rows), n_rows)))
		u++;
	return u;
}

/// The lists and forward edges of a graph, both changed by hold_out.
struct HoldOutGraph
{
	uint32_t n_rows = 0;
	KnnLists lists; // [n_rows, k], k >= degree: exact, or made with the rows aside (KnnSpec::n_aside)
	uint32_t degree = 0;
	uint32_t *forward = nullptr; // [n_rows, degree] by rank, from prune
};

/// Rows that are removed from a graph to measure it: the queries, and near copies of them
/// (engine/recall/near_copies.hpp), which are nearer to them than any row is to a query from elsewhere.
struct HeldOutRows
{
	uint32_t *queries = nullptr; // [n_queries], ascending
	uint32_t n_queries = 0;
	uint32_t *rows = nullptr; // [n_rows] the queries and their copies, ascending
	uint32_t n_rows = 0;
};

/// Set held->rows to the queries and their near copies. Drop queries, evenly spread, until at most `most` rows are
/// removed, for which held->rows has room. lists: of the nearest rows, whose scores are not read; n_wanted: rows of
/// each query's list that are not copies.
void hold_out_copies(const GraphRows &rows, const KnnLists &lists, uint32_t n_wanted, uint32_t most, HeldOutRows *held);

/// Remove the rows held_out from the lists, choose edges anew, by rank, for rows that had one of them in their lists,
/// and make reverse edges. (Detours that other rows' edges lose are ignored.) nearest [n_queries, n_nearest], or null:
/// the first rows of each query's list that are not held out, kNoNode behind them. edges [n_rows, degree] may overlap
/// the lists: no edge begins or ends at a row held out. Entry points and connection are the caller's. The same result
/// with any number of call's threads.
Outcome hold_out(const HoldOutGraph &graph, const HeldOutRows &held_out, uint32_t n_nearest, uint32_t *nearest,
	uint32_t *edges, void *work, size_t work_bytes, const Call &call = {}, const Helper *helper = nullptr);
size_t hold_out_bytes(const HoldOutGraph &graph, size_t n_threads = 1);

} // namespace vectorgpu::engine::graph
