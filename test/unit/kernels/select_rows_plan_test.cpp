// The plan of a selection from rows: its thresholds on random numbers, computed as in the kernel.
#include "experiments/select_rows_plan.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kThreads = 256;
constexpr uint32_t kLoads = 6;

TEST(SelectRowsPlan, ThresholdsLetEnoughPassAndListsHoldIt)
{
	std::mt19937 rng(7);
	std::uniform_real_distribution<float> any;
	uint32_t n_rows = 0;
	uint32_t n_again = 0;

	for (uint32_t n_columns : {8192u, 20000u, 128000u})
		for (uint32_t k : {1u, 10u, 100u, 500u})
		{
			const SelectRowsPlan plan = plan_select_rows(n_columns, k, kThreads, kLoads);

			ASSERT_NE(plan.n_sample_vectors, 0u) << n_columns << " " << k;
			ASSERT_LE(plan.rank_least, plan.rank_most);
			for (int trial = 0; trial < 60; trial++)
			{
				std::vector<float> row(n_columns);

				for (float &value : row)
					value = any(rng);

				std::vector<float> sample(
					row.begin(), row.begin() + plan.n_sample_vectors * kThreads * 4); // any part will do

				std::nth_element(sample.begin(), sample.begin() + (plan.rank_least - 1), sample.end());

				const float threshold = sample[plan.rank_least - 1];
				std::vector<uint32_t> of_thread(kThreads);
				uint32_t n_passed = 0;

				for (uint32_t i = 0; i < n_columns; i++)
					if (row[i] <= threshold)
					{
						of_thread[i / 4 % kThreads]++;
						n_passed++;
					}
				n_rows++;
				n_again += n_passed < k || *std::max_element(of_thread.begin(), of_thread.end()) > plan.n_slots - 1;
			}
		}
	EXPECT_LE(n_again, n_rows / 50) << "of " << n_rows;
}

TEST(SelectRowsPlan, RowsTooShortForASampleGoByRounds)
{
	EXPECT_EQ(plan_select_rows(1, 1, kThreads, kLoads).n_sample_vectors, 0u);
	EXPECT_EQ(plan_select_rows(8191, 1, kThreads, kLoads).n_sample_vectors, 0u);
	EXPECT_EQ(plan_select_rows(8192, 1, kThreads, kLoads).n_sample_vectors, 1u);
	EXPECT_EQ(plan_select_rows(16384, 1, kThreads, kLoads).n_sample_vectors, 2u);
	EXPECT_EQ(plan_select_rows(32768, kSelectLargeSampleLeastK, kThreads, kLoads).n_sample_vectors, 4u);
	EXPECT_EQ(plan_select_rows(16384, 2000, kThreads, kLoads).n_sample_vectors, 0u); // k is an eighth
	EXPECT_EQ(plan_select_rows(3000000, 10, kThreads, kLoads).n_sample_vectors, 2u);
	EXPECT_EQ(plan_select_rows(6000000, 10, kThreads, kLoads).n_sample_vectors, 4u)
		<< "with half a sample too many pass";
	EXPECT_EQ(plan_select_rows(4000000000u, 2048, kThreads, kLoads).n_sample_vectors, 0u)
		<< "more passes than there is room for";
}

TEST(SelectRowsPlan, KeysAndBufferHaveRoomForK)
{
	for (uint32_t k = 1; k <= 2048; k++)
	{
		const SelectRowsPlan plan = plan_select_rows(128000, k, kThreads, kLoads);

		ASSERT_GE(plan.n_sorted, std::max(k, 2u));
		ASSERT_EQ(plan.n_sorted & (plan.n_sorted - 1), 0u);
		ASSERT_GE(plan.capacity, k + kThreads);
		ASSERT_GE(plan.capacity, plan.n_sorted); // the k that rounds leave are sorted there
	}
}

} // namespace
} // namespace vectorgpu::kernels
