// The calibration table and the numbers of probes derived from it.
#include "engine/ivf/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

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
		EXPECT_EQ(
			calibration.probes[calibration.n_points - std::min(calibration.n_points, 2u)], std::max(n_lists - 1, 1u));
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

TEST(Calibration, ChanceIsThatOfQueriesNotOfTheirNeighbors)
{
	constexpr size_t kQueries = 100;
	constexpr size_t kEach = 4;
	std::vector<uint32_t> ranks;
	Calibration calibration;

	for (size_t q = 0; q < kQueries;
		q++) // half of the queries find all rows at the first list, the others at the last one
		for (size_t i = 0; i < kEach; i++)
			ranks.push_back(q % 2 == 0 ? 0 : 7);
	calibration_points(8, &calibration);
	calibrate_by_rank(ranks.data(), kQueries, kEach, &calibration);
	lower_by_chance(ranks.data(), kQueries, kEach, &calibration);
	EXPECT_NEAR(calibration.recall[0], 0.5 - 1.64 * std::sqrt(0.25 / (kQueries - 1)), 1e-6);
	EXPECT_EQ(calibration.recall[calibration.n_points - 2], 0.5f); // of all lists but one, and of all, it stays
	EXPECT_EQ(calibration.recall[calibration.n_points - 1], 1);
	EXPECT_EQ(calibration.n_queries, kQueries);
}

TEST(Calibration, ChanceOfQueriesThatWantFewRows)
{
	const uint32_t ranks[] = {0, 0, 1, UINT32_MAX, 0, 3};
	Calibration calibration;

	calibration_points(4, &calibration);
	calibrate_by_rank(ranks, 3, 2, &calibration);
	lower_by_chance(ranks, 3, 2, &calibration);
	// found 2, 0, 1 of 2, 1, 2 at one list: .6 of 5; apart by .8, -.6, -.2
	EXPECT_NEAR(calibration.recall[0], std::max(0.6 - 1.64 * std::sqrt((0.64 + 0.36 + 0.04) * 3 / 2) / 5, 0.0), 1e-6);
	calibrate_by_rank(ranks, 1, 2, &calibration);
	lower_by_chance(ranks, 1, 2, &calibration);
	EXPECT_EQ(calibration.recall[0], 1); // one query says nothing of an error
	calibrate_by_rank(ranks + 3, 1, 1, &calibration);
	lower_by_chance(ranks + 3, 1, 1, &calibration);
	EXPECT_EQ(calibration.recall[0], 1);
}

/// How often the probes for a target find less than that among all queries, by calibrations with some of them.
TEST(Calibration, OneInTwentySaysTooMuch)
{
	constexpr uint32_t kLists = 256;
	constexpr size_t kQueries = 400;
	constexpr size_t kEach = 10;
	constexpr size_t kAll = 200000;
	constexpr int kDraws = 400;
	std::mt19937 random(1);
	std::lognormal_distribution<double> hardness(0, 1); // of a query, which its neighbours share
	std::exponential_distribution<double> apart(1);
	const auto draw = [&](size_t n)
	{
		std::vector<uint32_t> ranks;

		for (size_t q = 0; q < n; q++)
		{
			const double of_query = 4 * hardness(random);

			for (size_t i = 0; i < kEach; i++)
				ranks.push_back(static_cast<uint32_t>(std::min(of_query * apart(random), kLists - 1.0)));
		}
		return ranks;
	};
	std::vector<double> found(kLists + 1); // by that many lists

	for (const uint32_t rank : draw(kAll))
		found[rank + 1] += 1.0 / (kAll * kEach);
	std::partial_sum(found.begin(), found.end(), found.begin());
	for (double target : {0.9, 0.95, 0.98})
	{
		int too_much[2] = {};
		double probes[2] = {};

		for (int i = 0; i < kDraws; i++)
		{
			const std::vector<uint32_t> ranks = draw(kQueries);
			Calibration calibration;

			calibration_points(kLists, &calibration);
			calibrate_by_rank(ranks.data(), kQueries, kEach, &calibration);
			for (int lowered = 0; lowered < 2; lowered++)
			{
				const uint32_t chosen = probes_for(calibration, target);

				too_much[lowered] += found[chosen] < target;
				probes[lowered] += chosen;
				lower_by_chance(ranks.data(), kQueries, kEach, &calibration);
			}
		}
		EXPECT_GE(too_much[0], kDraws / 5) << target; // the plain recall: half, less what rounding up adds
		EXPECT_LE(too_much[1], kDraws / 12) << target;
		EXPECT_LE(probes[1], 1.25 * probes[0]) << target;
	}
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

/// 100 lists whose first p have 1 - 1 / (1 + p / width) of the rows.
void
fill_recall(const Calibration &calibration, double width, float *recall)
{
	for (uint32_t p = 0; p < calibration.n_points; p++)
		recall[p] = p + 1 == calibration.n_points ? 1 : static_cast<float>(1 - 1 / (1 + calibration.probes[p] / width));
}

/// Ten, 100 and 1,000 rows: widths 1, 2 and 8.
void
three_depths(Calibration *calibration, DepthCalibration *depths)
{
	calibration_points(100, calibration);
	fill_recall(*calibration, 1, calibration->recall);
	*depths = {};
	depths->n_depths = 2;
	depths->depths[0] = 100;
	depths->depths[1] = 1000;
	fill_recall(*calibration, 2, depths->recall[0]);
	fill_recall(*calibration, 8, depths->recall[1]);
}

TEST(CalibrationDepths, EachDepthHasItsOwnProbes)
{
	Calibration calibration;
	DepthCalibration depths;

	three_depths(&calibration, &depths);
	for (double target : {0.0, 0.5, 0.8})
		for (uint64_t rows : {UINT64_C(0), UINT64_C(1), UINT64_C(10)})
			EXPECT_EQ(probes_for_rows(calibration, depths, target, rows), fractional_probes_for(calibration, target))
				<< target;
	for (uint32_t d = 0; d < depths.n_depths; d++)
	{
		Calibration alone = calibration;

		std::copy_n(depths.recall[d], kMaxCalibrationPoints, alone.recall);
		for (double target : {0.5, 0.8})
			EXPECT_NEAR(probes_for_rows(calibration, depths, target, depths.depths[d]),
				fractional_probes_for(alone, target), 1e-9)
				<< target;
	}
}

TEST(CalibrationDepths, BetweenThemLogarithmsAreInterpolated)
{
	Calibration calibration;
	DepthCalibration depths;

	three_depths(&calibration, &depths);
	for (double target : {0.5, 0.8})
	{
		const double ten = probes_for_rows(calibration, depths, target, 10);
		const double hundred = probes_for_rows(calibration, depths, target, 100);
		const double thousand = probes_for_rows(calibration, depths, target, 1000);
		double before = 0;

		EXPECT_NEAR(
			probes_for_rows(calibration, depths, target, 40), ten * std::pow(hundred / ten, std::log10(4)), 1e-9);
		EXPECT_NEAR(probes_for_rows(calibration, depths, target, 200),
			hundred * std::pow(thousand / hundred, std::log10(2)), 1e-9);
		EXPECT_NEAR(
			probes_for_rows(calibration, depths, target, 10000), thousand * (thousand / hundred), 1e-6); // extrapolated
		for (uint64_t rows = 1; rows < 100000; rows += 1 + rows / 4)
		{
			const double probes = probes_for_rows(calibration, depths, target, rows);

			EXPECT_GE(probes, before) << rows;
			before = probes;
		}
	}
}

TEST(CalibrationDepths, MoreRowsNeverTakeFewerListsNorGrowFasterThanTheRows)
{
	Calibration calibration;
	DepthCalibration depths;

	three_depths(&calibration, &depths);
	fill_recall(calibration, 0.1, depths.recall[0]); // easier than ten rows
	EXPECT_NEAR(probes_for_rows(calibration, depths, 0.8, 100), probes_for_rows(calibration, depths, 0.8, 10), 1e-9);
	std::copy_n(depths.recall[0], kMaxCalibrationPoints, depths.recall[1]);
	EXPECT_NEAR(
		probes_for_rows(calibration, depths, 0.8, 16000), 2 * probes_for_rows(calibration, depths, 0.8, 1000), 1e-9);

	three_depths(&calibration, &depths);
	depths.depths[1] = 101; // a steep step before unknown depths
	EXPECT_NEAR(
		probes_for_rows(calibration, depths, 0.8, 202), 2 * probes_for_rows(calibration, depths, 0.8, 101), 1e-6);
}

TEST(CalibrationDepths, WithoutThemTheFourthRootOfTheRowsDecides)
{
	Calibration calibration;
	const DepthCalibration none;

	calibration_points(100, &calibration);
	fill_recall(calibration, 1, calibration.recall);
	EXPECT_NEAR(probes_for_rows(calibration, none, 0.8, 160), 2 * probes_for_rows(calibration, none, 0.8, 10), 1e-9);
	EXPECT_EQ(probes_for_rows({}, none, 0.8, 10), 1);
}

TEST(CalibrationDepths, WhatIsStoredIsChecked)
{
	Calibration calibration;
	DepthCalibration depths;
	const auto problem = [&](auto &&damage)
	{
		three_depths(&calibration, &depths);
		damage();
		return calibration_problem(calibration, depths, 100) != nullptr;
	};

	EXPECT_EQ(calibration_problem({}, {}, 1), nullptr);
	EXPECT_FALSE(problem([] {}));
	EXPECT_FALSE(
		problem([&] { calibration.recall[2] = depths.recall[1][3] = 0; })); // more lists may find less by codes
	EXPECT_TRUE(problem([&] { calibration.n_points = kMaxCalibrationPoints + 1; }));
	EXPECT_TRUE(problem([&] { depths.n_depths = kMaxDepths + 1; }));
	EXPECT_TRUE(problem([&] { calibration.n_points = 0; }));
	EXPECT_TRUE(problem([&] { calibration.probes[0] = 0; }));
	EXPECT_TRUE(problem([&] { calibration.probes[1] = 1; }));
	EXPECT_TRUE(problem([&] { calibration.probes[calibration.n_points - 1] = 101; }));
	EXPECT_TRUE(problem([&] { calibration.recall[1] = NAN; }));
	EXPECT_TRUE(problem([&] { depths.depths[0] = 10; }));
	EXPECT_TRUE(problem([&] { depths.depths[1] = 100; }));
	EXPECT_TRUE(problem([&] { depths.recall[1][0] = -0.5f; }));
	EXPECT_TRUE(problem([&] { depths.recall[0][3] = 1.5f; }));
}

TEST(CalibrationDepths, DamageGivesNumbersAndNoMore)
{
	const float kOdd[] = {NAN, INFINITY, -INFINITY, -1, 2};

	for (float odd : kOdd)
		for (uint32_t p = 0; p < 6; p++)
		{
			Calibration calibration;
			DepthCalibration depths;

			three_depths(&calibration, &depths);
			calibration.recall[p] = depths.recall[0][p] = depths.recall[1][p] = odd;
			calibration.probes[p] = p % 2 == 0 ? 0 : UINT32_MAX;
			depths.depths[p % 2] = p;
			depths.n_depths = UINT32_MAX;
			for (uint64_t rows : {1, 50, 500, 5000})
				(void) probes_for_rows(calibration, depths, 0.9, rows); // for the sanitizer
			EXPECT_NE(calibration_problem(calibration, depths, 100), nullptr);
		}
}

} // namespace
} // namespace vectorgpu::engine::ivf::test
