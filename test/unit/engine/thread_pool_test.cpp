// The thread pool: all work is done, helpers take part, exceptions reach the caller, callers may be many.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/cpu/cpu_engine.hpp"
#include "engine/cpu/thread_pool.hpp"
#include "engine/interface/graph_builder.hpp"
#include "engine/interface/list_builder.hpp"

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

TEST(ThreadPool, PassesOnAnExceptionOfCallerOrHelperAndContinues)
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

/// A stage of a build holds its helpers for as long as it takes: searches have others.
TEST(ThreadPool, BuildsHaveOneOfTheirOwn)
{
	const auto threads = []
	{
		std::set<std::string> names;

		for (const auto &entry : std::filesystem::directory_iterator("/proc/self/task"))
			names.insert(entry.path().filename());
		return names;
	};
	const auto n_new = [](const std::set<std::string> &before, const std::set<std::string> &now)
	{ return std::count_if(now.begin(), now.end(), [&](const std::string &name) { return before.count(name) == 0; }); };
	const std::set<std::string> before_all = threads();
	const std::unique_ptr<Engine> engine = make_cpu_engine({.n_threads = 3});
	const std::set<std::string> before_builds = threads();
	SearchControl control;
	GraphBuildSpec graph;
	ListBuildSpec lists;
	std::unique_ptr<GraphBuilder> graph_builder;
	std::unique_ptr<ListBuilder> list_builder;

	EXPECT_EQ(n_new(before_all, before_builds), 2);
	graph.rows = lists.rows = {Metric::kL2, ElementType::kFloat32, 4};
	graph.n_rows = 100;
	lists.n_clusters = 5;
	ASSERT_TRUE(engine->make_graph_builder(graph, &control, nullptr, &graph_builder).is_ok());
	EXPECT_EQ(n_new(before_builds, threads()), 2);
	ASSERT_TRUE(engine->make_list_builder(lists, &control, &list_builder).is_ok());
	EXPECT_EQ(n_new(before_builds, threads()), 2) << "all builds share them";
}

} // namespace
} // namespace vectorgpu::engine
