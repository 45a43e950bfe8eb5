// The choice, for each query over inverted lists, between its lists and the scores of all rows
// (../device/list_choice.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/search/search_call.hpp"

namespace vectorgpu::cuda
{

/// The lists of a source that a query searches, as far as the host can say: of a source with conditions those that it
/// names are more (kernels::IvfCut).
double expected_probes(const Source &source, const engine::SearchQuery &query);

/// The ways of the queries of one call. What a query does not depend on the others of its batch.
class ListChooser
{
public:
	/// masked: call.snapshot is without the rows that fail a query's conditions.
	explicit ListChooser(const SearchCall &call, bool masked = false);

	/// True if all rows are to be scored, where some lists would do. ahead: a query that is asked for soon. Both must
	/// stay where they are for as long as this is asked.
	bool scores_all(const engine::SearchQuery &query, const engine::SearchQuery &ahead);

private:
	bool choose(const engine::SearchQuery &query) const;

	const SearchCall &call_;
	const bool masked_;
	bool any_bytes_ = false;                    // in some source
	bool all_bytes_ = true;                     // in all sources
	std::vector<uint8_t> bytes_;                // of a query
	const engine::SearchQuery *last_ = nullptr; // that was chosen for
	bool last_scores_all_ = false;              // ... and what, unless its elements are not bytes and some rows' are
};

} // namespace vectorgpu::cuda
