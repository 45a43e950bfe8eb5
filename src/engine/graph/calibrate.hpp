// What recall how wide a search of a graph has, against an exact search: the queries are rows that the graph was made
// without, or some of its rows, each left out of its own search as if it were not in the graph. Where rows come as
// copies of each other but for noise, so are the query's (engine/recall/near_copies.hpp): a query from elsewhere has
// none. But one may be such a copy itself, so that searches which find the copies are measured as well; the lesser
// recall counts. Nor is any above that of the very nearest row, but for chance: one that is hard to find is missed by
// all who want it alone.
#pragma once

#include "engine/graph/graph.hpp"
#include "engine/graph/hash.hpp"
#include "engine/ivf/calibration.hpp"

namespace vectorgpu::engine::graph
{

constexpr uint32_t kCalibrationNeighbors = 10; // that recall is of

/// A graph to be measured. rows.spec: as searches compare.
struct MeasuredGraph
{
	GraphRows rows;
	const uint32_t *edges = nullptr; // [n_rows, degree]
	uint32_t degree = 0;
	const uint32_t *entries = nullptr; // [n_entries]
	uint32_t n_entries = 0;
	const HashModel *hash =
		nullptr; // searches compare codes, and what they find is judged by the rows; null: they compare rows
	const uint8_t *codes = nullptr; // [n_rows, hash_code_bytes] with hash
	// Rows that no edge leads to, ascending: the queries. Null: rows of the graph are.
	const uint32_t *held_out = nullptr; // [n_held_out]
	uint32_t n_held_out = 0;
	// All rows that no edge leads to, ascending, with held_out: these, and others that are no neighbours of theirs.
	const uint32_t *left_out = nullptr; // [n_left_out]
	uint32_t n_left_out = 0;
	bool copies_left_out = false; // near copies of the queries are among them
	// Of each query the nearest rows of the graph by rows.spec, kNoNode behind them, with held_out; null: they are
	// looked for.
	const uint32_t *nearest = nullptr; // [n_held_out, kCalibrationNeighbors]
};

/// Bytes of calibrate's work memory.
size_t calibrate_bytes(const MeasuredGraph &graph, size_t n_threads);

/// Sets the calibration: recall of the 10 nearest, or of the one if that is less, by the width of the search
/// (`probes`), 10 and wider, until nearly all are found or a look at all rows is cheaper; no points if there are too
/// few rows to measure anything. With call's threads, and the same by any number of them.
Outcome calibrate(
	const MeasuredGraph &graph, ivf::Calibration *calibration, void *work, size_t work_bytes, const Call &call = {});

} // namespace vectorgpu::engine::graph
