// Small batches over byte rows in one pass: dimensions, parts, tombstones, ties, and the batches and rows that must
// take another way. one_pass_blocks_test.cpp tests blocks.
#include <array>
#include <cmath>
#include <limits>

#include "cuda/device/staging.hpp"
#include "kernels/one_pass_rows.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

void
kill_some(Both *both, SegmentId segment, size_t n_rows, size_t every)
{
	std::vector<uint8_t> dead((n_rows + 7) / 8);

	for (size_t i = 0; i < n_rows; i += every)
		dead[i / 8] = static_cast<uint8_t>(dead[i / 8] | 1 << (i % 8));
	ASSERT_NO_FATAL_FAILURE(both->change([&](Engine &e, CopyId c) { return e.set_tombstones(c, segment, dead); }));
}

TEST(OnePass, BytesOfQueries)
{
	const float others[] = {-1.0f, 0.5f, 254.99998f, 255.00002f, 256.0f, 1e30f, -1e30f,
		std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), std::nanf(""),
		std::numeric_limits<float>::denorm_min()};
	std::mt19937 rng(9);

	for (uint32_t n = 1; n <= 67; n++)
	{
		std::vector<float> query(n);
		std::vector<uint8_t> bytes(n + 1, 77);
		int32_t norm = 0;
		int32_t expected = 0;

		for (float &element : query)
		{
			const int value = static_cast<int>(rng() % 256);

			element = static_cast<float>(value);
			expected += value * value;
		}
		ASSERT_TRUE(put_bytes(query.data(), n, bytes.data(), &norm)) << n;
		EXPECT_EQ(norm, expected);
		EXPECT_EQ(bytes[n], 77);
		for (uint32_t i = 0; i < n; i++)
			ASSERT_EQ(static_cast<float>(bytes[i]), query[i]);
		for (const float other : others)
			for (uint32_t i = 0; i < n; i++)
			{
				std::vector<float> changed = query;

				changed[i] = other;
				ASSERT_FALSE(put_bytes(changed.data(), n, bytes.data(), &norm)) << other << " at " << i << " of " << n;
			}
	}
}

TEST(OnePass, EveryShapeMetricAndDimension)
{
	for (Metric metric : {Metric::kL2, Metric::kInnerProduct})
		for (uint32_t dim : {1u, 31u, 128u, 129u, 384u, 784u, 900u})
		{
			SCOPED_TRACE(testing::Message() << metric_name(metric) << " dim " << dim);

			std::mt19937 rng(dim);
			Rows rows({metric, ElementType::kFloat32, dim}), queries(rows.spec);
			Both both(rows.spec);

			add_whole_numbers(&rows, kRows, 255, rng, 100);
			add_whole_numbers(&queries, 64, 255, rng, 0);
			ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n() - 100));
			ASSERT_NO_FATAL_FAILURE(
				both.load(2, rows, rows.n() - 100, 100)); // with two sources every batch goes in one pass
			for (size_t batch : {2, 7, 8, 9, 16, 17, 32, 33, 63, 64})
				for (size_t k : {1, 10, 60})
					ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, batch, k));
		}
}

TEST(OnePass, ManyNeighboursOfAQuery)
{
	std::mt19937 rng(13);
	Rows rows({Metric::kL2, ElementType::kFloat32, 50}), queries(rows.spec);
	Both both(rows.spec);
	const bool has = has_one_pass(); // which itself searches
	const uint64_t before = both.cuda()->n_one_pass();

	add_whole_numbers(&rows, kRows + 300, 40, rng, 100);
	add_whole_numbers(&queries, 40, 40, rng, 0);
	ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, kRows));
	ASSERT_NO_FATAL_FAILURE(append(&both, rows, kRows, 300, 0));
	for (size_t batch : {2, 12, 40})
		for (size_t k : {2, 31, 33, 127, 128, 129}) // 128 at most in one pass
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, batch, k));
	EXPECT_EQ(both.cuda()->n_one_pass() - before, has ? 5u * (2 + 12 + 40) : 0u);
}

TEST(OnePass, ServesBatchesUpTo64)
{
	if (!has_one_pass())
		GTEST_SKIP() << "the device has no products by warp groups";

	std::mt19937 rng(3);
	Rows rows({Metric::kL2, ElementType::kFloat32, 128}), queries(rows.spec);
	Both both(rows.spec);
	const uint64_t before = both.cuda()->n_one_pass();

	add_whole_numbers(&rows, 40000, 255, rng, 100);
	add_whole_numbers(&queries, 65, 255, rng, 0);
	ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n() - 10));
	ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 8, 10));
	EXPECT_EQ(both.cuda()->n_one_pass() - before, 8u);
	ASSERT_NO_FATAL_FAILURE(append(&both, rows, rows.n() - 10, 10, 0));
	ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 64, 10));
	EXPECT_EQ(both.cuda()->n_one_pass() - before, 72u);
	ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 65, 10));
	EXPECT_EQ(both.cuda()->n_one_pass() - before, 72u);
}

TEST(OnePass, RowCountsAroundTilesAndBlocks)
{
	for (size_t n : {16896, 16897, 17024, 33792, 33793, 33920, 50001})
	{
		SCOPED_TRACE(testing::Message() << n << " rows");

		std::mt19937 rng(static_cast<unsigned>(n));
		Rows rows({Metric::kL2, ElementType::kFloat32, 40}), queries(rows.spec);
		Both both(rows.spec);

		add_whole_numbers(&rows, n, 255, rng, 100);
		add_whole_numbers(&queries, 40, 255, rng, 0);
		ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
		for (size_t batch : {3, 12, 40})
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, batch, 10));
	}
}

TEST(OnePass, SegmentsDeltaAndTombstonesTogether)
{
	for (uint32_t dim : {64u, 200u})
		for (size_t n_delta : {1, 127, 128, 129, 3000})
		{
			SCOPED_TRACE(testing::Message() << "dim " << dim << ", " << n_delta << " rows in the delta");

			std::mt19937 rng(static_cast<unsigned>(n_delta));
			Rows rows({Metric::kL2, ElementType::kFloat32, dim}), queries(rows.spec);
			Both both(rows.spec);
			const size_t first = 17000 + 77;
			const size_t second = 901;
			const uint64_t before = both.cuda()->n_one_pass();

			add_whole_numbers(&rows, first + second + n_delta, 9, rng, 100); // many ties
			add_whole_numbers(&queries, 20, 9, rng, 0);
			ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, first));
			ASSERT_NO_FATAL_FAILURE(both.load(2, rows, first, second));
			ASSERT_NO_FATAL_FAILURE(append(&both, rows, first + second, n_delta, 0));
			for (size_t batch : {2, 20})
				ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, batch, 10));
			ASSERT_NO_FATAL_FAILURE(kill_some(&both, 1, first, 3));
			ASSERT_NO_FATAL_FAILURE(kill_some(&both, 2, second, 2));

			const std::vector<uint8_t> dead((n_delta + 7) / 8, 0x11);

			ASSERT_NO_FATAL_FAILURE(
				both.change([&](Engine &e, CopyId c) { return e.set_delta_tombstones(c, 0, dead); }));
			for (size_t batch : {2, 20})
				ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, batch, 10));
			ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.trim_delta(c, n_delta / 2); }));
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 20, 10));
			EXPECT_EQ(both.cuda()->n_one_pass() - before, has_one_pass() ? 64u : 0u);
		}
}

TEST(OnePass, TheNearestRowsAreAllInOnePart)
{
	std::mt19937 rng(5);
	Rows rows({Metric::kL2, ElementType::kFloat32, 96}), queries(rows.spec);
	Both both(rows.spec);

	add_whole_numbers(&rows, kRows, 200, rng, 100);
	add_whole_numbers(&queries, 12, 3, rng, 0);
	add_whole_numbers(&rows, 700, 3, rng, 500000); // nearer than all others, in tiles that are not sampled
	ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, kRows));
	ASSERT_NO_FATAL_FAILURE(append(&both, rows, kRows, 700, 0));
	for (size_t k : {1, 10, 50})
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 12, k));
}

TEST(OnePass, MoreCandidatesThanThereIsRoomFor)
{
	for (unsigned most : {0u, 1u}) // all rows are equal; or two values
	{
		std::mt19937 rng(6);
		Rows rows({Metric::kL2, ElementType::kFloat32, 4}), queries(rows.spec);
		Both both(rows.spec);

		add_whole_numbers(&rows, kRows + 500, most, rng, 100);
		add_whole_numbers(&queries, 10, most, rng, 0);
		ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, kRows));
		ASSERT_NO_FATAL_FAILURE(append(&both, rows, kRows, 500, 0));
		for (size_t k : {1, 10})
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 10, k));
	}
}

TEST(OnePass, OtherQueriesThanBytesTakeAnotherWay)
{
	std::mt19937 rng(7);
	Rows rows({Metric::kL2, ElementType::kFloat32, 70}), queries(rows.spec);
	Both both(rows.spec);

	add_whole_numbers(&rows, kRows, 255, rng, 100);
	add_whole_numbers(&queries, 5, 255, rng, 0);
	queries.add_random(3, Data::kGaussian, rng, 50);
	add_whole_numbers(&queries, 2, 300, rng, 60);
	ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));

	const uint64_t before = both.cuda()->n_one_pass();

	ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 10, 10));
	EXPECT_EQ(both.cuda()->n_one_pass(), before);
}

TEST(OnePass, SearchesSideBySide)
{
	std::mt19937 rng(8);
	Rows rows({Metric::kL2, ElementType::kFloat32, 128}), queries(rows.spec);
	Both both(rows.spec);
	std::vector<SearchQuery> all;

	add_whole_numbers(&rows, 60000, 255, rng, 100);
	add_whole_numbers(&queries, 64, 255, rng, 0);
	ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
	for (size_t i = 0; i < 64; i++)
		all.push_back({queries.vector(i), 10, false, {}});
	ASSERT_NO_FATAL_FAILURE(expect_answers_side_by_side(
		4, 100, both, all, [](size_t thread, size_t round) { return Part{0, 2 + (round * 7 + thread * 13) % 62}; }));
}

} // namespace
} // namespace vectorgpu::cuda::test
