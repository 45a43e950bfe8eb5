// Copies of a row among its nearest rows.
#include "engine/recall/near_copies.hpp"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace vectorgpu::engine::test
{
namespace
{

/// The copies among rows at such distances, by scores of an L2 index.
size_t
copies_at(std::vector<double> distances, size_t n_wanted = 10)
{
	for (double &d : distances)
		d *= d;
	return near_copies(Metric::kL2, 0, distances.data(), distances.size(), n_wanted);
}

/// Distances first [n_first], then 10 .. 10.9 times as far as `unit`.
std::vector<double>
followed(std::vector<double> first, size_t n, double unit = 1)
{
	for (size_t i = 0; i < n; i++)
		first.push_back(unit * (10 + static_cast<double>(i) / static_cast<double>(n)));
	return first;
}

TEST(NearCopies, are_those_before_the_gap)
{
	EXPECT_EQ(copies_at(followed({}, 40)), 0U);
	EXPECT_EQ(copies_at(followed({1}, 40)), 1U);
	EXPECT_EQ(copies_at(followed({1, 1.1, 1.2, 1.3, 1.4, 2, 2.5, 3, 4, 5}, 40)),
		10U); // several gaps: the last one counts
	EXPECT_EQ(copies_at(followed({6.7, 6.8}, 40)), 0U);
	EXPECT_EQ(copies_at(followed({6.5, 6.6}, 40)), 2U);
	EXPECT_EQ(copies_at(followed({0, 0, 0}, 40)), 3U); // equal rows
}

TEST(NearCopies, leave_as_many_rows_as_are_wanted)
{
	EXPECT_EQ(copies_at(followed({1, 1, 1}, 10)), 3U);
	EXPECT_EQ(copies_at(followed({1, 1, 1}, 9)), 0U); // the gap lies behind the last row that may be a copy
	EXPECT_EQ(copies_at(followed({1, 1, 1}, 1), 1), 3U);
	EXPECT_EQ(copies_at({}, 10), 0U);
	EXPECT_EQ(copies_at({1, 2}, 2), 0U);
	EXPECT_EQ(copies_at(std::vector<double>(30, 0)), 0U); // all rows are equal: copies cannot be told from others
	EXPECT_EQ(copies_at(followed({1, 2}, 20, HUGE_VAL)), 2U);
}

TEST(NearCopies, by_other_metrics)
{
	const std::vector<double> lengths = followed({1, 1.2, 1.3}, 20, 0.3);
	std::vector<double> scores;

	for (const double length : lengths)
		scores.push_back(length * length / 200); // 1 - cosine
	EXPECT_EQ(near_copies(Metric::kCosine, 0, scores.data(), scores.size(), 10), 3U);
	for (double &score : scores)
		score -= 1; // minus the inner product of vectors of length 1
	EXPECT_EQ(near_copies(Metric::kInnerProduct, -1, scores.data(), scores.size(), 10), 3U);
	EXPECT_EQ(near_copies(Metric::kInnerProduct, -0.99, scores.data(), scores.size(), 10), 0U)
		<< "longer vectors have larger products";
	EXPECT_EQ(near_copies(Metric::kL1, 0, lengths.data(), lengths.size(), 10), 3U);
	EXPECT_EQ(near_copies(Metric::kHamming, 0, lengths.data(), lengths.size(), 10), 3U);
}

} // namespace
} // namespace vectorgpu::engine::test
