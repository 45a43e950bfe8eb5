// The thread pool: all work is done, helpers help, exceptions arrive, callers may be many.
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/cpu/thread_pool.hpp"

namespace vectorgpu::engine
{
namespace
{

TEST(ThreadPool, DoesAllWorkWithAnyNumberOfThreadsAndWorkers)
{
	for (size_t n_threads : {0, 1, 2, 5})
	{
		ThreadPool pool(n_threads);

		EXPECT_EQ(pool.n_threads(), n_threads == 0 ? 1 : n_threads);
		for (size_t n_workers : {1, 2, 7})
		{
			std::atomic<int> next{0}, done{0};

			pool.run(n_workers,
				[&](size_t worker)
				{
					EXPECT_LT(worker, n_workers);
					while (next++ < 1000)
						done++;
				});
			EXPECT_EQ(done, 1000);
		}
	}
}

TEST(ThreadPool, RunsAHelperBesideTheCaller)
{
	ThreadPool pool(2);
	std::atomic<int> arrived{0};

	// Each waits for the other: only two threads at once get past it.
	pool.run(2,
		[&](size_t)
		{
			const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);

			arrived++;
			while (arrived < 2 && std::chrono::steady_clock::now() < give_up)
				std::this_thread::yield();
		});
	EXPECT_EQ(arrived, 2);
}

TEST(ThreadPool, HandsOnAnExceptionOfCallerOrHelperAndGoesOn)
{
	ThreadPool pool(2);

	for (size_t thrower : {0, 1})
	{
		std::atomic<bool> helper_began{false};
		const auto work = [&](size_t worker)
		{
			helper_began = helper_began || worker == 1;
			while (!helper_began)
				std::this_thread::yield();
			if (worker == thrower)
				throw std::runtime_error("thrown");
		};

		EXPECT_THROW(pool.run(2, work), std::runtime_error);
	}

	std::atomic<int> n{0};

	pool.run(1, [&](size_t) { n++; });
	EXPECT_EQ(n, 1);
}

TEST(ThreadPool, ServesSeveralCallersAtOnce)
{
	ThreadPool pool(3);
	std::vector<std::thread> callers;
	std::atomic<int> done{0};

	for (int caller = 0; caller < 4; caller++)
		callers.emplace_back(
			[&]
			{
				for (int round = 0; round < 200; round++)
				{
					std::atomic<int> next{0}, mine{0};

					pool.run(3,
						[&](size_t)
						{
							while (next++ < 20)
								mine++;
						});
					EXPECT_EQ(mine, 20);
					done++;
				}
			});
	for (std::thread &caller : callers)
		caller.join();
	EXPECT_EQ(done, 800);
}

} // namespace
} // namespace vectorgpu::engine
