// See calibrate.hpp.
#include "engine/graph/calibrate.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>

#include "engine/graph/hold_out.hpp"
#include "engine/graph/search.hpp"
#include "engine/ivf/work.hpp"
#include "engine/recall/near_copies.hpp"
#include "engine/recall/stratified.hpp"
#include "engine/distance/topk.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kNeighbors = kCalibrationNeighbors;
constexpr uint32_t kWide =
	64; // wider searches find nearly all, so that each third of the queries tells as much; and they cost more
constexpr uint32_t kWideStride = 3;
constexpr size_t kBatchRows = 256;         // compared with all queries, at most
constexpr size_t kBatchBytes = 128 * 1024; // ... and so many bytes: fit a cache
constexpr double kEnough = 0.9995;         // recall that needs no wider search
constexpr uint32_t kWidths[] = {10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512, 768, 1024};
constexpr uint32_t kWiderWidths[] = {1536, 2048, 3072, 4096}; // of searches that compare codes
constexpr size_t kMostTasks = 64;
constexpr uint32_t kFound = kCopiesAmong + 1; // by the exact search: a query finds itself
constexpr uint32_t kMostLeftOut = kFound - kNeighbors;
constexpr double kChance = 3;      // standard errors by which the nearest row may seem harder to find than the ten are
constexpr uint32_t kMostLedOn = 3; // rows left out: two near rows may be chance, where rows have few dimensions

static_assert(std::size(kWidths) + std::size(kWiderWidths) <= ivf::kMaxCalibrationPoints);

size_t
width_count(const MeasuredGraph &graph)
{
	return std::size(kWidths) + (graph.hash != nullptr ? std::size(kWiderWidths) : 0);
}

uint32_t
width_at(size_t i)
{
	return i < std::size(kWidths) ? kWidths[i] : kWiderWidths[i - std::size(kWidths)];
}

uint32_t
query_count(const MeasuredGraph &graph)
{
	return graph.held_out != nullptr ? graph.n_held_out : query_rows(graph.rows.n_rows);
}

size_t
task_count(uint32_t n_queries, size_t n_threads)
{
	return std::min({n_threads, kMostTasks, size_t{std::max(n_queries, 1u)}});
}

size_t
batch_rows(const GraphRows &rows)
{
	return std::clamp<size_t>(kBatchBytes / std::max<size_t>(rows.row_stride, 1), 1, kBatchRows);
}

GraphView
shape_of(const MeasuredGraph &graph)
{
	GraphView shape;

	shape.n_nodes = graph.rows.n_rows;
	shape.degree = graph.degree;
	return shape;
}

SearchSpec
widest(const MeasuredGraph &graph)
{
	SearchSpec spec;

	spec.width = width_at(width_count(graph) - 1);
	spec.probe_steps = kSearchSteps;
	return spec;
}

/// What a search looks for, and how much of it the last one has found.
struct Wanted
{
	double first_score;  // of the nearest row; the query is none
	double last_score;   // of the kNeighbors nearest
	uint32_t n;          // how many neighbours there are, at most kNeighbors: others have no number for a score
	uint32_t hits;       // how many of them were found
	uint32_t first_hits; // 1: the nearest was, or one as near
};

struct Queries
{
	uint32_t n;
	uint32_t *numbers;    // [n] of the rows that they are
	TopK *topks;          // [n]
	Wanted *without;      // [n] where the query's copies are left out
	Wanted *with;         // [n] where they are not
	uint32_t *left_out;   // [n, kMostLeftOut] rows that the search does without: the query's own, and its copies
	uint32_t *n_left_out; // [n]; 0 where no edge leads to them

	bool take(ivf::Arena *arena, uint32_t n_queries)
	{
		n = n_queries;
		numbers = arena->take<uint32_t>(n);
		topks = arena->take<TopK>(n);
		without = arena->take<Wanted>(n);
		with = arena->take<Wanted>(n);
		left_out = arena->take<uint32_t>(size_t{n} * kMostLeftOut);
		n_left_out = arena->take<uint32_t>(n);
		return n_left_out != nullptr;
	}
};

/// Of one task.
struct TaskMemory
{
	double *scores;       // [kBatchRows]
	RowId *row_numbers;   // [kBatchRows]
	Candidate *found;     // [widest]
	Candidate *entries;   // [n_entries]
	double *entry_scores; // [n_entries]
	void *search;
	size_t search_bytes;
	float *hash;   // work memory of hash_query
	uint8_t *code; // of the query
	Outcome failure;

	bool take(ivf::Arena *arena, const MeasuredGraph &graph)
	{
		scores = arena->take<double>(kBatchRows);
		row_numbers = arena->take<RowId>(kBatchRows);
		found = arena->take<Candidate>(widest(graph).width);
		entries = arena->take<Candidate>(graph.n_entries);
		entry_scores = arena->take<double>(graph.n_entries);
		hash = graph.hash != nullptr ? arena->take<float>(hash_work_floats(graph.hash->spec)) : nullptr;
		code = graph.hash != nullptr ? arena->take<uint8_t>(hash_code_bytes(graph.hash->spec.bits)) : nullptr;
		search_bytes = graph_search_bytes(shape_of(graph), widest(graph));
		search = arena->take<uint8_t>(search_bytes);
		failure = {};
		return search != nullptr;
	}
};

struct Memory
{
	Queries queries;
	Neighbor *buffers;  // of the topks
	size_t buffer_size; // of one
	uint32_t *entries;  // of the graph, but for those held out
	uint32_t n_entries;
	uint8_t *passed; // bitmap of the rows held out, if their neighbours are looked for; else null
	TaskMemory tasks[kMostTasks];
	size_t n_tasks;

	bool take(ivf::Arena *arena, const MeasuredGraph &graph, size_t n_threads)
	{
		const uint32_t n_queries = query_count(graph);
		bool taken = queries.take(arena, n_queries);

		buffer_size = topk_buffer_bytes(kFound) / sizeof(Neighbor);
		buffers = arena->take<Neighbor>(buffer_size * n_queries);
		entries = arena->take<uint32_t>(graph.n_entries);
		n_entries = 0;
		passed = graph.held_out != nullptr && graph.nearest == nullptr ? arena->take<uint8_t>(graph.rows.n_rows / 8 + 1)
																	   : nullptr;
		n_tasks = task_count(n_queries, n_threads);
		for (size_t i = 0; i < n_tasks; i++)
			taken = tasks[i].take(arena, graph);
		return taken;
	}
};

/// What the tasks of one stage share.
struct Stage
{
	const MeasuredGraph *graph;
	Memory *memory;
	const Call *call;
	uint32_t width;  // of searches
	uint32_t stride; // by every so many-th query
	std::atomic<size_t> next{0};
	std::atomic<bool> stopped{false};
};

constexpr Wanted kNothing = {-HUGE_VAL, -HUGE_VAL, 0, 0, 0}; // searches by codes compare with the scores all the same

/// The exact search for a run of the queries. Task 0 runs in the caller's thread and reports progress.
void
truth_task(void *argument, size_t task)
{
	Stage *stage = static_cast<Stage *>(argument);
	const Memory &memory = *stage->memory;
	const GraphRows &rows = stage->graph->rows;
	const size_t batch = batch_rows(rows);
	double *scores = memory.tasks[task].scores;
	RowId *numbers = memory.tasks[task].row_numbers;

	// As many pieces as tasks: each goes through all rows.
	for (size_t piece = stage->next.fetch_add(1); piece < memory.n_tasks; piece = stage->next.fetch_add(1))
	{
		const size_t begin = piece * memory.queries.n / memory.n_tasks;
		const size_t end = (piece + 1) * memory.queries.n / memory.n_tasks;

		for (size_t first = 0; first < rows.n_rows; first += batch)
		{
			const size_t n = std::min<size_t>(batch, rows.n_rows - first);

			if (stage->stopped.load(std::memory_order_relaxed))
				return;
			if (task == 0 && !ivf::go_on(*stage->call, {first, rows.n_rows}))
			{
				stage->stopped.store(true, std::memory_order_relaxed);
				return;
			}
			for (size_t i = 0; i < n; i++)
				numbers[i] = first + i;
			for (size_t q = begin; q < end; q++)
			{
				TopK *topk = &memory.queries.topks[q];

				compute_scores(rows.spec, rows.row(memory.queries.numbers[q]), rows.row(static_cast<uint32_t>(first)),
					rows.row_stride, n, scores, 0);
				if (topk_wants(topk, scores, n))
					topk_push(topk, scores, numbers, n, memory.passed, memory.passed != nullptr ? first : 0);
			}
		}
	}
}

/// The first n of them.
Wanted
wanted(const double *scores, size_t n)
{
	n = std::min<size_t>(n, kNeighbors);
	return n == 0 ? kNothing : Wanted{scores[0], scores[n - 1], static_cast<uint32_t>(n), 0, 0};
}

/// What the exact searches have found becomes without, with, left_out.
void
finish_truth(const MeasuredGraph &graph, const Queries &queries)
{
	for (uint32_t q = 0; q < queries.n; q++)
	{
		const uint64_t found = topk_finish(&queries.topks[q]);
		const void *row = graph.rows.row(queries.numbers[q]);
		uint32_t *left_out = queries.left_out + size_t{q} * kMostLeftOut;
		double scores[kFound];
		uint32_t numbers[kFound];
		double own_score;
		size_t n = 0;
		size_t copies = 0;

		for (uint64_t j = 0; j < found; j++)
			if (queries.topks[q].buffer[j].row != queries.numbers[q] && !std::isnan(queries.topks[q].buffer[j].score))
			{
				scores[n] = queries.topks[q].buffer[j].score;
				numbers[n++] = static_cast<uint32_t>(queries.topks[q].buffer[j].row);
			}
		if (!graph.copies_left_out)
		{
			compute_scores(graph.rows.spec, row, row, graph.rows.row_stride, 1, &own_score, 0);
			copies = near_copies(graph.rows.spec.metric, own_score, scores, std::min(n, kCopiesAmong), kNeighbors);
		}
		if (graph.held_out == nullptr || copies > 0)
		{
			left_out[0] = queries.numbers[q];
			std::copy_n(numbers, copies, left_out + 1);
			queries.n_left_out[q] = static_cast<uint32_t>(copies) + 1;
		}
		queries.without[q] = wanted(scores + copies, n - copies);
		queries.with[q] = wanted(scores, n);
	}
}

/// The same from neighbours that are known.
void
take_truth(const MeasuredGraph &graph, const Queries &queries)
{
	for (uint32_t q = 0; q < queries.n; q++)
	{
		const uint32_t *nearest = graph.nearest + size_t{q} * kNeighbors;
		double scores[kNeighbors];
		uint32_t n = 0;

		while (n < kNeighbors && nearest[n] != kNoNode)
			n++;
		score_rows(graph.rows, graph.rows.row(queries.numbers[q]), nearest, n, scores);

		double *const end = std::remove_if(scores, scores + n, [](double score) { return std::isnan(score); });

		// Lists are in order of scores as floats.
		queries.without[q] = end == scores ? kNothing
										   : Wanted{*std::min_element(scores, end), *std::max_element(scores, end),
												 static_cast<uint32_t>(end - scores), 0, 0};
		queries.with[q] = queries.without[q];
	}
}

/// What searches compare: the rows, or their codes.
GraphRows
compared(const MeasuredGraph &graph)
{
	if (graph.hash == nullptr)
		return graph.rows;
	return {
		hash_distance(graph.hash->spec.bits), graph.codes, hash_code_bytes(graph.hash->spec.bits), graph.rows.n_rows};
}

/// Rows that a search does without.
struct LeftOut
{
	const uint32_t *rows; // [n]
	uint32_t n;

	bool has(uint32_t row) const { return std::find(rows, rows + n, row) != rows + n; }
};

/// The entry points nearest to the query come first; rows that are left out are not among them.
uint32_t
choose_entries(
	const MeasuredGraph &graph, const Memory &all, const void *query, const LeftOut &left_out, const TaskMemory &memory)
{
	uint32_t n = 0;

	score_rows(compared(graph), query, all.entries, all.n_entries, memory.entry_scores);
	for (uint32_t i = 0; i < all.n_entries; i++)
		if (!left_out.has(all.entries[i]))
			memory.entries[n++] = {memory.entry_scores[i], all.entries[i]};
	first_candidates(memory.entries, n, kSearchEntries);
	return std::min(n, kSearchEntries);
}

/// The graph without some rows, as far as that can be had without building it anew. Where it is the query's own, and
/// hardly more, an edge to it leads to one of its own neighbours that the node has no edge to: else as many ways would
/// end there as the row has taken over from others when edges were chosen. The farthest of them from the node, since
/// nearer ones are what the node's other edges lead to soon, in place of the missing one; the nearest to the row would
/// be an easier way than the graph would have without it. Where a group of copies is left out, edges to them are left
/// out as well: led on, so many would lead to the query's neighbours that nearly every search found them (README.md).
struct GraphWithout
{
	MemoryGraph held;
	LeftOut left_out;
};

/// The node that an edge from `node` to the row `gone` leads to instead; kNoNode: none. `neighbors` [n]: where other
/// edges lead instead already.
uint32_t
led_on(const GraphWithout &graph, uint32_t node, uint32_t gone, const uint32_t *neighbors, uint32_t n)
{
	const uint32_t degree = graph.held.degree;
	const uint32_t *own = graph.held.edges + size_t{node} * degree;
	const uint32_t *others = graph.held.edges + size_t{gone} * degree;
	uint32_t farthest = kNoNode;
	double farthest_score = 0;

	if (graph.left_out.n > kMostLedOn)
		return kNoNode;
	for (uint32_t i = 0; i < degree && others[i] != kNoNode; i++)
	{
		double score;

		if (others[i] == node || graph.left_out.has(others[i]) ||
			std::find(own, own + degree, others[i]) != own + degree ||
			std::find(neighbors, neighbors + n, others[i]) != neighbors + n)
			continue;
		score_rows(graph.held.rows, graph.held.rows.row(node), &others[i], 1, &score);
		if (farthest == kNoNode || score > farthest_score)
		{
			farthest = others[i];
			farthest_score = score;
		}
	}
	return farthest;
}

bool
neighbors_without(void *context, uint32_t node, uint32_t *neighbors)
{
	const GraphWithout *graph = static_cast<const GraphWithout *>(context);
	const uint32_t degree = graph->held.degree;

	std::copy_n(graph->held.edges + size_t{node} * degree, degree, neighbors);
	for (uint32_t gap = 0; gap < degree; gap++)
		if (graph->left_out.has(neighbors[gap]))
			neighbors[gap] = led_on(*graph, node, neighbors[gap], neighbors, gap);
	return true;
}

bool
scores_without(void *context, const uint32_t *nodes, size_t n, double *scores)
{
	const MemoryGraph *held = &static_cast<const GraphWithout *>(context)->held;

	score_rows(held->rows, held->query, nodes, n, scores);
	return true;
}

/// How many of a query's true neighbours are among those found, of which there are as many as rows no further away.
void
count_hits(const MeasuredGraph &graph, const void *query, const TaskMemory &memory, uint32_t n_found, Wanted *wanted)
{
	const uint32_t n_judged = graph.hash != nullptr ? n_found : std::min(n_found, wanted->n);

	wanted->hits = 0;
	wanted->first_hits = 0;

	for (uint32_t i = 0; i < n_judged; i++)
	{
		double score = memory.found[i].score;

		if (graph.hash != nullptr)
			score_rows(graph.rows, query, &memory.found[i].node, 1, &score);
		wanted->hits += score <= wanted->last_score;
		wanted->first_hits |= score <= wanted->first_score;
	}
	wanted->hits = std::min(wanted->hits, wanted->n);
	wanted->first_hits = std::min(wanted->first_hits, wanted->n);
}

/// Searches of some queries.
void
search_task(void *argument, size_t task)
{
	Stage *stage = static_cast<Stage *>(argument);
	const MeasuredGraph &graph = *stage->graph;
	const Queries &queries = stage->memory->queries;
	TaskMemory &memory = stage->memory->tasks[task];
	GraphWithout without = {{compared(graph), graph.edges, graph.degree, nullptr}, {nullptr, 0}};
	GraphView view = shape_of(graph);
	SearchSpec spec;
	SearchStats stats;

	view.neighbors = neighbors_without;
	view.scores = scores_without;
	view.context = &without;
	spec.width = stage->width;
	spec.probe_steps = kSearchSteps;
	for (size_t q = stage->next.fetch_add(stage->stride);
		q < queries.n && !stage->stopped.load(std::memory_order_relaxed); q = stage->next.fetch_add(stage->stride))
	{
		const void *query = graph.rows.row(queries.numbers[q]);
		const uint32_t *left_out = queries.left_out + q * kMostLeftOut;
		const uint32_t n_left_out = queries.n_left_out[q];
		const auto search = [&](uint32_t n, Wanted *wanted)
		{
			uint32_t n_found = 0;

			without.left_out = {left_out, n};

			const uint32_t n_entries =
				choose_entries(graph, *stage->memory, without.held.query, without.left_out, memory);

			memory.failure = graph_search(view, spec, memory.entries, n_entries, memory.found, &n_found, &stats,
				memory.search, memory.search_bytes);
			count_hits(graph, query, memory, n_found, wanted);
			return memory.failure.is_ok();
		};

		without.held.query = query;
		if (graph.hash != nullptr)
		{
			hash_query(*graph.hash, query, memory.code, memory.hash);
			without.held.query = memory.code;
		}

		bool going = search(n_left_out, &queries.without[q]);

		if (n_left_out > 1) // of the query's own row there is one search
			going = going && search(graph.held_out != nullptr ? 0 : 1, &queries.with[q]);
		else
			queries.with[q] = queries.without[q];
		if (!going || (task == 0 && !ivf::go_on(*stage->call, {q, queries.n})))
		{
			stage->stopped.store(true, std::memory_order_relaxed);
			return;
		}
	}
}

Outcome
run_stage(Stage *stage, void (*task)(void *argument, size_t index))
{
	stage->next.store(0);
	ivf::run_workers(*stage->call, stage->memory->n_tasks, task, stage);
	for (size_t i = 0; i < stage->memory->n_tasks; i++)
		if (!stage->memory->tasks[i].failure.is_ok())
			return stage->memory->tasks[i].failure;
	return stage->stopped.load() ? ivf::cancelled() : Outcome{};
}

/// The queries, and what of the graph is no query.
void
begin(const MeasuredGraph &graph, Memory *memory)
{
	const uint32_t n = memory->queries.n;

	for (uint32_t q = 0; q < n; q++)
	{
		memory->queries.numbers[q] = graph.held_out != nullptr
			? graph.held_out[q]
			: static_cast<uint32_t>(stratified_row(q, n, graph.rows.n_rows));
		memory->queries.n_left_out[q] = 0;
	}
	for (uint32_t i = 0; i < graph.n_entries; i++)
		if (graph.held_out == nullptr ||
			!std::binary_search(graph.left_out, graph.left_out + graph.n_left_out, graph.entries[i]))
			memory->entries[memory->n_entries++] = graph.entries[i];
	if (memory->passed == nullptr)
		return;
	std::fill_n(memory->passed, graph.rows.n_rows / 8 + 1, uint8_t{0});
	for (uint32_t i = 0; i < graph.n_left_out; i++)
		memory->passed[graph.left_out[i] / 8] |= static_cast<uint8_t>(1U << graph.left_out[i] % 8);
}

double
missed_of(const Queries &queries, const Wanted *wanted, uint32_t Wanted::*hits, uint32_t n_each, uint32_t stride)
{
	uint64_t n_hits = 0;
	uint64_t n_wanted = 0;

	for (uint32_t q = 0; q < queries.n; q += stride)
	{
		n_hits += wanted[q].*hits;
		n_wanted += std::min(wanted[q].n, n_each);
	}
	return n_wanted == 0 ? 0 : 1 - static_cast<double>(n_hits) / static_cast<double>(n_wanted);
}

/// The recall of so many nearest rows, width by width.
struct Curve
{
	const Wanted *wanted; // [n] of the queries
	uint32_t Wanted::*hits;
	uint32_t n_each;        // rows that are wanted of a query
	double missed = 1;      // by all queries at the last width that they search ...
	double missed_part = 1; // ... and by those that search wider ones

	/// At the width that every so many-th of the queries has just been searched with.
	double next(const Queries &queries, uint32_t stride)
	{
		const double part = missed_of(queries, wanted, hits, n_each, kWideStride);

		if (stride == 1)
		{
			missed = missed_of(queries, wanted, hits, n_each, 1);
			missed_part = part;
		}
		// The queries that go on may be easier or harder than all: what counts is how much less they miss.
		return 1 - (missed_part > 0 ? missed * part / missed_part : part);
	}
};

/// Of searches with or without the queries' copies.
struct Curves
{
	Curve ten;
	Curve one;

	explicit Curves(const Wanted *wanted) : ten{wanted, &Wanted::hits, kNeighbors}, one{wanted, &Wanted::first_hits, 1}
	{
	}

	/// The recall of the ten nearest, unless that of the nearest is less, and not by chance.
	double next(const Queries &queries, uint32_t stride)
	{
		const double of_ten = ten.next(queries, stride);
		const double of_one = one.next(queries, stride);

		return std::min(of_ten,
			of_one + kChance * std::sqrt(std::max(of_one * (1 - of_one), 0.0) / static_cast<double>(queries.n)));
	}
};

} // namespace

size_t
calibrate_bytes(const MeasuredGraph &graph, size_t n_threads)
{
	ivf::Arena arena;
	Memory memory;

	(void) memory.take(&arena, graph, n_threads);
	return arena.bytes_needed();
}

Outcome
calibrate(const MeasuredGraph &graph, ivf::Calibration *calibration, void *work, size_t work_bytes, const Call &call)
{
	ivf::Arena arena(work, work_bytes);
	Memory memory;
	Stage stage = {.graph = &graph, .memory = &memory, .call = &call, .width = 0, .stride = 1};
	double best = 0;

	*calibration = {};
	if (query_count(graph) == 0)
		return {};
	if (!memory.take(&arena, graph, call.n_threads))
		return ivf::work_memory_short();
	begin(graph, &memory);
	for (uint32_t q = 0; q < memory.queries.n; q++)
		topk_init(
			&memory.queries.topks[q], kFound, memory.buffers + q * memory.buffer_size, memory.buffer_size, nullptr);

	Outcome outcome;

	if (graph.nearest == nullptr)
	{
		outcome = run_stage(&stage, truth_task);
		if (!outcome.is_ok())
			return outcome;
		finish_truth(graph, memory.queries);
	}
	else
		take_truth(graph, memory.queries);

	Curves without(memory.queries.without);
	Curves with(memory.queries.with);

	for (size_t i = 0; i < width_count(graph); i++)
	{
		const uint32_t width = width_at(i);

		stage.width = width;
		stage.stride = width > kWide ? kWideStride : 1;
		outcome = run_stage(&stage, search_task);
		if (!outcome.is_ok())
			return outcome;

		best = std::max(
			best, std::min(without.next(memory.queries, stage.stride), with.next(memory.queries, stage.stride)));
		calibration->probes[calibration->n_points] = width;
		calibration->recall[calibration->n_points++] = static_cast<float>(best);
		if (best >= kEnough || looks_at_all(width, graph.rows.n_rows))
			break;
	}
	calibration->n_queries = memory.queries.n;
	return {};
}

} // namespace vectorgpu::engine::graph
