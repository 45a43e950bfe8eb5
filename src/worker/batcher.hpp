// Forms batches of searches and runs them in the engine. The engine's thread passes the waiting searches on as soon as
// the engine is free: a lone client never waits for others, and the next batch gathers while the engine works. After a
// batch of several it waits for their clients' next searches, for an eighth of that batch's time, since a batch of few
// costs little less than one of many. With a GPU it waits for three quarters of that time, and for the clients of the
// last two batches, while a batch of both costs little more than one of either. If the engine computes on a GPU and
// more searches wait already, a further thread writes the answers of a batch while the next batch runs. Between two
// batches the engine's thread runs tasks that must not overlap with a search (MANIFEST). Searches that the engine
// answers at once are run by their dispatcher.
//
// Several threads run batches, each with a lane of its own. An engine of several devices has a lane for each batch that
// it runs at a time; while one of them waits for the clients of its last batch, the others leave what arrives to it.
// Where several copies wait, further lanes help: they take the small ones, since a search of one keeps neither several
// cores busy nor a device.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <vector>

#include "common/device_list.hpp"
#include "engine/interface/engine.hpp"
#include "worker/clock.hpp"
#include "worker/delivery.hpp"
#include "worker/lane.hpp"
#include "worker/queue.hpp"

namespace vectorgpu::worker
{

/// The searches that a dispatcher took in one pass over its slots, and the buffers to run them. Reused by each pass, so
/// that a search allocates nothing.
struct Round
{
	explicit Round(size_t most) : call(most) { searches.reserve(most), batch.reserve(most); }

	std::vector<Search *> searches; // in order of arrival, at most max_batch
	std::vector<Search *> batch;    // this and the next: used by Batcher
	EngineCall call;
};

class Batcher
{
	static constexpr size_t kMostHelpers = kMostDevices;
	static constexpr size_t kMostLanes = kMostDevices + kMostHelpers;

public:
	using Done = Delivery::Done;

	Batcher(engine::Engine &engine, size_t max_batch, uint32_t spin_us, Clock clock, Done done);
	~Batcher();
	Batcher(const Batcher &) = delete;
	Batcher &operator=(const Batcher &) = delete;

	void start();

	/// End the threads after the running batches. Waiting searches are left alone.
	void stop();

	/// Any thread. search->query, queue, copy, copy_id and owner are set. wake() must follow, once for all searches
	/// submitted together.
	void submit(Search *search);

	/// Run the searches that the engine answers at once, submit the others, and wake the engine's thread for them.
	/// Called by the dispatcher that filled `round`. Leaves round->searches empty.
	void submit(Round *round);

	/// Wake the engine's thread if it sleeps and something waits. Any thread.
	void wake();

	/// True if the search was still waiting; then it is the caller's again. Otherwise its result will come, and an
	/// engine that can stop does so when all searches of the batch are cancelled. Any thread.
	bool cancel(Search *search);

	/// Run `task` between two batches. Any thread. Throws bad_alloc. The task must not throw.
	void run_between(std::function<void()> task);

	/// The state at a caller's last call of progressing().
	struct Seen
	{
		struct Of
		{
			uint64_t calls = 0;
			uint64_t progress = 0;
		};
		std::array<Of, kMostLanes> lanes;
	};

	/// Return false if the engine is in a call that has not advanced since *seen; update *seen. Any thread.
	bool progressing(Seen *seen) const;

	/// True if the engine computes elsewhere, and is in a call or was at the time. Any thread.
	bool answers_since(uint64_t time_ns) const;

	/// For tests: no search goes to the engine while this is on.
	void hold(bool on);

	/// For tests: true while the engine's thread has a search and waits for more.
	bool gathering();

	size_t n_queued();
	uint64_t n_batches() const { return n_batches_.load(std::memory_order_relaxed); }

private:
	std::span<const std::unique_ptr<Lane>> main_lanes() const { return {lanes_.data(), n_main_}; }
	std::unique_ptr<Lane> make_lane(bool helper) const;
	void run(Lane *lane);
	bool may_work(const Lane *lane) const;
	bool wait_for_work(Lane *lane, std::unique_lock<std::mutex> *lock);
	size_t most_of_batch(const Lane *lane) const;
	bool take_work(Lane *lane, std::function<void()> *task);
	void run_task(Lane *lane, const std::function<void()> &task);
	Lane *next_sleeper();
	void wake_helpers();
	void gather(Lane *lane, std::unique_lock<std::mutex> *lock);
	bool should_merge(Lane *lane, uint64_t took_ns) const;
	void wait_for_searches(Lane *lane, std::unique_lock<std::mutex> *lock, size_t wanted, uint64_t most_ns);
	void spin(Lane *lane);
	void poll_for_change(uint32_t n_seen, uint64_t until_ns) const;
	void search_batch(Lane *lane);
	void end_batch(Lane *lane, const BatchInfo &info);
	void answer_alone(std::span<Search *const> searches, EngineCall *call);
	bool run_at_once(Round *round);
	Status search(std::span<Search *const> searches, EngineCall *call, BatchInfo *info);
	static void stop_if_unwanted(Lane *lane);

	engine::Engine &engine_;
	const size_t max_batch_;
	const uint64_t spin_ns_;
	const Clock clock_;
	const Done done_;

	std::shared_mutex between_; // shared by searches, exclusive for tasks
	std::mutex mutex_;          // queue_, tasks_, gatherer_, task_runs_, stopping_, held_, and parts of the lanes
	Queue queue_;
	std::deque<std::function<void()>> tasks_;
	uint64_t n_ended_ = 0;           // batches
	const Lane *gatherer_ = nullptr; // waits for the clients of its last batch, or will
	bool task_runs_ = false;         // or waits for the batches to end
	bool stopping_ = false;
	bool held_ = false;

	std::atomic<uint32_t> n_waiting_{0};        // searches and tasks, for spinning without the lock
	std::atomic<uint64_t> last_end_ns_{0};      // of a batch
	std::atomic<const Lane *> latest_{nullptr}; // the lane of that batch, which polls for the next one
	std::atomic<uint64_t> n_batches_{0};
	const size_t n_main_;                      // lanes that are not helpers, at least one: the first ones
	std::vector<std::unique_ptr<Lane>> lanes_; // constant from start() on
};

} // namespace vectorgpu::worker
