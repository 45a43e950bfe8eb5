// See connect.hpp.
#include "engine/graph/connect.hpp"

#include <algorithm>

#include "engine/graph/search.hpp"
#include "engine/ivf/work.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kSearchWidth = 32;  // reachable nodes found near an unreachable one: one of them has a spare edge
constexpr uint32_t kProgressRows = 64; // between calls of progress
constexpr uint32_t kNodesAhead = 8;    // nodes whose edges are prefetched
constexpr uint32_t kCacheLine = 64;    // bytes

/// A breadth-first search that can be continued after edges were added. The edge from a reached node's parent has to
/// stay.
struct Tree
{
	uint32_t n_nodes;
	uint32_t degree;
	uint32_t *parents; // [n_nodes] kNoNode: not reached; an entry point is its own
	uint32_t *reached; // [n_nodes], in order
	uint32_t n_reached = 0;
	uint32_t n_followed = 0; // nodes of `reached` whose edges were followed

	bool take(ivf::Arena *arena, uint32_t n, uint32_t of_degree)
	{
		n_nodes = n;
		degree = of_degree;
		parents = arena->take<uint32_t>(n);
		reached = arena->take<uint32_t>(n);
		return reached != nullptr;
	}
	void reach(uint32_t node, uint32_t parent)
	{
		parents[node] = parent;
		reached[n_reached++] = node;
	}
	void begin(const uint32_t *entries, uint32_t n_entries)
	{
		std::fill_n(parents, n_nodes, kNoNode);
		for (uint32_t i = 0; i < n_entries; i++)
			if (entries[i] < n_nodes && parents[entries[i]] == kNoNode)
				reach(entries[i], entries[i]);
	}
	void prefetch_edges(const uint32_t *own) const
	{
		for (uint32_t i = 0; i < degree; i += kCacheLine / sizeof(uint32_t))
			__builtin_prefetch(own + i);
	}
	void follow(const uint32_t *edges)
	{
		for (; n_followed < n_reached; n_followed++)
		{
			const uint32_t u = reached[n_followed];
			const uint32_t *own = edges + static_cast<size_t>(u) * degree;

			if (n_followed + kNodesAhead < n_reached)
				prefetch_edges(edges + static_cast<size_t>(reached[n_followed + kNodesAhead]) * degree);
			for (uint32_t i = 0; i < degree; i++)
				if (own[i] < n_nodes && parents[own[i]] == kNoNode)
					reach(own[i], u);
		}
	}
	/// An edge of a reached node that may be replaced: an empty place, else the last edge that does not lead from a
	/// parent to its child; else null.
	uint32_t *spare_edge(uint32_t *edges, uint32_t node) const
	{
		uint32_t *own = edges + static_cast<size_t>(node) * degree;

		for (uint32_t i = 0; i < degree; i++)
			if (own[i] == kNoNode)
				return &own[i];
		for (uint32_t i = degree; i > 0; i--)
			if (own[i - 1] >= n_nodes || parents[own[i - 1]] != node || own[i - 1] == node)
				return &own[i - 1];
		return nullptr;
	}
};

struct Memory
{
	Tree tree;
	Candidate *entries; // [n_entries] entry points of a search
	uint32_t *nodes;    // [n_entries]
	double *scores;     // [n_entries]
	Candidate *found;   // [kSearchWidth]
	void *search;
	size_t search_bytes;

	bool take(ivf::Arena *arena, const GraphRows &rows, uint32_t degree, uint32_t n_entries)
	{
		GraphView shape;
		SearchSpec spec;

		shape.n_nodes = rows.n_rows;
		shape.degree = degree;
		spec.width = kSearchWidth;
		(void) tree.take(arena, rows.n_rows, degree);
		entries = arena->take<Candidate>(n_entries);
		nodes = arena->take<uint32_t>(n_entries);
		scores = arena->take<double>(n_entries);
		found = arena->take<Candidate>(kSearchWidth);
		search_bytes = graph_search_bytes(shape, spec);
		search = arena->take<uint8_t>(search_bytes);
		return search != nullptr;
	}
};

/// A spare edge of a node near u that a search finds; null if none of them has one.
uint32_t *
edge_by_search(const GraphRows &rows, uint32_t degree, uint32_t *edges, const uint32_t *entries, uint32_t n_entries,
	uint32_t u, const Memory &memory)
{
	constexpr size_t kBegin = 4; // entry points of a search
	MemoryGraph graph = {rows, edges, degree, rows.row(u)};
	SearchSpec spec;
	SearchStats stats;
	uint32_t n_found = 0;

	spec.width = kSearchWidth;
	score_rows(rows, rows.row(u), entries, n_entries, memory.scores);
	for (uint32_t i = 0; i < n_entries; i++)
		memory.entries[i] = {memory.scores[i], entries[i]};
	first_candidates(memory.entries, n_entries, kBegin);
	if (!graph_search(memory_view(&graph), spec, memory.entries, std::min<size_t>(kBegin, n_entries), memory.found,
			&n_found, &stats, memory.search, memory.search_bytes)
			.is_ok())
		return nullptr;
	for (uint32_t i = 0; i < n_found; i++)
	{
		uint32_t *edge = memory.tree.spare_edge(edges, memory.found[i].node);

		if (edge != nullptr)
			return edge;
	}
	return nullptr;
}

} // namespace

size_t
reachable_bytes(uint32_t n_nodes)
{
	ivf::Arena arena;
	Tree tree;

	(void) tree.take(&arena, n_nodes, 1);
	return arena.bytes_needed();
}

uint32_t
count_reachable(uint32_t n_nodes, uint32_t degree, const uint32_t *edges, const uint32_t *entries, uint32_t n_entries,
	void *work, size_t work_bytes)
{
	ivf::Arena arena(work, work_bytes);
	Tree tree;

	if (!tree.take(&arena, n_nodes, degree))
		return 0;
	tree.begin(entries, n_entries);
	tree.follow(edges);
	return tree.n_reached;
}

size_t
connect_bytes(const GraphRows &rows, uint32_t degree, uint32_t n_entries)
{
	ivf::Arena arena;
	Memory memory;

	(void) memory.take(&arena, rows, degree, n_entries);
	return arena.bytes_needed();
}

Outcome
connect(const GraphRows &rows, uint32_t degree, uint32_t *edges, const uint32_t *entries, uint32_t n_entries,
	uint32_t *n_added, void *work, size_t work_bytes, const Call &call, const uint8_t *absent)
{
	ivf::Arena arena(work, work_bytes);
	Memory memory;
	uint32_t n_full = 0; // the first nodes of tree.reached, which have no spare edge and never get one again

	*n_added = 0;
	if (degree < kMinDegree || (n_entries == 0 && rows.n_rows > 0))
		return {StatusCode::kInvalidArgument, "graph has too few edges or no entry point"};
	if (!memory.take(&arena, rows, degree, n_entries))
		return ivf::work_memory_short();
	Tree &tree = memory.tree;

	tree.begin(entries, n_entries);
	tree.follow(edges);
	for (uint32_t u = 0; u < rows.n_rows; u++)
	{
		uint32_t *edge = nullptr;

		if (tree.parents[u] != kNoNode || (absent != nullptr && absent[u] != 0))
			continue;
		if (*n_added % kProgressRows == 0 && !ivf::go_on(call, {u, rows.n_rows}))
			return ivf::cancelled();
		for (uint32_t i = 0; i < degree && edge == nullptr; i++)
		{
			const uint32_t v = edges[static_cast<size_t>(u) * degree + i];

			if (v < rows.n_rows && tree.parents[v] != kNoNode)
				edge = tree.spare_edge(edges, v);
		}
		if (edge == nullptr)
			edge = edge_by_search(rows, degree, edges, entries, n_entries, u, memory);
		// r reached nodes have r * degree edges, and fewer than r of them lead to children: one is spare.
		while (edge == nullptr && n_full < tree.n_reached)
		{
			edge = tree.spare_edge(edges, tree.reached[n_full]);
			if (edge == nullptr)
				n_full++;
		}
		if (edge == nullptr)
			return {StatusCode::kInternal, "graph cannot be connected"};
		*edge = u;
		++*n_added;
		tree.reach(u, static_cast<uint32_t>((edge - edges) / degree));
		tree.follow(edges);
	}
	return {};
}

} // namespace vectorgpu::engine::graph
