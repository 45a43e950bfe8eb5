// The searches of a calibration, each in the graph without its query. Internal to the folder.
#pragma once

#include "engine/graph/calibrate/calibrate_depths.hpp"
#include "engine/graph/search.hpp"

namespace vectorgpu::engine::graph
{

/// Work memory of one task.
struct CalibrationTask
{
	Candidate *found;     // [largest width]
	Candidate *entries;   // [n_entries]
	double *entry_scores; // [n_entries]
	void *search;         // of graph_search
	size_t search_bytes;
	float *hash;   // work memory of make_query_code
	uint8_t *code; // of the query
	Outcome failure;
};

/// The entry points that searches for a query begin at, the same at every width.
struct QueryEntries
{
	Candidate nearest[kSearchEntries];
	uint32_t n; // kNoNode: not chosen yet
};

/// Work memory of the searches.
struct CalibrationSearch
{
	uint32_t *entries; // entry points of the graph without the rows held out
	uint32_t n_entries;
	QueryEntries *chosen; // [n_queries, 2]: without the query's copies, with them
	CalibrationTask tasks[kMostCalibrationTasks];
	size_t n_tasks;
	bool by_helper;    // it has the graph: the next three are its
	uint32_t *nodes;   // [n_queries]
	uint32_t *n_found; // [n_queries]
	Candidate *found;  // [n_queries, kCalibrationNeighbors], and of the deep queries [kMostDeep, the last of kDepths]

	/// Memory for searches up to a width. False if the arena is short.
	bool take(ivf::Arena *arena, const MeasuredGraph &graph, uint32_t n_queries, uint32_t width, size_t n_threads);
	/// Set the entry points, before the first width.
	void set_entries(const MeasuredGraph &graph, uint32_t n_queries);
	/// Let the graph's helper search, if it has one that would find the same. Call it when the true neighbours are
	/// known.
	void ask_helper(const MeasuredGraph &graph, const CalibrationQueries &queries, const DeepQueries &deep);
};

/// The queries of one width's searches.
struct SearchedQueries
{
	const CalibrationQueries *all;
	const DeepQueries *deep;
	uint32_t stride; // every stride-th query is searched for
};

/// Search with a width, with call's threads; set the hits of the queries.
Outcome search_queries(const MeasuredGraph &graph, const SearchedQueries &queries, uint32_t width,
	CalibrationSearch *memory, const Call &call);

} // namespace vectorgpu::engine::graph
