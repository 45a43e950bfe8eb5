// See reach.hpp.
#include "engine/graph/reach.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "engine/graph/calibrate/hold_out.hpp"
#include "engine/graph/near_entries.hpp"
#include "engine/graph/search.hpp"
#include "engine/ivf/work.hpp"
#include "engine/recall/stratified.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kRowsPerTrial = 16;              // of the first pass
constexpr uint32_t kTrialsPerFailure = 1000;        // where fewer fail, the first pass is the last
constexpr uint32_t kWidth = 16;                     // of a trial's search: narrower than those that calibration chooses
constexpr uint32_t kRound = 1024;                   // trials between additions
constexpr uint32_t kPiece = EntryMatrix::kNearRows; // trials that a task takes at a time
constexpr size_t kMostTasks = 64;

/// The entry points nearest to a row, in order.
struct Nearest
{
	Candidate entries[kSearchEntries];
	uint32_t n;
};

/// Searches by the helper for trials that follow each other, ahead of their rounds while no entry point is added.
class Ahead
{
public:
	static constexpr uint32_t kMostRounds = 16;

	bool take(ivf::Arena *arena, uint32_t n_rows, uint32_t most_entries)
	{
		capacity_ = std::min(kMostRounds * kRound, n_rows);
		nodes_ = arena->take<uint32_t>(capacity_);
		n_found_ = arena->take<uint32_t>(capacity_);
		found_ = arena->take<Candidate>(capacity_);
		entries_ = arena->take<uint32_t>(most_entries);
		return entries_ != nullptr;
	}
	void begin(const Helper *helper)
	{
		helper_ = helper;
		has_edges_ = false;
		forget_entries();
	}

	/// Another pass begins.
	void forget_trials() { n_ = 0; }

	/// Entry points were added.
	void forget_entries()
	{
		n_ = 0;
		n_rounds_ = 1;
		has_entries_ = false;
	}

	/// Search for trials [first, first + n) of n_trials unless that has been done. node_of(trial). kNo: the threads
	/// search, from now on.
	template <class NodeOf>
	Helped search(const MemoryGraph &graph, const uint32_t *entries, uint32_t n_entries, uint64_t first, uint32_t n,
		uint64_t n_trials, const NodeOf &node_of);

	/// Of trial `trial`: the nearest row found; null if there is none with a finite score.
	const Candidate *found(uint64_t trial) const
	{
		return n_found_[trial - first_] > 0 ? &found_[trial - first_] : nullptr;
	}

private:
	Helped give(const MemoryGraph &graph, const uint32_t *entries, uint32_t n_entries);

	const Helper *helper_ = nullptr;
	uint32_t capacity_ = 0;
	uint32_t *nodes_ = nullptr;   // [capacity]
	uint32_t *n_found_ = nullptr; // [capacity]
	Candidate *found_ = nullptr;  // [capacity]
	uint32_t *entries_ = nullptr; // [most_entries], sorted
	uint64_t first_ = 0;          // trial, of those with results
	uint32_t n_ = 0;              // these
	uint32_t n_rounds_ = 1;       // searched for together
	bool has_edges_ = false;      // the helper has them ...
	bool has_entries_ = false;    // ... and all entry points
};

/// Give the helper the graph.
Helped
Ahead::give(const MemoryGraph &graph, const uint32_t *entries, uint32_t n_entries)
{
	std::copy_n(entries, n_entries, entries_);
	std::sort(entries_, entries_ + n_entries);

	const Helped given =
		helper_->give_graph(helper_->context, {graph.degree, has_edges_ ? nullptr : graph.edges, entries_, n_entries});

	has_edges_ = has_edges_ || given == Helped::kYes;
	has_entries_ = given == Helped::kYes;
	return given;
}

template <class NodeOf>
Helped
Ahead::search(const MemoryGraph &graph, const uint32_t *entries, uint32_t n_entries, uint64_t first, uint32_t n,
	uint64_t n_trials, const NodeOf &node_of)
{
	Helped helped = Helped::kYes;

	if (helper_ == nullptr)
		return Helped::kNo;
	if (n_ > 0 && first >= first_ && first + n <= first_ + n_)
		return Helped::kYes;
	if (!has_entries_)
		helped = give(graph, entries, n_entries);
	if (helped == Helped::kYes)
	{
		first_ = first;
		n_ = static_cast<uint32_t>(std::min<uint64_t>({n_rounds_ * kRound, capacity_, n_trials - first}));
		for (uint32_t i = 0; i < n_; i++)
			nodes_[i] = node_of(first + i);
		n_rounds_ = std::min(2 * n_rounds_, kMostRounds);
		helped = helper_->search(helper_->context, {nodes_, n_, kWidth, 1, found_, n_found_});
	}
	if (helped == Helped::kYes || helped == Helped::kCancelled)
		return helped;
	helper_ = nullptr;
	return Helped::kNo;
}

/// What one thread searches with.
struct TrialMemory
{
	Candidate *entries; // [most_entries]
	double *scores;     // [max(most_entries, degree)]
	Candidate *found;   // [kWidth]
	void *search;
	size_t search_bytes;
};

struct Memory
{
	TrialMemory tasks[kMostTasks];
	EntryMatrix::NearMemory near[kMostTasks];
	EntryMatrix matrix;
	size_t n_tasks;
	Ahead ahead;
	uint8_t *unreached; // [kRound]
	Nearest *nearest;   // [kRound]

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
			tasks[i].entries = arena->take<Candidate>(most_entries);
			tasks[i].scores = arena->take<double>(std::max(most_entries, degree));
			tasks[i].found = arena->take<Candidate>(kWidth);
			tasks[i].search_bytes = graph_search_bytes(shape, spec);
			tasks[i].search = arena->take<uint8_t>(tasks[i].search_bytes);
		}
		matrix.take(arena, rows, most_entries, near, n_tasks);
		(void) ahead.take(arena, rows.n_rows, most_entries);
		nearest = arena->take<Nearest>(kRound);
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

/// The score that a search for `node` has to find: that of a quarter of its edges, the nearest ones, or its own if that
/// is greater, as a rounded cosine may be. Infinity if it has no edges, or no score to itself: indexes do not search
/// for such rows.
double
wanted_score(const Reach &reach, uint32_t node, double *scores)
{
	const uint32_t *own = reach.edges + static_cast<size_t>(node) * reach.degree;
	double own_score;
	uint32_t n = 0;

	score_rows(reach.rows, reach.rows.row(node), &node, 1, &own_score);
	if (!std::isfinite(own_score))
		return HUGE_VAL;
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
	return std::max(scores[rank], own_score);
}

/// Sets nearest to the first of its entry points and of others [n], which lie in memory.entries as well then. True if
/// one of these is among them.
bool
add_nearest(
	const Reach &reach, uint32_t node, const uint32_t *others, uint32_t n, const TrialMemory &memory, Nearest *nearest)
{
	const uint32_t n_before = nearest->n;

	score_rows(reach.rows, reach.rows.row(node), others, n, memory.scores);
	std::copy_n(nearest->entries, n_before, memory.entries);
	for (uint32_t i = 0; i < n; i++)
		memory.entries[n_before + i] = {memory.scores[i], others[i]};
	first_candidates(memory.entries, n_before + n, kSearchEntries);
	nearest->n = std::min(n_before + n, kSearchEntries);

	const bool changed = nearest->n != n_before ||
		!std::equal(nearest->entries, nearest->entries + n_before, memory.entries,
			[](const Candidate &a, const Candidate &b) { return a.node == b.node; });

	std::copy_n(memory.entries, nearest->n, nearest->entries);
	return changed;
}

/// A search for a row of the graph, which ends when it comes to that row.
struct Trial
{
	MemoryGraph graph;
	uint32_t node;
	bool found;
};

bool
trial_neighbors(void *context, uint32_t node, uint32_t *neighbors)
{
	const MemoryGraph &graph = static_cast<const Trial *>(context)->graph;

	memcpy(neighbors, graph.edges + size_t{node} * graph.degree, graph.degree * sizeof(uint32_t));
	return true;
}

bool
trial_scores(void *context, const uint32_t *nodes, size_t n, double *scores)
{
	Trial *trial = static_cast<Trial *>(context);

	trial->found = std::find(nodes, nodes + n, trial->node) != nodes + n;
	if (trial->found)
		return false;
	score_rows(trial->graph.rows, trial->graph.query, nodes, n, scores);
	return true;
}

/// Whether a search from the nearest entry points finds `node`, or something as near to it as its nearest edges lead. A
/// row without finite scores counts as found: no entry point helps.
bool
is_reached(const Reach &reach, uint32_t node, const Nearest &nearest, const TrialMemory &memory)
{
	Trial trial = {{reach.rows, reach.edges, reach.degree, reach.rows.row(node)}, node, false};
	GraphView view;
	SearchSpec spec;
	SearchStats stats;
	uint32_t n_found = 0;

	for (uint32_t i = 0; i < nearest.n; i++)
		if (nearest.entries[i].node == node)
			return true;
	view.n_nodes = reach.rows.n_rows;
	view.degree = reach.degree;
	view.neighbors = trial_neighbors;
	view.scores = trial_scores;
	view.context = &trial;
	spec.width = kWidth;
	spec.probe_steps = kSearchSteps;

	const Outcome outcome = graph_search(
		view, spec, nearest.entries, nearest.n, memory.found, &n_found, &stats, memory.search, memory.search_bytes);

	// A search that comes to its row finds a score that is wanted.
	if (trial.found || !outcome.is_ok() || n_found == 0)
		return true;
	return memory.found[0].score <= wanted_score(reach, node, memory.scores);
}

/// The same by what a helper's search has found, which goes on when it has come to its row. found: null if nothing has
/// a finite score.
bool
is_reached(const Reach &reach, uint32_t node, const Candidate *found, const TrialMemory &memory)
{
	if (found != nullptr && found->node == node)
		return true;
	return (found != nullptr ? found->score : HUGE_VAL) <= wanted_score(reach, node, memory.scores);
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
	Reach *reach;
	Memory *memory;
	const Call *call;
	Pass pass;
	uint64_t first; // trial
	uint32_t n_trials;
	uint32_t n_entries; // before those that the round adds
	bool helped;        // the helper has searched: memory->ahead
	std::atomic<uint32_t> next{0};
	std::atomic<bool> stopped{false};

	bool go_on() { return !stopped.load(std::memory_order_relaxed) && ivf::go_on(*call, {first, pass.n_trials}); }
	/// The row that is tried. A row that calibration holds out would take the entry point of its group with it.
	uint32_t node(uint32_t i) const { return node_of(pass, first + i, reach->rows.n_rows); }
	static uint32_t node_of(const Pass &pass, uint64_t trial, uint32_t n_rows)
	{
		return not_a_query(static_cast<uint32_t>(stratified_row(trial, pass.n_trials, n_rows, pass.seed)), n_rows);
	}
};

/// Sets the entry points nearest to rows nodes [n], n at most kPiece.
void
find_nearest(const Round &round, const uint32_t *nodes, uint32_t n, size_t worker, Nearest *nearest)
{
	const Reach &reach = *round.reach;
	const Memory &memory = *round.memory;
	constexpr uint32_t kChosen = EntryMatrix::kNearChosen;
	uint32_t columns[kPiece * kChosen];
	double least[kPiece];
	const bool by_matrix = memory.matrix.is_usable() && memory.matrix.n_columns() == round.n_entries;

	if (by_matrix)
		memory.matrix.choose(reach.rows, nodes, n, columns, least, memory.near[worker]);
	for (uint32_t i = 0; i < n; i++)
	{
		uint32_t chosen[kChosen];
		uint32_t n_chosen = 0;

		for (uint32_t j = 0; by_matrix && j < kChosen; j++)
			if (columns[i * kChosen + j] != kNoNode)
				chosen[n_chosen++] = reach.entries[columns[i * kChosen + j]];
		nearest[i].n = 0;
		if (n_chosen == std::min(round.n_entries, kChosen))
		{
			(void) add_nearest(reach, nodes[i], chosen, n_chosen, memory.tasks[worker], &nearest[i]);
			if (round.n_entries <= kChosen || nearest[i].entries[kSearchEntries - 1].score < least[i])
				continue; // no other entry point can be nearer
			nearest[i].n = 0;
		}
		(void) add_nearest(reach, nodes[i], reach.entries, round.n_entries, memory.tasks[worker], &nearest[i]);
	}
}

void
try_rows(void *argument, size_t worker)
{
	Round *round = static_cast<Round *>(argument);
	Memory *memory = round->memory;
	uint32_t nodes[kPiece];
	Nearest nearest[kPiece];

	for (uint32_t at = round->next.fetch_add(kPiece); at < round->n_trials; at = round->next.fetch_add(kPiece))
	{
		const uint32_t n = std::min(kPiece, round->n_trials - at);
		uint32_t places[kPiece];
		uint32_t n_asked = 0;

		if (worker == 0 ? !round->go_on() : round->stopped.load(std::memory_order_relaxed))
		{
			round->stopped.store(true, std::memory_order_relaxed);
			return;
		}
		for (uint32_t i = at; i < at + n; i++)
		{
			const uint32_t node = round->node(i);

			memory->unreached[i] = !round->helped ||
				!is_reached(*round->reach, node, memory->ahead.found(round->first + i), memory->tasks[worker]);
			if (memory->unreached[i] == 0)
				continue;
			places[n_asked] = i;
			nodes[n_asked++] = node;
		}
		find_nearest(*round, nodes, n_asked, worker, nearest);
		for (uint32_t i = 0; i < n_asked; i++)
		{
			memory->nearest[places[i]] = nearest[i];
			if (!round->helped)
				memory->unreached[places[i]] = !is_reached(*round->reach, nodes[i], nearest[i], memory->tasks[worker]);
		}
	}
}

/// Trials of a round that found nothing, and follow each other: whether they do with the entry points that the round
/// has added since.
struct Again
{
	static constexpr uint32_t kMost = 16; // few, since each entry point that one of them becomes counts for the others

	const Round *round;
	uint32_t n_entries; // that were added before
	uint32_t n;
	uint32_t trials[kMost];
	bool reached[kMost];
	std::atomic<uint32_t> next;
};

/// Whether trial i finds something with the entry points from `first` to `end` too. was: whether it did without them.
bool
is_reached_with(const Round &round, uint32_t i, uint32_t first, uint32_t end, bool was, const TrialMemory &memory)
{
	const Reach &reach = *round.reach;
	Nearest *nearest = &round.memory->nearest[i];

	return add_nearest(reach, round.node(i), reach.entries + first, end - first, memory, nearest)
		? is_reached(reach, round.node(i), *nearest, memory)
		: was;
}

void
try_again(void *argument, size_t worker)
{
	Again *again = static_cast<Again *>(argument);
	const Round &round = *again->round;

	for (uint32_t j; (j = again->next.fetch_add(1)) < again->n;)
		again->reached[j] = is_reached_with(
			round, again->trials[j], round.n_entries, again->n_entries, false, round.memory->tasks[worker]);
}

/// Add the trials of a round that find nothing, one after another, since an entry point serves the rows of its group
/// that come behind it: some are tried at a time, and tried once more with what was added meanwhile. False: cancelled.
bool
add_unreached_trials(Round *round, uint32_t most_entries, uint32_t *entries)
{
	Reach *reach = round->reach;
	const Memory &memory = *round->memory;
	uint32_t i = 0;

	while (i < round->n_trials && reach->n_entries < most_entries)
	{
		Again again = {round, reach->n_entries, 0, {}, {}, {}};

		for (; i < round->n_trials && again.n < Again::kMost; i++)
			if (memory.unreached[i] != 0)
				again.trials[again.n++] = i;
		if (again.n > 0 && !round->go_on())
			return false;
		ivf::run_workers(*round->call, std::min<size_t>(memory.n_tasks, again.n), try_again, &again);
		for (uint32_t j = 0; j < again.n && reach->n_entries < most_entries; j++)
			if (!is_reached_with(
					*round, again.trials[j], again.n_entries, reach->n_entries, again.reached[j], memory.tasks[0]))
				entries[reach->n_entries++] = round->node(again.trials[j]);
	}
	return true;
}

/// Adds the rows of a pass that are not found to entries, which reach has. False: cancelled.
bool
run_pass(const Pass &pass, uint32_t most_entries, uint32_t *entries, Reach *reach, Memory *memory, const Call &call)
{
	for (uint64_t first = 0; first < pass.n_trials && reach->n_entries < most_entries; first += kRound)
	{
		const uint32_t n = static_cast<uint32_t>(std::min<uint64_t>(kRound, pass.n_trials - first));
		const uint32_t n_rows = reach->rows.n_rows;
		const Helped helped =
			memory->ahead.search({reach->rows, reach->edges, reach->degree, nullptr}, reach->entries, reach->n_entries,
				first, n, pass.n_trials, [&](uint64_t trial) { return Round::node_of(pass, trial, n_rows); });
		Round round = {reach, memory, &call, pass, first, n, reach->n_entries, helped == Helped::kYes};

		if (helped == Helped::kCancelled)
			return false;
		if (!round.helped && memory->matrix.is_usable())
			memory->matrix.add(reach->rows, reach->entries, reach->n_entries, memory->near[0]);
		ivf::run_workers(call, memory->n_tasks, try_rows, &round);
		if (round.stopped.load() || !add_unreached_trials(&round, most_entries, entries))
			return false;
		if (reach->n_entries > round.n_entries)
			memory->ahead.forget_entries();
	}
	memory->ahead.forget_trials();
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
	uint32_t most_entries, uint32_t *n_added, void *work, size_t work_bytes, const Call &call, const Helper *helper)
{
	// A group larger than the lists of nearest rows, 3/2 degree, has six trials of the second pass or more.
	const uint32_t rows_per_trial[] = {kRowsPerTrial, std::max(degree / 4, 1u)};
	ivf::Arena arena(work, work_bytes);
	Memory memory;

	*n_added = 0;
	if (!memory.take(&arena, rows, degree, most_entries, call.n_threads))
		return ivf::work_memory_short();
	Reach reach = {rows, degree, edges, entries, *n_entries};

	memory.ahead.begin(looks_at_all(kWidth, rows.n_rows) ? nullptr : helper);

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
