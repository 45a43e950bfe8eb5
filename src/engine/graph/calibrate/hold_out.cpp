// See hold_out.hpp.
#include "engine/graph/calibrate/hold_out.hpp"

#include <algorithm>
#include <atomic>

#include "engine/graph/reverse.hpp"
#include "engine/ivf/work.hpp"
#include "engine/recall/near_copies.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kPieceRows = 8192;

struct Memory
{
	uint8_t *held;    // [n_rows]
	uint8_t *changed; // [n_rows] whether the list has lost a member

	bool take(ivf::Arena *arena, uint32_t n_rows)
	{
		held = arena->take<uint8_t>(n_rows);
		changed = arena->take<uint8_t>(n_rows);
		return changed != nullptr;
	}
};

/// Shared by the tasks.
struct Removal
{
	const HoldOutGraph *graph;
	Memory memory;
	std::atomic<uint64_t> next{0}; // row
};

/// Remove held rows from a list; return whether it had one.
bool
take_out(const uint8_t *held, uint32_t *ids, uint32_t k)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < k && ids[i] != kNoNode; i++)
		if (held[ids[i]] == 0)
			ids[n++] = ids[i];

	const bool changed = n < k && ids[n] != kNoNode;

	for (; n < k && ids[n] != kNoNode; n++)
		ids[n] = kNoNode;
	return changed;
}

void
removal_task(void *argument, size_t)
{
	Removal *removal = static_cast<Removal *>(argument);
	const HoldOutGraph &graph = *removal->graph;

	for (;;)
	{
		const uint64_t first = removal->next.fetch_add(kPieceRows);

		if (first >= graph.n_rows)
			return;
		for (uint64_t u = first; u < std::min<uint64_t>(graph.n_rows, first + kPieceRows); u++)
		{
			uint32_t *ids = graph.lists.ids + u * graph.lists.k;

			removal->memory.changed[u] = 0;
			if (removal->memory.held[u] != 0)
			{
				std::fill_n(ids, graph.lists.k, kNoNode);
				std::fill_n(graph.forward + u * graph.degree, graph.degree, kNoNode);
			}
			else
				removal->memory.changed[u] = take_out(removal->memory.held, ids, graph.lists.k);
		}
	}
}

/// Copy the first n_nearest members of a list that are not held out.
void
take_nearest(const uint8_t *held, const uint32_t *ids, uint32_t k, uint32_t n_nearest, uint32_t *nearest)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < k && ids[i] != kNoNode && n < n_nearest; i++)
		if (held[ids[i]] == 0)
			nearest[n++] = ids[i];
	std::fill(nearest + n, nearest + n_nearest, kNoNode);
}

/// The number of near copies at the beginning of the row's list.
uint32_t
copies_in(const GraphRows &rows, const KnnLists &lists, uint32_t n_wanted, uint32_t row)
{
	const uint32_t *ids = lists.ids + size_t{row} * lists.k;
	double scores[kCopiesAmong];
	double own_score;
	size_t n = 0;

	while (n < std::min<size_t>(lists.k, kCopiesAmong) && ids[n] != kNoNode)
		n++;
	score_rows(rows, rows.row(row), &row, 1, &own_score);
	score_rows(rows, rows.row(row), ids, n, scores);
	return static_cast<uint32_t>(near_copies(rows.spec.metric, own_score, scores, n, n_wanted));
}

} // namespace

void
hold_out_copies(const GraphRows &rows, const KnnLists &lists, uint32_t n_wanted, uint32_t most, HeldOutRows *held)
{
	uint64_t all = held->n_queries;
	uint32_t n_left;

	for (uint32_t q = 0; q < held->n_queries; q++)
		all += copies_in(rows, lists, n_wanted, held->queries[q]);
	n_left = all <= most ? held->n_queries : static_cast<uint32_t>(uint64_t{held->n_queries} * most / all);
	held->n_rows = 0;
	for (uint32_t i = 0; i < n_left; i++)
	{
		const uint32_t row = held->queries[uint64_t{i} * held->n_queries / n_left]; // not below i
		const uint32_t copies = copies_in(rows, lists, n_wanted, row);

		if (held->n_rows + copies + 1 > most) // the queries that stay have more copies than those dropped
		{
			n_left = i;
			break;
		}
		held->queries[i] = row;
		held->rows[held->n_rows++] = row;
		std::copy_n(lists.ids + size_t{row} * lists.k, copies, held->rows + held->n_rows);
		held->n_rows += copies;
	}
	held->n_queries = n_left;
	std::sort(held->rows, held->rows + held->n_rows);
	held->n_rows = static_cast<uint32_t>(std::unique(held->rows, held->rows + held->n_rows) - held->rows);
}

size_t
hold_out_bytes(const HoldOutGraph &graph, size_t n_threads)
{
	ivf::Arena arena;
	Memory memory;

	(void) memory.take(&arena, graph.n_rows);
	return std::max(
		arena.bytes_needed() + prune_bytes(graph.lists, n_threads), add_reverse_bytes(graph.n_rows, graph.degree));
}

Outcome
hold_out(const HoldOutGraph &graph, const HeldOutRows &held_out, uint32_t n_nearest, uint32_t *nearest, uint32_t *edges,
	void *work, size_t work_bytes, const Call &call, const Helper *helper)
{
	ivf::Arena arena(work, work_bytes);
	Removal removal;

	if (!removal.memory.take(&arena, graph.n_rows) || work_bytes < hold_out_bytes(graph, call.n_threads))
		return ivf::work_memory_short();
	std::fill_n(removal.memory.held, graph.n_rows, uint8_t{0});
	for (uint32_t i = 0; i < held_out.n_rows; i++)
		removal.memory.held[held_out.rows[i]] = 1;
	for (uint32_t i = 0; nearest != nullptr && i < held_out.n_queries; i++)
		take_nearest(removal.memory.held, graph.lists.ids + size_t{held_out.queries[i]} * graph.lists.k, graph.lists.k,
			n_nearest, nearest + size_t{i} * n_nearest);
	removal.graph = &graph;
	ivf::run_workers(call, std::max<size_t>(call.n_threads, 1), removal_task, &removal);

	if (helper != nullptr)
		switch (helper->choose_edges(helper->context,
			{graph.n_rows, graph.lists.k, graph.degree, graph.lists.ids, removal.memory.changed, graph.forward, edges}))
		{
			case Helped::kYes:
				return {};
			case Helped::kCancelled:
				return ivf::cancelled();
			case Helped::kFailed: // the lists may be overwritten
				return {StatusCode::kInternal, "edges could not be chosen by a device"};
			case Helped::kNo:
				break;
		}

	const size_t used = arena.bytes_needed();
	GraphRows rows;

	rows.n_rows = graph.n_rows;

	Outcome outcome = prune(rows, graph.lists, PruneKind::kRank, graph.degree, graph.forward,
		static_cast<uint8_t *>(work) + used, work_bytes - used, call, removal.memory.changed);

	if (outcome.is_ok())
		outcome = add_reverse(graph.n_rows, graph.degree, graph.forward, edges, work, work_bytes, call);
	return outcome;
}

} // namespace vectorgpu::engine::graph
