// Forms batches of searches and runs them in the engine. The engine's thread passes the waiting searches on as soon as
// the engine is free: a lone client never waits for others, and the next batch gathers while the engine works. After a
// batch of several it waits for their clients' next searches, for an eighth of that batch's time, since a batch of few
// costs little less than one of many. With a GPU it waits for three quarters of that time, and for the clients of the
// last two batches, while a batch of both costs little more than one of either. If the engine computes on a GPU and
// more searches wait already, a further thread writes the answers of a batch while the next batch runs. Between two
// batches the engine's thread runs tasks that must not overlap with a search (MANIFEST). Searches that the engine
// answers at once are run by their dispatcher. Where several copies wait and the engine computes on the cores, helpers
// take the small ones, since a search of one does not keep several cores busy.
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
#include "wire/spin_gate.hpp"
#include "worker/clock.hpp"
#include "worker/delivery.hpp"
#include "worker/queue.hpp"

namespace vectorgpu::worker
{

/// The searches that a dispatcher took in one pass over its slots, and the buffers to run them. Reused by each pass, so
/// that a search allocates nothing.
struct Round
{
	explicit Round(size_t most) { searches.reserve(most), batch.reserve(most), queries.reserve(most); }

	std::vector<Search *> searches; // in order of arrival, at most max_batch
	std::vector<Search *> batch;    // this and the rest: used by Batcher
	std::vector<engine::SearchQuery> queries;
	std::vector<std::vector<engine::Neighbor>> results;
	engine::SearchControl control;
};

class Batcher
{
public:
	using Done = Delivery::Done;

	Batcher(engine::Engine &engine, size_t max_batch, uint32_t spin_us, Clock clock, Done done);
	~Batcher();
	Batcher(const Batcher &) = delete;
	Batcher &operator=(const Batcher &) = delete;

	void start();

	/// End the thread after the running batch. Waiting searches are left alone.
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
		uint64_t calls = 0;
		uint64_t progress = 0;
	};

	/// Return false if the engine is in a call and has not advanced since *seen; update *seen. Any thread.
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
	void run();
	void start_helpers();
	void help();
	bool wait_for_work(std::unique_lock<std::mutex> *lock);
	void gather(std::unique_lock<std::mutex> *lock);
	bool should_merge(uint64_t took_ns);
	void wait_for_searches(std::unique_lock<std::mutex> *lock, size_t wanted, uint64_t most_ns);
	void spin();
	void poll_for_change(uint32_t n_seen, uint64_t until_ns) const;
	void search_batch();
	void answer_alone(std::span<Search *const> searches, std::vector<engine::SearchQuery> *queries,
		std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control);
	bool run_at_once(Round *round);
	Status search(std::span<Search *const> searches, std::vector<engine::SearchQuery> *queries,
		std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control, BatchInfo *info);
	void stop_if_unwanted();

	engine::Engine &engine_;
	const size_t max_batch_;
	const uint64_t spin_ns_;
	const Clock clock_;
	const Done done_;

	std::shared_mutex between_; // shared by searches outside the engine's thread, exclusive for tasks
	std::mutex mutex_;          // queue_, tasks_, running_, sleeping_, stopping_, held_
	std::condition_variable work_arrived_;
	std::condition_variable small_arrived_; // helpers sleep on it
	Queue queue_;
	std::deque<std::function<void()>> tasks_;
	std::vector<Search *> running_; // in the engine now
	bool sleeping_ = false;
	bool gathering_ = false;
	size_t wake_at_ = 1; // waiting searches from which on a sleeping engine's thread is woken
	bool stopping_ = false;
	bool held_ = false;
	bool task_waits_ = false; // for helpers to end their batches

	std::atomic<uint32_t> n_waiting_{0}; // searches and tasks, for spinning without the lock
	engine::SearchControl control_;
	std::atomic<bool> engine_busy_{false};
	std::atomic<uint64_t> last_end_ns_{0}; // of a batch
	std::atomic<uint64_t> n_calls_{0};
	std::atomic<uint64_t> n_batches_{0};
	uint64_t last_engine_ns_ = 0; // this and the next six: the engine's thread only. Of the last batch
	size_t last_size_ = 0;
	size_t waited_ = 0;              // searches that waited when it ended
	uint64_t least_ns_ = 0;          // the shortest time of a batch lately
	bool merged_ = false;            // it had the clients of two
	wire::SpinGate merging_;         // whether to wait for those of two
	std::vector<Search *> finished_; // this and the next two: the engine's thread only
	std::vector<engine::SearchQuery> queries_;
	std::vector<std::vector<engine::Neighbor>> results_;
	std::thread thread_;
	std::vector<std::thread> helpers_;

	Delivery delivery_; // writes answers, if the engine computes elsewhere
};

} // namespace vectorgpu::worker
