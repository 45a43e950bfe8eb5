// Recall of more nearest rows than ten, by some of a calibration's queries. Where rows lie in groups, a search may find
// a query's group at once and hardly anything outside it. Internal to the folder.
#pragma once

#include "engine/graph/calibrate/calibrate_truth.hpp"

namespace vectorgpu::engine::graph
{

constexpr uint32_t kDepths[] = {32, 112, 352, 1024}; // where a scan's steps end
constexpr uint32_t kDepthCount = 4;
constexpr uint32_t kDeepStride = 15; // one query of this many: 67 of 1,000
constexpr uint32_t kMostDeep = 67;   // queries: they are compared with all rows

/// The true neighbours of every stride-th query, and how many of them the last search has found.
struct DeepQueries
{
	uint32_t stride = kDeepStride; // a multiple of it
	uint32_t n = 0;                // queries; 0: nothing is measured
	uint32_t n_depths = 0;         // of kDepths
	uint32_t *numbers;             // [n] row numbers
	double *last_scores;           // [n, kDepthCount] of the last true neighbour of each depth
	uint32_t *hits;                // [n, kDepthCount]
	TruthMemory truth;

	/// False if the arena is short. With codes nothing is measured.
	bool take(ivf::Arena *arena, const MeasuredGraph &graph, uint32_t n_queries, size_t n_threads);

	/// Find the neighbours by an exact search, without the rows that searches pass over. queries: as find_truth left
	/// them.
	Outcome find(const MeasuredGraph &graph, const CalibrationQueries &queries, const Call &call);

	/// Note what a search for the queries' number `q` found, nearest first; nothing if the query is not one of these.
	void count(uint32_t q, const Candidate *found, uint32_t n_found) const;

	/// Set the recall of point p by the last searches; return the least recall of all depths, 1 without any.
	double set_recall(uint32_t p, ivf::DepthCalibration *depths) const;
};

} // namespace vectorgpu::engine::graph
