// See insert.hpp.
#include "engine/graph/insert.hpp"

#include <algorithm>
#include <atomic>

#include "engine/graph/connect.hpp"
#include "engine/graph/entries.hpp"
#include "engine/graph/insert_lists.hpp"
#include "engine/graph/insert_rechoose.hpp"
#include "engine/graph/reach.hpp"
#include "engine/graph/reverse.hpp"
#include "engine/ivf/work.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kPieceRows = 4096;
constexpr uint32_t kSpareEntries = 32; // kept rows that become entry points if no entry point is kept

constexpr Outcome kDamagedBase = {StatusCode::kInvalidArgument, "base graph of the insertion is inconsistent"};

/// The arguments of an insertion.
struct Insertion
{
	GraphRows rows;
	const BuildSpec *spec;
	const BaseGraph *base;
	uint32_t n_added;
};

/// The arrays that all stages use, and memory that they use one after the other.
struct Memory
{
	uint32_t *origin;  // [n_rows] numbers in the base; kNoNode: new
	uint32_t *added;   // [n_added] the new rows
	uint32_t *entries; // [max(base's, kSpareEntries)] for searches
	uint32_t n_entries;
	KnnLists lists;    // [n_added, k]
	uint32_t *forward; // [n_rows, degree]
	unsigned char *stage;
	size_t stage_bytes;

	bool take(ivf::Arena *arena, const Insertion &of, size_t n_threads);
};

InsertLists
lists_of(const Insertion &of, const Memory &memory, const uint32_t *edges)
{
	InsertLists lists;

	lists.rows = of.rows;
	lists.added = memory.added;
	lists.n_added = of.n_added;
	lists.edges = edges;
	lists.degree = of.spec->degree;
	lists.entries = memory.entries;
	lists.n_entries = memory.n_entries;
	lists.lists = memory.lists;
	return lists;
}

Rechoice
rechoice_of(const Insertion &of, const Memory &memory)
{
	Rechoice choice;

	choice.rows = of.rows;
	choice.base = of.base;
	choice.origin = memory.origin;
	choice.added = memory.added;
	choice.n_added = of.n_added;
	choice.lists = memory.lists;
	choice.prune = of.spec->prune;
	choice.degree = of.spec->degree;
	choice.forward = memory.forward;
	return choice;
}

bool
Memory::take(ivf::Arena *arena, const Insertion &of, size_t n_threads)
{
	const GraphRows &rows = of.rows;
	const uint32_t degree = of.spec->degree;

	lists.k = knn_spec(rows, *of.spec).k;
	n_entries = kMaxEntries;
	origin = arena->take<uint32_t>(rows.n_rows);
	added = arena->take<uint32_t>(of.n_added);
	entries = arena->take<uint32_t>(kMaxEntries);
	lists.ids = arena->take<uint32_t>(size_t{of.n_added} * lists.k);
	lists.scores = arena->take<float>(size_t{of.n_added} * lists.k);
	forward = arena->take<uint32_t>(size_t{rows.n_rows} * degree);
	stage_bytes = std::max({insert_lists_bytes(lists_of(of, *this, nullptr), knn_spec(rows, *of.spec), n_threads),
		rechoose_bytes(rechoice_of(of, *this), n_threads), add_reverse_bytes(rows.n_rows, degree),
		choose_entries_bytes(rows, *of.spec, n_threads),
		connect_bytes(rows, degree, entry_count(rows.n_rows, *of.spec)),
		add_unreached_bytes(rows, degree, entry_count(rows.n_rows, *of.spec), n_threads)});
	stage = arena->take<unsigned char>(stage_bytes);
	n_entries = 0;
	return stage != nullptr;
}

/// Whether the numbers of kept rows are below n_rows. *n_kept: how many there are.
bool
numbers_valid(const BaseGraph &base, uint32_t n_rows, uint32_t *n_kept)
{
	*n_kept = 0;
	for (uint32_t i = 0; i < base.n_rows; i++)
	{
		if (base.numbers[i] == kNoNode)
			continue;
		if (base.numbers[i] >= n_rows || *n_kept == n_rows)
			return false;
		++*n_kept;
	}
	return true;
}

bool
entries_valid(const BaseGraph &base)
{
	return base.n_entries <= kMaxEntries &&
		std::all_of(base.entries, base.entries + base.n_entries, [&base](uint32_t e) { return e < base.n_rows; });
}

/// Set origin, added and entries. False if two kept rows have the same number.
bool
number_rows(const Insertion &of, Memory *memory)
{
	const BaseGraph &base = *of.base;
	uint32_t n_added = 0;

	std::fill_n(memory->origin, of.rows.n_rows, kNoNode);
	for (uint32_t i = 0; i < base.n_rows; i++)
	{
		if (base.numbers[i] == kNoNode)
			continue;
		if (memory->origin[base.numbers[i]] != kNoNode)
			return false;
		memory->origin[base.numbers[i]] = i;
	}
	for (uint32_t u = 0; u < of.rows.n_rows; u++)
		if (memory->origin[u] == kNoNode)
			memory->added[n_added++] = u;
	for (uint32_t i = 0; i < base.n_entries; i++)
		if (base.numbers[base.entries[i]] != kNoNode)
			memory->entries[memory->n_entries++] = base.numbers[base.entries[i]];
	if (memory->n_entries > 0)
		return true;

	const uint32_t n_kept = of.rows.n_rows - of.n_added;
	const uint32_t apart = n_kept / kSpareEntries + 1;

	for (uint32_t u = 0, n = 0; u < of.rows.n_rows; u++)
		if (memory->origin[u] != kNoNode && n++ % apart == 0)
			memory->entries[memory->n_entries++] = u;
	return true;
}

/// Shared by the tasks that make the graph which new rows search.
struct Bridging
{
	const Insertion *of;
	const Memory *memory;
	uint32_t *edges; // [n_rows, degree]
	const Call *call;
	std::atomic<uint32_t> next{0};
	std::atomic<bool> damaged{false};
	std::atomic<bool> stopped{false};
};

/// Set the edges of a kept row, in the new numbers. An edge to a removed row leads on to the first of its neighbours
/// that is kept. False if an edge is invalid.
bool
bridge(const Insertion &of, uint32_t origin, uint32_t u, uint32_t *edges)
{
	const BaseGraph &base = *of.base;
	const uint32_t degree = of.spec->degree;
	const uint32_t *own = base.edges + size_t{origin} * degree;
	bool lost = false;

	for (uint32_t i = 0; i < degree; i++)
	{
		if (own[i] != kNoNode && own[i] >= base.n_rows)
			return false;
		edges[i] = own[i] == kNoNode ? kNoNode : base.numbers[own[i]];
		lost = lost || (own[i] != kNoNode && edges[i] == kNoNode);
	}
	for (uint32_t i = 0; i < degree && lost; i++)
	{
		if (own[i] == kNoNode || edges[i] != kNoNode)
			continue;
		const uint32_t *others = base.edges + size_t{own[i]} * degree;

		for (uint32_t j = 0; j < degree && edges[i] == kNoNode; j++)
		{
			const uint32_t next = others[j] < base.n_rows ? base.numbers[others[j]] : kNoNode;

			if (next != kNoNode && next != u && std::find(edges, edges + degree, next) == edges + degree)
				edges[i] = next;
		}
	}
	return true;
}

/// Check the edges of removed rows too: bridge() of other rows reads them.
void
bridge_task(void *argument, size_t index)
{
	Bridging *task = static_cast<Bridging *>(argument);
	const Insertion &of = *task->of;
	const uint32_t degree = of.spec->degree;
	const uint32_t n_rows = of.rows.n_rows;
	const uint32_t n_base = of.base->n_rows;
	const uint64_t n = std::max(n_rows, n_base);

	for (;;)
	{
		const uint64_t first = uint64_t{task->next.fetch_add(1)} * kPieceRows;

		if (first >= n || task->stopped.load(std::memory_order_relaxed))
			return;
		if (index == 0 && !ivf::go_on(*task->call, {first, n}))
			task->stopped.store(true, std::memory_order_relaxed);
		for (uint64_t u = first; u < std::min(n, first + kPieceRows); u++)
		{
			if (u < n_base && of.base->numbers[u] == kNoNode)
				for (uint64_t i = u * degree; i < (u + 1) * degree; i++)
					if (of.base->edges[i] != kNoNode && of.base->edges[i] >= n_base)
						task->damaged.store(true, std::memory_order_relaxed);
			if (u >= n_rows)
				continue;
			uint32_t *edges = task->edges + u * degree;

			if (task->memory->origin[u] == kNoNode)
				std::fill_n(edges, degree, kNoNode);
			else if (!bridge(of, task->memory->origin[u], static_cast<uint32_t>(u), edges))
				task->damaged.store(true, std::memory_order_relaxed);
		}
	}
}

Outcome
bridge_all(const Insertion &of, const Memory &memory, uint32_t *edges, const Call &call)
{
	Bridging task = {.of = &of, .memory = &memory, .edges = edges, .call = &call};

	ivf::run_workers(call, std::max<size_t>(call.n_threads, 1), bridge_task, &task);
	if (task.stopped.load())
		return ivf::cancelled();
	return task.damaged.load() ? kDamagedBase : Outcome{};
}

} // namespace

size_t
graph_insert_bytes(const GraphRows &rows, const BuildSpec &spec, const InsertShape &shape, size_t n_threads)
{
	const uint32_t n_kept = shape.n_base - std::min(shape.n_left, shape.n_base);
	const Insertion of = {rows, &spec, nullptr, rows.n_rows - std::min(n_kept, rows.n_rows)};
	ivf::Arena arena;
	Memory memory;

	(void) memory.take(&arena, of, n_threads);
	return arena.bytes_needed();
}

Outcome
graph_insert(const GraphRows &rows, const BuildSpec &spec, const BaseGraph &base, uint32_t *edges, uint32_t *entries,
	BuildReport *report, void *work, size_t work_bytes, const Call &call, const BuildHooks &hooks)
{
	Insertion of = {rows, &spec, &base, 0};
	ivf::Arena arena(work, work_bytes);
	Memory memory;
	uint32_t n_kept;

	*report = BuildReport();
	if (spec.degree < kMinDegree || spec.degree > kMaxDegree || spec.n_entries > kMaxEntries)
		return {StatusCode::kInvalidArgument, "number of edges or entry points is out of range"};
	if (!numbers_valid(base, rows.n_rows, &n_kept) || !entries_valid(base))
		return kDamagedBase;
	if (rows.n_rows == 0)
		return {};
	of.n_added = rows.n_rows - n_kept;
	if (!memory.take(&arena, of, call.n_threads))
		return ivf::work_memory_short();

	// Until add_reverse, edges holds the graph that new rows search.
	if (hooks.on_stage != nullptr)
		hooks.on_stage(call.progress_context, BuildStage::kNeighbors);
	if (!number_rows(of, &memory))
		return kDamagedBase;
	Outcome outcome = bridge_all(of, memory, edges, call);
	if (outcome.is_ok())
		outcome =
			insert_lists(lists_of(of, memory, edges), knn_spec(rows, spec), memory.stage, memory.stage_bytes, call);
	if (outcome.is_ok() && hooks.on_stage != nullptr)
		hooks.on_stage(call.progress_context, BuildStage::kEdges);
	if (outcome.is_ok())
		outcome = rechoose(rechoice_of(of, memory), memory.stage, memory.stage_bytes, call);
	if (outcome.is_ok())
		outcome = add_reverse(rows.n_rows, spec.degree, memory.forward, edges, memory.stage, memory.stage_bytes, call);
	if (outcome.is_ok())
		outcome = choose_entries(rows, spec, entries, &report->n_entries, memory.stage, memory.stage_bytes, call);
	if (outcome.is_ok())
		outcome = connect(rows, spec.degree, edges, entries, report->n_entries, &report->n_connected, memory.stage,
			memory.stage_bytes, call);
	if (outcome.is_ok() && spec.n_entries == 0)
		outcome = add_unreached(rows, spec.degree, edges, entries, &report->n_entries, entry_count(rows.n_rows, spec),
			&report->n_unreached, memory.stage, memory.stage_bytes, call);
	return outcome;
}

} // namespace vectorgpu::engine::graph
