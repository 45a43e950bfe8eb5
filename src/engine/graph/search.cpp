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

bool
memory_neighbors(void *context, uint32_t node, uint32_t *neighbors)
{
	const MemoryGraph *graph = static_cast<const MemoryGraph *>(context);

	memcpy(neighbors, graph->edges + static_cast<size_t>(node) * graph->degree, graph->degree * sizeof(uint32_t));
	return true;
}

bool
memory_scores(void *context, const uint32_t *nodes, size_t n, double *scores)
{
	const MemoryGraph *graph = static_cast<const MemoryGraph *>(context);

	score_rows(graph->rows, graph->query, nodes, n, scores);
	return true;
}

/// Nodes kept to be expanded.
uint32_t
n_open(const SearchSpec &spec)
{
	return spec.kept == 0 ? spec.width : spec.kept;
}

/// A set with deletion needs room for the nodes in the queues; a set without, for the nodes that may be visited. Not
/// every neighbour of every node is new: room for half of them is enough, and saturation is no error.
VisitedSize
visited_size(const GraphView &view, const SearchSpec &spec)
{
	const size_t n_kept = std::min<size_t>(std::max(spec.width, n_open(spec)), view.n_nodes);
	size_t n_others = spec.selected_insertion ? 8 * n_kept : n_kept * view.degree / 2;

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
	Candidate *open;     // [n_open]
	uint32_t *neighbors; // [degree]
	uint32_t *located;   // [probe_steps * degree]
	double *scores;      // [probe_steps * degree]
	uint8_t *visited;

	bool take(ivf::Arena *arena, const GraphView &view, const SearchSpec &spec)
	{
		const size_t located_size = static_cast<size_t>(spec.probe_steps) * view.degree;

		open = arena->take<Candidate>(n_open(spec));
		neighbors = arena->take<uint32_t>(view.degree);
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
		  open_(memory.open, n_open(spec)), best_(found, spec.width)
	{
	}

	bool run(const Candidate *entries, size_t n_entries, SearchStats *stats)
	{
		for (size_t i = 0; i < n_entries; i++)
			if (entries[i].node < view_.n_nodes)
				offer({std::isnan(entries[i].score) ? HUGE_VAL : entries[i].score, entries[i].node}, false);
		for (uint64_t n_expanded = 0; spec_.most_expanded == 0 || n_expanded < spec_.most_expanded;)
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
				n_expanded++;
				stats->n_expanded++;
				if (!locate(now.node, &n_located, &n_marked))
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

			if (neighbor >= view_.n_nodes || visited_.contains(neighbor))
				continue;
			if (!spec_.selected_insertion && !visited_.saturated() && *n_marked == *n_located &&
				visited_.insert(neighbor))
				++*n_marked;
			memory_.located[(*n_located)++] = neighbor;
		}
		return true;
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
	return {memory->rows.n_rows, memory->degree, memory_neighbors, memory_scores, memory};
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
	const auto nearer = [](const Candidate &a, const Candidate &b)
	{
		const Candidate left = {std::isnan(a.score) ? HUGE_VAL : a.score, a.node};
		const Candidate right = {std::isnan(b.score) ? HUGE_VAL : b.score, b.node};

		return before(left, right);
	};

	std::partial_sort(candidates, candidates + std::min(n, n_wanted), candidates + n, nearer);
}

} // namespace vectorgpu::engine::graph
