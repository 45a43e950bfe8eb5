// Search of a graph (SONG, algorithm 1 in the three stages of section 3: candidate locating, bulk distance computation,
// data structure maintenance), one query at a time, in memory of the caller.
#pragma once

#include "engine/graph/graph.hpp"

namespace vectorgpu::engine::graph
{

/// Which set of visited nodes a search keeps (section 4.2).
enum class VisitedKind : uint8_t
{
	kHash = 0, // exact
	kBloom = 1,
	kCuckoo = 2,
};

struct SearchSpec
{
	uint32_t width = 64; // nodes found, and nodes kept to be expanded: K of the paper's algorithm; from 1
	VisitedKind visited = VisitedKind::kHash;
	bool selected_insertion = false; // section 4.4: only nodes that go into a queue count as visited
	bool visited_deletion = false;   // section 4.5: and only while they are in one; not with a Bloom filter
	uint32_t probe_steps = 1;        // section 5: nodes expanded at a time, 1 .. kMaxProbeSteps
};

constexpr uint32_t kMaxProbeSteps = 16;

constexpr uint32_t kSearchSteps =
	4; // nodes expanded at a time by the searches of an index, so that all engines find the same
constexpr uint32_t kSearchEntries = 8; // entry points of a search, of those that there are

/// True if so wide a search of so many rows is better done by looking at all of them: a node of the queue costs the
/// scores of about 20 rows that lie anywhere; those of rows that follow each other cost a third.
inline bool
looks_at_all(double width, double n_rows)
{
	return width * 8 >= n_rows;
}

/// What a search has cost; added up.
struct SearchStats
{
	uint64_t n_expanded = 0;
	uint64_t n_scored = 0;
};

/// Bytes of graph_search's work memory: O(width * degree).
size_t graph_search_bytes(const GraphView &view, const SearchSpec &spec);

/// Searches from the entry points [n_entries], with their scores, in any order, no node twice. found [width]: the
/// *n_found first nodes seen, by (score, node); a NaN score becomes infinite. Deterministic. Invalid arguments give
/// kInvalidArgument.
Outcome graph_search(const GraphView &view, const SearchSpec &spec, const Candidate *entries, size_t n_entries,
	Candidate *found, uint32_t *n_found, SearchStats *stats, void *work, size_t work_bytes);

/// The `n_wanted` first of n candidates come first, in order. For the choice of entry points.
void first_candidates(Candidate *candidates, size_t n, size_t n_wanted);

} // namespace vectorgpu::engine::graph
