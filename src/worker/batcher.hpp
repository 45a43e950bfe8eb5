// Forms batches of searches and runs them in the engine. The engine's thread passes the waiting searches on as soon as
// the engine is free: a lone client never waits for others, and the next batch gathers while the engine works. After a
// batch of several it waits for their clients' next searches, for an eighth of that batch's time, since a batch of few
// costs little less than one of many. With a GPU it waits for three quarters of that time, and for the clients of the
// last two batches, while a batch of both costs little more than one of either. If the engine computes on a GPU and
// more searches wait already, a further thread writes the answers of a batch while the next batch runs. Between two
// batches the engine's thread runs tasks that must not overlap with a search (MANIFEST). Searches that the engine
// answers at once are run by their dispatcher. An engine of several devices has a thread for each batch that it runs at
// a time; while one of them waits for the clients of its last batch, the others leave what arrives to it.
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
#include <thread>
#include <vector>

#include "common/device_list.hpp"
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
		struct Of
		{
			uint64_t calls = 0;
			uint64_t progress = 0;
		};
		std::array<Of, kMostDevices> lanes;
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
	/// A thread that runs batches in the engine, and what belongs to its batches.
	struct Lane
	{
		Lane(const Done &done, Clock clock, uint64_t spin_ns, size_t max_batch) : delivery(done, clock, spin_ns)
		{
			running.reserve(max_batch);
			finished.reserve(max_batch);
			queries.reserve(max_batch);
		}

		// Under the batcher's mutex:
		std::condition_variable work_arrived;
		std::vector<Search *> running; // in the engine now
		bool sleeping = false;
		size_t wake_at = 1;   // waiting searches from which on the thread is woken if it sleeps
		uint64_t n_ended = 0; // the batcher's count of batches when its last one ended

		std::atomic<bool> spinning{false}; // it polls, and takes what comes without being woken
		engine::SearchControl control;
		std::atomic<bool> busy{false};
		std::atomic<uint64_t> n_calls{0};

		// The thread's only. Of the last batch:
		uint64_t last_engine_ns = 0;
		size_t last_size = 0;
		size_t waited = 0;              // searches that waited when it ended
		uint64_t least_ns = 0;          // the shortest time of a batch lately
		bool merged = false;            // it had the clients of two
		wire::SpinGate merging;         // whether to wait for those of two
		std::vector<Search *> finished; // this and the next two: buffers
		std::vector<engine::SearchQuery> queries;
		std::vector<std::vector<engine::Neighbor>> results;

		Delivery delivery; // writes answers, if the engine computes elsewhere
		std::thread thread;
	};

	void run(Lane *lane);
	bool may_work(const Lane *lane) const;
	bool wait_for_work(Lane *lane, std::unique_lock<std::mutex> *lock);
	size_t most_of_batch(const Lane *lane) const;
	bool take_work(Lane *lane, std::function<void()> *task);
	void run_task(Lane *lane, const std::function<void()> &task);
	Lane *next_sleeper();
	void gather(Lane *lane, std::unique_lock<std::mutex> *lock);
	bool should_merge(Lane *lane, uint64_t took_ns) const;
	void wait_for_searches(Lane *lane, std::unique_lock<std::mutex> *lock, size_t wanted, uint64_t most_ns);
	void spin(Lane *lane);
	void poll_for_change(uint32_t n_seen, uint64_t until_ns) const;
	void search_batch(Lane *lane);
	void answer_alone(std::span<Search *const> searches, std::vector<engine::SearchQuery> *queries,
		std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control);
	bool run_at_once(Round *round);
	Status search(std::span<Search *const> searches, std::vector<engine::SearchQuery> *queries,
		std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control, BatchInfo *info);
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
	std::vector<std::unique_ptr<Lane>> lanes_; // at least one; constant
};

} // namespace vectorgpu::worker
