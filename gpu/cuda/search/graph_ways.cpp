// See graph_ways.hpp.
#include "cuda/search/graph_ways.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "cuda/device/gpu_choice.hpp"
#include "cuda/device/staging.hpp"
#include "cuda/resident/device_graph.hpp"
#include "cuda/search/filter_plan.hpp"
#include "engine/copies/segment_graph.hpp"
#include "engine/distance/distance.hpp"
#include "engine/graph/search.hpp"
#include "kernels/graph/graph.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::SearchQuery;
using kernels::Form;

bool
looks_at_all(uint32_t width, const Source &source)
{
	return width > kernels::kGraphMostWidth || engine::graph::looks_at_all(width, source.n_rows);
}

/// True if both queries have the same ways, unless the elements of only one of them are bytes.
bool
wants_the_same(const SearchQuery &a, const SearchQuery &b)
{
	return a.k == b.k && a.has_after == b.has_after &&
		std::equal(a.probes.begin(), a.probes.end(), b.probes.begin(), b.probes.end(),
			[](const engine::SegmentProbes &x, const engine::SegmentProbes &y)
			{ return x.segment == y.segment && x.probes == y.probes; });
}

bool
any_bytes(const Snapshot &snapshot)
{
	return std::any_of(snapshot.sources.begin(), snapshot.sources.end(),
		[](const Source &source) { return source.block->form == Form::kByte; });
}

} // namespace

GraphChooser::GraphChooser(const SearchCall &call) : call_(call), any_bytes_(any_bytes(call.snapshot)) {}

GraphWays
GraphChooser::ways(const SearchQuery &query, const SearchQuery &ahead)
{
	if (query.probes.empty())
		return 0;
	if (!has_scores(query))
		return kNoScores;
	if (last_ == nullptr || !wants_the_same(*last_, query)) // mostly all queries of a batch want the same
	{
		last_ = &query;
		last_graphs_ = graphs_of(query);
		last_exact_ = last_graphs_ != 0 && call_.options.graph_choice ? choose(query, last_graphs_, true) : 0;
	}
	if (last_exact_ == 0 || !any_bytes_ || is_bytes(call_.spec, query, ahead, &bytes_))
		return last_graphs_ & ~last_exact_;
	return last_graphs_ & ~choose(query, last_graphs_, false);
}

/// False for a zero vector, which has no cosine with any row: no graph search finds rows without a finite distance.
bool
GraphChooser::has_scores(const SearchQuery &query) const
{
	double score;

	if (call_.spec.metric != Metric::kCosine)
		return true;
	engine::compute_scores(call_.spec, query.query, query.query, call_.shape.row_bytes, 1, &score, 0);
	return !std::isnan(score);
}

/// The graphs that the query searches if its width alone decides.
GraphWays
GraphChooser::graphs_of(const SearchQuery &query) const
{
	uint32_t graph = 0;
	GraphWays ways = 0;

	for (const Source &source : call_.snapshot.sources)
		if (source.graph != nullptr && graph < kMostGraphs)
		{
			ways |= looks_at_all(width_of(query, source), source) ? 0 : GraphWays{1} << graph;
			graph++;
		}
	return ways;
}

/// The graphs of `ways` whose rows should all be scored instead. are_bytes: if the rows' elements are bytes, so are the
/// query's.
GraphWays
GraphChooser::choose(const SearchQuery &query, GraphWays ways, bool are_bytes) const
{
	const engine::DistanceSpec &spec = call_.spec;
	const SearchOptions &options = call_.options;
	const bool by_dot = spec.metric == Metric::kL2 || spec.metric == Metric::kInnerProduct;
	const uint32_t k = static_cast<uint32_t>(std::min<size_t>(query.k, UINT32_MAX));
	std::array<GraphChoice, kMostGraphs> choices;
	std::array<uint32_t, kMostGraphs> numbers;
	size_t n = 0;
	uint32_t graph = 0;
	Passes passes;
	GraphWays exact = 0;

	// The conditions of search_one_pass.
	passes.shared = by_dot && are_bytes && options.one_pass != nullptr && !query.has_after &&
		query.k <= kernels::kFinishMostK && call_.snapshot.sources.size() <= kernels::kMostParts;
	for (const Source &source : call_.snapshot.sources)
	{
		const Form form = source.block->form;
		const uint32_t number = source.graph != nullptr && graph < kMostGraphs ? graph++ : kMostGraphs;

		passes.shared = passes.shared && form == Form::kByte;
		if (number == kMostGraphs || (ways >> number & 1) == 0)
		{
			passes.begun = passes.begun || source.n_rows > 0;
			continue;
		}

		// If rows are narrower than the caller's, some queries cannot go through the filter.
		const bool fits = form == own_form(spec.element) || (form == Form::kByte && are_bytes);

		// For the model a bit string takes the time of as many floats as have its size.
		const uint32_t dim = form == Form::kBit ? source.block->pitch_bytes / sizeof(float) : spec.dim;

		choices[n] = {source.n_rows, dim, source.block->pitch_bytes, by_dot && form == Form::kByte && are_bytes,
			options.one_pass != nullptr && fits && !query.has_after && spec.metric != Metric::kL1 &&
				filter_pays(source, 0, 1, k),
			width_of(query, source), source.graph->layout.header.n_entries};
		numbers[n++] = number;
	}

	const uint64_t chosen = choose_exact(std::span(choices).first(n), query.k, passes);

	for (size_t i = 0; i < n; i++)
		exact |= (chosen >> i & 1) << numbers[i];
	return exact;
}

} // namespace vectorgpu::cuda
