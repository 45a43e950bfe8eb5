// See calibrate_search.hpp.
#include "engine/graph/calibrate/calibrate_search.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "engine/graph/search.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kMostLedOn = 3; // rows left out: two near rows may be chance, where rows have few dimensions

GraphView
shape_of(const MeasuredGraph &graph)
{
	GraphView shape;

	shape.n_nodes = graph.rows.n_rows;
	shape.degree = graph.degree;
	return shape;
}

SearchSpec
spec_of(uint32_t width)
{
	SearchSpec spec;

	spec.width = width;
	spec.probe_steps = kSearchSteps;
	return spec;
}

/// The rows or codes that searches compare.
GraphRows
compared(const MeasuredGraph &graph)
{
	if (graph.hash == nullptr)
		return graph.rows;
	return rows_of_codes(graph.hash->spec.bits, graph.rows.spec.dim, graph.codes, graph.rows.n_rows);
}

/// Rows that a search does without.
struct LeftOut
{
	const uint32_t *rows; // [n]
	uint32_t n;

	bool has(uint32_t row) const { return std::find(rows, rows + n, row) != rows + n; }
};

/// Set chosen, unless a narrower search has, to the entry points that are not left out, the nearest to the query first.
void
choose_entries(const MeasuredGraph &graph, const CalibrationSearch &all, const void *query, const LeftOut &left_out,
	const CalibrationTask &task, QueryEntries *chosen)
{
	uint32_t n = 0;

	if (chosen->n != kNoNode)
		return;
	score_rows(compared(graph), query, all.entries, all.n_entries, task.entry_scores);
	for (uint32_t i = 0; i < all.n_entries; i++)
		if (!left_out.has(all.entries[i]))
			task.entries[n++] = {task.entry_scores[i], all.entries[i]};
	first_candidates(task.entries, n, kSearchEntries);
	chosen->n = std::min(n, kSearchEntries);
	std::copy_n(task.entries, chosen->n, chosen->nearest);
}

/// The graph without some rows, as nearly as is possible without a build. If only the query's row and at most two
/// others are left out, an edge to such a row is led on to one of that row's own neighbours which the node has no edge
/// to: without this, the paths would be missing that the row took over from other rows when edges were chosen. The
/// farthest from the node is taken, since the node's other edges lead to nearer ones soon; the nearest to the row would
/// be an easier path than the graph would have without it. If a group of copies is left out, edges to them are left out
/// too: led on, they would all lead to the query's neighbours, so that nearly every search found them (README.md).
struct GraphWithout
{
	MemoryGraph held;
	GraphRows rows; // as they are compared with each other: a code of RaBitQ is compared with queries alone
	LeftOut left_out;
};

/// The node that replaces the row `gone` at the end of an edge from `node`; kNoNode: none. neighbors [n]: the ends of
/// the node's edges before this one, already replaced.
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
		score_rows(graph.rows, graph.rows.row(node), &others[i], 1, &score);
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

/// Count the true neighbours among the rows found: a row no farther than the last true neighbour counts as one.
void
count_hits(const MeasuredGraph &graph, const void *query, const Candidate *found, uint32_t n_found, Wanted *wanted)
{
	const uint32_t n_judged = graph.hash != nullptr ? n_found : std::min(n_found, wanted->n);

	wanted->hits = 0;
	wanted->first_hits = 0;

	for (uint32_t i = 0; i < n_judged; i++)
	{
		double score = found[i].score;

		if (graph.hash != nullptr)
			score_rows(graph.rows, query, &found[i].node, 1, &score);
		wanted->hits += score <= wanted->last_score;
		wanted->first_hits |= score <= wanted->first_score;
	}
	wanted->hits = std::min(wanted->hits, wanted->n);
	wanted->first_hits = std::min(wanted->first_hits, wanted->n);
}

/// Shared by the tasks of one width.
struct SearchJob
{
	const MeasuredGraph *graph;
	SearchedQueries queries;
	CalibrationSearch *memory;
	const Call *call;
	uint32_t width;
	std::atomic<size_t> next{0};
	std::atomic<bool> stopped{false};
};

/// Search for some of the queries.
void
search_task(void *argument, size_t index)
{
	SearchJob *job = static_cast<SearchJob *>(argument);
	const MeasuredGraph &graph = *job->graph;
	const CalibrationQueries &queries = *job->queries.all;
	const uint32_t stride = job->queries.stride;
	CalibrationTask &task = job->memory->tasks[index];
	const bool rabitq = graph.hash != nullptr && codes_are_rabitq(graph.hash->spec.bits);
	GraphWithout without = {
		{compared(graph), graph.edges, graph.degree, nullptr}, rabitq ? graph.rows : compared(graph), {nullptr, 0}};
	GraphView view = shape_of(graph);
	const SearchSpec spec = spec_of(job->width);
	SearchStats stats;

	view.neighbors = neighbors_without;
	view.scores = scores_without;
	view.context = &without;
	for (size_t q = job->next.fetch_add(stride); q < queries.n && !job->stopped.load(std::memory_order_relaxed);
		q = job->next.fetch_add(stride))
	{
		const void *query = graph.rows.row(queries.numbers[q]);
		const uint32_t *left_out = queries.left_out + q * kMostLeftOut;
		const uint32_t n_left_out = queries.n_left_out[q];
		const auto search = [&](uint32_t n, Wanted *wanted)
		{
			uint32_t n_found = 0;

			without.left_out = {left_out, n};

			QueryEntries *chosen = &job->memory->chosen[2 * q + (wanted == &queries.without[q] ? 0 : 1)];

			choose_entries(graph, *job->memory, without.held.query, without.left_out, task, chosen);
			task.failure = graph_search(
				view, spec, chosen->nearest, chosen->n, task.found, &n_found, &stats, task.search, task.search_bytes);
			count_hits(graph, query, task.found, n_found, wanted);
			if (wanted == &queries.without[q])
				job->queries.deep->count(static_cast<uint32_t>(q), task.found, n_found);
			return task.failure.is_ok();
		};

		without.held.query = query;
		if (graph.hash != nullptr)
		{
			make_query_code(*graph.hash, query, task.code, task.hash);
			without.held.query = task.code;
		}

		bool going = search(n_left_out, &queries.without[q]);

		if (n_left_out > 1) // without copies one search serves both
			going = going && search(graph.held_out != nullptr ? 0 : 1, &queries.with[q]);
		else
			queries.with[q] = queries.without[q];
		if (!going || (index == 0 && !ivf::go_on(*job->call, {q, queries.n})))
		{
			job->stopped.store(true, std::memory_order_relaxed);
			return;
		}
	}
}

/// Let the helper search for all queries, those for more rows than ten apart.
Helped
search_by_helper(const MeasuredGraph &graph, const SearchedQueries &queries, uint32_t width, CalibrationSearch *memory)
{
	const CalibrationQueries &all = *queries.all;
	const DeepQueries &deep = *queries.deep;

	for (const bool is_deep : {false, true})
	{
		const uint32_t k = std::min(width, is_deep ? kDepths[kDepthCount - 1] : kCalibrationNeighbors);
		const auto each = [&](const auto &with)
		{
			uint32_t at = 0;

			for (uint32_t q = 0; q < all.n; q += queries.stride)
				if ((deep.n > 0 && q % deep.stride == 0) == is_deep)
					with(q, at++);
			return at;
		};
		const uint32_t n = each([&](uint32_t q, uint32_t at) { memory->nodes[at] = all.numbers[q]; });
		const Helped helped = n == 0
			? Helped::kYes
			: graph.helper->search(graph.helper->context, {memory->nodes, n, width, k, memory->found, memory->n_found});

		if (helped != Helped::kYes)
			return helped;
		(void) each(
			[&](uint32_t q, uint32_t at)
			{
				const Candidate *found = memory->found + size_t{at} * k;

				count_hits(graph, graph.rows.row(all.numbers[q]), found, memory->n_found[at], &all.without[q]);
				deep.count(q, found, memory->n_found[at]);
				all.with[q] = all.without[q];
			});
	}
	return Helped::kYes;
}

} // namespace

bool
CalibrationSearch::take(
	ivf::Arena *arena, const MeasuredGraph &graph, uint32_t n_queries, uint32_t width, size_t n_threads)
{
	const GraphView shape = shape_of(graph);

	entries = arena->take<uint32_t>(graph.n_entries);
	n_entries = 0;
	chosen = arena->take<QueryEntries>(size_t{n_queries} * 2);
	n_tasks = calibration_task_count(n_queries, n_threads);
	by_helper = false;
	if (graph.helper != nullptr)
	{
		nodes = arena->take<uint32_t>(n_queries);
		n_found = arena->take<uint32_t>(n_queries);
		found = arena->take<Candidate>(
			std::max(size_t{n_queries} * kCalibrationNeighbors, size_t{kMostDeep} * kDepths[kDepthCount - 1]));
	}
	for (size_t i = 0; i < n_tasks; i++)
	{
		CalibrationTask &task = tasks[i];

		task.found = arena->take<Candidate>(width);
		task.entries = arena->take<Candidate>(graph.n_entries);
		task.entry_scores = arena->take<double>(graph.n_entries);
		task.hash = graph.hash != nullptr ? arena->take<float>(code_work_floats(graph.hash->spec)) : nullptr;
		task.code = graph.hash != nullptr
			? arena->take<uint8_t>(code_query_bytes(graph.hash->spec.bits, graph.rows.spec.dim))
			: nullptr;
		task.search_bytes = graph_search_bytes(shape, spec_of(width));
		task.search = arena->take<uint8_t>(task.search_bytes);
		task.failure = {};
	}
	return !arena->is_short();
}

void
CalibrationSearch::set_entries(const MeasuredGraph &graph, uint32_t n_queries)
{
	for (size_t i = 0; i < size_t{n_queries} * 2; i++)
		chosen[i].n = kNoNode;
	n_entries = 0;
	for (uint32_t i = 0; i < graph.n_entries; i++)
		if (graph.held_out == nullptr ||
			!std::binary_search(graph.left_out, graph.left_out + graph.n_left_out, graph.entries[i]))
			entries[n_entries++] = graph.entries[i];
}

/// Its searches pass over no row and find none whose score is not finite, nor any for a row without a score to itself.
void
CalibrationSearch::ask_helper(const MeasuredGraph &graph, const CalibrationQueries &queries, const DeepQueries &deep)
{
	const auto is_infinite = [](double score) { return std::isinf(score) && score > 0; };

	by_helper = false;
	if (graph.helper == nullptr || graph.hash != nullptr || graph.held_out == nullptr || n_entries == 0)
		return;
	for (uint32_t q = 0; q < queries.n; q++)
	{
		double own_score;

		score_rows(graph.rows, graph.rows.row(queries.numbers[q]), &queries.numbers[q], 1, &own_score);
		if (queries.n_left_out[q] > 0 || is_infinite(queries.without[q].last_score) ||
			(queries.without[q].n > 0 && !std::isfinite(own_score)))
			return;
	}
	if (deep.n > 0 && std::any_of(deep.last_scores, deep.last_scores + size_t{deep.n} * kDepthCount, is_infinite))
		return;
	by_helper = graph.helper->give_graph(graph.helper->context, {graph.degree, graph.edges, entries, n_entries}) ==
		Helped::kYes;
}

Outcome
search_queries(const MeasuredGraph &graph, const SearchedQueries &queries, uint32_t width, CalibrationSearch *memory,
	const Call &call)
{
	SearchJob job = {.graph = &graph, .queries = queries, .memory = memory, .call = &call, .width = width};

	if (memory->by_helper && !looks_at_all(width, graph.rows.n_rows))
	{
		const Helped helped = search_by_helper(graph, queries, width, memory);

		if (helped == Helped::kCancelled || !ivf::go_on(call, {queries.all->n, queries.all->n}))
			return ivf::cancelled();
		if (helped == Helped::kYes)
			return {};
		memory->by_helper = false; // from now on
	}
	ivf::run_workers(call, memory->n_tasks, search_task, &job);
	for (size_t i = 0; i < memory->n_tasks; i++)
		if (!memory->tasks[i].failure.is_ok())
			return memory->tasks[i].failure;
	return job.stopped.load() ? ivf::cancelled() : Outcome{};
}

} // namespace vectorgpu::engine::graph
