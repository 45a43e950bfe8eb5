// The calibration table and what is read off it.
#include "engine/ivf/calibration.hpp"

#include <cmath>

#include "ivf/ivf_data.hpp"

namespace vectorgpu::engine::ivf::test
{
namespace
{

TEST(Calibration, PointsAscendToAllLists)
{
	for (uint32_t n_lists : {1u, 2u, 3u, 4u, 5u, 7u, 100u, 1024u, 65536u, 1u << 20})
	{
		Calibration calibration;

		calibration_points(n_lists, &calibration);
		ASSERT_GE(calibration.n_points, 1u);
		EXPECT_EQ(calibration.probes[0], 1u);
		EXPECT_EQ(calibration.probes[calibration.n_points - 1], n_lists);
		for (uint32_t p = 1; p < calibration.n_points; p++)
			EXPECT_GT(calibration.probes[p], calibration.probes[p - 1]);
		EXPECT_EQ(calibration.probes[calibration.n_points - std::min(calibration.n_points, 2u)], std::max(n_lists - 1, 1u));
		EXPECT_LT(calibration.n_points, kMaxCalibrationPoints);
	}
}

TEST(Calibration, CountsNeighborsByTheRankOfTheirList)
{
	const uint32_t ranks[] = {0, 0, 1, 5, 2, UINT32_MAX};
	Calibration calibration;

	calibration_points(8, &calibration);
	calibrate_by_rank(ranks, 2, 3, &calibration);
	EXPECT_EQ(calibration.n_queries, 2u);
	for (uint32_t p = 0; p < calibration.n_points; p++)
	{
		int found = 0;

		for (uint32_t rank : {0u, 0u, 1u, 5u, 2u})
			found += rank < calibration.probes[p];
		EXPECT_FLOAT_EQ(calibration.recall[p], static_cast<float>(found) / 5);
	}
}

TEST(Calibration, NoNeighborsMeansNothingIsMissed)
{
	Calibration calibration;

	calibration_points(8, &calibration);
	calibrate_by_rank(nullptr, 0, 10, &calibration);
	EXPECT_EQ(probes_for(calibration, 0.99), 1u);
}

TEST(Calibration, ProbesReachTheTargetAndNoMore)
{
	Calibration calibration;

	calibration_points(100, &calibration);
	for (uint32_t p = 0; p < calibration.n_points; p++)
		calibration.recall[p] = 1 - 1 / static_cast<float>(1 + calibration.probes[p]);
	for (double target : {0.0, 0.4, 0.5, 0.51, 0.7, 0.9, 0.95, 0.98, 0.99})
	{
		const uint32_t probes = probes_for(calibration, target);

		EXPECT_GE(recall_of(calibration, probes), target - 1e-6) << target;
		EXPECT_TRUE(probes == 1 || recall_of(calibration, probes - 1) < target) << target;
	}
	EXPECT_EQ(probes_for(calibration, 1), 100u);
	EXPECT_FLOAT_EQ(static_cast<float>(fractional_probes_for(calibration, 1)), 100);
	EXPECT_FLOAT_EQ(static_cast<float>(recall_of(calibration, 1000)), 1 - 1 / 101.0f);
}

TEST(Calibration, FractionsOfProbesReachTheTargetOnAverage)
{
	Calibration calibration;

	calibration_points(100, &calibration);
	for (uint32_t p = 0; p < calibration.n_points; p++)
		calibration.recall[p] = 1 - 1 / static_cast<float>(1 + calibration.probes[p]);
	for (double target : {0.51, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99})
	{
		const double probes = fractional_probes_for(calibration, target);
		const uint32_t whole = static_cast<uint32_t>(probes);
		const double share = probes - whole;
		const double mixed =
			(1 - share) * recall_of(calibration, whole) + share * recall_of(calibration, std::min(whole + 1, 100u));

		EXPECT_NEAR(mixed, target, 1e-6) << target;
		EXPECT_LE(probes, probes_for(calibration, target)) << target;
	}
	EXPECT_EQ(fractional_probes_for(calibration, 0), 1);
}

TEST(Calibration, AnEmptyTableIsDefined)
{
	Calibration calibration;

	EXPECT_EQ(probes_for(calibration, 0.9), 1u);
	EXPECT_EQ(fractional_probes_for(calibration, 0.9), 1);
	EXPECT_EQ(recall_of(calibration, 5), 0);
}

} // namespace
} // namespace vectorgpu::engine::ivf::test
