// The engine's thread. It sends what waits to the engine as soon as the engine is free: a lone client never waits for
// others to come, and while the engine works the next batch gathers by itself. After a batch of several it gives those that
// were just answered an eighth of the time which that batch took to come back, since a batch of few costs little less than
// one of many. Between two batches it runs what must not run beside a search (MANIFEST).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/engine.hpp"
#include "worker/clock.hpp"
#include "worker/queue.hpp"

namespace vectorgpu::worker
{

/// What a batch was like, for its replies.
struct BatchInfo
{
	uint64_t engine_ns = 0;
	uint32_t size = 0;
	uint64_t n_rescored = 0;
};

class Batcher
{
public:
	/// Takes the result of one search, on the engine's thread; must not throw. The search is the callee's from then on.
	using Done = std::function<void(Search *, const Status &, std::vector<engine::Neighbor> &&, const BatchInfo &)>;

	Batcher(engine::Engine &engine, size_t max_batch, uint32_t spin_us, Clock clock, Done done);
	~Batcher();
	Batcher(const Batcher &) = delete;
	Batcher &operator=(const Batcher &) = delete;

	void start();

	/// Ends the thread after the batch that runs. What still waits stays where it is.
	void stop();

	/// Any thread. search->query, queue, copy, copy_id and owner are set. wake() must follow, once for all that were
	/// submitted together.
	void submit(Search *search);

	/// Any thread: wakes the engine's thread if it sleeps and something waits.
	void wake();

	/// Any thread: true if the search was still waiting; then it is the caller's again. Otherwise its result will come, and
	/// an engine that can stop does so once nobody in the batch waits any more.
	bool cancel(Search *search);

	/// Any thread: runs `task` between two batches. Throws bad_alloc. The task must not throw.
	void run_between(std::function<void()> task);

	/// False if the engine is in a call and has not moved since the last time this was asked. One caller only.
	bool progressing();

	/// For tests: nothing is sent to the engine while this is on.
	void hold(bool on);

	size_t n_queued();
	uint64_t n_batches() const { return n_batches_.load(std::memory_order_relaxed); }

private:
	void run();
	bool wait_for_work(std::unique_lock<std::mutex> *lock);
	void gather(std::unique_lock<std::mutex> *lock);
	void spin();
	void search_batch();
	void stop_if_unwanted();

	engine::Engine &engine_;
	const size_t max_batch_;
	const uint64_t spin_ns_;
	const Clock clock_;
	const Done done_;

	std::mutex mutex_; // queue_, tasks_, running_, sleeping_, stopping_, held_
	std::condition_variable work_arrived_;
	Queue queue_;
	std::deque<std::function<void()>> tasks_;
	std::vector<Search *> running_; // what the engine has now
	bool sleeping_ = false;
	size_t wake_at_ = 1; // searches that must wait before a sleeping engine's thread is woken for them
	bool stopping_ = false;
	bool held_ = false;

	std::atomic<uint32_t> n_waiting_{0}; // searches and tasks, for spinning without the lock
	engine::SearchControl control_;
	std::atomic<bool> engine_busy_{false};
	std::atomic<uint64_t> n_calls_{0};
	std::atomic<uint64_t> n_batches_{0};
	uint64_t last_engine_ns_ = 0; // this and the next: of the last batch, the engine's thread only
	size_t last_size_ = 0;
	uint64_t seen_calls_ = 0; // by progressing()
	uint64_t seen_progress_ = 0;
	std::vector<Search *> finished_; // this and the next two: the engine's thread only
	std::vector<engine::SearchQuery> queries_;
	std::vector<std::vector<engine::Neighbor>> results_;
	std::thread thread_;
};

} // namespace vectorgpu::worker
