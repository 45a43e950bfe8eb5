// Queries of copies of kind kMatch, and the values of their delta, which the host compares in both engines.
//
// Values lie in slots (slot_values.hpp). Nothing that was sent is trusted: a malformed value matches nothing.
#pragma once

#include <span>

#include "engine/copies/rows_view.hpp"
#include "engine/distance/topk.hpp"
#include "engine/interface/engine.hpp"
#include "engine/match/match_index.hpp"

namespace vectorgpu::engine
{

/// True if copies of kind kMatch have this metric. Scores are minus the count of matches or, with Metric::kEdit, the
/// edit distance; segments are then described with texts, and values and queries have a text as their payload
/// (engine/match/text_distance.hpp).
inline bool
match_metric(Metric metric)
{
	return metric == Metric::kMatchCount || metric == Metric::kEdit;
}

/// kInvalidArgument if a query is malformed.
Status check_match_queries(const DistanceSpec &spec, std::span<const SearchQuery> queries);

/// Return a poll that counts control's progress up and ends when control says stop. control may be null.
Poll match_poll(SearchControl *control);

/// The query has been checked.
match::MatchQuery match_query(const DistanceSpec &spec, const SearchQuery &query);

/// Offer each row of the delta, counted by definition. Takes time in proportion to the number of slots, whatever they
/// hold. False if control (which may be null) has stopped it.
bool offer_match_delta(
	const DistanceSpec &spec, const RowsView &delta, const SearchQuery &query, TopK *topk, SearchControl *control);

} // namespace vectorgpu::engine
