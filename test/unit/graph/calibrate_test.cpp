// Calibration: the same by any number of threads, and right for queries that the graph has not seen.
#include <thread>

#include "engine/graph/calibrate.hpp"
#include "graph/graph_data.hpp"

namespace vectorgpu::engine::graph::test
{
namespace
{

/// engine::ivf::Call::parallel.
void
in_threads(void *, size_t n_tasks, void (*task)(void *argument, size_t index), void *argument)
{
	std::vector<std::thread> threads;

	for (size_t i = 1; i < n_tasks; i++)
		threads.emplace_back(task, argument, i);
	task(argument, 0);
	for (std::thread &thread : threads)
		thread.join();
}

MeasuredGraph
measured(const Built &built)
{
	return {built.rows, built.edges.data(), built.degree, built.entries.data(), static_cast<uint32_t>(built.entries.size())};
}

ivf::Calibration
calibration_of(const Built &built, size_t n_threads = 1)
{
	ivf::Calibration calibration;
	Bytes work(calibrate_bytes(measured(built), n_threads));
	Call call;

	call.n_threads = n_threads;
	call.parallel = n_threads > 1 ? in_threads : nullptr;
	EXPECT_TRUE(calibrate(measured(built), &calibration, work.data(), work.size(), call).is_ok());
	return calibration;
}

TEST(Calibrate, is_the_same_by_any_number_of_threads)
{
	const Floats data = overlapping_rows(3000, 12, 5);
	BuildSpec spec;

	spec.degree = 8;

	const Built built = build(rows_of(data, 12), spec);
	const ivf::Calibration alone = calibration_of(built);

	ASSERT_GT(alone.n_points, 3U);
	EXPECT_EQ(alone.n_queries, 150U);
	for (uint32_t i = 1; i < alone.n_points; i++)
		EXPECT_LE(alone.recall[i - 1], alone.recall[i]);
	for (const size_t n_threads : {2u, 5u, 100u})
	{
		const ivf::Calibration together = calibration_of(built, n_threads);

		ASSERT_EQ(together.n_points, alone.n_points);
		EXPECT_EQ(together.n_queries, alone.n_queries);
		for (uint32_t i = 0; i < alone.n_points; i++)
		{
			EXPECT_EQ(together.probes[i], alone.probes[i]);
			EXPECT_EQ(together.recall[i], alone.recall[i]);
		}
	}
}

/// Widths by the calibration find as much of the neighbours of rows that were never in the graph.
TEST(Calibrate, holds_for_queries_that_are_no_rows)
{
	constexpr size_t kDim = 12;
	constexpr size_t kRows = 12000;
	constexpr size_t kQueries = 1000;
	const Floats all = overlapping_rows(kRows + kQueries, kDim, 6);
	const Floats data(all.begin(), all.begin() + kRows * kDim);
	const Floats queries(all.begin() + kRows * kDim, all.end());
	BuildSpec spec;

	spec.degree = 8;

	const Built built = build(rows_of(data, kDim), spec);
	const ivf::Calibration calibration = calibration_of(built);

	for (const double target : {0.85, 0.9, 0.95, 0.98})
	{
		const uint32_t width = ivf::probes_for(calibration, target);

		EXPECT_NEAR(built.recall(queries, width), target, 0.03) << "width " << width;
	}
}

TEST(Calibrate, measures_nothing_where_there_is_too_little)
{
	for (const size_t n : {1u, 10u, 19u})
	{
		const Floats data = overlapping_rows(n, 4, 7);

		EXPECT_EQ(calibration_of(build(rows_of(data, 4), {})).n_points, 0U);
	}
}

TEST(Calibrate, stops_when_it_is_told_to)
{
	const Floats data = overlapping_rows(3000, 12, 5);
	const Built built = build(rows_of(data, 12), {});
	ivf::Calibration calibration;
	Bytes work(calibrate_bytes(measured(built), 1));

	for (int n : {0, 1, 5, 20, 200})
	{
		int left = n;
		Call call;

		call.progress = [](void *context, uint64_t, uint64_t) { return (*static_cast<int *>(context))-- > 0; };
		call.progress_context = &left;
		EXPECT_EQ(calibrate(measured(built), &calibration, work.data(), work.size(), call).code, StatusCode::kCancelled);
	}
	EXPECT_EQ(calibrate(measured(built), &calibration, work.data(), work.size() / 2, {}).code, StatusCode::kInvalidArgument);
}

} // namespace
} // namespace vectorgpu::engine::graph::test
