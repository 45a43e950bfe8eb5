// Writes the answers of a batch on a thread of its own, while the engine runs the next one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "engine/interface/engine.hpp"
#include "worker/clock.hpp"
#include "worker/queue.hpp"

namespace vectorgpu::worker
{

/// Facts about a batch, for its replies.
struct BatchInfo
{
	uint64_t engine_ns = 0;
	uint64_t ended_ns = 0; // on the worker's clock; 0: the engine call threw
	uint32_t size = 0;
	uint64_t n_rescored = 0;
};

class Delivery
{
public:
	/// Receives the results of a batch, on the thread that ran it or on that of the delivery. results[i] belongs to
	/// searches[i] and may be moved from; there are none if the status is not ok. The callee owns the searches. Must
	/// not throw.
	using Done = std::function<void(std::span<Search *const> searches, const Status &status,
		std::vector<std::vector<engine::Neighbor>> *results, const BatchInfo &info)>;

	/// `done` outlives this. The thread polls for spin_ns before it sleeps.
	Delivery(const Done &done, Clock clock, uint64_t spin_ns);
	~Delivery();
	Delivery(const Delivery &) = delete;
	Delivery &operator=(const Delivery &) = delete;

	/// Start the thread, for batches of at most max_batch searches. Without it take() takes nothing.
	void start(size_t max_batch);

	/// Deliver what was taken and end the thread.
	void stop();

	/// Take a batch if the thread is there and free, and the batch is worth waking it; else return false. *searches and
	/// *results get empty buffers in exchange. One thread calls this, the one of wait_until_done().
	bool take(std::vector<Search *> *searches, std::vector<std::vector<engine::Neighbor>> *results,
		const Status &status, const BatchInfo &info);

	/// Wait until all answers that were taken are written.
	void wait_until_done();

private:
	void run();

	const Done &done_;
	const Clock clock_;
	const uint64_t spin_ns_;

	// The batch: of the thread that calls take() while waits_ is false, else of the delivering thread.
	std::vector<Search *> searches_;
	std::vector<std::vector<engine::Neighbor>> results_;
	Status status_;
	BatchInfo info_;

	std::atomic<bool> waits_{false};
	std::mutex mutex_; // ends_, and for sleeping on waits_
	std::condition_variable changed_;
	bool ends_ = false;
	std::thread thread_;
};

} // namespace vectorgpu::worker
