// A thread of the batcher that runs batches in the engine, and what belongs to its batches.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "engine/interface/engine.hpp"
#include "wire/spin_gate.hpp"
#include "worker/clock.hpp"
#include "worker/delivery.hpp"
#include "worker/queue.hpp"

namespace vectorgpu::worker
{

/// A call of Engine::search and its buffers. Reused, so that a search allocates nothing.
struct EngineCall
{
	explicit EngineCall(size_t most) { queries.reserve(most); }

	std::vector<engine::SearchQuery> queries;
	std::vector<std::vector<engine::Neighbor>> results;
	engine::SearchControl control;
};

struct Lane
{
	/// helper: see is_helper. The rest is of the batcher.
	Lane(bool helper, const Delivery::Done &done, Clock clock, uint64_t spin_ns, size_t max_batch)
		: is_helper(helper), call(max_batch), delivery(done, clock, spin_ns)
	{
		running.reserve(max_batch);
		finished.reserve(max_batch);
	}

	const bool is_helper; // it takes batches of small copies only, while several copies wait

	// Under the batcher's mutex:
	std::condition_variable work_arrived;
	std::vector<Search *> running; // in the engine now
	bool sleeping = false;
	size_t wake_at = 1;   // waiting searches from which on the thread is woken if it sleeps
	uint64_t n_ended = 0; // the batcher's count of batches when its last one ended

	std::atomic<bool> spinning{false}; // it polls, and takes what comes without being woken
	std::atomic<bool> busy{false};
	std::atomic<uint64_t> n_calls{0};
	EngineCall call; // the thread's only, but for the control

	// The thread's only. Of the last batch:
	uint64_t last_engine_ns = 0;
	size_t last_size = 0;
	size_t waited = 0;              // searches that waited when it ended
	uint64_t least_ns = 0;          // the shortest time of a batch lately
	bool merged = false;            // it had the clients of two
	wire::SpinGate merging;         // whether to wait for those of two
	std::vector<Search *> finished; // a buffer

	Delivery delivery; // writes answers, if the engine computes elsewhere
	std::thread thread;
};

} // namespace vectorgpu::worker
