// See connect.hpp.
#include "engine/graph/connect.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

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
	void follow(const uint32_t *edges) { follow(edges, UINT32_MAX); }
	/// Up to the node of `reached` at `end`.
	void follow(const uint32_t *edges, uint32_t end)
	{
		for (; n_followed < std::min(n_reached, end); n_followed++)
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

/// Follows the edges of one level of a search by several threads, to the same tree as by one: a node's parent is the
/// first in the order of `reached` that has an edge to it. Three passes: each edge to a node that was not reached puts
/// in its claim, and the first one stays; then the nodes whose claims stayed are counted, piece by piece of the level,
/// and written to their places.
struct LevelSearch
{
	static constexpr uint32_t kLeastNodes = 4096; // of a level: threads would take longer to wake than one to go on
	static constexpr uint32_t kPieceNodes = 512;

	Tree *tree;
	const uint32_t *edges;
	uint64_t *claims; // [n_nodes] place in `reached` * degree + number of the edge
	uint32_t *counts; // [pieces] of nodes, then their first place
	uint32_t begin;   // of the level
	uint32_t end;
	std::atomic<uint32_t> next;

	uint32_t n_pieces() const { return (end - begin + kPieceNodes - 1) / kPieceNodes; }

	/// visit(place, edge, node) for each edge of a piece.
	template <class Visit>
	void each_edge(uint32_t piece, Visit visit) const
	{
		const uint32_t first = begin + piece * kPieceNodes;

		for (uint32_t place = first; place < std::min(end, first + kPieceNodes); place++)
		{
			const uint32_t *own = edges + static_cast<size_t>(tree->reached[place]) * tree->degree;

			if (place + kNodesAhead < end)
				tree->prefetch_edges(edges + static_cast<size_t>(tree->reached[place + kNodesAhead]) * tree->degree);
			for (uint32_t i = 0; i < tree->degree; i++)
				if (own[i] < tree->n_nodes)
					visit(place, uint64_t{place} * tree->degree + i, own[i]);
		}
	}

	void claim(uint32_t piece) const
	{
		each_edge(piece,
			[this](uint32_t, uint64_t edge, uint32_t node)
			{
				if (tree->parents[node] != kNoNode)
					return;

				const std::atomic_ref<uint64_t> best(claims[node]);
				uint64_t now = best.load(std::memory_order_relaxed);

				while (edge < now && !best.compare_exchange_weak(now, edge, std::memory_order_relaxed))
				{
				}
			});
	}
	void count(uint32_t piece) const
	{
		uint32_t n = 0;

		each_edge(piece, [&](uint32_t, uint64_t edge, uint32_t node) { n += claims[node] == edge ? 1 : 0; });
		counts[piece] = n;
	}
	void write(uint32_t piece) const
	{
		uint32_t at = counts[piece];

		each_edge(piece,
			[&](uint32_t place, uint64_t edge, uint32_t node)
			{
				if (claims[node] != edge)
					return;
				tree->parents[node] = tree->reached[place];
				tree->reached[at++] = node;
			});
	}

	template <void (LevelSearch::*Pass)(uint32_t) const>
	void run(const Call &call)
	{
		next.store(0, std::memory_order_relaxed);
		ivf::run_workers(
			call, call.n_threads,
			[](void *argument, size_t)
			{
				LevelSearch *search = static_cast<LevelSearch *>(argument);

				for (uint32_t piece; (piece = search->next.fetch_add(1)) < search->n_pieces();)
					(search->*Pass)(piece);
			},
			this);
	}

	void follow(const Call &call)
	{
		uint32_t at = tree->n_reached;

		run<&LevelSearch::claim>(call);
		run<&LevelSearch::count>(call);
		for (uint32_t piece = 0; piece < n_pieces(); piece++)
			at += std::exchange(counts[piece], at);
		run<&LevelSearch::write>(call);
		tree->n_reached = at;
		tree->n_followed = end;
	}
};

struct Memory
{
	Tree tree;
	uint64_t *claims;   // [n_rows] of LevelSearch
	uint32_t *counts;   // [n_rows / LevelSearch::kPieceNodes + 1]
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
		claims = arena->take<uint64_t>(rows.n_rows);
		counts = arena->take<uint32_t>(rows.n_rows / LevelSearch::kPieceNodes + 1);
		entries = arena->take<Candidate>(n_entries);
		nodes = arena->take<uint32_t>(n_entries);
		scores = arena->take<double>(n_entries);
		found = arena->take<Candidate>(kSearchWidth);
		search_bytes = graph_search_bytes(shape, spec);
		search = arena->take<uint8_t>(search_bytes);
		return search != nullptr;
	}
};

/// Follow all edges, level by level.
void
follow_all(const uint32_t *edges, Memory *memory, const Call &call)
{
	Tree *tree = &memory->tree;

	if (call.n_threads > 1)
		std::fill_n(memory->claims, tree->n_nodes, UINT64_MAX);
	while (tree->n_followed < tree->n_reached)
	{
		const uint32_t end = tree->n_reached;

		if (call.n_threads > 1 && end - tree->n_followed >= LevelSearch::kLeastNodes)
			LevelSearch{tree, edges, memory->claims, memory->counts, tree->n_followed, end, {}}.follow(call);
		else
			tree->follow(edges, end);
	}
}

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
	uint32_t *n_added, void *work, size_t work_bytes, const Call &call, const uint8_t *absent, ConnectLimit *limit)
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
	follow_all(edges, &memory, call);

	const uint32_t n_reached = tree.n_reached;

	for (uint32_t u = 0; u < rows.n_rows && (limit == nullptr || *n_added < limit->most); u++)
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
	if (limit != nullptr)
		limit->n_reached = tree.n_reached - n_reached;
	return {};
}

} // namespace vectorgpu::engine::graph
