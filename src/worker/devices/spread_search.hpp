// Searches of a copy on several devices: shared out among its replicas, or sent to all of its shards.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/cpu/thread_pool.hpp"
#include "worker/devices/passing_cuts.hpp"
#include "worker/devices/spread_copy.hpp"

namespace vectorgpu::worker
{

/// Where the time of searches went, in nanoseconds since the start. For benchmarks.
struct SpreadTimes
{
	uint64_t whole = 0;      // of all calls
	uint64_t in_devices = 0; // of all threads, in the engines of devices
	uint64_t copying = 0;    // of all threads: queries for shards, answers to their places
	uint64_t merging = 0;    // of all threads
	uint64_t waiting = 0;    // of all threads, for answers of shards to merge
};

/// How batches are cut.
struct SpreadCuts
{
	size_t least_piece = 512;    // fewest queries that are worth a device of their own
	size_t pieces_of_device = 2; // of a batch while no other one runs: host and device work on different ones
	size_t pieces_of_shards = 4; // the same for a copy in shards: answers are merged meanwhile
};

struct ShardScratch; // spread_search.cpp

class SpreadSearch
{
public:
	SpreadSearch(DeviceSet &devices, const SpreadCuts &cuts);
	~SpreadSearch();

	/// As Engine::search. A batch of at least 2 * least_piece queries is cut for the replicas; a smaller one goes to
	/// the least busy of them, and on to another if its device fails. kUnavailable: a device of all (or one of the
	/// shards) was lost. The answers' vectors keep their memory. Any thread. Throws bad_alloc.
	Status search(const SpreadView &view, PassingCuts *cuts, std::span<const engine::SearchQuery> queries,
		std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control);

	SpreadTimes times() const;

private:
	using Results = std::vector<std::vector<engine::Neighbor>>;

	struct Spent
	{
		std::atomic<uint64_t> whole{0};
		std::atomic<uint64_t> in_devices{0};
		std::atomic<uint64_t> copying{0};
		std::atomic<uint64_t> merging{0};
		std::atomic<uint64_t> waiting{0};
	};

	class ShardBatch;

	Status search_replicas(const SpreadView &view, std::span<const engine::SearchQuery> queries, Results *results,
		engine::SearchControl *control);
	Status search_piece(std::span<const PlacePtr> places, std::span<const engine::SearchQuery> queries,
		Results *results, engine::SearchControl *control);
	Status search_shards(const SpreadView &view, PassingCuts *cuts, std::span<const engine::SearchQuery> queries,
		Results *results, engine::SearchControl *control);
	Status call_device(const DevicePlace &place, std::span<const engine::SearchQuery> queries, Results *results,
		engine::SearchControl *control);
	std::unique_ptr<ShardScratch> take_scratch();
	void keep_scratch(std::unique_ptr<ShardScratch> scratch);

	DeviceSet &devices_;
	const SpreadCuts cuts_;
	Spent spent_;
	engine::ThreadPool pool_; // waits for devices

	std::mutex mutex_; // scratch_
	std::vector<std::unique_ptr<ShardScratch>> scratch_;
};

} // namespace vectorgpu::worker
