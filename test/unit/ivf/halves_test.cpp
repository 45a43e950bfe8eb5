// Estimates from halves: bounds that hold for every row, and a deviation that rows have.
#include "engine/ivf/halves.hpp"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "engine/distance/distance.hpp"
#include "engine/ivf/codec.hpp"

namespace vectorgpu::engine::ivf
{
namespace
{

constexpr Metric kMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1};

std::vector<float>
rounded(const std::vector<float> &row)
{
	std::vector<uint16_t> halves(row.size());
	std::vector<float> widened(row.size());

	(void) narrow_to_halves(row.data(), row.size(), halves.data());
	widen_halves(halves.data(), halves.size(), widened.data());
	return widened;
}

double
score_of(Metric metric, const std::vector<float> &a, const std::vector<float> &b)
{
	double score;

	compute_scores({metric, ElementType::kFloat32, static_cast<uint32_t>(a.size())}, a.data(), b.data(), 0, 1, &score);
	return score;
}

std::vector<float>
random_row(std::mt19937 &random, uint32_t dim, float mean, float spread)
{
	std::normal_distribution<float> normal(mean, spread);
	std::vector<float> row(dim);

	for (float &x : row)
		x = normal(random);
	return row;
}

TEST(Halves, ScoresAreNotBelowTheirBounds)
{
	std::mt19937 random(1);

	for (const Metric metric : kMetrics)
		for (const uint32_t dim : {1u, 3u, 32u, 200u})
			for (const float mean : {0.0F, 1.0F, 1000.0F, 60000.0F})
				for (const float spread : {0.0F, 1e-6F, 0.1F, 1.0F, 5000.0F})
					for (int i = 0; i < 20; i++)
					{
						const std::vector<float> query = random_row(random, dim, mean, spread);
						const std::vector<float> row = random_row(random, dim, mean, spread);
						const std::vector<float> halves = rounded(row);
						const double least = least_score_of_halves(
							metric, query.data(), halves.data(), dim, score_of(metric, query, halves));
						const double score = score_of(metric, query, row);

						if (std::isnan(score))
							continue;
						EXPECT_LE(least, score)
							<< static_cast<int>(metric) << ' ' << dim << ' ' << mean << ' ' << spread;
					}
}

TEST(Halves, BoundsAreNearWhereHalvesAreFine)
{
	std::mt19937 random(2);

	for (int i = 0; i < 100; i++)
	{
		const std::vector<float> query = random_row(random, 128, 0, 1);
		const std::vector<float> halves = rounded(random_row(random, 128, 0, 1));

		for (const Metric metric : kMetrics)
		{
			const double score = score_of(metric, query, halves);
			const double least = least_score_of_halves(metric, query.data(), halves.data(), 128, score);
			const double size = metric == Metric::kInnerProduct ? 128 : metric == Metric::kCosine ? 1 : score;

			EXPECT_LT(score - least, 0.001 * size) << static_cast<int>(metric);
		}
	}
}

TEST(Halves, AnElementOutOfRangeHasNoBound)
{
	const std::vector<float> query = {1, 2};
	const std::vector<float> row = {65504, 0};

	for (const Metric metric : kMetrics)
	{
		const double score = score_of(metric, query, row);

		EXPECT_EQ(least_score_of_halves(metric, query.data(), row.data(), 2, score), -HUGE_VAL);
		EXPECT_TRUE(std::isnan(score_deviation_of_halves(metric, query.data(), row.data(), 2, score)));
		EXPECT_EQ(least_score_of_halves(metric, query.data(), query.data(), 2, HUGE_VAL), -HUGE_VAL);
	}
	// all of whose elements may have been rounded to zero
	const std::vector<float> zeros = {0, 0};
	EXPECT_EQ(least_score_of_halves(Metric::kCosine, query.data(), zeros.data(), 2, NAN), -HUGE_VAL);
}

TEST(Halves, DeviationIsThatOfTheRowsThatRoundAlike)
{
	constexpr uint32_t kDim = 24;
	constexpr int kRows = 4000;
	std::mt19937 random(3);
	std::uniform_real_distribution<float> half_of_unit(-0.25F, 0.25F);

	for (const Metric metric : kMetrics)
	{
		const std::vector<float> query = random_row(random, kDim, 900, 40); // units of 0.5
		const std::vector<float> halves = rounded(random_row(random, kDim, 700, 40));
		const double score = score_of(metric, query, halves);
		double sum = 0;
		double squares = 0;

		for (int i = 0; i < kRows; i++)
		{
			std::vector<float> row = halves;

			for (float &x : row)
				x += half_of_unit(random);
			const double off = score_of(metric, query, row) - score;

			sum += off;
			squares += off * off;
		}
		const double deviation = std::sqrt(squares / kRows - sum * sum / kRows / kRows);

		EXPECT_NEAR(score_deviation_of_halves(metric, query.data(), halves.data(), kDim, score) / deviation, 1, 0.06)
			<< static_cast<int>(metric);
	}
}

} // namespace
} // namespace vectorgpu::engine::ivf
