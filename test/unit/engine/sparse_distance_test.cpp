// The canonical distance of sparse vectors: the sums of the definition in their order, and the dense distance where
// sums are exact.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "engine/distance/distance.hpp"
#include "engine/distance/sparse.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr Metric kMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1};

struct Stored
{
	std::vector<int32_t> indices;
	std::vector<float> values;

	SparseVector view() const { return {indices.data(), values.data(), static_cast<uint32_t>(indices.size())}; }
};

Stored
stored(const std::map<int32_t, float> &elements)
{
	Stored vector;

	for (const auto &[index, value] : elements)
	{
		vector.indices.push_back(index);
		vector.values.push_back(value);
	}
	return vector;
}

double
score(Metric metric, const std::map<int32_t, float> &a, const std::map<int32_t, float> &b)
{
	return sparse_score(metric, stored(a).view(), stored(b).view());
}

/// The definition: one element after the other over all indices that either has.
double
score_by_definition(Metric metric, const std::map<int32_t, float> &a, const std::map<int32_t, float> &b)
{
	std::map<int32_t, std::pair<float, float>> pairs;
	float l2 = 0;
	float l1 = 0;
	float ab = 0;
	float aa = 0;
	float bb = 0;

	for (const auto &[index, value] : a)
		pairs[index].first = value;
	for (const auto &[index, value] : b)
		pairs[index].second = value;
	for (const auto &[index, pair] : pairs)
	{
		const volatile float difference = pair.first - pair.second;
		const volatile float square = difference * difference;
		const volatile float product = pair.first * pair.second;
		const volatile float a_square = pair.first * pair.first;
		const volatile float b_square = pair.second * pair.second;

		l2 += square;
		l1 += std::fabs(difference);
		ab += product;
		aa += a_square;
		bb += b_square;
	}
	switch (metric)
	{
		case Metric::kL2:
			return l2;
		case Metric::kL1:
			return l1;
		case Metric::kInnerProduct:
			return ab == 0 ? 0 : -static_cast<double>(ab);
		default:
			return 1 - std::fmin(1, std::fmax(-1, ab / std::sqrt(static_cast<double>(aa) * bb)));
	}
}

std::map<int32_t, float>
random_elements(std::mt19937 &rng, int n, int32_t max_index, bool whole)
{
	std::uniform_int_distribution<int32_t> index(0, max_index);
	std::uniform_int_distribution<int> number(-8, 8);
	std::normal_distribution<float> real;
	std::map<int32_t, float> elements;

	for (int i = 0; i < n; i++)
	{
		const float value = whole ? static_cast<float>(number(rng)) : real(rng);

		if (value != 0)
			elements[index(rng)] = value;
	}
	return elements;
}

TEST(SparseDistance, sums_are_those_of_the_definition_bit_for_bit)
{
	std::mt19937 rng(7);

	for (int n : {1, 2, 5, 60, 1000})
		for (int32_t max_index : {10, 2000, 999999999})
			for (int repeat = 0; repeat < 20; repeat++)
			{
				const auto a = random_elements(rng, n, max_index, false);
				const auto b = random_elements(rng, 1 + n / (1 + repeat % 3), max_index, false);

				for (Metric metric : kMetrics)
					ASSERT_EQ(std::bit_cast<uint64_t>(score(metric, a, b)),
						std::bit_cast<uint64_t>(score_by_definition(metric, a, b)))
						<< "metric " << static_cast<int>(metric) << ", " << n << " elements below " << max_index;
			}
}

TEST(SparseDistance, whole_numbers_give_the_dense_distance)
{
	constexpr int32_t kDim = 500;
	std::mt19937 rng(8);

	for (int repeat = 0; repeat < 200; repeat++)
	{
		const auto a = random_elements(rng, 1 + repeat, kDim - 1, true);
		const auto b = random_elements(rng, 100, kDim - 1, true);
		std::vector<float> dense_a(kDim);
		std::vector<float> dense_b(kDim);

		for (const auto &[index, value] : a)
			dense_a[static_cast<size_t>(index)] = value;
		for (const auto &[index, value] : b)
			dense_b[static_cast<size_t>(index)] = value;
		for (Metric metric : kMetrics)
		{
			const double dense = distance({metric, ElementType::kFloat32, kDim}, dense_a.data(), dense_b.data());
			const double sparse = finish_score(metric, score(metric, a, b));

			if (std::isnan(dense))
				ASSERT_TRUE(std::isnan(sparse));
			else
				ASSERT_EQ(sparse, dense) << "metric " << static_cast<int>(metric);
		}
	}
}

TEST(SparseDistance, empty_vectors_are_zero_vectors)
{
	const std::map<int32_t, float> none;
	const std::map<int32_t, float> some = {{3, 3.0f}, {999999999, -4.0f}};

	EXPECT_EQ(score(Metric::kL2, none, some), 25);
	EXPECT_EQ(score(Metric::kL2, some, none), 25);
	EXPECT_EQ(score(Metric::kL1, none, some), 7);
	EXPECT_EQ(score(Metric::kL2, none, none), 0);
	EXPECT_FALSE(std::signbit(score(Metric::kInnerProduct, none, some)));
	EXPECT_TRUE(std::isnan(score(Metric::kCosine, none, some)));
	EXPECT_TRUE(std::isnan(score(Metric::kCosine, none, none)));
}

TEST(SparseDistance, order_of_sums_is_that_of_the_indices)
{
	// 2^24 + 1 is no float: the ones count only if they come first
	EXPECT_EQ(score(Metric::kL1, {{0, 16777216.0f}}, {{1, 1.0f}, {2, 1.0f}}), 16777216);
	EXPECT_EQ(score(Metric::kL1, {{2, 16777216.0f}}, {{0, 1.0f}, {1, 1.0f}}), 16777218);
	EXPECT_EQ(score(Metric::kL1, {{1, 1.0f}, {2, 1.0f}}, {{0, 16777216.0f}}), 16777216);
}

TEST(SparseDistance, cosine_is_exact_for_the_same_vector_and_in_range)
{
	std::mt19937 rng(9);

	for (int repeat = 0; repeat < 200; repeat++)
	{
		const auto a = random_elements(rng, 300, 100000, false);
		auto scaled = a;

		for (auto &element : scaled)
			element.second *= -1.1f;
		EXPECT_EQ(score(Metric::kCosine, a, a), 0);
		EXPECT_NEAR(score(Metric::kCosine, a, scaled), 2, 1e-5);
		EXPECT_LE(score(Metric::kCosine, a, scaled), 2);
	}
}

TEST(SparseDistance, overflow_is_infinite_and_nan_is_positive)
{
	const double infinity = std::numeric_limits<double>::infinity();
	const std::map<int32_t, float> large = {{0, 3e38f}};
	const std::map<int32_t, float> opposite = {{0, -3e38f}};
	const double nan = score(Metric::kCosine, large, large);

	EXPECT_EQ(score(Metric::kL2, large, opposite), infinity);
	EXPECT_EQ(score(Metric::kL1, large, opposite), infinity);
	EXPECT_EQ(score(Metric::kInnerProduct, large, large), -infinity);
	EXPECT_EQ(std::bit_cast<uint64_t>(nan), std::bit_cast<uint64_t>(std::numeric_limits<double>::quiet_NaN()));
	EXPECT_TRUE(std::isnan(score(Metric::kHamming, large, large)));
}

} // namespace
} // namespace vectorgpu::engine
