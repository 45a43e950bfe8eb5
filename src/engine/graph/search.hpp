// Search of a graph (SONG, algorithm 1 in the three stages of section 3: candidate locating, bulk distance computation,
// data structure maintenance), one query at a time, in memory of the caller.
#pragma once

#include "engine/graph/graph.hpp"

namespace vectorgpu::engine::graph
{

/// The set of visited nodes (section 4.2).
enum class VisitedKind : uint8_t
{
	kHash = 0, // exact
	kBloom = 1,
	kCuckoo = 2,
};

struct SearchSpec
{
	uint32_t width = 64; // most nodes found, and most nodes kept to be expanded: K of the paper's algorithm; from 1
	VisitedKind visited = VisitedKind::kHash;
	bool selected_insertion = false; // section 4.4: only nodes that enter a queue count as visited
	bool visited_deletion = false;   // section 4.5: only nodes in a queue count as visited; not with a Bloom filter
	uint32_t probe_steps = 1;        // section 5: nodes expanded at a time, 1 .. kMaxProbeSteps

	// Conditions. If not null, [n_nodes] bits, bit i of byte i / 8 is 1 << (i % 8): nodes with a 1 fail. They are not
	// found, and not scored unless they are entries: README.md, "Conditions".
	const uint8_t *fails = nullptr;
};

constexpr uint32_t kMaxProbeSteps = 16;

constexpr uint32_t kSearchSteps = 4;   // probe_steps of an index's searches, so that all engines find the same
constexpr uint32_t kSearchEntries = 8; // entry points of a search: those nearest to the query

/// Whether a scan of all rows is cheaper than a search of this width: a node of the queue costs the scores of about 20
/// rows at random places, which cost three times those of contiguous rows.
inline bool
looks_at_all(double width, double n_rows)
{
	return width * 8 >= n_rows;
}

/// Cost of searches, added up.
struct SearchStats
{
	uint64_t n_expanded = 0;
	uint64_t n_scored = 0;
};

/// Bytes of graph_search's work memory: O(width * degree).
size_t graph_search_bytes(const GraphView &view, const SearchSpec &spec);

/// Search from entries [n_entries], with their scores, in any order, no node twice. found [width]: the first *n_found
/// nodes seen, by (score, node); a NaN score becomes infinite. Deterministic. kInvalidArgument for invalid arguments.
Outcome graph_search(const GraphView &view, const SearchSpec &spec, const Candidate *entries, size_t n_entries,
	Candidate *found, uint32_t *n_found, SearchStats *stats, void *work, size_t work_bytes);

/// Move the first n_wanted of n candidates to the front, by (score, node), NaN behind infinities. For the choice of
/// entry points.
void first_candidates(Candidate *candidates, size_t n, size_t n_wanted);

} // namespace vectorgpu::engine::graph
