// Rows and queries as lists see them: bits as numbers, and the scores that rank lists.
#include "engine/ivf/list_metric.hpp"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "ivf/ivf_data.hpp"

namespace vectorgpu::engine::ivf::test
{
namespace
{

using Bits = std::vector<uint8_t>;

Bits
random_bits(size_t dim, std::mt19937 *rng)
{
	Bits bits((dim + 7) / 8);

	for (size_t i = 0; i < dim; i++)
		if ((*rng)() % 3 == 0)
			bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | 0x80 >> i % 8);
	return bits;
}

TEST(ListMetric, BitsAreZerosAndOnes)
{
	const uint8_t bits[] = {0b10100000, 0b00000010, 0b11000000, 0b00000000}; // two rows of 15 bits
	float floats[30];

	list_floats({Metric::kHamming, ElementType::kBit, 15}, bits, 2, floats);
	for (size_t i = 0; i < 30; i++)
		EXPECT_EQ(floats[i], i == 0 || i == 2 || i == 14 || i == 15 || i == 16 ? 1 : 0) << i;
}

TEST(ListMetric, CentroidsThatAreRowsHaveTheirDistance)
{
	std::mt19937 rng(3);

	for (const uint32_t dim : {1u, 7u, 8u, 9u, 64u, 333u, 64000u})
		for (const Metric metric : {Metric::kHamming, Metric::kJaccard})
		{
			const DistanceSpec spec = {metric, ElementType::kBit, dim};

			for (int i = 0; i < 5; i++)
			{
				const Bits query = i == 4 ? Bits((dim + 7) / 8) : random_bits(dim, &rng);
				const Bits row = random_bits(dim, &rng);
				Floats floats(size_t{2} * dim);
				double expected;
				double score;

				list_floats(spec, query.data(), 1, floats.data());
				list_floats(spec, row.data(), 1, floats.data() + dim);
				centroid_scores(spec, floats.data(), floats.data() + dim, dim * sizeof(float), 1, &score);
				compute_scores(spec, query.data(), row.data(), row.size(), 1, &expected);
				EXPECT_EQ(score, expected) << dim << " bits, metric " << static_cast<int>(metric);
			}
		}
}

TEST(ListMetric, MeansOfBits)
{
	const DistanceSpec spec = {Metric::kJaccard, ElementType::kBit, 3};
	const float query[] = {1, 0, 1};
	const float centroids[] = {0.5f, 0.25f, 1, 0, 0, 0, 0.5f, 0.5f, 0.5f};
	double scores[3];

	centroid_scores(spec, query, centroids, 3 * sizeof(float), 3, scores);
	EXPECT_EQ(scores[0], 1 - 1.5 / 2.25);
	EXPECT_EQ(scores[1], 1);
	EXPECT_EQ(scores[2], 1 - 1 / 2.5);
	centroid_scores({Metric::kHamming, ElementType::kBit, 3}, query, centroids, 3 * sizeof(float), 3, scores);
	EXPECT_EQ(scores[0], 0.25 + 0.0625);
	EXPECT_EQ(scores[1], 2);
}

TEST(ListMetric, OnlyCosineIsSpherical)
{
	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kL1, Metric::kHamming, Metric::kJaccard})
		EXPECT_EQ(list_kind(metric), ClusterKind::kL2);
	EXPECT_EQ(list_kind(Metric::kCosine), ClusterKind::kSpherical);
}

} // namespace
} // namespace vectorgpu::engine::ivf::test
