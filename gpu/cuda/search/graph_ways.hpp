// The choice, for each query and each segment with a graph, between a graph search and the scores of all rows.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/search/search_call.hpp"

namespace vectorgpu::cuda
{

/// Bit i: the query searches the i-th source with a graph by its graph. Other sources are searched exactly; sources
/// with a graph not at all under kNoScores.
using GraphWays = uint64_t;
constexpr GraphWays kNoScores = GraphWays{1} << 63; // the query has no score with any row
constexpr uint32_t kMostGraphs = 63;                // further ones are searched exactly

/// The ways of the queries of one call.
class GraphChooser
{
public:
	explicit GraphChooser(const SearchCall &call);

	/// ahead: a query whose ways are asked for soon. Both must stay where they are for as long as this is asked.
	GraphWays ways(const engine::SearchQuery &query, const engine::SearchQuery &ahead);

private:
	bool has_scores(const engine::SearchQuery &query) const;
	GraphWays graphs_of(const engine::SearchQuery &query) const;
	GraphWays choose(const engine::SearchQuery &query, GraphWays ways, bool are_bytes) const;

	const SearchCall &call_;
	const bool any_bytes_;                      // in some source
	std::vector<uint8_t> bytes_;                // of a query
	const engine::SearchQuery *last_ = nullptr; // that was chosen for
	GraphWays last_graphs_ = 0;                 // its graphs_of
	GraphWays last_exact_ = 0;                  // ... and those that all rows are scored of instead
};

} // namespace vectorgpu::cuda
