// Top-k selection against std::sort.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "engine/distance/topk.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool
same(const Neighbor &a, const Neighbor &b)
{
	return a.row == b.row && (a.score == b.score || (std::isnan(a.score) && std::isnan(b.score)));
}

struct Input
{
	std::vector<double> scores;
	std::vector<RowId> rows;
	std::vector<uint8_t> dead; // empty: none
	size_t dead_offset = 0;

	bool is_dead(size_t i) const
	{
		const size_t bit = dead_offset + i;

		return !dead.empty() && ((dead[bit / 8] >> (bit % 8)) & 1) != 0;
	}

	/// The result of a full sort.
	std::vector<Neighbor> expected(size_t k, const Neighbor *after) const
	{
		std::vector<Neighbor> all;

		for (size_t i = 0; i < scores.size(); i++)
		{
			const Neighbor candidate = {scores[i], rows[i]};

			if (!is_dead(i) && (after == nullptr || neighbor_less(*after, candidate)))
				all.push_back(candidate);
		}
		std::sort(all.begin(), all.end(), neighbor_less);
		all.resize(std::min(k, all.size()));
		return all;
	}

	/// The result of TopK when the input comes in blocks of `block`.
	std::vector<Neighbor> selected(size_t k, const Neighbor *after, size_t block, size_t capacity) const
	{
		std::vector<Neighbor> buffer(capacity);
		TopK topk;

		topk_init(&topk, k, buffer.data(), capacity, after);
		for (size_t first = 0; first < scores.size(); first += block)
		{
			const size_t n = std::min(block, scores.size() - first);

			// Every other block is offered only if it is wanted, which must change nothing.
			if (first / block % 2 != 0 && !topk_wants(&topk, scores.data() + first, n))
				continue;
			topk_push(&topk, scores.data() + first, rows.data() + first, n, dead.empty() ? nullptr : dead.data(),
				dead_offset + first);
		}
		buffer.resize(topk_finish(&topk));
		return buffer;
	}
};

void
expect_same(const std::vector<Neighbor> &got, const std::vector<Neighbor> &want)
{
	ASSERT_EQ(got.size(), want.size());
	for (size_t i = 0; i < got.size(); i++)
		ASSERT_TRUE(same(got[i], want[i])) << "place " << i << ": (" << got[i].score << ", " << got[i].row << ") but ("
										   << want[i].score << ", " << want[i].row << ") expected";
}

size_t
default_capacity(size_t k)
{
	return topk_buffer_bytes(k) / sizeof(Neighbor);
}

Input
random_input(size_t n, unsigned seed, int distinct_scores)
{
	std::mt19937 rng(seed);
	Input input;

	for (size_t i = 0; i < n; i++)
	{
		const int pick = std::uniform_int_distribution<int>(0, distinct_scores + 2)(rng);

		input.scores.push_back(pick == distinct_scores ? kNaN
				: pick == distinct_scores + 1          ? kInfinity
				: pick == distinct_scores + 2          ? -kInfinity
													   : pick * 0.25 - 3);
		input.rows.push_back(i);
	}
	std::shuffle(input.rows.begin(), input.rows.end(), rng);
	return input;
}

TEST(TopK, EqualsAFullSortForEveryKWithTiesNaNAndInfinities)
{
	for (size_t n : {0, 1, 7, 8, 9, 100, 3000})
	{
		for (int distinct : {1, 5, 100000})
		{
			const Input input = random_input(n, static_cast<unsigned>(n) + 17, distinct);

			for (size_t k : {size_t{0}, size_t{1}, size_t{2}, size_t{10}, n, n + 1, 2 * n + 5})
				for (size_t capacity : {std::max<size_t>(k, 1), k + 1, 2 * k + 1, default_capacity(k)})
				{
					SCOPED_TRACE(testing::Message() << "n " << n << " k " << k << " capacity " << capacity);
					expect_same(input.selected(k, nullptr, 64, capacity), input.expected(k, nullptr));
				}
		}
	}
}

TEST(TopK, AscendingAndDescendingScoresSelectTheSame)
{
	Input up;

	for (size_t i = 0; i < 5000; i++)
	{
		up.scores.push_back(static_cast<double>(i));
		up.rows.push_back(i);
	}

	Input down = up;

	std::reverse(down.scores.begin(), down.scores.end());
	std::reverse(down.rows.begin(), down.rows.end());
	for (size_t k : {1, 10, 1000, 5000})
	{
		expect_same(up.selected(k, nullptr, 100, default_capacity(k)), up.expected(k, nullptr));
		expect_same(down.selected(k, nullptr, 100, default_capacity(k)), up.expected(k, nullptr));
	}
}

TEST(TopK, ContinuingAfterTheLastGivesTheWholeOrderOnceAndInOrder)
{
	for (int distinct : {1, 7, 100000})
	{
		const Input input = random_input(1500, 5, distinct);
		const std::vector<Neighbor> whole = input.expected(input.scores.size(), nullptr);

		for (size_t k : {1, 13, 400})
		{
			std::vector<Neighbor> walked;

			for (;;)
			{
				const Neighbor *after = walked.empty() ? nullptr : &walked.back();
				const std::vector<Neighbor> next = input.selected(k, after, 50, default_capacity(k));

				if (next.empty())
					break;
				walked.insert(walked.end(), next.begin(), next.end());
				ASSERT_LE(walked.size(), whole.size());
			}
			expect_same(walked, whole);
		}
	}
}

TEST(TopK, PassesOverDeadRowsAtAnyBitOffset)
{
	std::mt19937 rng(3);

	for (size_t offset : {0, 1, 7, 8, 13})
	{
		Input input = random_input(700, static_cast<unsigned>(offset), 50);

		input.dead_offset = offset;
		input.dead.resize((offset + 700 + 7) / 8);
		for (uint8_t &byte : input.dead)
			byte = static_cast<uint8_t>(rng());
		expect_same(input.selected(40, nullptr, 33, default_capacity(40)), input.expected(40, nullptr));
	}
}

TEST(TopK, AllRowsDeadGivesNothing)
{
	Input input = random_input(100, 1, 10);

	input.dead.assign(13, 0xFF);
	EXPECT_TRUE(input.selected(10, nullptr, 10, default_capacity(10)).empty());
}

TEST(TopK, BufferBytesNeverWrapAround)
{
	EXPECT_GE(topk_buffer_bytes(0), sizeof(Neighbor));
	EXPECT_GE(topk_buffer_bytes(1), 2 * sizeof(Neighbor));
	EXPECT_EQ(topk_buffer_bytes(100000), 200000 * sizeof(Neighbor));

	const size_t most = std::numeric_limits<size_t>::max();

	for (size_t k : {most, most / 2, most / 16, most / 32, most / 32 - 1024, most / 32 - 1025})
		EXPECT_GE(topk_buffer_bytes(k) / sizeof(Neighbor), std::min(k, most / sizeof(Neighbor)));
}

TEST(NeighborOrder, PutsNaNLastAndBreaksTiesByRow)
{
	EXPECT_TRUE(neighbor_less({1, 9}, {2, 1}));
	EXPECT_TRUE(neighbor_less({1, 1}, {1, 2}));
	EXPECT_FALSE(neighbor_less({1, 1}, {1, 1}));
	EXPECT_TRUE(neighbor_less({kInfinity, 9}, {kNaN, 1}));
	EXPECT_FALSE(neighbor_less({kNaN, 1}, {kInfinity, 9}));
	EXPECT_TRUE(neighbor_less({kNaN, 1}, {kNaN, 2}));
	EXPECT_FALSE(neighbor_less({kNaN, 2}, {kNaN, 2}));
	EXPECT_TRUE(neighbor_less({-0.0, 1}, {0.0, 2}));
}

} // namespace
} // namespace vectorgpu::engine
