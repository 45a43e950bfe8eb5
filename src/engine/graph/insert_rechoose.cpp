// See insert_rechoose.hpp.
#include "engine/graph/insert_rechoose.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "engine/graph/insert_choose.hpp"
#include "engine/ivf/work.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr size_t kMostTasks = 64;
constexpr uint32_t kPieceRows = 256; // that a task takes between calls of progress
constexpr uint32_t kCollected = 4;   // times the degree: candidates of a row ...
constexpr uint32_t kCompared = 2;    // ... of which the nearest are compared with each other

/// Work memory of one task.
struct TaskMemory
{
	Chooser chooser;
	Near *near;      // [most_candidates]
	uint32_t *nodes; // [most_candidates]
	double *scores;  // [most_candidates]
};

struct Memory
{
	uint64_t *first; // [n_rows + 1] into comers
	Near *comers;    // [n_added * k] by row, the new rows that have it in their lists, with their scores
	TaskMemory tasks[kMostTasks];
	size_t n_tasks;

	bool take(ivf::Arena *arena, const Rechoice &choice, size_t n_threads)
	{
		const uint32_t most = kCollected * choice.degree;
		bool taken = false;

		first = arena->take<uint64_t>(size_t{choice.rows.n_rows} + 1);
		comers = arena->take<Near>(size_t{choice.n_added} * choice.lists.k);
		n_tasks = std::clamp<size_t>(n_threads, 1, kMostTasks);
		for (size_t i = 0; i < n_tasks; i++)
		{
			(void) tasks[i].chooser.take(arena, choice.rows, std::max(kCompared * choice.degree, choice.lists.k));
			tasks[i].near = arena->take<Near>(std::max(most, choice.lists.k));
			tasks[i].nodes = arena->take<uint32_t>(most);
			tasks[i].scores = arena->take<double>(most);
			taken = tasks[i].scores != nullptr;
		}
		return taken;
	}
};

/// Shared by the tasks.
struct Task
{
	const Rechoice *choice;
	Memory *memory;
	const Call *call;
	std::atomic<uint32_t> next{0};
	std::atomic<bool> stopped{false};
};

constexpr size_t kItemsPerCheck = size_t{1} << 20;

/// Invert the lists of new rows: group their entries by the row listed, and there by the new row. False: stopped.
bool
collect_comers(const Rechoice &choice, const Memory &memory, const Call &call)
{
	const size_t n = size_t{choice.n_added} * choice.lists.k;
	const uint32_t *ids = choice.lists.ids;

	std::fill_n(memory.first, size_t{choice.rows.n_rows} + 1, uint64_t{0});
	for (size_t i = 0; i < n; i++)
	{
		if (i % kItemsPerCheck == 0 && !ivf::go_on(call, {0, choice.rows.n_rows}))
			return false;
		if (ids[i] != kNoNode)
			memory.first[ids[i]]++;
	}
	// Each first[u] becomes the end of its run, and moves to the beginning as the run is filled from its end.
	for (size_t u = 0; u < choice.rows.n_rows; u++)
		memory.first[u + 1] += memory.first[u];
	for (size_t i = n; i > 0; i--)
	{
		if (i % kItemsPerCheck == 0 && !ivf::go_on(call, {0, choice.rows.n_rows}))
			return false;
		if (ids[i - 1] != kNoNode)
			memory.comers[--memory.first[ids[i - 1]]] = {
				choice.lists.scores[i - 1], choice.added[(i - 1) / choice.lists.k]};
	}
	return true;
}

/// A set of candidates without the row itself.
class Candidates
{
public:
	Candidates(uint32_t *nodes, uint32_t most, uint32_t row) : nodes_(nodes), most_(most), row_(row) {}

	void add(uint32_t node)
	{
		if (n_ < most_ && node != kNoNode && node != row_ && std::find(nodes_, nodes_ + n_, node) == nodes_ + n_)
			nodes_[n_++] = node;
	}
	uint32_t size() const { return n_; }

private:
	uint32_t *nodes_;
	uint32_t most_;
	uint32_t row_;
	uint32_t n_ = 0;
};

/// The i-th edge of an old row, in the new numbers.
uint32_t
kept_edge(const Rechoice &choice, uint32_t origin, uint32_t i)
{
	const uint32_t node = choice.base->edges[size_t{origin} * choice.degree + i];

	return node == kNoNode ? kNoNode : choice.base->numbers[node];
}

/// Whether the row keeps its edges: none is lost, and no comer is nearer than the farthest of the first half of them.
bool
stays(const Rechoice &choice, uint32_t u, uint32_t n_own, bool lost, const Near *comers, size_t n_comers,
	TaskMemory *memory)
{
	const uint32_t half = std::min(n_own, (choice.degree + 1) / 2);
	double furthest = -HUGE_VAL;

	if (lost || n_comers == 0)
		return !lost;
	if (n_own < choice.degree)
		return false;
	score_rows(choice.rows, choice.rows.row(u), memory->nodes, half, memory->scores);
	for (uint32_t i = 0; i < half; i++)
		if (std::isnan(memory->scores[i]))
			return false;
		else
			furthest = std::max(furthest, memory->scores[i]);
	return std::none_of(comers, comers + n_comers, [furthest](const Near &comer) { return comer.score < furthest; });
}

void
choose_again(const Rechoice &choice, uint32_t u, const Near *comers, size_t n_comers, TaskMemory *memory)
{
	const uint32_t origin = choice.origin[u];
	uint32_t *forward = choice.forward + size_t{u} * choice.degree;
	Candidates candidates(memory->nodes, kCollected * choice.degree, u);
	bool lost = false;

	for (uint32_t i = 0; i < choice.degree; i++)
	{
		candidates.add(kept_edge(choice, origin, i));
		lost = lost ||
			(choice.base->edges[size_t{origin} * choice.degree + i] != kNoNode &&
				kept_edge(choice, origin, i) == kNoNode);
	}
	if (stays(choice, u, candidates.size(), lost, comers, n_comers, memory))
	{
		std::copy_n(memory->nodes, candidates.size(), forward);
		std::fill(forward + candidates.size(), forward + choice.degree, kNoNode);
		return;
	}
	// If there are very many comers, the nearest of them.
	const size_t n_near = std::min<size_t>(n_comers, choice.degree);

	std::copy_n(comers, std::min<size_t>(n_comers, size_t{kCollected} * choice.degree), memory->near);
	if (n_comers > n_near)
		std::partial_sort_copy(comers, comers + n_comers, memory->near, memory->near + n_near, nearer);
	for (size_t i = 0; i < n_near; i++)
		candidates.add(memory->near[i].node);
	for (uint32_t i = 0; i < choice.degree && lost; i++)
	{
		const uint32_t gone = choice.base->edges[size_t{origin} * choice.degree + i];

		if (gone != kNoNode && choice.base->numbers[gone] == kNoNode)
			for (uint32_t j = 0; j < choice.degree; j++)
				candidates.add(kept_edge(choice, gone, j));
	}

	const uint32_t n = candidates.size();

	score_rows(choice.rows, choice.rows.row(u), memory->nodes, n, memory->scores);
	for (uint32_t i = 0; i < n; i++)
		memory->near[i] = {
			std::isnan(memory->scores[i]) ? HUGE_VALF : static_cast<float>(memory->scores[i]), memory->nodes[i]};
	std::sort(memory->near, memory->near + n, nearer);
	memory->chooser.choose(memory->near, std::min(n, kCompared * choice.degree), choice.prune, choice.degree, forward);
}

void
choose_first(const Rechoice &choice, uint32_t i, TaskMemory *memory)
{
	const uint32_t *ids = choice.lists.ids + size_t{i} * choice.lists.k;
	const float *scores = choice.lists.scores + size_t{i} * choice.lists.k;
	uint32_t n = 0;

	for (; n < choice.lists.k && ids[n] != kNoNode; n++)
		memory->near[n] = {scores[n], ids[n]};
	memory->chooser.choose(
		memory->near, n, choice.prune, choice.degree, choice.forward + size_t{choice.added[i]} * choice.degree);
}

void
rechoose_task(void *argument, size_t index)
{
	Task *task = static_cast<Task *>(argument);
	const Rechoice &choice = *task->choice;
	const Memory &memory = *task->memory;
	TaskMemory *own = &task->memory->tasks[index];
	const uint32_t n_rows = choice.rows.n_rows;

	for (;;)
	{
		const uint64_t first = uint64_t{task->next.fetch_add(1)} * kPieceRows;
		const uint64_t end = std::min<uint64_t>(n_rows, first + kPieceRows);

		if (first >= n_rows || task->stopped.load(std::memory_order_relaxed))
			return;
		if (index == 0 && !ivf::go_on(*task->call, {first, n_rows}))
		{
			task->stopped.store(true, std::memory_order_relaxed);
			return;
		}

		uint32_t i =
			static_cast<uint32_t>(std::lower_bound(choice.added, choice.added + choice.n_added, first) - choice.added);

		for (uint64_t u = first; u < end; u++)
			if (choice.origin[u] == kNoNode)
				choose_first(choice, i++, own);
			else
				choose_again(choice, static_cast<uint32_t>(u), memory.comers + memory.first[u],
					memory.first[u + 1] - memory.first[u], own);
	}
}

} // namespace

size_t
rechoose_bytes(const Rechoice &choice, size_t n_threads)
{
	ivf::Arena arena;
	Memory memory;

	(void) memory.take(&arena, choice, n_threads);
	return arena.bytes_needed();
}

Outcome
rechoose(const Rechoice &choice, void *work, size_t work_bytes, const Call &call)
{
	ivf::Arena arena(work, work_bytes);
	Memory memory;
	Task task = {.choice = &choice, .memory = &memory, .call = &call};

	if (!memory.take(&arena, choice, call.n_threads))
		return ivf::work_memory_short();
	if (!collect_comers(choice, memory, call))
		return ivf::cancelled();
	ivf::run_workers(call, memory.n_tasks, rechoose_task, &task);
	return task.stopped.load() ? ivf::cancelled() : Outcome{};
}

} // namespace vectorgpu::engine::graph
