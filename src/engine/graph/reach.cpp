// See reach.hpp.
#include "engine/graph/reach.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "engine/graph/calibrate/hold_out.hpp"
#include "engine/graph/search.hpp"
#include "engine/ivf/work.hpp"
#include "engine/recall/stratified.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kRowsPerTrial = 16;       // of the first pass
constexpr uint32_t kTrialsPerFailure = 1000; // where fewer fail, the first pass is the last
constexpr uint32_t kWidth = 16;              // of a trial's search: narrower than those that calibration chooses
constexpr uint32_t kRound = 1024;            // trials between additions
constexpr uint32_t kPiece = 16;              // trials that a task takes at a time
constexpr size_t kMostTasks = 64;

/// What one thread searches with.
struct TrialMemory
{
	Candidate *nearest; // [most_entries]
	double *scores;     // [max(most_entries, degree)]
	Candidate *found;   // [kWidth]
	void *search;
	size_t search_bytes;
};

struct Memory
{
	TrialMemory tasks[kMostTasks];
	size_t n_tasks;
	uint8_t *unreached; // [kRound]

	bool take(ivf::Arena *arena, const GraphRows &rows, uint32_t degree, uint32_t most_entries, size_t n_threads)
	{
		GraphView shape;
		SearchSpec spec;

		shape.n_nodes = rows.n_rows;
		shape.degree = degree;
		spec.width = kWidth;
		spec.probe_steps = kSearchSteps;
		n_tasks = std::clamp<size_t>(n_threads, 1, kMostTasks);
		for (size_t i = 0; i < n_tasks; i++)
		{
			tasks[i].nearest = arena->take<Candidate>(most_entries);
			tasks[i].scores = arena->take<double>(std::max(most_entries, degree));
			tasks[i].found = arena->take<Candidate>(kWidth);
			tasks[i].search_bytes = graph_search_bytes(shape, spec);
			tasks[i].search = arena->take<uint8_t>(tasks[i].search_bytes);
		}
		unreached = arena->take<uint8_t>(kRound);
		return unreached != nullptr;
	}
};

/// The graph as trials search it.
struct Reach
{
	GraphRows rows;
	uint32_t degree;
	const uint32_t *edges;
	const uint32_t *entries;
	uint32_t n_entries;
};

/// The score that a search for `node` has to find: that of a quarter of its edges, the nearest ones; infinity if it has
/// none.
double
wanted_score(const Reach &reach, uint32_t node, double *scores)
{
	const uint32_t *own = reach.edges + static_cast<size_t>(node) * reach.degree;
	uint32_t n = 0;

	for (uint32_t i = 0; i < reach.degree; i++)
		if (own[i] < reach.rows.n_rows)
		{
			score_rows(reach.rows, reach.rows.row(node), own + i, 1, scores + n);
			n += std::isfinite(scores[n]) ? 1 : 0;
		}
	if (n == 0)
		return HUGE_VAL;
	const uint32_t rank = std::min(n, std::max(reach.degree / 4, 1u)) - 1;

	std::nth_element(scores, scores + rank, scores + n);
	return scores[rank];
}

/// Whether a search finds `node`, or something as near to it as its nearest edges lead. A row without finite scores
/// counts as found: no entry point helps.
bool
is_reached(const Reach &reach, uint32_t node, const TrialMemory &memory)
{
	MemoryGraph graph = {reach.rows, reach.edges, reach.degree, reach.rows.row(node)};
	SearchSpec spec;
	SearchStats stats;
	uint32_t n_found = 0;

	spec.width = kWidth;
	spec.probe_steps = kSearchSteps;
	score_rows(reach.rows, graph.query, reach.entries, reach.n_entries, memory.scores);
	for (uint32_t i = 0; i < reach.n_entries; i++)
		memory.nearest[i] = {memory.scores[i], reach.entries[i]};
	first_candidates(memory.nearest, reach.n_entries, kSearchEntries);
	if (!graph_search(memory_view(&graph), spec, memory.nearest, std::min(reach.n_entries, kSearchEntries),
			memory.found, &n_found, &stats, memory.search, memory.search_bytes)
			.is_ok() ||
		n_found == 0 || memory.found[0].node == node)
		return true;
	return memory.found[0].score <= wanted_score(reach, node, memory.scores);
}

/// Rows that stand for all, tried one after another.
struct Pass
{
	uint64_t n_trials;
	uint64_t seed;
};

/// Some trials of a pass.
struct Round
{
	const Reach *reach;
	Memory *memory;
	const Call *call;
	Pass pass;
	uint64_t first; // trial
	uint32_t n_trials;
	std::atomic<uint32_t> next{0};
	std::atomic<bool> stopped{false};

	bool go_on() { return !stopped.load(std::memory_order_relaxed) && ivf::go_on(*call, {first, pass.n_trials}); }
	/// The row that is tried. A row that calibration holds out would take the entry point of its group with it.
	uint32_t node(uint32_t i) const
	{
		const uint32_t n_rows = reach->rows.n_rows;
		return not_a_query(static_cast<uint32_t>(stratified_row(first + i, pass.n_trials, n_rows, pass.seed)), n_rows);
	}
};

void
try_rows(void *argument, size_t worker)
{
	Round *round = static_cast<Round *>(argument);

	for (uint32_t at = round->next.fetch_add(kPiece); at < round->n_trials; at = round->next.fetch_add(kPiece))
	{
		if (worker == 0 ? !round->go_on() : round->stopped.load(std::memory_order_relaxed))
		{
			round->stopped.store(true, std::memory_order_relaxed);
			return;
		}
		for (uint32_t i = at; i < std::min(at + kPiece, round->n_trials); i++)
			round->memory->unreached[i] = !is_reached(*round->reach, round->node(i), round->memory->tasks[worker]);
	}
}

/// Adds the rows of a pass that are not found to entries, which reach has. False: cancelled.
bool
run_pass(const Pass &pass, uint32_t most_entries, uint32_t *entries, Reach *reach, Memory *memory, const Call &call)
{
	for (uint64_t first = 0; first < pass.n_trials && reach->n_entries < most_entries; first += kRound)
	{
		const uint32_t n = static_cast<uint32_t>(std::min<uint64_t>(kRound, pass.n_trials - first));
		Round round = {reach, memory, &call, pass, first, n};

		ivf::run_workers(call, memory->n_tasks, try_rows, &round);
		// One at a time, since an entry point serves the rows of its group that come behind it.
		for (uint32_t i = 0, n_again = 0; i < n && reach->n_entries < most_entries; i++)
		{
			if (round.stopped.load())
				return false;
			if (memory->unreached[i] == 0)
				continue;
			if (n_again++ % kPiece == 0 && !round.go_on())
				return false;
			if (!is_reached(*reach, round.node(i), memory->tasks[0]))
				entries[reach->n_entries++] = round.node(i);
		}
		if (round.stopped.load())
			return false;
	}
	return true;
}

} // namespace

size_t
add_unreached_bytes(const GraphRows &rows, uint32_t degree, uint32_t most_entries, size_t n_threads)
{
	ivf::Arena arena;
	Memory memory;

	(void) memory.take(&arena, rows, degree, most_entries, n_threads);
	return arena.bytes_needed();
}

Outcome
add_unreached(const GraphRows &rows, uint32_t degree, const uint32_t *edges, uint32_t *entries, uint32_t *n_entries,
	uint32_t most_entries, uint32_t *n_added, void *work, size_t work_bytes, const Call &call)
{
	// A group larger than the lists of nearest rows, 3/2 degree, has six trials of the second pass or more.
	const uint32_t rows_per_trial[] = {kRowsPerTrial, std::max(degree / 4, 1u)};
	ivf::Arena arena(work, work_bytes);
	Memory memory;

	*n_added = 0;
	if (!memory.take(&arena, rows, degree, most_entries, call.n_threads))
		return ivf::work_memory_short();
	Reach reach = {rows, degree, edges, entries, *n_entries};

	for (uint64_t i = 0; i < 2; i++)
	{
		const Pass pass = {(uint64_t{rows.n_rows} + rows_per_trial[i] - 1) / rows_per_trial[i], i};
		const uint32_t n_before = reach.n_entries;

		if (!run_pass(pass, most_entries, entries, &reach, &memory, call))
			return ivf::cancelled();
		if (uint64_t{reach.n_entries - n_before} * kTrialsPerFailure < pass.n_trials)
			break;
	}
	std::sort(entries, entries + reach.n_entries);
	reach.n_entries = static_cast<uint32_t>(std::unique(entries, entries + reach.n_entries) - entries);
	*n_added = reach.n_entries - *n_entries;
	*n_entries = reach.n_entries;
	return {};
}

} // namespace vectorgpu::engine::graph
