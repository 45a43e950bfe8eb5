// Searches of a copy on several devices: shared out among its replicas, or sent to all of its shards.
#pragma once

#include <span>
#include <vector>

#include "engine/cpu/thread_pool.hpp"
#include "worker/devices/passing_cuts.hpp"
#include "worker/devices/spread_copy.hpp"

namespace vectorgpu::worker
{

class SpreadSearch
{
public:
	/// least_piece: fewest queries of a batch that are worth a device of their own.
	SpreadSearch(DeviceSet &devices, size_t least_piece)
		: devices_(devices), least_piece_(least_piece), pool_(devices.size() * devices.size())
	{
	}

	/// As Engine::search. A batch of at least 2 * least_piece queries is cut for the replicas; a smaller one goes to
	/// the least busy of them, and on to another if its device fails. kUnavailable: a device of all (or one of the
	/// shards) was lost. Any thread. Throws bad_alloc.
	Status search(const SpreadView &view, PassingCuts *cuts, std::span<const engine::SearchQuery> queries,
		std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control);

private:
	using Results = std::vector<std::vector<engine::Neighbor>>;

	Status search_replicas(const SpreadView &view, std::span<const engine::SearchQuery> queries, Results *results,
		engine::SearchControl *control);
	Status search_piece(std::span<const PlacePtr> places, std::span<const engine::SearchQuery> queries,
		Results *results, engine::SearchControl *control);
	Status search_shards(const SpreadView &view, PassingCuts *cuts, std::span<const engine::SearchQuery> queries,
		Results *results, engine::SearchControl *control);
	template <class Work>
	Status run_side_by_side(size_t n, Work work);

	DeviceSet &devices_;
	const size_t least_piece_;
	engine::ThreadPool pool_; // waits for devices
};

} // namespace vectorgpu::worker
