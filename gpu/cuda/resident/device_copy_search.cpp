// Searches of a copy in device memory: by its kind they go over lists, graphs or all rows. See device_copy.hpp.
#include <algorithm>

#include "cuda/passing/passing_search.hpp"
#include "cuda/resident/device_copy.hpp"
#include "cuda/search/chunk.hpp"
#include "cuda/search/graph_search.hpp"
#include "cuda/search/ivf_search.hpp"
#include "cuda/search/ways.hpp"

namespace vectorgpu::cuda
{
namespace
{

/// Gives the waits of a search more time while it lives, if the search may read many rows over the bus: the watchdog
/// must not take that for a kernel that never ends.
class Patience
{
public:
	Patience(Stream *stream, uint64_t host_bytes, size_t n_queries) : stream_(stream)
	{
		constexpr double kLeastBytesPerNs = 4; // a bus of the third generation gives three times as much
		const double most = std::min(static_cast<double>(host_bytes) * static_cast<double>(n_queries),
								static_cast<double>(kMostHostBytes)) +
			2 * static_cast<double>(host_bytes);

		stream_->set_patience(static_cast<uint64_t>(most / kLeastBytesPerNs));
	}

	~Patience() { stream_->set_patience(0); }
	Patience(const Patience &) = delete;
	Patience &operator=(const Patience &) = delete;

private:
	Stream *const stream_;
};

} // namespace

Status
DeviceCopy::search(const SearchMeans &means, std::span<const engine::SearchQuery> queries,
	std::vector<std::vector<engine::Neighbor>> *results, BatchCounts *counts, engine::SearchControl *control)
{
	const Ways &ways = *means.ways;
	const std::shared_ptr<const Snapshot> held = snapshot();
	const bool candidates_only = kind_ == engine::CopyKind::kCodes;
	const SearchOptions options = {means.lane, ways.filter_min_queries, ways.graph_tuning, ways.graph_alone,
		ways.graph_choice, ways.list_choice, ways.one_pass ? means.one_pass : nullptr, ways.few_lists,
		ways.few_real_lists, ways.few_real_pairs, candidates_only, ways.bins, ways.exact_elements, means.packed,
		ways.rounded_lists, ways.graph_trace};

	if (candidates_only &&
		std::any_of(
			queries.begin(), queries.end(), [](const engine::SearchQuery &query) { return query.probes.empty(); }))
		return Status::error(StatusCode::kInvalidArgument, "the copy has no vectors to score");

	const bool with_conditions = have_conditions(queries);
	const Patience patience(&means.context->stream, held->host_bytes(), queries.size());
	StreamEnd end(means.device, &means.context->stream); // behind `held`, whose rows may be unpinned and unmapped

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

	const Status status = with_conditions ? search_with_conditions(call, budget_, search_kind) : search_kind(call);

	if (status.is_ok())
		end.reached();
	return status;
}

} // namespace vectorgpu::cuda
