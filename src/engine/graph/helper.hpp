// What a device may do of a graph's build for the threads that build it: choosing edges, and searches of the rows that
// it holds. Every result is the one that these threads would get, so that a build may go on without the helper at any
// point. Plain functions as in all of the folder; they are called by the thread that builds, one at a time.
#pragma once

#include <cstdint>

#include "engine/graph/graph.hpp"

namespace vectorgpu::engine::graph
{

/// The choice of edges from lists of nearest rows: prune by rank, then add_reverse. Host memory.
struct EdgeJob
{
	uint32_t n_rows = 0;
	uint32_t k = 0;
	uint32_t degree = 0;
	const uint32_t *lists = nullptr; // [n_rows, k]
	const uint8_t *chosen = nullptr; // [n_rows]; rows with zero keep their forward edges; null: none do
	uint32_t *forward = nullptr;     // [n_rows, degree] in (with `chosen`), out
	uint32_t *edges = nullptr;       // out [n_rows, degree]; may overlap the lists
};

/// A graph over all of the rows, for searches. Host memory, read during the call only.
struct GivenGraph
{
	uint32_t degree = 0;
	const uint32_t *edges = nullptr;   // [n_rows, degree]; null: those that were given before
	const uint32_t *entries = nullptr; // [n_entries], ascending
	uint32_t n_entries = 0;
};

/// Searches for rows among the rows.
struct NodeSearch
{
	const uint32_t *nodes = nullptr; // [n] rows that are searched for
	uint32_t n = 0;
	uint32_t width = 0; // of searches of the given graph, which begin at its nearest entry points; 0: of all rows
	uint32_t k = 0;
	// Out: found [n, k], the first *n_found of each by (score, node). A graph's searches find no row whose score is not
	// finite.
	Candidate *found = nullptr;
	uint32_t *n_found = nullptr; // [n]
};

enum class Helped : uint8_t
{
	kYes = 0,
	kNo = 1, // nothing has changed: the caller does it
	kCancelled = 2,
	kFailed = 3, // results are undefined
};

struct Helper
{
	void *context = nullptr;
	Helped (*choose_edges)(void *context, const EdgeJob &job) = nullptr;
	Helped (*give_graph)(void *context, const GivenGraph &graph) = nullptr;
	Helped (*search)(void *context, const NodeSearch &search) = nullptr;
	/// Leave rows [n] out of what searches of all rows find, and no others.
	Helped (*leave_out)(void *context, const uint32_t *rows, uint32_t n) = nullptr;
};

} // namespace vectorgpu::engine::graph
