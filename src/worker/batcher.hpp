// What goes to the engine, and when. The engine's thread sends what waits to the engine as soon as the engine is free:
// a lone client never waits for others to come, and while the engine works the next batch gathers by itself. After a
// batch of several it gives those that were just answered an eighth of the time which that batch took to come back,
// since a batch of few costs little less than one of many. Where the engine computes elsewhere, on a GPU, and more
// searches wait already, the answers of a batch are written by a thread of their own while the next batch runs. Between
// two batches it runs what must not run beside a search (MANIFEST). Searches that an engine answers at once are not
// handed over: the dispatcher that took them runs them itself.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <thread>
#include <vector>

#include "engine/interface/engine.hpp"
#include "worker/clock.hpp"
#include "worker/queue.hpp"

namespace vectorgpu::worker
{

/// What a batch was like, for its replies.
struct BatchInfo
{
	uint64_t engine_ns = 0;
	uint64_t ended_ns = 0; // on the worker's clock; 0: the engine did not come back
	uint32_t size = 0;
	uint64_t n_rescored = 0;
};

/// Searches that one dispatcher took at one look at its slots, and what it needs to run them. Kept from look to look,
/// so that a search allocates nothing on its way.
struct Round
{
	explicit Round(size_t most) { searches.reserve(most), batch.reserve(most), queries.reserve(most); }

	std::vector<Search *> searches; // in order of arrival, at most max_batch
	std::vector<Search *> batch;    // this and the rest: of Batcher
	std::vector<engine::SearchQuery> queries;
	std::vector<std::vector<engine::Neighbor>> results;
	engine::SearchControl control;
};

class Batcher
{
public:
	/// Takes the results of a batch on the thread that ran it: results[i] is of searches[i] and may be moved from;
	/// there are none if the status is not ok. Must not throw. A search is the callee's from then on.
	using Done = std::function<void(std::span<Search *const> searches, const Status &status,
		std::vector<std::vector<engine::Neighbor>> *results, const BatchInfo &info)>;

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

	/// The dispatcher that filled `round`: runs what the engine answers at once, submits the rest, wakes the engine's
	/// thread if there is any. Leaves round->searches empty.
	void submit(Round *round);

	/// Any thread: wakes the engine's thread if it sleeps and something waits.
	void wake();

	/// Any thread: true if the search was still waiting; then it is the caller's again. Otherwise its result will come,
	/// and an engine that can stop does so once nobody in the batch waits any more.
	bool cancel(Search *search);

	/// Any thread: runs `task` between two batches. Throws bad_alloc. The task must not throw.
	void run_between(std::function<void()> task);

	/// What a caller of progressing() saw the last time.
	struct Seen
	{
		uint64_t calls = 0;
		uint64_t progress = 0;
	};

	/// Any thread: false if the engine is in a call and has not moved since *seen, which this brings up to date.
	bool progressing(Seen *seen) const;

	/// For tests: nothing is sent to the engine while this is on.
	void hold(bool on);

	/// For tests: the engine's thread has something to do and waits for more.
	bool gathering();

	size_t n_queued();
	uint64_t n_batches() const { return n_batches_.load(std::memory_order_relaxed); }

private:
	void run();
	bool wait_for_work(std::unique_lock<std::mutex> *lock);
	void gather(std::unique_lock<std::mutex> *lock);
	void spin();
	void search_batch();
	bool hand_over(const Status &status, const BatchInfo &info);
	void deliver();
	void wait_for_delivery();
	bool run_at_once(Round *round);
	Status search(std::span<Search *const> searches, std::vector<engine::SearchQuery> *queries,
		std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control, BatchInfo *info);
	void stop_if_unwanted();

	engine::Engine &engine_;
	const size_t max_batch_;
	const uint64_t spin_ns_;
	const Clock clock_;
	const Done done_;

	std::shared_mutex between_; // shared by searches outside the engine's thread, held alone by tasks
	std::mutex mutex_;          // queue_, tasks_, running_, sleeping_, stopping_, held_
	std::condition_variable work_arrived_;
	Queue queue_;
	std::deque<std::function<void()>> tasks_;
	std::vector<Search *> running_; // what the engine has now
	bool sleeping_ = false;
	bool gathering_ = false;
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
	std::vector<Search *> finished_; // this and the next two: the engine's thread only
	std::vector<engine::SearchQuery> queries_;
	std::vector<std::vector<engine::Neighbor>> results_;
	std::thread thread_;

	// Answers that wait for being written, one batch: where the engine wants it.
	struct Delivery
	{
		std::vector<Search *> searches;
		std::vector<std::vector<engine::Neighbor>> results;
		Status status;
		BatchInfo info;
	};
	Delivery delivery_; // the engine's thread's while delivery_waits_ is false, else the delivering thread's
	std::atomic<bool> delivery_waits_{false};
	std::mutex delivery_mutex_; // the next two, and for sleeping on delivery_waits_
	std::condition_variable delivery_changed_;
	bool delivery_ends_ = false;
	std::thread deliverer_;
};

} // namespace vectorgpu::worker
