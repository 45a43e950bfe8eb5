// Finds the nearest rows of new rows. Internal to the folder, for insertion.
#pragma once

#include "engine/graph/insert.hpp"

namespace vectorgpu::engine::graph
{

/// Input and output of insert_lists.
struct InsertLists
{
	GraphRows rows;
	const uint32_t *added = nullptr; // [n_added] numbers of the new rows, ascending
	uint32_t n_added = 0;
	const uint32_t *edges = nullptr; // [rows.n_rows, degree] among old rows, kNoNode for none
	uint32_t degree = 0;
	const uint32_t *entries = nullptr; // [n_entries] old rows; none if there are no old rows
	uint32_t n_entries = 0;
	KnnLists lists; // [n_added, k] row numbers, by (score as float, number), finite scores only, kNoNode behind them
};

/// Set lists: the merged results of a search of the graph and, among the new rows, of knn_graph. Deterministic for the
/// spec's seed, whatever the number of call's threads.
Outcome insert_lists(const InsertLists &of, const KnnSpec &spec, void *work, size_t work_bytes, const Call &call);
size_t insert_lists_bytes(const InsertLists &of, const KnnSpec &spec, size_t n_threads);

} // namespace vectorgpu::engine::graph
