// Measures the recall of a graph by the width of the search, against an exact search. Queries are rows that the graph
// was built without, or rows of the graph, each left out of its own search as if it were not there. Where rows come as
// copies of each other but for noise, the copies of a query are left out too (engine/recall/near_copies.hpp): a query
// from elsewhere has none. A query may itself be such a copy, so searches that want the copies are measured as well,
// and the lesser recall counts. Recall is also bounded by that of the very nearest row, but for chance: a row that is
// hard to find is missed by every query that wants it alone.
#pragma once

#include "engine/graph/graph.hpp"
#include "engine/graph/codes/codes.hpp"
#include "engine/graph/helper.hpp"
#include "engine/ivf/calibration.hpp"

namespace vectorgpu::engine::graph
{

constexpr uint32_t kCalibrationNeighbors = 10; // recall is measured of this many nearest rows

/// A graph to be measured. rows.spec: as searches compare.
struct MeasuredGraph
{
	GraphRows rows;
	const uint32_t *edges = nullptr; // [n_rows, degree]
	uint32_t degree = 0;
	const uint32_t *entries = nullptr; // [n_entries]
	uint32_t n_entries = 0;
	// Not null: searches compare codes, and the rows that they find are compared themselves.
	const CodeModel *hash = nullptr;
	const uint8_t *codes = nullptr; // [n_rows, code_bytes], with hash
	// The queries, ascending, if they are rows that no edge leads to; null: rows of the graph are queries.
	const uint32_t *held_out = nullptr; // [n_held_out]
	uint32_t n_held_out = 0;
	// All rows that no edge leads to, ascending, with held_out: the queries, and others that must not count as
	// neighbours.
	const uint32_t *left_out = nullptr; // [n_left_out]
	uint32_t n_left_out = 0;
	bool copies_left_out = false; // near copies of the queries are among left_out
	// With held_out: the nearest rows of each query in the graph by rows.spec, kNoNode behind them. Null: calibrate
	// finds them.
	const uint32_t *nearest = nullptr; // [n_held_out, kCalibrationNeighbors]
	// Not null: it has the rows, compared as rows.spec says, and searches where it would find the same.
	const Helper *helper = nullptr;
};

/// Bytes of calibrate's work memory.
size_t calibrate_bytes(const MeasuredGraph &graph, size_t n_threads);

/// Set the calibration, and the depths' if not null: recall of the 10 nearest (or of the nearest, if that is less) by
/// the width of the search
/// (`probes`), from 10 on, until nearly all are found or a scan of all rows is cheaper. No points if there are too few
/// rows to measure anything. Depths are those of kDepths that are small beside the rows; none with codes. The same with
/// any number of call's threads.
Outcome calibrate(const MeasuredGraph &graph, ivf::Calibration *calibration, void *work, size_t work_bytes,
	const Call &call = {}, ivf::DepthCalibration *depths = nullptr);

} // namespace vectorgpu::engine::graph
