// See spread_search.hpp. Scores are canonical and (score, row) is a total order, so neither the choice of a replica nor
// the cut of a batch nor the merge of shards changes an answer.
#include "worker/devices/spread_search.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

namespace vectorgpu::worker
{
namespace
{

using engine::Coverage;
using engine::FilterWay;
using engine::Neighbor;
using engine::SearchQuery;

/// True if another device that has the same rows may succeed.
bool
is_failure_of_device(const Status &status)
{
	return status.code == StatusCode::kUnavailable || status.code == StatusCode::kInternal ||
		status.code == StatusCode::kOutOfMemory || status.code == StatusCode::kNotFound;
}

/// A batch as one shard gets it, and its answers.
struct ShardCall
{
	std::vector<SearchQuery> queries;
	std::vector<Coverage> coverage;
	std::vector<FilterWay> ways;
	std::vector<std::shared_ptr<const engine::Passing>> passing; // keeps what queries point at
	std::vector<std::vector<Neighbor>> results;
};

void
prepare(const SpreadView &view, PassingCuts *cuts, const DevicePlace *place, std::span<const SearchQuery> queries,
	ShardCall *call)
{
	std::map<const engine::Passing *, const engine::Passing *> known;

	call->queries.assign(queries.begin(), queries.end());
	call->coverage.assign(queries.size(), Coverage::kAll);
	call->ways.assign(queries.size(), FilterWay::kNone);
	for (size_t i = 0; i < queries.size(); i++)
	{
		SearchQuery &query = call->queries[i];

		query.coverage = &call->coverage[i];
		query.filter_way = &call->ways[i];
		if (query.passing == nullptr)
			continue;

		const auto [found, is_new] = known.emplace(query.passing, nullptr);

		if (is_new)
		{
			call->passing.push_back(cuts->cut(view, *query.passing, place));
			found->second = call->passing.back().get();
		}
		query.passing = found->second;
	}
}

/// Merge the answers to query i into that of the first call, which keeps at most k.
void
merge(std::span<ShardCall> calls, size_t i, const SearchQuery &query, std::vector<Neighbor> *result)
{
	Coverage coverage = Coverage::kAll;
	FilterWay way = FilterWay::kNone;

	*result = std::move(calls[0].results[i]);
	for (const ShardCall &call : calls)
	{
		coverage = std::min(coverage, call.coverage[i]);
		way = std::max(way, call.ways[i]);
	}
	for (const ShardCall &call : calls.subspan(1))
	{
		const auto middle = static_cast<ptrdiff_t>(result->size());

		result->insert(result->end(), call.results[i].begin(), call.results[i].end());
		std::inplace_merge(result->begin(), result->begin() + middle, result->end(), engine::neighbor_less);
		result->resize(std::min(result->size(), query.k));
	}
	if (query.coverage != nullptr)
		*query.coverage = coverage;
	if (query.filter_way != nullptr)
		*query.filter_way = way;
}

} // namespace

/// Call work(i) for i below n, on this thread and those of the pool; the first failure, or ok.
template <class Work>
Status
SpreadSearch::run_side_by_side(size_t n, Work work)
{
	std::atomic<size_t> next{0};
	std::mutex mutex;
	Status first;

	pool_.run(n,
		[&](size_t)
		{
			for (size_t i = next.fetch_add(1); i < n; i = next.fetch_add(1))
				if (Status status = work(i); !status.is_ok())
				{
					const std::lock_guard lock(mutex);

					if (first.is_ok())
						first = std::move(status);
				}
		});
	return first;
}

Status
SpreadSearch::search(const SpreadView &view, PassingCuts *cuts, std::span<const SearchQuery> queries,
	std::vector<std::vector<Neighbor>> *results, engine::SearchControl *control)
{
	return view.sharded && view.places.size() > 1 ? search_shards(view, cuts, queries, results, control)
												  : search_replicas(view, queries, results, control);
}

Status
SpreadSearch::search_replicas(
	const SpreadView &view, std::span<const SearchQuery> queries, Results *results, engine::SearchControl *control)
{
	struct Busy
	{
		uint64_t n_running;
		uint64_t n_done;
		const PlacePtr *place;
	};
	std::vector<Busy> order;
	std::vector<PlacePtr> places;

	for (const PlacePtr &place : view.places)
		if (!place->device->lost)
			order.push_back({place->device->n_queries.load(), place->device->n_done.load(), &place});
	if (order.empty())
		return DeviceSet::gone();
	std::stable_sort(order.begin(), order.end(), [](const Busy &a, const Busy &b)
		{ return std::pair(a.n_running, a.n_done) < std::pair(b.n_running, b.n_done); });
	for (const Busy &busy : order)
		places.push_back(*busy.place);

	const size_t n_pieces = std::clamp<size_t>(queries.size() / least_piece_, 1, places.size());

	if (n_pieces == 1)
		return search_piece(places, queries, results, control);

	const auto begin_of = [&](size_t i) { return i * queries.size() / n_pieces; };
	std::vector<Results> parts(n_pieces);
	const Status status = run_side_by_side(n_pieces,
		[&](size_t i)
		{
			std::vector<PlacePtr> own = places; // piece i begins with device i

			std::rotate(own.begin(), own.begin() + static_cast<ptrdiff_t>(i), own.end());
			return search_piece(own, queries.subspan(begin_of(i), begin_of(i + 1) - begin_of(i)), &parts[i], control);
		});

	results->clear();
	if (!status.is_ok())
		return status;
	results->reserve(queries.size());
	for (Results &part : parts)
		std::move(part.begin(), part.end(), std::back_inserter(*results));
	return status;
}

/// Search in the first place whose device does not fail.
Status
SpreadSearch::search_piece(std::span<const PlacePtr> places, std::span<const SearchQuery> queries, Results *results,
	engine::SearchControl *control)
{
	Status status;

	for (const PlacePtr &place : places)
	{
		status = devices_.run_search(place->device.get(), queries.size(),
			[&](engine::Engine &engine) { return engine.search(place->id, queries, results, control); });
		if (!is_failure_of_device(status))
			return status;
	}
	return status;
}

Status
SpreadSearch::search_shards(const SpreadView &view, PassingCuts *cuts, std::span<const SearchQuery> queries,
	Results *results, engine::SearchControl *control)
{
	std::vector<ShardCall> calls(view.places.size());
	const Status status = run_side_by_side(calls.size(),
		[&](size_t i)
		{
			const DevicePlace &place = *view.places[i];
			ShardCall &call = calls[i];

			prepare(view, cuts, &place, queries, &call);

			const Status searched = devices_.run_search(place.device.get(), queries.size(),
				[&](engine::Engine &engine) { return engine.search(place.id, call.queries, &call.results, control); });

			if (searched.is_ok() && call.results.size() != queries.size())
				return Status::error(StatusCode::kInternal, "a device gave another number of answers");
			return searched;
		});

	results->clear();
	if (!status.is_ok())
		return status;
	results->resize(queries.size());
	for (size_t i = 0; i < queries.size(); i++)
		merge(calls, i, queries[i], &(*results)[i]);
	return status;
}

} // namespace vectorgpu::worker
