// The choice between graphs and all rows, at the sizes that were measured (test/gpu/REPORT.md).
#include "cuda/device/gpu_choice.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "engine/graph/gpu_times.hpp"

namespace vectorgpu::cuda
{
namespace
{

GraphChoice
sift(uint32_t width, bool bytes = true)
{
	return {894717, 128, bytes ? 128u : 512u, bytes, true, width};
}

GraphChoice
fashion(uint32_t width, bool bytes = true)
{
	return {60000, 784, bytes ? 784u : 3136u, bytes, true, width};
}

bool
is_exact(const GraphChoice &rows, uint64_t k = 10, const Passes &passes = {})
{
	return choose_exact({&rows, 1}, k, passes) != 0;
}

double
exact_us(const GraphChoice &rows, uint64_t k)
{
	return exact_pass_us(rows, k) + exact_rows_us(rows);
}

TEST(GpuChoice, ModelIsNearWhatWasMeasured)
{
	EXPECT_NEAR(exact_us(sift(0), 10), 71, 5);
	EXPECT_NEAR(exact_us(sift(0), 100), 71 + 35, 8);
	EXPECT_NEAR(exact_us(sift(0), 1000), 71 + 205, 15);
	EXPECT_NEAR(exact_us(sift(0, false), 10), 157, 8);
	EXPECT_NEAR(exact_us(fashion(0), 10), 53, 5);
	EXPECT_NEAR(exact_us(fashion(0, false), 10), 109, 5);
	EXPECT_NEAR(engine::graph::gpu_graph_us(32, 128, 500), 47, 2);
	EXPECT_NEAR(engine::graph::gpu_graph_us(64, 128, 500), 64, 2);
	EXPECT_NEAR(engine::graph::gpu_graph_us(64, 384, 500), (115 + 108) / 2, 8);
	EXPECT_NEAR(engine::graph::gpu_graph_us(32, 784, 500), (125 + 105) / 2, 8);
	EXPECT_NEAR(engine::graph::gpu_graph_us(64, 784, 500), (190 + 155) / 2, 8);
	EXPECT_NEAR(engine::graph::gpu_graph_us(64, 128, 8000) - engine::graph::gpu_graph_us(64, 128, 2000), 76 - 47, 12);
	EXPECT_NEAR(
		engine::graph::gpu_graph_us(64, 768, 8000) - engine::graph::gpu_graph_us(64, 768, 2000), (225 + 163) / 2, 40);
}

TEST(GpuChoice, GraphsOfManyRowsAreSearchedUntilThatTakesLonger)
{
	EXPECT_FALSE(is_exact(sift(10)));
	EXPECT_FALSE(is_exact(sift(40))); // recall 0.95
	EXPECT_TRUE(is_exact(sift(85)));  // 0.985
	EXPECT_TRUE(is_exact(sift(300)));
	EXPECT_FALSE(is_exact(sift(85, false)));
	EXPECT_TRUE(is_exact(sift(300, false)));
	EXPECT_FALSE(is_exact({100000000, 96, 96, true, true, 512}));
}

TEST(GpuChoice, ManyEntryPointsMakeASearchLonger)
{
	GraphChoice rows = sift(40);

	rows.n_entries = 500;
	EXPECT_FALSE(is_exact(rows));
	rows.n_entries = 8192;
	EXPECT_TRUE(is_exact(rows));
}

TEST(GpuChoice, FewRowsOfManyDimensionsAreLookedAt)
{
	for (const uint32_t width : {10u, 13u, 16u, 64u, 1000u})
		EXPECT_TRUE(is_exact(fashion(width))) << width;
	EXPECT_FALSE(is_exact(fashion(10, false)));
	EXPECT_FALSE(is_exact(fashion(20, false)));
	EXPECT_TRUE(is_exact(fashion(40, false)));
}

TEST(GpuChoice, MoreResultsAreDearerForAnExactSearch)
{
	EXPECT_TRUE(is_exact(sift(80), 10));
	EXPECT_FALSE(is_exact(sift(100), 100));
	EXPECT_TRUE(is_exact(sift(1000), 1000));
}

TEST(GpuChoice, WhatHasNotBeenMeasuredGivesWayToMuchLongerSearchesAlone)
{
	GraphChoice rows = sift(200);

	rows.measured = false;
	EXPECT_FALSE(is_exact(rows));
	rows.width = 500;
	EXPECT_TRUE(is_exact(rows));
}

TEST(GpuChoice, APassThatGoesOnInAnyCaseCostsItsRowsAlone)
{
	EXPECT_TRUE(is_exact(sift(20), 10, {true, true}));
	EXPECT_FALSE(is_exact({100000000, 96, 96, true, true, 100}, 10, {true, true}));
	EXPECT_FALSE(is_exact(sift(20, false), 10, {false, true}));
}

TEST(GpuChoice, ASharedPassOfOneSegmentIsItsOwn)
{
	for (uint32_t width = 10; width < 200; width++)
		EXPECT_EQ(is_exact(sift(width), 10, {true, false}), is_exact(sift(width))) << width;
}

TEST(GpuChoice, SegmentsSharePasses)
{
	const std::vector<GraphChoice> small = {{100000, 128, 128, true, true, 20}, {100000, 128, 128, true, true, 20}};
	std::vector<GraphChoice> mixed = {
		{100000000, 128, 128, true, true, 20}, sift(85), {50000, 128, 128, true, true, 20}};

	EXPECT_FALSE(is_exact(small[0]));
	EXPECT_EQ(choose_exact(small, 10, {}), 0u);
	EXPECT_EQ(choose_exact(small, 10, {true, false}), 3u);
	EXPECT_EQ(choose_exact(mixed, 10, {true, false}), 6u);
	EXPECT_EQ(choose_exact(mixed, 10, {}), 2u);
	mixed[2].measured = false;
	EXPECT_EQ(choose_exact(mixed, 10, {true, false}), 2u);
	EXPECT_EQ(choose_exact({}, 10, {true, true}), 0u);
}

} // namespace
} // namespace vectorgpu::cuda
