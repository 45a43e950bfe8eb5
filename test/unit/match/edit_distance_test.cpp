// Bit-parallel edit distance against the table of distances, and the lower bound by common n-grams (Zhou et al.,
// theorem V.1).
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <map>
#include <random>
#include <vector>

#include "engine/match/edit_distance.hpp"
#include "engine/match/gram_bound.hpp"

namespace
{

using namespace vectorgpu::engine;
using Symbols = std::vector<uint32_t>;

int64_t
by_table(const Symbols &a, const Symbols &b)
{
	std::vector<int64_t> column(a.size() + 1);

	for (size_t i = 0; i <= a.size(); i++)
		column[i] = static_cast<int64_t>(i);
	for (size_t j = 1; j <= b.size(); j++)
	{
		int64_t diagonal = column[0];

		column[0] = static_cast<int64_t>(j);
		for (size_t i = 1; i <= a.size(); i++)
		{
			const int64_t replaced = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = column[i];
			column[i] = std::min({replaced, column[i] + 1, column[i - 1] + 1});
		}
	}
	return column[a.size()];
}

int64_t
by_bits(const Symbols &a, const Symbols &b, uint32_t n_symbols, int64_t most = INT64_MAX, Poll poll = {})
{
	const auto longer = static_cast<int64_t>(std::max(a.size(), b.size()));
	std::vector<uint64_t> memory(edit_distance_memory(longer, n_symbols) / 8 + 1);

	return edit_distance({a.data(), static_cast<int64_t>(a.size())}, {b.data(), static_cast<int64_t>(b.size())},
		n_symbols, memory.data(), most, poll);
}

Symbols
random_symbols(std::mt19937 &random, size_t length, uint32_t n_symbols)
{
	Symbols symbols(length);

	for (uint32_t &symbol : symbols)
		symbol = random() % n_symbols;
	return symbols;
}

/// A copy with that many random edits.
Symbols
edited(std::mt19937 &random, Symbols symbols, int edits, uint32_t n_symbols)
{
	for (int i = 0; i < edits; i++)
	{
		const auto place = symbols.begin() + static_cast<std::ptrdiff_t>(random() % (symbols.size() + 1));

		switch (random() % 3)
		{
			case 0:
				symbols.insert(place, random() % n_symbols);
				break;
			case 1:
				if (place != symbols.end())
					symbols.erase(place);
				break;
			default:
				if (place != symbols.end())
					*place = random() % n_symbols;
		}
	}
	return symbols;
}

/// Lemma V.1: the common multiset of n-grams.
int64_t
common_grams(const Symbols &a, const Symbols &b, size_t n)
{
	std::map<Symbols, int64_t> grams;
	int64_t common = 0;

	for (size_t i = 0; i + n <= a.size(); i++)
		grams[Symbols(a.begin() + static_cast<std::ptrdiff_t>(i), a.begin() + static_cast<std::ptrdiff_t>(i + n))]++;
	for (size_t i = 0; i + n <= b.size(); i++)
		common += grams[Symbols(b.begin() + static_cast<std::ptrdiff_t>(i),
					  b.begin() + static_cast<std::ptrdiff_t>(i + n))]-- > 0;
	return common;
}

TEST(EditDistance, equals_the_table_round_the_word_size)
{
	std::mt19937 random(1);

	for (const size_t length : {0, 1, 2, 3, 31, 63, 64, 65, 127, 128, 129, 200, 257})
		for (const size_t other : {0, 1, 2, 7, 62, 63, 64, 65, 66, 128, 150, 192, 193})
			for (const uint32_t n_symbols : {1u, 2u, 4u, 30u, 1000u})
			{
				const Symbols a = random_symbols(random, length, n_symbols);
				const Symbols b = random_symbols(random, other, n_symbols);

				ASSERT_EQ(by_bits(a, b, n_symbols), by_table(a, b))
					<< length << " and " << other << " of " << n_symbols;
			}
}

TEST(EditDistance, equals_the_table_for_strings_a_few_edits_apart)
{
	std::mt19937 random(2);

	for (int i = 0; i < 800; i++)
	{
		const uint32_t n_symbols = 2 + random() % 30;
		const Symbols a = random_symbols(random, random() % 300, n_symbols);
		const Symbols b = edited(random, a, static_cast<int>(random() % 12), n_symbols);

		ASSERT_EQ(by_bits(a, b, n_symbols), by_table(a, b)) << i;
		ASSERT_EQ(by_bits(b, a, n_symbols), by_table(a, b)) << i;
	}
}

// Bands from one diagonal to all columns, of rows in one word and in many.
TEST(EditDistance, equals_the_table_up_to_any_bound)
{
	std::mt19937 random(4);
	int n_above = 0;

	for (int i = 0; i < 600; i++)
	{
		const uint32_t n_symbols = 2 + random() % 6;
		const Symbols a = random_symbols(random, 1 + random() % (i % 4 == 0 ? 700 : 200), n_symbols);
		const Symbols b = i % 3 == 0 ? random_symbols(random, random() % 300, n_symbols)
									 : edited(random, a, static_cast<int>(random() % 90), n_symbols);
		const int64_t truth = by_table(a, b);

		for (const int64_t most : {int64_t{0}, truth / 2, truth - 1, truth, truth + 1, truth + 70, INT64_MAX})
		{
			const int64_t found = by_bits(a, b, n_symbols, most);

			if (truth <= most)
				ASSERT_EQ(found, truth) << a.size() << " and " << b.size() << " symbols, at most " << most;
			else
				ASSERT_GT(found, most) << a.size() << " and " << b.size() << " symbols, distance " << truth;
			n_above += truth > most;
		}
	}
	EXPECT_GT(n_above, 1000);
}

struct Looks
{
	int n = 0;
	int most = 0;
};

bool
look(void *context)
{
	Looks *looks = static_cast<Looks *>(context);

	return ++looks->n < looks->most;
}

TEST(EditDistance, polls_whether_to_stop)
{
	const Symbols a(60000, 0);
	const Symbols b(30000, 1);
	Looks all = {0, INT_MAX};
	Looks some = {0, 7};

	EXPECT_EQ(by_bits(a, b, 2, INT64_MAX, {look, &all}), 60000);
	EXPECT_GE(all.n, 400);
	(void) by_bits(a, b, 2, INT64_MAX, {look, &some});
	EXPECT_EQ(some.n, 7);
}

TEST(EditDistance, is_never_below_the_bound_of_common_grams)
{
	std::mt19937 random(3);
	int64_t tight = 0;
	int64_t positive = 0;

	for (int i = 0; i < 4000; i++)
	{
		const uint32_t n_symbols = 1 + random() % 6;
		const Symbols a = random_symbols(random, random() % 40, n_symbols);
		const Symbols b = i % 2 ? random_symbols(random, random() % 40, n_symbols)
								: edited(random, a, static_cast<int>(random() % 6), n_symbols);
		const int64_t exact = by_bits(a, b, n_symbols);

		for (int64_t n = 1; n <= 5; n++)
		{
			const int64_t count = common_grams(a, b, static_cast<size_t>(n));
			const int64_t bound = vectorgpu::engine::match::edit_distance_bound(
				static_cast<int64_t>(a.size()), static_cast<int64_t>(b.size()), count, n);

			ASSERT_LE(bound, exact) << a.size() << " and " << b.size() << " symbols, n " << n << ", " << count
									<< " grams";
			ASSERT_GE(bound, 0);
			tight += bound == exact;
			positive += bound > 0;
		}
	}
	EXPECT_GT(tight, 1000);
	EXPECT_GT(positive, 10000);
}

TEST(EditDistance, bound_of_grams_longer_than_the_strings_is_the_difference_of_lengths)
{
	EXPECT_EQ(vectorgpu::engine::match::edit_distance_bound(2, 2, 0, 3), 0);
	EXPECT_EQ(vectorgpu::engine::match::edit_distance_bound(0, 2, 0, 3), 2);
	EXPECT_EQ(vectorgpu::engine::match::edit_distance_bound(0, 0, 0, 1), 0);
	EXPECT_EQ(vectorgpu::engine::match::edit_distance_bound(6, 6, 4, 3), 0); // example V.1 with itself
	EXPECT_EQ(vectorgpu::engine::match::edit_distance_bound(6, 6, 0, 3), 2); // ceil(4 / 3)
	EXPECT_EQ(vectorgpu::engine::match::edit_distance_bound(10, 4, 2, 3), 6);
}

} // namespace
