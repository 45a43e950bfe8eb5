// See calibrate_truth.hpp.
#include "engine/graph/calibrate/calibrate_truth.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kNeighbors = kCalibrationNeighbors;
constexpr size_t kBatchRows = 256;         // compared with all queries, at most
constexpr size_t kBatchBytes = 128 * 1024; // of a batch, at most: fits a cache

// A search by codes compares found rows with these scores even where there are no neighbours.
constexpr Wanted kNothing = {-HUGE_VAL, -HUGE_VAL, 0, 0, 0};

/// Shared by the tasks of the exact search.
struct TruthJob
{
	const MeasuredGraph *graph;
	RowQueries queries;
	const TruthMemory *memory;
	const Call *call;
	std::atomic<size_t> next{0};
	std::atomic<bool> stopped{false};
};

size_t
batch_rows(const GraphRows &rows)
{
	return std::clamp<size_t>(kBatchBytes / std::max<size_t>(rows.row_stride, 1), 1, kBatchRows);
}

/// Compare a batch of rows from `first` on with the queries [begin, end).
void
compare_batch(const TruthJob &job, size_t task, size_t first, size_t n, size_t begin, size_t end)
{
	const GraphRows &rows = job.graph->rows;
	const uint8_t *passed = job.memory->passed;
	double *scores = job.memory->scores[task];
	RowId *numbers = job.memory->row_numbers[task];

	for (size_t i = 0; i < n; i++)
		numbers[i] = first + i;
	for (size_t q = begin; q < end; q++)
	{
		TopK *topk = &job.memory->topks[q];

		compute_scores(rows.spec, rows.row(job.queries.numbers[q]), rows.row(static_cast<uint32_t>(first)),
			rows.row_stride, n, scores, 0);
		if (topk_wants(topk, scores, n))
			topk_push(topk, scores, numbers, n, passed, passed != nullptr ? first : 0);
	}
}

/// Search exactly for a range of the queries. Task 0 runs in the caller's thread and reports progress.
void
truth_task(void *argument, size_t task)
{
	TruthJob *job = static_cast<TruthJob *>(argument);
	const size_t n_rows = job->graph->rows.n_rows;
	const size_t batch = batch_rows(job->graph->rows);
	const size_t n_pieces = job->memory->n_tasks; // each piece reads all rows

	for (size_t piece = job->next.fetch_add(1); piece < n_pieces; piece = job->next.fetch_add(1))
	{
		const size_t begin = piece * job->queries.n / n_pieces;
		const size_t end = (piece + 1) * job->queries.n / n_pieces;

		for (size_t first = 0; first < n_rows; first += batch)
		{
			if (job->stopped.load(std::memory_order_relaxed))
				return;
			if (task == 0 && !ivf::go_on(*job->call, {first, n_rows}))
			{
				job->stopped.store(true, std::memory_order_relaxed);
				return;
			}
			compare_batch(*job, task, first, std::min(batch, n_rows - first), begin, end);
		}
	}
}

/// The exact search by the helper.
Helped
search_by_helper(
	const MeasuredGraph &graph, const RowQueries &queries, uint32_t n_found, TruthMemory *memory, const Call &call)
{
	const Helper &helper = *graph.helper;
	Helped helped = graph.held_out != nullptr ? helper.leave_out(helper.context, graph.left_out, graph.n_left_out)
											  : helper.leave_out(helper.context, nullptr, 0);

	for (uint32_t first = 0; first < queries.n && helped == Helped::kYes; first += kHelpedQueries)
	{
		const uint32_t n = std::min(kHelpedQueries, queries.n - first);

		if (!ivf::go_on(call, {first, queries.n}))
			return Helped::kCancelled;
		helped =
			helper.search(helper.context, {queries.numbers + first, n, 0, n_found, memory->helped, memory->n_helped});
		for (uint32_t q = 0; q < n && helped == Helped::kYes; q++)
			for (uint32_t i = 0; i < memory->n_helped[q]; i++)
			{
				const Candidate &found = memory->helped[size_t{q} * n_found + i];
				const RowId row = found.node;

				topk_push(&memory->topks[first + q], &found.score, &row, 1, nullptr, 0);
			}
	}
	return helped;
}

/// The first of n neighbours with these scores.
Wanted
wanted(const double *scores, size_t n)
{
	n = std::min<size_t>(n, kNeighbors);
	return n == 0 ? kNothing : Wanted{scores[0], scores[n - 1], static_cast<uint32_t>(n), 0, 0};
}

/// Set without, with and left_out from the results of the exact search.
void
finish_truth(const MeasuredGraph &graph, const CalibrationQueries &queries, TopK *topks)
{
	for (uint32_t q = 0; q < queries.n; q++)
	{
		const uint64_t found = topk_finish(&topks[q]);
		const void *row = graph.rows.row(queries.numbers[q]);
		uint32_t *left_out = queries.left_out + size_t{q} * kMostLeftOut;
		double scores[kTruthFound];
		uint32_t numbers[kTruthFound];
		double own_score;
		size_t n = 0;
		size_t copies = 0;

		for (uint64_t j = 0; j < found; j++)
			if (topks[q].buffer[j].row != queries.numbers[q] && !std::isnan(topks[q].buffer[j].score))
			{
				scores[n] = topks[q].buffer[j].score;
				numbers[n++] = static_cast<uint32_t>(topks[q].buffer[j].row);
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

/// Set without and with from graph.nearest.
void
take_truth(const MeasuredGraph &graph, const CalibrationQueries &queries)
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

		// The lists are ordered by scores rounded to float, so that the first and the last double have to be searched.
		queries.without[q] = end == scores ? kNothing
										   : Wanted{*std::min_element(scores, end), *std::max_element(scores, end),
												 static_cast<uint32_t>(end - scores), 0, 0};
		queries.with[q] = queries.without[q];
	}
}

} // namespace

bool
CalibrationQueries::take(ivf::Arena *arena, uint32_t n_queries)
{
	n = n_queries;
	numbers = arena->take<uint32_t>(n);
	without = arena->take<Wanted>(n);
	with = arena->take<Wanted>(n);
	left_out = arena->take<uint32_t>(size_t{n} * kMostLeftOut);
	n_left_out = arena->take<uint32_t>(n);
	return n_left_out != nullptr;
}

size_t
calibration_task_count(uint32_t n_queries, size_t n_threads)
{
	return std::min({n_threads, kMostCalibrationTasks, size_t{std::max(n_queries, 1u)}});
}

bool
TruthMemory::take(ivf::Arena *arena, const MeasuredGraph &graph, uint32_t n_queries, uint32_t n_found, size_t n_threads)
{
	buffer_size = topk_buffer_bytes(n_found) / sizeof(Neighbor);
	topks = arena->take<TopK>(n_queries);
	buffers = arena->take<Neighbor>(buffer_size * n_queries);
	passed = graph.held_out != nullptr ? arena->take<uint8_t>(graph.rows.n_rows / 8 + 1) : nullptr;
	helped = graph.helper != nullptr ? arena->take<Candidate>(size_t{kHelpedQueries} * n_found) : nullptr;
	n_helped = graph.helper != nullptr ? arena->take<uint32_t>(kHelpedQueries) : nullptr;
	n_tasks = calibration_task_count(n_queries, n_threads);
	for (size_t i = 0; i < n_tasks; i++)
	{
		scores[i] = arena->take<double>(kBatchRows);
		row_numbers[i] = arena->take<RowId>(kBatchRows);
	}
	return !arena->is_short();
}

Outcome
exact_search(
	const MeasuredGraph &graph, const RowQueries &queries, uint32_t n_found, TruthMemory *memory, const Call &call)
{
	TruthJob job = {.graph = &graph, .queries = queries, .memory = memory, .call = &call};
	const auto begin = [&]
	{
		for (uint32_t q = 0; q < queries.n; q++)
			topk_init(
				&memory->topks[q], n_found, memory->buffers + q * memory->buffer_size, memory->buffer_size, nullptr);
	};

	begin();
	if (graph.helper != nullptr)
	{
		const Helped helped = search_by_helper(graph, queries, n_found, memory, call);

		if (helped == Helped::kYes)
			return {};
		if (helped == Helped::kCancelled)
			return ivf::cancelled();
		begin();
	}
	if (memory->passed != nullptr)
	{
		std::fill_n(memory->passed, graph.rows.n_rows / 8 + 1, uint8_t{0});
		for (uint32_t i = 0; i < graph.n_left_out; i++)
			memory->passed[graph.left_out[i] / 8] |= static_cast<uint8_t>(1U << graph.left_out[i] % 8);
	}
	ivf::run_workers(call, memory->n_tasks, truth_task, &job);
	return job.stopped.load() ? ivf::cancelled() : Outcome{};
}

Outcome
find_truth(const MeasuredGraph &graph, const CalibrationQueries &queries, TruthMemory *memory, const Call &call)
{
	if (graph.nearest != nullptr)
	{
		take_truth(graph, queries);
		return {};
	}

	const Outcome outcome = exact_search(graph, {queries.numbers, queries.n}, kTruthFound, memory, call);

	if (outcome.is_ok())
		finish_truth(graph, queries, memory->topks);
	return outcome;
}

} // namespace vectorgpu::engine::graph
