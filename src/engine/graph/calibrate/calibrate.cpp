// See calibrate.hpp.
#include "engine/graph/calibrate/calibrate.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "engine/graph/calibrate/calibrate_depths.hpp"
#include "engine/graph/calibrate/calibrate_search.hpp"
#include "engine/graph/calibrate/calibrate_truth.hpp"
#include "engine/graph/calibrate/hold_out.hpp"
#include "engine/graph/search.hpp"
#include "engine/recall/stratified.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

// Wider searches find nearly all neighbours and cost more: a third of the queries measures them well enough.
constexpr uint32_t kWide = 64;
constexpr uint32_t kWideStride = 3;
constexpr double kEnough = 0.9995; // recall that needs no wider search
constexpr uint32_t kWidths[] = {10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512, 768, 1024};
constexpr uint32_t kWiderWidths[] = {1536, 2048, 3072, 4096}; // of searches that compare codes
constexpr double kDeepEnough = 0.995;                         // of more rows than ten
constexpr double kChance = 3; // standard errors by which the nearest row may seem harder to find than the ten are

static_assert(kDeepStride % kWideStride == 0);
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

struct Memory
{
	CalibrationQueries queries;
	TruthMemory truth;
	DeepQueries deep;
	CalibrationSearch search;

	bool take(ivf::Arena *arena, const MeasuredGraph &graph, size_t n_threads)
	{
		const uint32_t n = query_count(graph);

		(void) queries.take(arena, n);
		(void) truth.take(arena, graph, n, kTruthFound, n_threads);
		(void) deep.take(arena, graph, n, n_threads);
		return search.take(arena, graph, n, width_at(width_count(graph) - 1), n_threads);
	}
};

void
choose_queries(const MeasuredGraph &graph, const CalibrationQueries &queries)
{
	for (uint32_t q = 0; q < queries.n; q++)
	{
		queries.numbers[q] = graph.held_out != nullptr
			? graph.held_out[q]
			: static_cast<uint32_t>(stratified_row(q, queries.n, graph.rows.n_rows));
		queries.n_left_out[q] = 0;
	}
}

/// The share of the wanted rows that the last search missed, over every stride-th query.
double
missed_of(
	const CalibrationQueries &queries, const Wanted *wanted, uint32_t Wanted::*hits, uint32_t n_each, uint32_t stride)
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

/// The recall of the n_each nearest rows, width by width.
struct Curve
{
	const Wanted *wanted; // [n] of the queries
	uint32_t Wanted::*hits;
	uint32_t n_each;        // rows wanted by a query
	double missed = 1;      // by all queries at the last width that all are searched with ...
	double missed_part = 1; // ... and, of them, by those that are searched with wider ones

	/// The recall at the width that every stride-th query has just been searched with.
	double next(const CalibrationQueries &queries, uint32_t stride)
	{
		const double part = missed_of(queries, wanted, hits, n_each, kWideStride);

		if (stride == 1)
		{
			missed = missed_of(queries, wanted, hits, n_each, 1);
			missed_part = part;
		}
		// The queries that go on may be easier or harder than all of them: only the ratio by which they miss less
		// counts.
		return 1 - (missed_part > 0 ? missed * part / missed_part : part);
	}
};

/// Recall with the queries' copies, or without them.
struct Curves
{
	Curve ten;
	Curve one;

	explicit Curves(const Wanted *wanted)
		: ten{wanted, &Wanted::hits, kCalibrationNeighbors}, one{wanted, &Wanted::first_hits, 1}
	{
	}

	/// The recall of the ten nearest, or that of the nearest one if it is less by more than chance explains.
	double next(const CalibrationQueries &queries, uint32_t stride)
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
calibrate(const MeasuredGraph &graph, ivf::Calibration *calibration, void *work, size_t work_bytes, const Call &call,
	ivf::DepthCalibration *depths)
{
	ivf::Arena arena(work, work_bytes);
	Memory memory;
	double best = 0;

	*calibration = {};
	if (depths != nullptr)
		*depths = {};
	if (query_count(graph) == 0)
		return {};
	if (!memory.take(&arena, graph, call.n_threads))
		return ivf::work_memory_short();
	if (depths == nullptr)
		memory.deep.n = 0;
	choose_queries(graph, memory.queries);
	memory.search.set_entries(graph, memory.queries.n);

	Outcome outcome = find_truth(graph, memory.queries, &memory.truth, call);

	if (outcome.is_ok())
		outcome = memory.deep.find(graph, memory.queries, call);
	if (!outcome.is_ok())
		return outcome;

	memory.search.ask_helper(graph, memory.queries, memory.deep);

	Curves without(memory.queries.without);
	Curves with(memory.queries.with);
	double least = 1; // recall of more rows than ten

	for (size_t i = 0; i < width_count(graph); i++)
	{
		const uint32_t width = width_at(i);
		const bool found = best >= kEnough; // by a narrower search: only the deep queries go on
		const uint32_t stride = found ? memory.deep.stride : width > kWide ? kWideStride : 1;

		if (found && (!std::has_single_bit(width) || least >= kDeepEnough))
			continue;
		outcome = search_queries(graph, {&memory.queries, &memory.deep, stride}, width, &memory.search, call);
		if (!outcome.is_ok())
			return outcome;
		if (!found)
			best = std::max(best, std::min(without.next(memory.queries, stride), with.next(memory.queries, stride)));
		least = memory.deep.set_recall(calibration->n_points, depths);
		calibration->probes[calibration->n_points] = width;
		calibration->recall[calibration->n_points++] = static_cast<float>(best);
		if (looks_at_all(width, graph.rows.n_rows))
			break;
	}
	calibration->n_queries = memory.queries.n;
	return {};
}

} // namespace vectorgpu::engine::graph
