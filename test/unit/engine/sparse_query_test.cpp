// The lower bound of a sparse vector's distance: never above the canonical distance, and near it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "engine/distance/distance.hpp"
#include "engine/distance/sparse_query.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr Metric kMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1};
constexpr uint32_t kDims[] = {
	100, 30000, 1 << 20, (1 << 20) + 1, 1000000000}; // with a table of all elements, and without

struct Stored
{
	std::vector<int32_t> indices;
	std::vector<float> values;

	SparseVector view() const { return {indices.data(), values.data(), static_cast<uint32_t>(indices.size())}; }
};

/// A vector of about n elements, half of them among the first indices, so that two vectors have some in common.
template <class Value>
Stored
random_vector(std::mt19937 &rng, uint32_t n, uint32_t dim, Value value)
{
	std::uniform_int_distribution<int32_t> any(0, static_cast<int32_t>(dim) - 1);
	std::uniform_int_distribution<int32_t> first(0, static_cast<int32_t>(std::min(dim, n)) - 1);
	std::map<int32_t, float> elements;
	Stored vector;

	for (uint32_t i = 0; i < n; i++)
		elements[i % 2 == 0 ? first(rng) : any(rng)] = value();
	for (const auto &[index, element] : elements)
	{
		if (element == 0)
			continue;
		vector.indices.push_back(index);
		vector.values.push_back(element);
	}
	return vector;
}

/// A prepared query that owns its table.
struct Prepared
{
	std::vector<SparseSlot> table;
	SparseQuery query;

	Prepared(Metric metric, const Stored &vector, uint32_t dim)
	{
		const size_t bytes = sparse_table_bytes(vector.view().n, dim);

		table.resize((bytes + sizeof(SparseSlot) - 1) / sizeof(SparseSlot));
		sparse_query_init(&query, metric, vector.view(), dim, table.data());
	}
};

double
exact(Metric metric, const Stored &row, const Stored &query)
{
	return finish_score(metric, sparse_score(metric, row.view(), query.view()));
}

/// Compare bounds and distances of random vectors.
template <class Value>
void
expect_bounds(std::mt19937 &rng, Value value)
{
	for (uint32_t dim : kDims)
		for (uint32_t n : {1u, 3u, 40u, 1500u})
		{
			const Stored query = random_vector(rng, n, dim, value);

			for (Metric metric : kMetrics)
			{
				const Prepared prepared(metric, query, dim);

				for (int repeat = 0; repeat < 12; repeat++)
				{
					const Stored row = repeat == 0 ? query : random_vector(rng, 1 + n / (1 + repeat % 4), dim, value);
					const double distance = exact(metric, row, query);
					const double least = sparse_least_distance(prepared.query, row.view());

					ASSERT_TRUE(least <= distance || (std::isnan(distance) && !std::isnan(least)))
						<< least << " and " << distance << ", metric " << static_cast<int>(metric) << " dim " << dim
						<< " n " << n;
				}
			}
		}
}

TEST(SparseQuery, bounds_are_not_above_the_distance)
{
	std::mt19937 rng(1);
	std::normal_distribution<float> normal;
	std::uniform_int_distribution<int> whole(-3, 3);
	std::uniform_int_distribution<int> exponents(-148, 127);

	expect_bounds(rng, [&] { return normal(rng); });
	expect_bounds(rng, [&] { return std::fabs(normal(rng)); });
	expect_bounds(rng, [&] { return static_cast<float>(whole(rng)); });
	expect_bounds(rng, [&] { return std::ldexp(normal(rng), exponents(rng) / 4); });
	expect_bounds(rng, [&] { return std::ldexp(normal(rng) < 0 ? -1.5f : 1.25f, exponents(rng)); });
	expect_bounds(rng, [&] { return 1e-22f * normal(rng); });
	expect_bounds(rng, [&] { return 1e-38f * normal(rng); });
	expect_bounds(rng, [&] { return std::fmin(std::fmax(1e19f * normal(rng), -3e38f), 3e38f); });
	expect_bounds(rng, [&] { return std::fmin(std::fmax(2e38f * normal(rng), -3e38f), 3e38f); });
}

TEST(SparseQuery, bounds_are_near_the_distance)
{
	std::mt19937 rng(2);
	std::normal_distribution<float> normal;

	for (uint32_t dim : kDims)
		for (uint32_t n : {10u, 300u})
			for (Metric metric : kMetrics)
			{
				const Stored query = random_vector(rng, n, dim, [&] { return normal(rng); });
				const Stored row = random_vector(rng, n, dim, [&] { return normal(rng); });
				const Prepared prepared(metric, query, dim);
				const double terms = metric == Metric::kCosine ? 1 : std::fmax(1, exact(Metric::kL1, row, query));

				ASSERT_NEAR(sparse_least_distance(prepared.query, row.view()), exact(metric, row, query), 5e-4 * terms)
					<< "metric " << static_cast<int>(metric) << " dim " << dim << " n " << n;
			}
}

TEST(SparseQuery, finds_every_element_of_a_large_query)
{
	constexpr int32_t kElements = 16000;
	constexpr int32_t kStride = 62500; // indices that a table by their low bits would put side by side
	Stored query;

	for (int32_t i = 0; i < kElements; i++)
	{
		query.indices.push_back(i * kStride);
		query.values.push_back(1);
	}

	const Prepared prepared(Metric::kInnerProduct, query, 1000000000);

	for (int32_t i = 0; i < kElements; i++)
	{
		const int32_t at = i * kStride;
		const int32_t beside = at + 1;
		const float two = 2;

		ASSERT_NEAR(sparse_least_distance(prepared.query, {&at, &two, 1}), -2, 0.01) << i;
		ASSERT_NEAR(sparse_least_distance(prepared.query, {&beside, &two, 1}), 0, 0.01) << i;
	}
}

TEST(SparseQuery, empty_vectors)
{
	const Stored none;
	const Stored some = {{5, 99}, {3, -4}};

	for (uint32_t dim : kDims)
	{
		EXPECT_NEAR(sparse_least_distance(Prepared(Metric::kL2, none, dim).query, some.view()), 5, 1e-4);
		EXPECT_NEAR(sparse_least_distance(Prepared(Metric::kL1, some, dim).query, none.view()), 7, 1e-4);
		EXPECT_NEAR(sparse_least_distance(Prepared(Metric::kInnerProduct, none, dim).query, none.view()), 0, 1e-30);
		EXPECT_EQ(sparse_least_distance(Prepared(Metric::kCosine, none, dim).query, some.view()),
			-std::numeric_limits<double>::infinity());
	}
}

} // namespace
} // namespace vectorgpu::engine
