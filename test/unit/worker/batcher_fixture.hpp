// A batcher over a hooked engine, with a clock that the test sets.
#pragma once

#include "worker/hook_engine.hpp"
#include "worker/support.hpp"

namespace vectorgpu::worker_test
{

inline std::atomic<uint64_t> fake_now{1000};

inline std::atomic<uint64_t> fake_tick{0}; // by which the clock advances when it is read

inline uint64_t
fake_clock()
{
	return fake_now += fake_tick;
}

struct Finished
{
	worker::Search *search;
	StatusCode code;
	std::vector<Neighbor> results;
	worker::BatchInfo info;
	std::thread::id thread;
};

struct BatcherTest : testing::Test
{
	/// elsewhere, n_at_once, n_threads: see HookEngine. A batcher that polls needs a clock that advances.
	explicit BatcherTest(
		bool elsewhere = false, uint32_t spin_us = 0, size_t n_at_once = 1, size_t n_threads = 1, size_t max_batch = 8)
		: engine(n_at_once), batcher(engine, max_batch, spin_us, fake_clock,
								 [this](std::span<worker::Search *const> answered, const Status &status,
									 std::vector<std::vector<Neighbor>> *results, const worker::BatchInfo &info)
								 {
									 const bool taken = wait_until([&] { return held_size.load() != info.size; });

									 EXPECT_TRUE(taken);

									 const std::lock_guard lock(mutex);

									 for (size_t i = 0; i < answered.size(); i++)
										 finished.push_back({answered[i], status.code,
											 status.is_ok() ? std::move((*results)[i]) : std::vector<Neighbor>(), info,
											 std::this_thread::get_id()});
								 })
	{
		const std::vector<RowId> row_ids = {1, 2, 3, 4, 5};
		const std::vector<float> vectors = {1, 2, 3, 4, 5};

		for (engine::CopyId &id : copies)
		{
			EXPECT_TRUE(engine.create({Metric::kL2, ElementType::kFloat32, 1}, &id).is_ok());
			EXPECT_TRUE(engine.load_segment(id, 1, {row_ids, vectors.data(), 5}).is_ok());
			EXPECT_TRUE(engine.seal_segment(id, 1).is_ok());
		}
		engine.elsewhere = elsewhere;
		engine.threads = n_threads;
		fake_tick = spin_us > 0 ? 1 : 0;
		batcher.start();
	}

	~BatcherTest() override
	{
		engine.set_gate(true);
		held_size = 0;
		batcher.stop();
	}

	/// Create a search for the vector (0) without submitting it.
	worker::Search *make(size_t copy, size_t k)
	{
		searches.push_back(std::make_unique<worker::Search>());

		worker::Search *search = searches.back().get();

		search->queue = &queues[copy];
		search->copy_id = copies[copy];
		search->vector.resize(1);
		search->query.query = search->vector.data();
		search->query.k = k;
		return search;
	}

	worker::Search *add(size_t copy, size_t k)
	{
		worker::Search *search = make(copy, k);

		batcher.submit(search);
		batcher.wake();
		return search;
	}

	size_t n_finished()
	{
		const std::lock_guard lock(mutex);

		return finished.size();
	}

	bool wait_for(size_t n)
	{
		return wait_until([&] { return n_finished() >= n; });
	}

	HookEngine engine;
	std::atomic<uint32_t> held_size{0}; // answers of batches of this size are held back
	engine::CopyId copies[2];
	worker::CopyQueue queues[2];
	std::vector<std::unique_ptr<worker::Search>> searches;
	std::mutex mutex;
	std::vector<Finished> finished;
	worker::Batcher batcher;
};

} // namespace vectorgpu::worker_test
