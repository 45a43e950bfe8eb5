// See calibrate_depths.hpp.
#include "engine/graph/calibrate/calibrate_depths.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace vectorgpu::engine::graph
{

namespace
{

static_assert(std::size(kDepths) == kDepthCount && kDepthCount <= ivf::kMaxDepths);

constexpr uint32_t kRowsPerDepth = 8; // a search for more than this part of the rows looks at all of them
constexpr uint32_t kDeepFound = kDepths[kDepthCount - 1] + kMostLeftOut;

} // namespace

bool
DeepQueries::take(ivf::Arena *arena, const MeasuredGraph &graph, uint32_t n_queries, size_t n_threads)
{
	n_depths = 0;
	while (n_depths < kDepthCount && graph.rows.n_rows / kRowsPerDepth >= kDepths[n_depths])
		n_depths++;
	stride = kDeepStride * std::max((n_queries + kDeepStride * kMostDeep - 1) / (kDeepStride * kMostDeep), 1u);
	n = graph.hash != nullptr || n_depths == 0 ? 0 : (n_queries + stride - 1) / stride;
	if (n == 0)
		return true;
	numbers = arena->take<uint32_t>(n);
	last_scores = arena->take<double>(size_t{n} * kDepthCount);
	hits = arena->take<uint32_t>(size_t{n} * kDepthCount);
	return truth.take(arena, graph, n, kDeepFound, n_threads);
}

Outcome
DeepQueries::find(const MeasuredGraph &graph, const CalibrationQueries &queries, const Call &call)
{
	if (n == 0)
		return {};
	for (uint32_t i = 0; i < n; i++)
		numbers[i] = queries.numbers[i * stride];

	const Outcome outcome = exact_search(graph, {numbers, n}, kDeepFound, &truth, call);

	if (!outcome.is_ok())
		return outcome;
	for (uint32_t i = 0; i < n; i++)
	{
		const uint32_t *gone = queries.left_out + size_t{i} * stride * kMostLeftOut;
		const uint32_t *gone_end = gone + queries.n_left_out[i * stride];
		const uint64_t found = topk_finish(&truth.topks[i]);
		uint32_t rank = 0;
		uint32_t depth = 0;

		std::fill_n(last_scores + size_t{i} * kDepthCount, kDepthCount, -HUGE_VAL);
		for (uint64_t j = 0; j < found && depth < n_depths; j++)
		{
			const Neighbor &row = truth.topks[i].buffer[j];

			if (!std::isnan(row.score) && std::find(gone, gone_end, row.row) == gone_end && ++rank == kDepths[depth])
				last_scores[size_t{i} * kDepthCount + depth++] = row.score;
		}
	}
	return {};
}

void
DeepQueries::count(uint32_t q, const Candidate *found, uint32_t n_found) const
{
	if (n == 0 || q % stride != 0)
		return;
	for (uint32_t d = 0; d < n_depths; d++)
	{
		const size_t at = size_t{q / stride} * kDepthCount + d;
		const Candidate *end = std::upper_bound(found, found + std::min(n_found, kDepths[d]), last_scores[at],
			[](double last, const Candidate &candidate) { return last < candidate.score; });

		hits[at] = static_cast<uint32_t>(end - found);
	}
}

double
DeepQueries::set_recall(uint32_t p, ivf::DepthCalibration *depths) const
{
	double least = 1;

	if (n == 0)
		return least;
	depths->n_depths = n_depths;
	depths->n_queries = n;
	for (uint32_t d = 0; d < n_depths; d++)
	{
		uint64_t n_hits = 0;
		uint64_t n_wanted = 0;

		for (size_t at = d; at < size_t{n} * kDepthCount; at += kDepthCount)
			if (last_scores[at] != -HUGE_VAL) // where scores are NaN there are fewer neighbours
			{
				n_hits += hits[at];
				n_wanted += kDepths[d];
			}

		const double recall = n_wanted == 0 ? 1 : static_cast<double>(n_hits) / static_cast<double>(n_wanted);

		depths->depths[d] = kDepths[d];
		depths->recall[d][p] = std::max(static_cast<float>(recall), p > 0 ? depths->recall[d][p - 1] : 0.0f);
		least = std::min(least, recall);
	}
	return least;
}

} // namespace vectorgpu::engine::graph
