// The queries of a calibration and their true neighbours, found by an exact search. Internal to the folder.
#pragma once

#include "engine/distance/topk.hpp"
#include "engine/graph/calibrate/calibrate.hpp"
#include "engine/ivf/work.hpp"
#include "engine/recall/near_copies.hpp"

namespace vectorgpu::engine::graph
{

constexpr uint32_t kTruthFound = kCopiesAmong + 1; // rows that the exact search finds: a query finds itself
constexpr uint32_t kMostLeftOut = kTruthFound - kCalibrationNeighbors;
constexpr size_t kMostCalibrationTasks = 64;
constexpr uint32_t kHelpedQueries = 256; // that a helper compares with all rows at a time

/// The true neighbours of one query, and how many of them the last search has found.
struct Wanted
{
	double first_score;  // of the nearest row other than the query itself
	double last_score;   // of the last true neighbour
	uint32_t n;          // true neighbours, at most kCalibrationNeighbors; fewer where scores are NaN
	uint32_t hits;       // of them found
	uint32_t first_hits; // 1 if the nearest row, or one as near, was found
};

struct CalibrationQueries
{
	uint32_t n;
	uint32_t *numbers;    // [n] row numbers
	Wanted *without;      // [n] true neighbours other than the query's near copies
	Wanted *with;         // [n] true neighbours, near copies included
	uint32_t *left_out;   // [n, kMostLeftOut] rows that a search passes over: the query's own and its copies
	uint32_t *n_left_out; // [n]; 0 where no edge leads to them

	/// False if the arena is short.
	bool take(ivf::Arena *arena, uint32_t n_queries);
};

/// Number of tasks that n_threads threads share the queries out to.
size_t calibration_task_count(uint32_t n_queries, size_t n_threads);

/// Work memory of the exact search.
struct TruthMemory
{
	TopK *topks;                               // [n_queries]
	Neighbor *buffers;                         // of the topks
	size_t buffer_size;                        // of one
	uint8_t *passed;                           // bitmap of the rows held out; null if none are
	Candidate *helped;                         // [kHelpedQueries, n_found] of the helper; null without one
	uint32_t *n_helped;                        // [kHelpedQueries]
	double *scores[kMostCalibrationTasks];     // by task [batch]
	RowId *row_numbers[kMostCalibrationTasks]; // by task [batch]
	size_t n_tasks;

	/// Memory to find n_found rows of each query. False if the arena is short.
	bool take(ivf::Arena *arena, const MeasuredGraph &graph, uint32_t n_queries, uint32_t n_found, size_t n_threads);
};

/// Rows that are searched for.
struct RowQueries
{
	const uint32_t *numbers; // [n]
	uint32_t n;
};

/// Compare all rows with the queries, but for those held out. topks: for topk_finish.
Outcome exact_search(
	const MeasuredGraph &graph, const RowQueries &queries, uint32_t n_found, TruthMemory *memory, const Call &call);

/// Set without, with, left_out and n_left_out of the queries, whose numbers are set: from graph.nearest if it is known,
/// else by an exact search.
Outcome find_truth(
	const MeasuredGraph &graph, const CalibrationQueries &queries, TruthMemory *memory, const Call &call);

} // namespace vectorgpu::engine::graph
