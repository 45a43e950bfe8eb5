// See reverse.hpp. Edges are collected by the node that they lead to. Each task reads all edges and keeps those that
// lead to its range of nodes, so that no two tasks write to one node, and the memory that a task writes fits a cache.
#include "engine/graph/reverse.hpp"

#include <algorithm>
#include <atomic>

#include "engine/ivf/work.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kProgressRows = 16384; // that a task takes between calls of progress
constexpr size_t kMostTasks = 64;

static_assert(kMaxDegree - 1 <= UINT8_MAX);

/// By node, the rows that have an edge to it: the first `degree` by (rank of the edge, row), in no order.
struct ReverseMemory
{
	uint32_t *rows; // [n_rows, degree]
	uint8_t *ranks; // [n_rows, degree]
	uint32_t *n;    // [n_rows]

	bool take(ivf::Arena *arena, uint32_t n_rows, uint32_t degree)
	{
		rows = arena->take<uint32_t>(size_t{n_rows} * degree);
		ranks = arena->take<uint8_t>(size_t{n_rows} * degree);
		n = arena->take<uint32_t>(n_rows);
		return n != nullptr;
	}
};

/// Shared by the tasks of one call.
struct ReverseTask
{
	uint32_t n_rows;
	uint32_t degree;
	const uint32_t *forward;
	uint32_t *edges;
	ReverseMemory memory;
	uint32_t n_ranges;
	const Call *call;
	std::atomic<uint32_t> next; // range, or block of rows
	std::atomic<bool> stopped;
};

/// False: stop. Task 0 runs in the caller's thread and reports progress.
bool
go_on(ReverseTask *task, size_t index, uint32_t row)
{
	if (index == 0 && !ivf::go_on(*task->call, {row, task->n_rows}))
		task->stopped.store(true, std::memory_order_relaxed);
	return !task->stopped.load(std::memory_order_relaxed);
}

/// Keep an edge to node. Rows come in ascending order.
void
keep(const ReverseTask *task, uint32_t node, uint32_t row, uint8_t rank)
{
	const uint32_t degree = task->degree;
	uint32_t *rows = task->memory.rows + size_t{node} * degree;
	uint8_t *ranks = task->memory.ranks + size_t{node} * degree;
	uint32_t at = task->memory.n[node];

	if (at < degree)
		task->memory.n[node]++;
	else
	{
		uint8_t worst = 0;

		for (uint32_t i = 0; i < degree; i++)
			worst = std::max(worst, ranks[i]);
		if (rank >= worst)
			return;
		at = degree;
		for (uint32_t i = 0; i < degree; i++)
			if (ranks[i] == worst && (at == degree || rows[i] > rows[at]))
				at = i;
	}
	rows[at] = row;
	ranks[at] = rank;
}

void
collect_task(void *argument, size_t index)
{
	ReverseTask *task = static_cast<ReverseTask *>(argument);
	const uint32_t degree = task->degree;

	for (uint32_t range = task->next.fetch_add(1); range < task->n_ranges; range = task->next.fetch_add(1))
	{
		const uint32_t first = static_cast<uint32_t>(uint64_t{range} * task->n_rows / task->n_ranges);
		const uint32_t n = static_cast<uint32_t>((uint64_t{range} + 1) * task->n_rows / task->n_ranges) - first;

		std::fill_n(task->memory.n + first, n, 0);
		for (uint32_t u = 0; u < task->n_rows; u++)
		{
			const uint32_t *own = task->forward + size_t{u} * degree;

			if (u % kProgressRows == 0 && !go_on(task, index, u))
				return;
			for (uint32_t rank = 0; rank < degree; rank++)
				if (own[rank] - first < n) // kNoNode lies in no range
					keep(task, own[rank], u, static_cast<uint8_t>(rank));
		}
	}
}

bool
has(const uint32_t *nodes, uint32_t n, uint32_t node)
{
	return std::find(nodes, nodes + n, node) != nodes + n;
}

/// Set the edges of u: the first half of its own, reverse edges, its other own edges.
void
join(const ReverseTask *task, uint32_t u, uint64_t *back)
{
	const uint32_t degree = task->degree;
	const uint32_t *own = task->forward + size_t{u} * degree;
	const uint32_t *rows = task->memory.rows + size_t{u} * degree;
	const uint8_t *ranks = task->memory.ranks + size_t{u} * degree;
	const uint32_t n_back = task->memory.n[u];
	uint32_t *out = task->edges + size_t{u} * degree;
	uint32_t n = 0;

	for (uint32_t i = 0; i < n_back; i++)
		back[i] = uint64_t{ranks[i]} << 32 | rows[i];
	std::sort(back, back + n_back);
	for (uint32_t i = 0; i < (degree + 1) / 2 && own[i] != kNoNode; i++)
		out[n++] = own[i];
	for (uint32_t i = 0; i < n_back && n < degree; i++)
		if (!has(out, n, static_cast<uint32_t>(back[i])))
			out[n++] = static_cast<uint32_t>(back[i]);
	for (uint32_t i = (degree + 1) / 2; i < degree && n < degree && own[i] != kNoNode; i++)
		if (!has(out, n, own[i]))
			out[n++] = own[i];
	std::fill(out + n, out + degree, kNoNode);
}

void
join_task(void *argument, size_t index)
{
	ReverseTask *task = static_cast<ReverseTask *>(argument);
	uint64_t back[kMaxDegree];

	for (;;)
	{
		const uint64_t first = uint64_t{task->next.fetch_add(1)} * kProgressRows;

		if (first >= task->n_rows || !go_on(task, index, static_cast<uint32_t>(first)))
			return;
		for (uint64_t u = first; u < std::min<uint64_t>(task->n_rows, first + kProgressRows); u++)
			join(task, static_cast<uint32_t>(u), back);
	}
}

} // namespace

size_t
add_reverse_bytes(uint32_t n_rows, uint32_t degree)
{
	ivf::Arena arena;
	ReverseMemory memory;

	(void) memory.take(&arena, n_rows, degree);
	return arena.bytes_needed();
}

Outcome
add_reverse(uint32_t n_rows, uint32_t degree, const uint32_t *forward, uint32_t *edges, void *work, size_t work_bytes,
	const Call &call)
{
	const size_t n_tasks = call.parallel == nullptr ? 1 : std::clamp<size_t>(call.n_threads, 1, kMostTasks);
	ivf::Arena arena(work, work_bytes);
	ReverseTask task = {n_rows, degree, forward, edges, {}, 1, &call, {0}, {false}};

	if (!task.memory.take(&arena, n_rows, degree))
		return ivf::work_memory_short();
	// Each range costs one pass over all edges.
	task.n_ranges = static_cast<uint32_t>(n_tasks);
	ivf::run_workers(call, n_tasks, collect_task, &task);
	task.next.store(0);
	if (!task.stopped.load())
		ivf::run_workers(call, n_tasks, join_task, &task);
	return task.stopped.load() ? ivf::cancelled() : Outcome{};
}

} // namespace vectorgpu::engine::graph
