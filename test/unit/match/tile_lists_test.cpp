// Lists of rows cut into tiles: what is gathered is read back, whole and in any pieces, and damage is refused.
#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "engine/match/count_tile.hpp"
#include "match/copies.hpp"

namespace vectorgpu::test
{
namespace
{

using Rows = std::vector<uint32_t>;

Rows
rows_of(const std::vector<uint16_t> &items)
{
	Rows rows(items.size());
	size_t n = 0;

	EXPECT_TRUE(engine::match::tile_list_rows(items.data(), items.size(), rows.data(), &n));
	rows.resize(n);
	return rows;
}

bool
is_list(const std::vector<uint16_t> &items)
{
	Rows rows(items.size());
	size_t n = 0;

	return engine::match::tile_list_rows(items.data(), items.size(), rows.data(), &n);
}

/// Rows that ascend by gaps of 1 to 2 * gap.
Rows
random_rows(std::mt19937 *random, uint32_t first, uint32_t gap, size_t n)
{
	Rows rows;

	for (uint64_t row = first; rows.size() < n && row < UINT32_MAX; row += 1 + (*random)() % (2 * gap))
		rows.push_back(static_cast<uint32_t>(row));
	return rows;
}

std::vector<Rows>
lists()
{
	std::mt19937 random(7);
	Rows whole(65536); // each row of a tile
	std::vector<Rows> all = {{0}, {65535}, {65536}, {65535, 65536}, {1048575, 1048576, 4000000}, {UINT32_MAX - 1},
		{0, UINT32_MAX - 1}, {131071, 131072, 131073, 196608}};

	for (uint32_t i = 0; i < whole.size(); i++)
		whole[i] = 65536 + i;
	all.push_back(whole);
	whole.insert(whole.begin(), 65535);
	whole.push_back(131072);
	all.push_back(whole);
	for (const uint32_t gap : {1u, 3u, 100u, 5000u, 70000u, 10000000u})
		all.push_back(random_rows(&random, random() % gap, gap, 5000));
	return all;
}

TEST(TileLists, RowsAreReadBack)
{
	for (const Rows &rows : lists())
		ASSERT_EQ(rows_of(tile_items(rows)), rows) << rows.size() << " rows from " << rows[0];
	EXPECT_EQ(tile_items({3, 65536}), (std::vector<uint16_t>{0, 0, 3, 1, 0, 0}));
	EXPECT_EQ(rows_of({}), Rows());
}

// Counts of several lists that lie one behind the other, read in any pieces, for any rows.
TEST(TileLists, PiecesAreCountedAsTheWhole)
{
	std::mt19937 random(11);

	for (int round = 0; round < 200; round++)
	{
		const uint32_t first = round % 3 == 0 ? 0 : random() % 400000 / 64 * 64;
		const size_t n_counters = 1 + random() % 200000;
		const size_t width = size_t{1} << round % 3;
		std::vector<uint32_t> expected(n_counters);
		std::vector<uint8_t> counters((n_counters + 1) * width); // one more, which stays 0
		std::vector<uint16_t> items;
		engine::match::TileReader reader = {0, 0, false};

		for (int i = 0; i < 3; i++)
		{
			const Rows rows = random_rows(&random, random() % 100000, 1 + random() % 300, random() % 3000 + 1);
			const std::vector<uint16_t> more = tile_items(rows);

			items.insert(items.end(), more.begin(), more.end());
			for (const uint32_t row : rows)
				if (row >= first && row - first < n_counters)
					expected[row - first]++;
		}
		for (size_t at = 0; at < items.size();)
		{
			const size_t n = std::min<size_t>(items.size() - at, 1 + random() % (round % 2 == 0 ? 5 : 4064));

			engine::match::add_tile_lists(counters.data(), width, first, n_counters, &reader, items.data() + at, n);
			at += n;
		}
		EXPECT_TRUE(reader.left == 0 && !reader.in_head);
		for (size_t i = 0; i <= n_counters; i++)
		{
			uint32_t count = 0;

			memcpy(&count, counters.data() + i * width, width);
			ASSERT_EQ(count, i < n_counters ? expected[i] : 0) << "row " << first + i << " of round " << round;
		}
	}
}

TEST(TileLists, DamageIsRefusedOrCountsInside)
{
	const std::vector<uint16_t> good = tile_items({5, 70, 65536, 65540, 200000});

	ASSERT_TRUE(is_list(good));
	for (size_t n = 1; n < good.size(); n++)
		EXPECT_EQ(is_list({good.begin(), good.begin() + static_cast<ptrdiff_t>(n)}), n == 4 || n == 8) << n;
	EXPECT_FALSE(is_list({1, 0, 5, 0, 0, 5})); // tiles descend
	EXPECT_FALSE(is_list({1, 0, 5, 1, 0, 6})); // a tile twice
	EXPECT_FALSE(is_list({0, 65535, 5}));

	// Whatever the items, counters outside are not touched.
	std::mt19937 random(3);

	for (int round = 0; round < 300; round++)
	{
		std::vector<uint16_t> items(1 + random() % 500);
		std::vector<uint8_t> counters(1000);
		engine::match::TileReader reader = {0, 0, false};

		for (uint16_t &item : items)
			item = static_cast<uint16_t>(random() % (round % 2 == 0 ? 4 : 65536));
		engine::match::add_tile_lists(counters.data() + 100, 1, static_cast<uint32_t>(random() % 4 * 40000), 800,
			&reader, items.data(), items.size());
		EXPECT_TRUE(std::all_of(counters.begin(), counters.begin() + 100, [](uint8_t c) { return c == 0; }));
		EXPECT_TRUE(std::all_of(counters.begin() + 900, counters.end(), [](uint8_t c) { return c == 0; }));
	}
}

// The description of a segment with such lists is refused if a bit of these makes another thing of them than a list of
// rows that the segment has; else it is another index.
TEST(TileLists, ADescriptionWithADamagedListIsRefused)
{
	const std::vector<Set> rows = {{"a", "b"}, {"a"}, {"b", "c"}};
	const std::vector<RowId> ids = {1, 2, 3};
	const std::vector<uint8_t> good = description_of(rows);
	const size_t from = sizeof(engine::match::MatchHead) + 3 * sizeof(engine::match::MatchEntry);
	const size_t to = from + 11 * sizeof(uint16_t); // three heads, five places
	size_t n_refused = 0;

	ASSERT_TRUE(engine::match::MatchIndex().open(good, ids));
	for (size_t bit = 8 * from; bit < 8 * to; bit++)
	{
		std::vector<uint8_t> bad = good;
		engine::match::MatchIndex index;

		bad[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
		if (!index.open(bad, ids))
		{
			n_refused++;
			continue;
		}

		std::vector<uint8_t> again(bad.size());

		ASSERT_EQ(index.description_bytes(), bad.size());
		ASSERT_TRUE(index.read_description(0, bad.size(), again.data()));
		EXPECT_EQ(again, bad);
	}
	EXPECT_GT(n_refused, 8 * (to - from) * 9 / 10);

	std::vector<uint8_t> other = good;

	other[24] = 2; // no format of lists
	EXPECT_FALSE(engine::match::MatchIndex().open(other, ids));
	other[24] = 0; // the other one
	EXPECT_FALSE(engine::match::MatchIndex().open(other, ids));
}

} // namespace
} // namespace vectorgpu::test
