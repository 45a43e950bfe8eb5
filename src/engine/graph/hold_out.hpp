// A graph as it would be without some of its rows, which are then queries that it has not seen: for a calibration.
#pragma once

#include "engine/graph/graph.hpp"
#include "engine/graph/prune.hpp"

namespace vectorgpu::engine::graph
{

/// Rows of a graph that it is measured with as queries (calibrate.hpp), held out of it: stratified_row(i, n, n_rows) of
/// n. A recall of 0.9 of so many has a standard error of 0.004; of fewer rows fewer, without which the graph is nearly
/// whole.
constexpr uint32_t kMostQueryRows = 1000;
constexpr uint32_t kRowsPerQueryRow = 20;

constexpr uint32_t
query_rows(uint32_t n_rows)
{
	return n_rows / kRowsPerQueryRow < kMostQueryRows ? n_rows / kRowsPerQueryRow : kMostQueryRows;
}

/// What a graph was made from, and memory for the one without some rows.
struct HoldOutGraph
{
	uint32_t n_rows = 0;
	KnnLists lists; // of the nearest rows [n_rows, k], k >= degree: exact, or made with the rows aside
					// (KnnSpec::n_aside); they are changed
	uint32_t degree = 0;
	uint32_t *forward = nullptr; // [n_rows, degree] by rank, as prune gave them; they are changed
};

/// Rows that go out of a graph so that it is measured: some are the queries, the others near copies of these
/// (engine/recall/near_copies.hpp), which would be nearer to them than any row is to a query from elsewhere.
struct HeldOutRows
{
	uint32_t *queries = nullptr; // [n_queries], ascending
	uint32_t n_queries = 0;
	uint32_t *rows = nullptr; // [n_rows] with the queries, ascending
	uint32_t n_rows = 0;
};

/// Sets held->rows from held->queries, of which so many stay, about evenly, that no more than `most` rows go: there is
/// room for as many. lists: of the nearest rows; n_wanted: of the list of each query, that are not copies. No scores
/// are read.
void hold_out_copies(const GraphRows &rows, const KnnLists &lists, uint32_t n_wanted, uint32_t most, HeldOutRows *held);

/// Takes the rows held_out out of lists, of which no member is left then, chooses edges anew for rows that had one of
/// them in their lists (by rank; what other rows' edges lose as detours is passed over), and makes edges back. nearest
/// [n_queries, n_nearest], or null: of each query the first of its list that are not held out, kNoNode behind them.
/// edges [n_rows, degree] may lie where the lists do: no edge is of or leads to a row held out; entry points and
/// connections are not looked at. The same by any number of call's threads.
Outcome hold_out(const HoldOutGraph &graph, const HeldOutRows &held_out, uint32_t n_nearest, uint32_t *nearest,
	uint32_t *edges, void *work, size_t work_bytes, const Call &call = {});
size_t hold_out_bytes(const HoldOutGraph &graph, size_t n_threads = 1);

} // namespace vectorgpu::engine::graph
