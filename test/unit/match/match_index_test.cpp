// The inverted index in memory against the oracle: the paper's example, random sets and tuples, ties, any k.
#include <numeric>
#include <random>
#include <stdexcept>

#include <gtest/gtest.h>

#include "match/sets.hpp"

namespace vectorgpu::test
{
namespace
{

using namespace engine::match;

/// A value of an attribute, as a key that sorts by both.
std::string
pair_of(char attribute, int value)
{
	return {attribute, static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::vector<RowId>
ids_for(size_t n, RowId step = 3)
{
	std::vector<RowId> ids(n);

	for (size_t i = 0; i < n; i++)
		ids[i] = 1 + i * step;
	return ids;
}

void
expect_top(const MatchIndex &index, const std::vector<Range> &ranges, const std::vector<engine::Neighbor> &expected,
	size_t k, const engine::Neighbor *after = nullptr, const uint8_t *dead = nullptr)
{
	const std::string query = stored_query(ranges);
	std::vector<std::vector<engine::Neighbor>> results;
	MatchQuery one{{query.data(), query.size()}, k, after != nullptr, after != nullptr ? *after : engine::Neighbor{}};

	ASSERT_TRUE(index.search({&one, 1}, dead, &results));
	ASSERT_EQ(results[0].size(), expected.size()) << "k = " << k;
	for (size_t i = 0; i < expected.size(); i++)
	{
		ASSERT_EQ(results[0][i].row, expected[i].row) << "k = " << k << ", place " << i;
		ASSERT_EQ(results[0][i].score, expected[i].score) << "k = " << k << ", place " << i;
		ASSERT_FALSE(std::signbit(results[0][i].score) && results[0][i].score == 0) << "minus zero";
	}
}

// Figure 1, example II.1.
TEST(MatchIndex, PaperFigure1)
{
	const std::vector<Set> rows = {{pair_of('A', 1), pair_of('B', 2), pair_of('C', 1)},
		{pair_of('A', 2), pair_of('B', 1), pair_of('C', 2)}, {pair_of('A', 1), pair_of('B', 3), pair_of('C', 3)}};
	const std::vector<Range> query = {
		{pair_of('A', 1), pair_of('A', 3)}, {pair_of('B', 1), pair_of('B', 2)}, {pair_of('C', 2), pair_of('C', 4)}};
	const std::vector<RowId> ids = {1, 2, 3};
	const MatchIndex index = index_of(rows, ids);

	EXPECT_EQ(index.n_keys(), 8u);
	EXPECT_EQ(index.count_all(parts_of(stored_query(query))), (std::vector<uint32_t>{1, 3, 2}));
	expect_top(index, query, {{-3, 2}, {-2, 3}, {-1, 1}}, 10);
	expect_top(index, query, {{-3, 2}}, 1);
}

TEST(MatchIndex, EmptyIndexEmptyRowsEmptyQuery)
{
	expect_top(index_of({}, {}), {{"a", "b"}}, {}, 5);
	expect_top(index_of({{}, {}}, {7, 9}), {}, {{0, 7}, {0, 9}}, 5);
	expect_top(index_of({{"a"}, {}}, {7, 9}), {{"x", "y"}}, {{0, 7}, {0, 9}}, 5);
	expect_top(index_of({{"a"}, {}}, {7, 9}), {{"a", "b"}}, {}, 0);
}

struct RandomCase
{
	size_t n_rows;
	int n_attributes;
	int n_values;
	size_t max_row;
	uint32_t seed;
};

class MatchIndexRandom : public ::testing::TestWithParam<RandomCase>
{
};

TEST_P(MatchIndexRandom, EqualsTheOracle)
{
	const RandomCase &spec = GetParam();
	std::mt19937 random(spec.seed);
	std::vector<Set> rows(spec.n_rows);
	std::vector<bool> is_dead(spec.n_rows);
	std::vector<uint8_t> dead(spec.n_rows / 8 + 1);
	const std::vector<RowId> ids = ids_for(spec.n_rows);

	for (Set &row : rows)
		for (size_t n = random() % (spec.max_row + 1); n > 0; n--)
			row.insert(pair_of(
				static_cast<char>('A' + random() % spec.n_attributes), static_cast<int>(random() % spec.n_values)));
	for (size_t i = 0; i < spec.n_rows; i++)
		if (random() % 5 == 0)
		{
			is_dead[i] = true;
			dead[i / 8] |= static_cast<uint8_t>(1 << i % 8);
		}
	const MatchIndex index = index_of(rows, ids);

	for (int round = 0; round < 12; round++)
	{
		std::vector<Range> ranges;

		for (int attribute = 0; attribute < spec.n_attributes; attribute++)
		{
			const int low = static_cast<int>(random() % spec.n_values);
			const int high = low + static_cast<int>(random() % 5);
			const char name = static_cast<char>('A' + attribute);

			if (random() % 4 != 0 && low < high)
				ranges.emplace_back(pair_of(name, low), pair_of(name, high));
		}
		for (const size_t k : {size_t{1}, size_t{10}, spec.n_rows, spec.n_rows + 5})
		{
			const auto top = true_top(ranges, rows, ids, k);

			expect_top(index, ranges, top, k);
			expect_top(index, ranges, true_top(ranges, rows, ids, k, nullptr, &is_dead), k, nullptr, dead.data());
			if (!top.empty())
			{
				const engine::Neighbor after = top[top.size() / 2];

				expect_top(index, ranges, true_top(ranges, rows, ids, k, &after), k, &after);
			}
		}
	}
}

INSTANTIATE_TEST_SUITE_P(Shapes, MatchIndexRandom,
	::testing::Values(RandomCase{1, 3, 4, 3, 1}, RandomCase{100, 4, 3, 6, 2}, RandomCase{3000, 10, 30, 14, 3},
		RandomCase{3000, 1, 2, 1, 4}, RandomCase{2000, 2, 3000, 20, 5}));

// More rows than a tile; ties over the border.
TEST(MatchIndex, TilesAreOneIndex)
{
	const size_t n = kTileRows * 2 + 777;
	std::vector<Set> rows(n);

	for (size_t i = 0; i < n; i++)
		rows[i] = {pair_of('A', static_cast<int>(i % 7)), pair_of('B', static_cast<int>(i % 1000))};
	const std::vector<RowId> ids = ids_for(n, 1);
	const MatchIndex index = index_of(rows, ids);
	const std::vector<Range> query = {{pair_of('A', 3), pair_of('A', 5)}, {pair_of('B', 10), pair_of('B', 11)}};

	for (const size_t k : {size_t{1}, size_t{50}, size_t{40000}, n, n + 1})
		expect_top(index, query, true_top(query, rows, ids, k), k);
}

// Counters of two and four bytes, and a set of 100,000 elements.
TEST(MatchIndex, HugeSets)
{
	for (const size_t n_elements : {size_t{255}, size_t{256}, size_t{65535}, size_t{65536}, size_t{100000}})
	{
		Set huge;
		Set half;

		for (size_t i = 0; i < n_elements; i++)
		{
			std::string key = std::to_string(i);

			if (i % 2 == 0)
				half.insert(key);
			huge.insert(std::move(key));
		}
		const std::vector<Set> rows = {{"1"}, half, huge, {}};
		const MatchIndex index = index_of(rows, {1, 2, 3, 4});
		const double n = static_cast<double>(n_elements);

		expect_top(index, equalities(huge), {{-n, 3}, {-static_cast<double>(half.size()), 2}, {-1, 1}, {0, 4}}, 4);
		EXPECT_EQ(index.count_all(parts_of(stored_query(equalities(huge))))[2], n_elements);
	}
}

// The queries of a batch do not affect each other.
TEST(MatchIndex, BatchEqualsSingles)
{
	std::mt19937 random(99);
	std::vector<Set> rows(5000);

	for (Set &row : rows)
		for (int i = 0; i < 8; i++)
			row.insert(pair_of('A', static_cast<int>(random() % 200)));
	const std::vector<RowId> ids = ids_for(rows.size());
	const MatchIndex index = index_of(rows, ids);
	std::vector<std::string> stored;
	std::vector<MatchQuery> queries;
	std::vector<std::vector<engine::Neighbor>> together;

	for (int i = 0; i < 40; i++)
		stored.push_back(stored_query(equalities(rows[random() % rows.size()])));
	for (size_t i = 0; i < stored.size(); i++)
		queries.push_back({{stored[i].data(), stored[i].size()}, i % 13, false, {}});
	ASSERT_TRUE(index.search(queries, nullptr, &together));
	for (size_t i = 0; i < queries.size(); i++)
	{
		std::vector<std::vector<engine::Neighbor>> alone;

		ASSERT_TRUE(index.search({&queries[i], 1}, nullptr, &alone));
		ASSERT_EQ(alone[0].size(), std::min<size_t>(queries[i].k, rows.size()));
		for (size_t j = 0; j < alone[0].size(); j++)
			EXPECT_EQ(alone[0][j].row, together[i][j].row);
	}
}

TEST(MatchIndex, BadBytesAreRefused)
{
	MatchIndex index;
	const std::string bad = "\x01\x7F";
	const Bytes value{bad.data(), bad.size()};
	const RowId id = 1;

	EXPECT_FALSE(index.build({&value, 1}, {&id, 1}));
	const MatchIndex good = index_of({{"a"}}, {1});
	const MatchQuery query{value, 1, false, {}};
	std::vector<std::vector<engine::Neighbor>> results;

	EXPECT_FALSE(good.search({&query, 1}, nullptr, &results));
}

} // namespace
} // namespace vectorgpu::test
