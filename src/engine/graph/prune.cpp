// See prune.hpp.
#include "engine/graph/prune.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "engine/graph/visited.hpp"
#include "engine/ivf/work.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kProgressRows = 1024; // between calls of progress
constexpr uint32_t kCacheLine = 64;      // bytes

/// Maps the neighbours of one row to their ranks: open addressing, behind a filter (64 bits for each neighbour, one
/// set) that most other numbers do not pass.
class RankTable
{
public:
	static size_t slots(uint32_t k) { return std::bit_ceil(size_t{4} * k); }
	static size_t filter_words(uint32_t k) { return std::bit_ceil(std::max(size_t{k}, size_t{2})); }
	RankTable(uint64_t *slots_memory, uint64_t *filter, uint32_t k)
		: slots_(slots_memory), filter_(filter), mask_(slots(k) - 1),
		  word_shift_(32 - static_cast<uint32_t>(std::countr_zero(filter_words(k))))
	{
		memset(slots_, 0xFF, slots(k) * sizeof(uint64_t));
		memset(filter_, 0, filter_words(k) * sizeof(uint64_t));
	}
	void insert(uint32_t node, uint32_t rank)
	{
		const Bit bit = bit_of(node);
		size_t i = hash_node(node) & mask_;

		while (slots_[i] != kFree)
			i = (i + 1) & mask_;
		slots_[i] = static_cast<uint64_t>(node) << 32 | rank;
		filter_[bit.word] |= uint64_t{1} << bit.bit;
	}
	/// 0: not a neighbour.
	uint32_t may_have(uint32_t node) const
	{
		const Bit bit = bit_of(node);

		return static_cast<uint32_t>(filter_[bit.word] >> bit.bit & 1);
	}
	/// UINT32_MAX: not a neighbour.
	uint32_t rank_of(uint32_t node) const
	{
		for (size_t i = hash_node(node) & mask_; slots_[i] != kFree; i = (i + 1) & mask_)
			if (slots_[i] >> 32 == node)
				return static_cast<uint32_t>(slots_[i]);
		return UINT32_MAX;
	}

private:
	static constexpr uint64_t kFree = UINT64_MAX; // kNoNode is no key

	struct Bit
	{
		uint32_t word;
		uint32_t bit;
	};

	/// One multiplication (Knuth 1998, section 6.4), whose high bits give both places.
	Bit bit_of(uint32_t node) const
	{
		const uint32_t hash = node * 2654435769U;

		return {hash >> word_shift_, hash >> (word_shift_ - 6) & 63};
	}

	uint64_t *slots_;
	uint64_t *filter_;
	size_t mask_;
	uint32_t word_shift_;
};

struct Memory
{
	uint64_t *ranks;   // RankTable
	uint64_t *filter;  // its filter
	uint32_t *met;     // [k] positions in a list of the numbers that passed the filter
	uint32_t *detours; // [k]
	uint32_t *order;   // [k]
	double *scores;    // [k]

	bool take(ivf::Arena *arena, uint32_t k)
	{
		ranks = arena->take<uint64_t>(RankTable::slots(k));
		filter = arena->take<uint64_t>(RankTable::filter_words(k));
		met = arena->take<uint32_t>(k);
		detours = arena->take<uint32_t>(k);
		order = arena->take<uint32_t>(k);
		scores = arena->take<double>(k);
		return scores != nullptr;
	}
};

uint32_t
list_size(const uint32_t *ids, uint32_t k)
{
	return static_cast<uint32_t>(std::find(ids, ids + k, kNoNode) - ids);
}

constexpr uint32_t kListsAhead = 4; // lists prefetched

void
prefetch_list(const KnnLists &lists, uint32_t node)
{
	const uint32_t *ids = lists.ids + static_cast<size_t>(node) * lists.k;

	for (uint32_t i = 0; i < lists.k; i += kCacheLine / sizeof(uint32_t))
		__builtin_prefetch(ids + i);
}

/// A detour of the edge u → w is u → v → w with both edges of a better rank than u → w. Edges with few detours come
/// first.
uint32_t
prune_by_rank(const KnnLists &lists, uint32_t u, uint32_t degree, uint32_t *forward, const Memory &memory)
{
	const uint32_t *own = lists.ids + static_cast<size_t>(u) * lists.k;
	const uint32_t n = list_size(own, lists.k);
	const uint32_t *detours = memory.detours;
	RankTable ranks(memory.ranks, memory.filter, lists.k);

	for (uint32_t i = 0; i < n; i++)
		ranks.insert(own[i], i);
	std::fill_n(memory.detours, n, 0);
	for (uint32_t i = 0; i < std::min(n, kListsAhead); i++)
		prefetch_list(lists, own[i]);
	for (uint32_t i = 0; i < n; i++)
	{
		const uint32_t *theirs = lists.ids + static_cast<size_t>(own[i]) * lists.k;
		uint32_t n_met = 0;

		if (i + kListsAhead < n)
			prefetch_list(lists, own[i + kListsAhead]);
		// Whether a neighbour's neighbour is a neighbour is not predictable: no branch depends on it here. kNoNode has
		// no rank.
		for (uint32_t j = 0; j < n; j++)
		{
			memory.met[n_met] = j;
			n_met += ranks.may_have(theirs[j]);
		}
		for (uint32_t m = 0; m < n_met; m++)
		{
			const uint32_t j = memory.met[m];
			const uint32_t rank = ranks.rank_of(theirs[j]);

			if (rank != UINT32_MAX)
				memory.detours[rank] += rank > i && rank > j;
		}
	}
	for (uint32_t i = 0; i < n; i++)
		memory.order[i] = i;
	std::sort(memory.order, memory.order + n,
		[detours](uint32_t a, uint32_t b) { return detours[a] != detours[b] ? detours[a] < detours[b] : a < b; });
	for (uint32_t i = 0; i < std::min(n, degree); i++)
		forward[i] = own[memory.order[i]];
	return std::min(n, degree);
}

/// Keep a neighbour if no kept one is nearer to it than the row is; then, while there is room, add the others.
uint32_t
prune_by_rng(
	const GraphRows &rows, const KnnLists &lists, uint32_t u, uint32_t degree, uint32_t *forward, const Memory &memory)
{
	const uint32_t *own = lists.ids + static_cast<size_t>(u) * lists.k;
	const float *scores = lists.scores + static_cast<size_t>(u) * lists.k;
	const uint32_t n = list_size(own, lists.k);
	uint32_t n_kept = 0;
	uint32_t n_left = 0;

	for (uint32_t i = 0; i < n && n_kept < degree; i++)
	{
		bool keep = true;

		for (uint32_t j = 0; j < n_kept && keep; j++)
		{
			score_rows(rows, rows.row(own[i]), &forward[j], 1, memory.scores);
			keep = !(static_cast<float>(memory.scores[0]) < scores[i]);
		}
		if (keep)
			forward[n_kept++] = own[i];
		else
			memory.order[n_left++] = own[i];
	}
	for (uint32_t i = 0; i < n_left && n_kept < degree; i++)
		forward[n_kept++] = memory.order[i];
	return n_kept;
}

constexpr size_t kMostTasks = 64;

/// Shared by the tasks of one call.
struct PruneTask
{
	const GraphRows *rows;
	const KnnLists *lists;
	PruneKind kind;
	uint32_t degree;
	uint32_t *forward;
	Memory memory[kMostTasks]; // of each task
	const Call *call;
	const uint8_t *chosen;      // [n_rows]; null: all rows
	std::atomic<uint32_t> next; // row
	std::atomic<bool> stopped;
};

/// Take blocks of rows until none is left. Task 0 runs in the caller's thread and reports progress.
void
prune_task(void *argument, size_t index)
{
	PruneTask *task = static_cast<PruneTask *>(argument);
	const uint32_t n_rows = task->rows->n_rows;
	const uint32_t degree = task->degree;

	for (;;)
	{
		const uint32_t first = task->next.fetch_add(kProgressRows, std::memory_order_relaxed);

		if (first >= n_rows || task->stopped.load(std::memory_order_relaxed))
			return;
		if (index == 0 && !ivf::go_on(*task->call, {first, n_rows}))
		{
			task->stopped.store(true, std::memory_order_relaxed);
			return;
		}
		for (uint32_t u = first; u < std::min(n_rows, first + kProgressRows); u++)
		{
			if (task->chosen != nullptr && task->chosen[u] == 0)
				continue;

			uint32_t *out = task->forward + static_cast<size_t>(u) * degree;
			const uint32_t n = task->kind == PruneKind::kRank
				? prune_by_rank(*task->lists, u, degree, out, task->memory[index])
				: prune_by_rng(*task->rows, *task->lists, u, degree, out, task->memory[index]);

			std::fill(out + n, out + degree, kNoNode);
		}
	}
}

} // namespace

size_t
prune_bytes(const KnnLists &lists, size_t n_threads)
{
	ivf::Arena arena;
	Memory memory;

	for (size_t i = 0; i < n_threads; i++)
		(void) memory.take(&arena, lists.k);
	return arena.bytes_needed();
}

Outcome
prune(const GraphRows &rows, const KnnLists &lists, PruneKind kind, uint32_t degree, uint32_t *forward, void *work,
	size_t work_bytes, const Call &call, const uint8_t *chosen)
{
	ivf::Arena arena(work, work_bytes);
	PruneTask task = {&rows, &lists, kind, degree, forward, {}, &call, chosen, {0}, {false}};

	if (call.n_threads <= 1 || call.parallel == nullptr)
	{
		if (!task.memory[0].take(&arena, lists.k))
			return ivf::work_memory_short();
		prune_task(&task, 0);
		return task.stopped.load() ? ivf::cancelled() : Outcome{};
	}

	const size_t n_tasks = std::min(call.n_threads, kMostTasks);

	for (size_t i = 0; i < n_tasks; i++)
		if (!task.memory[i].take(&arena, lists.k))
			return ivf::work_memory_short();
	call.parallel(call.parallel_context, n_tasks, prune_task, &task);
	return task.stopped.load() ? ivf::cancelled() : Outcome{};
}

} // namespace vectorgpu::engine::graph
