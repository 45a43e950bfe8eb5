// See graph_search.hpp. A query searches a segment in one of three ways (graph_ways.hpp): by its graph; by the scores
// of all rows, where that takes less time (gpu_choice.hpp) or the search would be wider than the kernel's; not at all,
// if the query has no score with any row. Queries without probes go over all rows of everything, as in search.cpp.
// Graphs are searched by graph_alone.hpp (few queries over one graph) or graph_chunks.hpp. The results of both ways
// are joined on the host.
#include "cuda/search/graph_search.hpp"

#include <algorithm>
#include <numeric>

#include "cuda/search/graph_alone.hpp"
#include "cuda/search/graph_chunks.hpp"
#include "cuda/search/graph_ways.hpp"
#include "cuda/search/results.hpp"
#include "cuda/search/search.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;
using engine::SearchQuery;

/// Queries that go over all rows of all sources.
Status
search_all_rows(const SearchCall &call)
{
	VECTORGPU_TRY(search_snapshot(call));
	for (size_t i = 0; i < call.queries.size(); i++)
	{
		const bool left_out = !call.queries[i].probes.empty() && drop_nan(&(*call.results)[i]);

		if (call.queries[i].coverage != nullptr)
			*call.queries[i].coverage = left_out ? engine::Coverage::kScored : engine::Coverage::kAll;
	}
	return Status::ok();
}

/// Joins the results from all rows of some sources into call.results.
Status
add_rows(const SearchCall &call, const Snapshot &rows)
{
	Results others;
	std::vector<Neighbor> scratch;

	VECTORGPU_TRY(search_snapshot(call.with(rows, call.queries, &others)));
	for (size_t i = 0; i < call.queries.size(); i++)
	{
		const SearchQuery &query = call.queries[i];

		if (!query.probes.empty() && drop_nan(&others[i]) && query.coverage != nullptr)
			*query.coverage = std::min(*query.coverage, engine::Coverage::kScored);
		join_results(others[i], query.k, &scratch, &(*call.results)[i]);
	}
	return Status::ok();
}

Status
search_graph_sources(const SearchCall &call, std::vector<const Source *> graphs)
{
	bool taken = false;

	if (call.options.graph_alone && graphs.size() == 1)
		VECTORGPU_TRY(search_graph_alone(call, *graphs[0], &taken));
	return taken ? Status::ok() : search_graph_chunks(call, std::move(graphs));
}

/// Queries with the same ways. Sets their coverage.
Status
search_alike(const SearchCall &call, GraphWays ways)
{
	Snapshot rows;
	std::vector<const Source *> graphs;
	bool left_out = false;
	uint32_t graph = 0;

	begin_results(call.queries.size(), call.results);
	if (ways == 0)
		return search_all_rows(call);
	for (const Source &source : call.snapshot.sources)
	{
		const bool has_graph = source.graph != nullptr;
		const bool by_graph = has_graph && graph < kMostGraphs && (ways >> graph & 1) != 0;

		graph += has_graph ? 1 : 0;
		if (has_graph && ways == kNoScores)
			left_out = true;
		else if (by_graph)
			graphs.push_back(&source);
		else
		{
			rows.sources.push_back(source);
			rows.n_rows += source.n_rows;
		}
	}
	for (const SearchQuery &query : call.queries)
		if (query.coverage != nullptr)
			*query.coverage = !graphs.empty() ? engine::Coverage::kPart
				: left_out                    ? engine::Coverage::kScored
											  : engine::Coverage::kAll;
	if (!graphs.empty())
		VECTORGPU_TRY(search_graph_sources(call, std::move(graphs)));
	return rows.n_rows > 0 ? add_rows(call, rows) : Status::ok();
}

/// The queries of these numbers, which have the same ways; k may be 0 or beyond the number of rows.
Status
search_group(const SearchCall &call, std::span<const uint32_t> numbers, GraphWays ways)
{
	const uint64_t n_rows = call.snapshot.n_rows;
	const bool by_graph = ways != 0 && ways != kNoScores;
	std::vector<SearchQuery> group;
	Results found;
	bool large = false; // graphs find kMaxSelectK rows at a time

	for (const uint32_t number : numbers)
	{
		group.push_back(call.queries[number]);
		group.back().k = static_cast<size_t>(std::clamp<uint64_t>(group.back().k, 1, std::max<uint64_t>(n_rows, 1)));
		large = large || (by_graph && group.back().k > kernels::kMaxSelectK);
	}
	if (n_rows == 0 || large)
		found.resize(group.size());
	else
		VECTORGPU_TRY(search_alike(call.with(group, &found), ways));
	for (size_t i = 0; i < group.size(); i++)
	{
		if (large)
			VECTORGPU_TRY(
				search_in_slices(group[i], group[i].k, &found[i], [&](const SearchQuery &query, Results *slice)
					{ return search_alike(call.with({&query, 1}, slice), ways); }));
		if (call.queries[numbers[i]].k > 0)
			(*call.results)[numbers[i]] = std::move(found[i]);
	}
	return Status::ok();
}

/// The ways of all queries. Sets their coverage to kAll, which searches change.
std::vector<GraphWays>
choose_ways(const SearchCall &call)
{
	const std::span<const SearchQuery> queries = call.queries;
	GraphChooser chooser(call);
	std::vector<GraphWays> ways(queries.size());

	for (uint32_t i = 0; i < queries.size(); i++)
	{
		ways[i] = chooser.ways(queries[i], queries[std::min<size_t>(i + 1, queries.size() - 1)]);
		if (queries[i].coverage != nullptr)
			*queries[i].coverage = engine::Coverage::kAll;
	}
	return ways;
}

Status
search(const SearchCall &call, const std::vector<GraphWays> &ways)
{
	const uint64_t most_k = std::min<uint64_t>(call.snapshot.n_rows, kernels::kMaxSelectK);
	std::vector<uint32_t> numbers(call.queries.size());

	// The common case: nothing has to be sorted.
	if (!ways.empty() && most_k > 0 && std::equal(ways.begin() + 1, ways.end(), ways.begin()) &&
		std::all_of(call.queries.begin(), call.queries.end(),
			[&](const SearchQuery &query) { return query.k > 0 && query.k <= most_k; }))
		return search_alike(call, ways[0]);
	std::iota(numbers.begin(), numbers.end(), 0);
	if (!std::is_sorted(ways.begin(), ways.end()))
		std::stable_sort(numbers.begin(), numbers.end(), [&](uint32_t a, uint32_t b) { return ways[a] < ways[b]; });
	for (size_t first = 0, end = 0; first < numbers.size(); first = end)
	{
		while (end < numbers.size() && ways[numbers[end]] == ways[numbers[first]])
			end++;
		VECTORGPU_TRY(search_group(call, std::span(numbers).subspan(first, end - first), ways[numbers[first]]));
	}
	return Status::ok();
}

} // namespace

Status
search_graphs(const SearchCall &call)
{
	Status status = call.device->provoke(call.stream());

	begin_results(call.queries.size(), call.results);

	const std::vector<GraphWays> ways = choose_ways(call);

	if (status.is_ok())
		status = search(call, ways);
	return call.end(status);
}

} // namespace vectorgpu::cuda
