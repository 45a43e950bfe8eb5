// See search.hpp.
#include "engine/graph/search.hpp"

#include <cmath>

#include "engine/graph/candidate_queue.hpp"
#include "engine/graph/visited.hpp"
#include "engine/ivf/work.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kAhead = 16; // lists of neighbours prefetched

bool
memory_neighbors(void *context, uint32_t node, uint32_t *neighbors)
{
	const MemoryGraph *graph = static_cast<const MemoryGraph *>(context);

	memcpy(neighbors, graph->edges + static_cast<size_t>(node) * graph->degree, graph->degree * sizeof(uint32_t));
	return true;
}

void
memory_expect(void *context, uint32_t node)
{
	const MemoryGraph *graph = static_cast<const MemoryGraph *>(context);

	prefetch(graph->edges + static_cast<size_t>(node) * graph->degree, graph->degree * sizeof(uint32_t));
}

bool
memory_scores(void *context, const uint32_t *nodes, size_t n, double *scores)
{
	const MemoryGraph *graph = static_cast<const MemoryGraph *>(context);

	score_rows(graph->rows, graph->query, nodes, n, scores);
	return true;
}

/// A set with deletion needs room for the nodes in the queues; a set without, for the nodes that may be visited. Not
/// every neighbour of every node is new: room for half of them is enough, and saturation is no error.
VisitedSize
visited_size(const GraphView &view, const SearchSpec &spec)
{
	const size_t n_kept = std::min<size_t>(spec.width, view.n_nodes);
	size_t n_others = spec.selected_insertion ? 8 * n_kept : n_kept * view.degree / 2;

	if (spec.fails != nullptr) // nodes that fail count as well
		n_others *= 2;
	if (spec.selected_insertion && spec.visited_deletion)
		n_others = 0;
	return {2 * n_kept, std::min<size_t>(n_others, view.n_nodes)};
}

size_t
visited_bytes(const GraphView &view, const SearchSpec &spec)
{
	const VisitedSize size = visited_size(view, spec);

	switch (spec.visited)
	{
		case VisitedKind::kHash:
			return HashVisited::bytes(size);
		case VisitedKind::kBloom:
			return BloomVisited::bytes(size);
		case VisitedKind::kCuckoo:
			return CuckooVisited::bytes(size);
	}
	return 0;
}

/// The arrays of a search.
struct Memory
{
	Candidate *open;     // [width]
	uint32_t *neighbors; // [degree]
	uint32_t *beyond;    // [degree], of a neighbour that fails
	uint32_t *located;   // [probe_steps * degree]
	double *scores;      // [probe_steps * degree]
	uint8_t *visited;

	bool take(ivf::Arena *arena, const GraphView &view, const SearchSpec &spec)
	{
		const size_t located_size = static_cast<size_t>(spec.probe_steps) * view.degree;

		open = arena->take<Candidate>(spec.width);
		neighbors = arena->take<uint32_t>(view.degree);
		beyond = arena->take<uint32_t>(spec.fails != nullptr ? view.degree : 0);
		located = arena->take<uint32_t>(located_size);
		scores = arena->take<double>(located_size);
		visited = arena->take<uint8_t>(visited_bytes(view, spec));
		return visited != nullptr;
	}
};

bool
is_valid(const GraphView &view, const SearchSpec &spec)
{
	return spec.width > 0 && view.degree > 0 && view.degree <= kMaxDegree && spec.probe_steps > 0 &&
		spec.probe_steps <= kMaxProbeSteps;
}

/// One search. The set of visited nodes is a type so that its tests are inlined.
template <class Visited>
class Search
{
public:
	Search(const GraphView &view, const SearchSpec &spec, const Memory &memory, Candidate *found)
		: view_(view), spec_(spec), memory_(memory), visited_(visited_size(view, spec), memory.visited),
		  open_(memory.open, spec.width), best_(found, spec.width)
	{
	}

	bool run(const Candidate *entries, size_t n_entries, SearchStats *stats)
	{
		for (size_t i = 0; i < n_entries; i++)
			if (entries[i].node < view_.n_nodes)
				offer({std::isnan(entries[i].score) ? HUGE_VAL : entries[i].score, entries[i].node}, false);
		for (;;)
		{
			size_t n_located = 0;
			size_t n_marked = 0;
			bool expanded = false;

			for (uint32_t i = 0; i < spec_.probe_steps && !open_.empty(); i++)
			{
				// The first node to expand is not among the best, so no later one is (algorithm 1, line 4).
				if (!best_.wants(open_.first()))
					break;
				const Candidate now = open_.pop_first();

				// One that fails stays visited: it would be wanted again.
				if (passes(now.node))
					forget(best_.push(now));
				expanded = true;
				stats->n_expanded++;
				if (spec_.fails != nullptr ? !locate_passing(now.node, &n_located, &n_marked)
										   : !locate(now.node, &n_located, &n_marked))
					return false;
			}
			if (!expanded)
				break;
			stats->n_scored += n_located;
			if (n_located > 0 && !view_.scores(view_.context, memory_.located, n_located, memory_.scores))
				return false;
			for (size_t i = 0; i < n_located; i++)
				offer({std::isnan(memory_.scores[i]) ? HUGE_VAL : memory_.scores[i], memory_.located[i]}, i < n_marked);
		}
		best_.sort();
		return true;
	}

	uint32_t n_found() const { return static_cast<uint32_t>(best_.size()); }

private:
	bool passes(uint32_t node) const
	{
		return spec_.fails == nullptr || ((spec_.fails[node / 8] >> (node % 8)) & 1) == 0;
	}

	/// Candidate locating: add the unvisited neighbours. The first *n_marked count as visited from then on.
	bool locate(uint32_t node, size_t *n_located, size_t *n_marked)
	{
		if (!view_.neighbors(view_.context, node, memory_.neighbors))
			return false;
		for (uint32_t i = 0; i < view_.degree; i++)
		{
			const uint32_t neighbor = memory_.neighbors[i];

			if (neighbor < view_.n_nodes)
				add(neighbor, n_located, n_marked);
		}
		return true;
	}

	/// The same with conditions: the neighbours that pass, and in place of the others, in their order, those of their
	/// neighbours that do, until these are together as many as a node has edges.
	bool locate_passing(uint32_t node, size_t *n_located, size_t *n_marked)
	{
		uint32_t n_failing = 0;
		uint32_t wanted = view_.degree;

		if (!view_.neighbors(view_.context, node, memory_.neighbors))
			return false;
		for (uint32_t i = 0; i < view_.degree; i++)
		{
			const uint32_t neighbor = memory_.neighbors[i];

			if (neighbor >= view_.n_nodes)
				continue;
			if (!passes(neighbor))
			{
				memory_.neighbors[n_failing++] = neighbor;
				continue;
			}
			add(neighbor, n_located, n_marked);
			wanted--;
		}
		for (uint32_t i = 0; i < std::min(n_failing, kAhead) && wanted > 0; i++)
			expect(memory_.neighbors[i]);
		for (uint32_t i = 0; i < n_failing && wanted > 0; i++)
		{
			if (i + kAhead < n_failing)
				expect(memory_.neighbors[i + kAhead]);
			if (!visited_.contains(memory_.neighbors[i]) &&
				!locate_beyond(memory_.neighbors[i], &wanted, n_located, n_marked))
				return false;
		}
		return true;
	}

	/// The first *wanted neighbours that pass of a node that fails. If there are no more, it counts as visited.
	bool locate_beyond(uint32_t failing, uint32_t *wanted, size_t *n_located, size_t *n_marked)
	{
		uint32_t n_passing = 0;

		if (!view_.neighbors(view_.context, failing, memory_.beyond))
			return false;
		for (uint32_t i = 0; i < view_.degree; i++)
		{
			const uint32_t neighbor = memory_.beyond[i];

			memory_.beyond[n_passing] = neighbor;
			n_passing += neighbor < view_.n_nodes && passes(neighbor) ? 1 : 0;
		}
		for (uint32_t i = 0; i < std::min(n_passing, *wanted); i++)
			add(memory_.beyond[i], n_located, n_marked);
		if (n_passing <= *wanted && !spec_.selected_insertion && !visited_.saturated())
			(void) visited_.insert(failing);
		*wanted -= std::min(n_passing, *wanted);
		return true;
	}

	/// Add a node to those located unless it was visited.
	void add(uint32_t node, size_t *n_located, size_t *n_marked)
	{
		if (visited_.contains(node))
			return;
		if (!spec_.selected_insertion && !visited_.saturated() && *n_marked == *n_located && visited_.insert(node))
			++*n_marked;
		memory_.located[(*n_located)++] = node;
	}

	void expect(uint32_t node) const
	{
		if (view_.expect != nullptr)
			view_.expect(view_.context, node);
	}

	/// Maintenance: insert a node that is among the best so far into the queue; if that is full, the last one is
	/// dropped.
	void offer(const Candidate &candidate, bool marked)
	{
		if (!best_.wants(candidate) || (open_.full() && !before(candidate, open_.last())))
			return;
		if (!marked && (visited_.contains(candidate.node) || !visited_.insert(candidate.node)))
			return;
		if (open_.full())
			forget(open_.pop_last().node);
		open_.push(candidate);
	}

	/// Delete a node that has left the queues from the visited ones.
	void forget(uint32_t node)
	{
		if (node != kNoNode && Visited::kDeletes && (spec_.visited_deletion || visited_.saturated()))
			visited_.erase(node);
	}

	const GraphView view_;
	const SearchSpec spec_;
	const Memory memory_;
	Visited visited_;
	MinMaxHeap open_; // q of the paper
	BestHeap best_;   // topk of the paper
};

template <class Visited>
Outcome
run_search(const GraphView &view, const SearchSpec &spec, const Memory &memory, const Candidate *entries,
	size_t n_entries, Candidate *found, uint32_t *n_found, SearchStats *stats)
{
	Search<Visited> search(view, spec, memory, found);

	if (!search.run(entries, n_entries, stats))
		return ivf::cancelled();
	*n_found = search.n_found();
	return {};
}

} // namespace

GraphView
memory_view(MemoryGraph *memory)
{
	return {memory->rows.n_rows, memory->degree, memory_neighbors, memory_scores, memory, memory_expect};
}

size_t
graph_search_bytes(const GraphView &view, const SearchSpec &spec)
{
	ivf::Arena arena;
	Memory memory;

	(void) memory.take(&arena, view, spec);
	return arena.bytes_needed();
}

Outcome
graph_search(const GraphView &view, const SearchSpec &spec, const Candidate *entries, size_t n_entries,
	Candidate *found, uint32_t *n_found, SearchStats *stats, void *work, size_t work_bytes)
{
	ivf::Arena arena(work, work_bytes);
	Memory memory;

	*n_found = 0;
	if (!is_valid(view, spec))
		return {StatusCode::kInvalidArgument, "graph cannot be searched in this way"};
	if (!memory.take(&arena, view, spec))
		return ivf::work_memory_short();
	switch (spec.visited)
	{
		case VisitedKind::kHash:
			return run_search<HashVisited>(view, spec, memory, entries, n_entries, found, n_found, stats);
		case VisitedKind::kBloom:
			return run_search<BloomVisited>(view, spec, memory, entries, n_entries, found, n_found, stats);
		case VisitedKind::kCuckoo:
			return run_search<CuckooVisited>(view, spec, memory, entries, n_entries, found, n_found, stats);
	}
	return {StatusCode::kInvalidArgument, "unknown kind of visited set"};
}

void
first_candidates(Candidate *candidates, size_t n, size_t n_wanted)
{
	// NaN comes behind infinities, as in the keys by which a GPU chooses.
	const auto nearer = [](const Candidate &a, const Candidate &b)
	{
		if (std::isnan(a.score) || std::isnan(b.score))
			return std::isnan(a.score) == std::isnan(b.score) ? a.node < b.node : std::isnan(b.score);
		return before(a, b);
	};

	std::partial_sort(candidates, candidates + std::min(n, n_wanted), candidates + n, nearer);
}

} // namespace vectorgpu::engine::graph
