// The description of an index rebuilt from the arrays that searches read, and the check of derived data.
#include <gtest/gtest.h>

#include "engine/cpu/cpu_engine.hpp"
#include "engine/match/match_index.hpp"
#include "match/copies.hpp"

namespace vectorgpu::test
{
namespace
{

using engine::match::MatchIndex;

struct Described : MatchRows
{
	using MatchRows::MatchRows;
	std::vector<uint8_t> all() const { return description(0, rows.size()); }
};

struct DescribedTexts : TextRows
{
	using TextRows::TextRows;
	std::vector<uint8_t> all() const { return description(0, rows.size()); }
};

/// Compare all of it, and pieces with any ends, long and short ones.
void
expect_description(const MatchIndex &index, const std::vector<uint8_t> &description)
{
	std::mt19937 rng(5);
	std::vector<uint8_t> read(description.size());

	ASSERT_EQ(index.description_bytes(), description.size());
	ASSERT_TRUE(index.read_description(0, read.size(), read.data()));
	ASSERT_EQ(read, description);
	for (int i = 0; i < 300; i++)
	{
		const size_t first = rng() % (description.size() + 1);
		const size_t n = std::min<size_t>(description.size() - first, rng() % (i % 2 == 0 ? 60 : description.size()));

		read.assign(n, 0);
		ASSERT_TRUE(index.read_description(first, n, read.data()));
		ASSERT_TRUE(std::equal(read.begin(), read.end(), description.begin() + static_cast<ptrdiff_t>(first)))
			<< first << " " << n;
	}
	EXPECT_FALSE(index.read_description(description.size(), 1, read.data()));
}

TEST(MatchReadBack, TheDescriptionIsTheOriginal)
{
	for (const size_t n_rows : {size_t{1}, size_t{300}, size_t{140000}}) // three tiles
	{
		const Described sets(n_rows == 1 ? 2 : 1, n_rows, 0, 0);
		MatchIndex index;

		ASSERT_TRUE(index.open(sets.all(), sets.ids));
		ASSERT_NO_FATAL_FAILURE(expect_description(index, sets.all()));
		EXPECT_EQ(index.count_different(0, n_rows), 0u);
	}

	const Described sets(1, 140000, 0, 0);
	const std::vector<uint8_t> of_rows = description_of(sets.rows, {}, engine::match::kListsOfRows);
	MatchIndex other;

	ASSERT_TRUE(other.open(of_rows, sets.ids));
	ASSERT_NO_FATAL_FAILURE(expect_description(other, of_rows));
	EXPECT_EQ(other.count_different(0, 140000), 0u);

	const DescribedTexts texts(3, 500, 0, 0);
	MatchIndex index;

	ASSERT_TRUE(index.open(texts.all(), texts.ids, true));
	ASSERT_NO_FATAL_FAILURE(expect_description(index, texts.all()));
	EXPECT_EQ(index.count_different(0, 500), 0u);
}

// Whatever the damage to a tile, reading it back ends, and does not give the original description.
TEST(MatchReadBack, ADamagedTileIsSeen)
{
	const Described sets(1, 70000, 0, 0);
	const std::vector<uint8_t> description = sets.all();
	std::vector<uint8_t> read(description.size());
	MatchIndex index;

	ASSERT_TRUE(index.open(description, sets.ids));
	for (size_t number = 0; number < 2; number++)
		for (const unsigned bit : {0u, 3u, 15u})
		{
			auto &tile = const_cast<MatchIndex::Tile &>(index.tiles()[number]);

			for (void *at : {static_cast<void *>(&tile.rows[tile.rows.size() / 2]),
					 static_cast<void *>(&tile.ends[tile.ends.size() / 2]),
					 static_cast<void *>(&tile.codes[tile.codes.size() / 2])})
			{
				uint8_t *byte = static_cast<uint8_t *>(at) + bit / 8;

				*byte ^= static_cast<uint8_t>(1 << bit % 8);
				ASSERT_TRUE(index.read_description(0, read.size(), read.data()));
				EXPECT_NE(read, description);
				*byte ^= static_cast<uint8_t>(1 << bit % 8);
			}
		}
	ASSERT_TRUE(index.read_description(0, read.size(), read.data()));
	EXPECT_EQ(read, description);
}

TEST(MatchReadBack, TombstonesOfASegmentAndOfTheDelta)
{
	const auto engine = engine::make_cpu_engine({});
	MatchRows rows(4, 300, 40, 30);
	engine::CopyId copy = 0;
	std::vector<uint8_t> bits(40);
	uint64_t n_different = 1;

	ASSERT_TRUE(engine->create(match_spec(), &copy).is_ok());
	ASSERT_NO_FATAL_FAILURE(rows.load(engine.get(), copy));
	ASSERT_NO_FATAL_FAILURE(rows.kill(engine.get(), copy));
	ASSERT_TRUE(engine->read_tombstones(copy, 1, 5, 290, bits.data()).is_ok());
	for (size_t i = 0; i < 290; i++)
		EXPECT_EQ((bits[i / 8] >> i % 8 & 1) != 0, rows.dead[5 + i]) << i;
	ASSERT_TRUE(engine->read_tombstones(copy, 2, 0, 40, bits.data()).is_ok());
	for (size_t i = 0; i < 40; i++)
		EXPECT_EQ((bits[i / 8] >> i % 8 & 1) != 0, rows.dead[300 + i]) << i;
	ASSERT_TRUE(engine->read_tombstones(copy, 0, 0, 1, bits.data()).is_ok());
	EXPECT_EQ(bits[0], rows.dead[340] ? 1 : 0);
	for (const engine::SegmentId segment : {0u, 1u, 2u})
	{
		ASSERT_TRUE(engine->check_derived(copy, segment, 0, 30, &n_different).is_ok());
		EXPECT_EQ(n_different, 0u);
	}
	EXPECT_EQ(engine->read_tombstones(copy, 1, 290, 11, bits.data()).code, StatusCode::kInvalidArgument);
	EXPECT_EQ(engine->read_tombstones(copy, 9, 0, 1, bits.data()).code, StatusCode::kNotFound);
	EXPECT_EQ(engine->check_derived(copy, 1, 290, 11, &n_different).code, StatusCode::kInvalidArgument);
	EXPECT_EQ(engine->check_derived(copy, 9, 0, 1, &n_different).code, StatusCode::kNotFound);
}

} // namespace
} // namespace vectorgpu::test
