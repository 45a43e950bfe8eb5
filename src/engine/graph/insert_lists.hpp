// The nearest rows of new rows. Internal to the folder: of insertion.
#pragma once

#include "engine/graph/insert.hpp"

namespace vectorgpu::engine::graph
{

/// What the lists of new rows are made from.
struct InsertLists
{
	GraphRows rows;
	const uint32_t *added = nullptr; // [n_added] numbers of the new rows, ascending
	uint32_t n_added = 0;
	const uint32_t *edges = nullptr; // [rows.n_rows, degree] among rows that were there, kNoNode where there is none
	uint32_t degree = 0;
	const uint32_t *entries = nullptr; // [n_entries] of these; none: no row was there
	uint32_t n_entries = 0;
	KnnLists
		lists; // [n_added, k]: of rows' numbers, by (score as float, number), finite scores only, kNoNode behind them
};

/// Fills lists: those of a search of the graph, and of new rows those that knn_graph finds. Deterministic for the
/// spec's seed, and the same by any number of call's threads.
Outcome insert_lists(const InsertLists &of, const KnnSpec &spec, void *work, size_t work_bytes, const Call &call);
size_t insert_lists_bytes(const InsertLists &of, const KnnSpec &spec, size_t n_threads);

} // namespace vectorgpu::engine::graph
