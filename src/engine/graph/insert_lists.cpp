// See insert_lists.hpp.
#include "engine/graph/insert_lists.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "engine/graph/insert_choose.hpp"
#include "engine/graph/search.hpp"
#include "engine/ivf/work.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr size_t kMostTasks = 64;
constexpr uint32_t kPieceRows = 64; // that a task searches for between calls of progress

/// Copies of the new rows, contiguous for knn_graph, and their lists.
struct AmongMemory
{
	unsigned char *rows; // [n_added, row_stride]
	KnnLists lists;      // [n_added, k] of positions in `added`
	void *knn;
	size_t knn_bytes;
};

struct SearchMemory
{
	Candidate *entries; // [n_entries]
	double *scores;     // [n_entries]
	Candidate *found;   // [width]
	void *search;
	size_t search_bytes;
	Outcome failure;
};

struct Memory
{
	AmongMemory among;
	SearchMemory tasks[kMostTasks];
	size_t n_tasks;

	bool take(ivf::Arena *arena, const InsertLists &of, const KnnSpec &spec, size_t n_threads);
};

/// The new rows as knn_graph takes them.
GraphRows
added_rows(const InsertLists &of, const void *copies)
{
	GraphRows rows = of.rows;

	rows.rows = copies;
	rows.n_rows = of.n_added;
	return rows;
}

KnnSpec
among_spec(const InsertLists &of, const KnnSpec &spec)
{
	KnnSpec among = spec;

	among.k = std::clamp(of.lists.k, 1u, std::max(of.n_added, 2u) - 1);
	return among;
}

SearchSpec
search_spec(const InsertLists &of)
{
	SearchSpec spec;

	spec.width = of.lists.k;
	spec.probe_steps = kSearchSteps;
	return spec;
}

bool
Memory::take(ivf::Arena *arena, const InsertLists &of, const KnnSpec &spec, size_t n_threads)
{
	const KnnSpec knn = among_spec(of, spec);
	GraphView shape;
	bool taken;

	shape.n_nodes = of.rows.n_rows;
	shape.degree = of.degree;
	among.rows = arena->take<unsigned char>(of.n_added * of.rows.row_stride);
	among.lists.k = knn.k;
	among.lists.ids = arena->take<uint32_t>(size_t{of.n_added} * knn.k);
	among.lists.scores = arena->take<float>(size_t{of.n_added} * knn.k);
	among.knn_bytes = knn_graph_bytes(added_rows(of, nullptr), knn, n_threads);
	among.knn = arena->take<unsigned char>(among.knn_bytes);
	taken = among.knn != nullptr;
	n_tasks = std::clamp<size_t>(n_threads, 1, kMostTasks);
	for (size_t i = 0; i < n_tasks; i++)
	{
		tasks[i].entries = arena->take<Candidate>(of.n_entries);
		tasks[i].scores = arena->take<double>(of.n_entries);
		tasks[i].found = arena->take<Candidate>(of.lists.k);
		tasks[i].search_bytes = graph_search_bytes(shape, search_spec(of));
		tasks[i].search = arena->take<unsigned char>(tasks[i].search_bytes);
		tasks[i].failure = {};
		taken = tasks[i].search != nullptr;
	}
	return taken;
}

/// Shared by the tasks.
struct Searches
{
	const InsertLists *of;
	Memory *memory;
	const Call *call;
	std::atomic<uint32_t> next{0};
	std::atomic<bool> stopped{false};
};

/// Search for a new row; found [*n_found]: old rows near it.
Outcome
search_one(const InsertLists &of, uint32_t node, SearchMemory *memory, uint32_t *n_found)
{
	MemoryGraph graph = {of.rows, of.edges, of.degree, of.rows.row(node)};
	SearchStats stats;

	*n_found = 0;
	if (of.n_entries == 0)
		return {};
	score_rows(of.rows, graph.query, of.entries, of.n_entries, memory->scores);
	for (uint32_t i = 0; i < of.n_entries; i++)
		memory->entries[i] = {memory->scores[i], of.entries[i]};
	first_candidates(memory->entries, of.n_entries, kSearchEntries);
	return graph_search(memory_view(&graph), search_spec(of), memory->entries, std::min(of.n_entries, kSearchEntries),
		memory->found, n_found, &stats, memory->search, memory->search_bytes);
}

/// Make the list of the i-th new row: merge the rows found with its neighbours among the new rows.
void
join_lists(const InsertLists &of, const AmongMemory &among, uint32_t i, const Candidate *found, uint32_t n_found)
{
	const uint32_t *others = among.lists.ids + size_t{i} * among.lists.k;
	const float *other_scores = among.lists.scores + size_t{i} * among.lists.k;
	uint32_t *ids = of.lists.ids + size_t{i} * of.lists.k;
	float *scores = of.lists.scores + size_t{i} * of.lists.k;
	const Near end = {HUGE_VALF, kNoNode};
	uint32_t there = 0;
	uint32_t other = 0;

	for (uint32_t n = 0; n < of.lists.k; n++)
	{
		const Near a = there < n_found ? Near{static_cast<float>(found[there].score), found[there].node} : end;
		const Near b = other < among.lists.k && others[other] != kNoNode
			? Near{other_scores[other], of.added[others[other]]}
			: end;
		const bool first = nearer(a, b);
		const Near next = first ? a : b;

		// A search returns NaN scores as infinity; knn_graph leaves such rows out.
		if (!std::isfinite(next.score))
		{
			std::fill(ids + n, ids + of.lists.k, kNoNode);
			std::fill(scores + n, scores + of.lists.k, HUGE_VALF);
			return;
		}
		ids[n] = next.node;
		scores[n] = next.score;
		if (first)
			there++;
		else
			other++;
	}
}

void
search_task(void *argument, size_t index)
{
	Searches *searches = static_cast<Searches *>(argument);
	const InsertLists &of = *searches->of;
	SearchMemory *memory = &searches->memory->tasks[index];

	for (;;)
	{
		const uint64_t first = uint64_t{searches->next.fetch_add(1)} * kPieceRows;

		if (first >= of.n_added || searches->stopped.load(std::memory_order_relaxed))
			return;
		if (index == 0 && !ivf::go_on(*searches->call, {first, of.n_added}))
			memory->failure = ivf::cancelled();
		for (uint64_t i = first; i < std::min<uint64_t>(of.n_added, first + kPieceRows) && memory->failure.is_ok(); i++)
		{
			uint32_t n_found;

			memory->failure = search_one(of, of.added[i], memory, &n_found);
			if (memory->failure.is_ok())
				join_lists(of, searches->memory->among, static_cast<uint32_t>(i), memory->found, n_found);
		}
		if (!memory->failure.is_ok())
			searches->stopped.store(true, std::memory_order_relaxed);
	}
}

/// Find the neighbours of new rows among themselves.
Outcome
find_among(const InsertLists &of, const KnnSpec &spec, AmongMemory *among, const Call &call)
{
	if (of.n_added < 2)
	{
		std::fill_n(among->lists.ids, size_t{of.n_added} * among->lists.k, kNoNode);
		return {};
	}
	for (uint32_t i = 0; i < of.n_added; i++)
		memcpy(among->rows + i * of.rows.row_stride, of.rows.row(of.added[i]), of.rows.row_stride);
	return knn_graph(
		added_rows(of, among->rows), among_spec(of, spec), &among->lists, among->knn, among->knn_bytes, call);
}

} // namespace

size_t
insert_lists_bytes(const InsertLists &of, const KnnSpec &spec, size_t n_threads)
{
	ivf::Arena arena;
	Memory memory;

	(void) memory.take(&arena, of, spec, n_threads);
	return arena.bytes_needed();
}

Outcome
insert_lists(const InsertLists &of, const KnnSpec &spec, void *work, size_t work_bytes, const Call &call)
{
	ivf::Arena arena(work, work_bytes);
	Memory memory;

	if (of.n_added == 0)
		return {};
	if (!memory.take(&arena, of, spec, call.n_threads))
		return ivf::work_memory_short();

	const Outcome outcome = find_among(of, spec, &memory.among, call);
	Searches searches = {.of = &of, .memory = &memory, .call = &call};

	if (!outcome.is_ok())
		return outcome;
	ivf::run_workers(call, memory.n_tasks, search_task, &searches);
	for (size_t i = 0; i < memory.n_tasks; i++)
		if (!memory.tasks[i].failure.is_ok())
			return memory.tasks[i].failure;
	return {};
}

} // namespace vectorgpu::engine::graph
