// Searches of a copy in device memory: by its kind they go over lists, graphs or all rows. See device_copy.hpp.
#include <algorithm>

#include "cuda/passing/passing_search.hpp"
#include "cuda/resident/device_copy.hpp"
#include "cuda/search/graph_search.hpp"
#include "cuda/search/ivf_search.hpp"
#include "cuda/search/ways.hpp"

namespace vectorgpu::cuda
{

Status
DeviceCopy::search(const SearchMeans &means, std::span<const engine::SearchQuery> queries,
	std::vector<std::vector<engine::Neighbor>> *results, BatchCounts *counts, engine::SearchControl *control)
{
	const Ways &ways = *means.ways;
	const std::shared_ptr<const Snapshot> held = snapshot();
	const bool candidates_only = kind_ == engine::CopyKind::kCodes;
	const SearchOptions options = {means.lane, ways.filter_min_queries, ways.graph_tuning, ways.graph_alone,
		ways.graph_choice, ways.one_pass ? means.one_pass : nullptr, ways.few_lists, ways.few_real_lists,
		ways.few_real_pairs, candidates_only, ways.bins, ways.exact_elements, means.packed};

	if (candidates_only &&
		std::any_of(
			queries.begin(), queries.end(), [](const engine::SearchQuery &query) { return query.probes.empty(); }))
		return Status::error(StatusCode::kInvalidArgument, "the copy has no vectors to score");

	const bool with_conditions = have_conditions(queries);

	if (candidates_only && with_conditions)
		return Status::error(StatusCode::kUnsupported, "candidates have no conditions");

	const SearchCall call = {
		means.device, means.context, spec_, shape_, *held, queries, options, results, counts, control};

	const auto search_kind = [&](const SearchCall &some)
	{
		if (kind_ == engine::CopyKind::kLists || engine::has_codes(kind_))
			return search_lists(some);
		return kind_ == engine::CopyKind::kGraph ? search_graphs(some) : search_snapshot(some);
	};

	return with_conditions ? search_with_conditions(call, budget_, search_kind) : search_kind(call);
}

} // namespace vectorgpu::cuda
