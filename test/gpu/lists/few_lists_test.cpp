// Few queries over inverted lists of bytes in two launches: every size at which the kernels change their way, lists and
// rows at one distance, tombstones, several segments, queries that must go other ways, searches side by side.
#include <array>

#include "answers.hpp"
#include "engine/list_rows.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::CopyKind;
using engine::SegmentProbes;

/// One segment of whole numbers 0 ... most in both engines.
struct FewLists
{
	FewLists(Metric metric, uint32_t dim, size_t n_rows, uint32_t n_lists, unsigned most = 255, uint32_t seed = 1)
		: rng(seed), queries({metric, ElementType::kFloat32, dim}), lists(make(queries.spec, n_rows, n_lists, most)),
		  both(engine::CopySpec(queries.spec, CopyKind::kLists))
	{
		add_whole_numbers(&queries, 130, most, rng, 0);
		both.change([&](Engine &e, CopyId c) { return lists.load(&e, c, 1); });
	}

	engine::test::ListRows make(const DistanceSpec &spec, size_t n_rows, uint32_t n_lists, unsigned most)
	{
		Rows rows(spec);

		add_whole_numbers(&rows, n_rows, most, rng, 100);
		return engine::test::ListRows(rows, n_lists, rng);
	}

	/// Each query has another k and other probes, up to these. taken: whether all queries are answered in two launches,
	/// as they must be if none has to be answered again.
	void expect_batch(size_t n, size_t k, uint32_t n_probes, bool taken = true)
	{
		std::vector<SearchQuery> batch;
		std::vector<std::array<SegmentProbes, 1>> named(n);
		const uint64_t before = both.cuda()->n_few_lists();

		for (size_t i = 0; i < n; i++)
		{
			named[i] = {SegmentProbes{1, n_probes - std::min(n_probes - 1, static_cast<uint32_t>(i % 3))}};
			batch.push_back({queries.vector(i % queries.n()), std::max<size_t>(1, k - i % 2), false, {}});
			batch.back().probes = named[i];
		}
		SCOPED_TRACE(testing::Message() << metric_name(queries.spec.metric) << " dim " << queries.spec.dim << " lists "
										<< lists.n_lists << " batch " << n << " k " << k << " probes " << n_probes);
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
		EXPECT_EQ(both.cuda()->n_few_lists() - before, taken ? n : 0);
	}

	std::mt19937 rng;
	Rows queries;
	engine::test::ListRows lists;
	Both both;
};

TEST(FewLists, DimensionsAndBatches)
{
	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct})
		for (const uint32_t dim : {1u, 16u, 31u, 32u, 33u, 64u, 96u, 112u, 127u, 128u, 129u, 160u, 200u, 255u, 256u,
				 257u, 512u, 784u, 1023u, 1024u, 1025u})
		{
			if (dim == 1 && metric == Metric::kInnerProduct)
				continue; // a query of 0 is equally far from all rows
			FewLists held(metric, dim, dim > 256 ? 1500 : 4000, 30);

			for (const size_t n : {1u, 2u, 7u, 8u, 9u, 15u, 16u, 17u, 32u, 33u, 64u, 127u, 128u})
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(n, 10, 7, dim <= (metric == Metric::kL2 ? 1024 : 256)));
		}
}

TEST(FewLists, Probes)
{
	for (const auto &[n_lists, n_rows] :
		{std::pair<uint32_t, size_t>{2, 500}, {31, 4000}, {257, 3000}, {1100, 3000}, {1500, 1600}})
	{
		FewLists held(Metric::kL2, 24, n_rows, n_lists);

		for (const uint32_t n_probes : {1u, 2u, 3u, 31u, 32u, 33u, 255u, 256u, 257u, 1023u, 1024u})
		{
			if (n_probes >= n_lists)
				continue;
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(1, 10, n_probes));
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(20, 10, n_probes));
		}
		if (n_lists > 1026)
		{
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(5, 10, 1027, false));
		}
	}
}

TEST(FewLists, ManyRowsAndResults)
{
	FewLists held(Metric::kL2, 40, 30000, 12);

	for (const size_t k : {1u, 2u, 31u, 32u, 33u, 100u, 127u, 128u})
		for (const size_t n : {1u, 3u, 64u, 128u})
			for (const uint32_t n_probes : {1u, 5u, 11u})
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(n, k, n_probes));
	for (const size_t k : {129u, 1000u})
		ASSERT_NO_FATAL_FAILURE(held.expect_batch(3, k, 5, false));
	ASSERT_NO_FATAL_FAILURE(held.expect_batch(129, 10, 5, false));
}

TEST(FewLists, FewDifferentRows)
{
	// Many lists at one distance from a query, and many rows: with numbers 0 ... 1 there are four different ones.
	for (const auto &[most, dim] : {std::pair{1u, 2u}, {1u, 6u}, {3u, 4u}, {0u, 5u}})
		for (const Metric metric : {Metric::kL2, Metric::kInnerProduct})
		{
			FewLists held(metric, dim, 9000, 60, most);
			std::vector<SearchQuery> batch;

			for (const uint32_t n_probes : {1u, 13u, 59u})
				for (const size_t k : {1u, 40u, 128u})
				{
					const SegmentProbes probes[] = {{1, n_probes}};

					batch.clear();
					for (size_t i = 0; i < 40; i++)
					{
						batch.push_back({held.queries.vector(i), k, false, {}});
						batch.back().probes = probes;
					}
					SCOPED_TRACE(testing::Message()
						<< "most " << most << " dim " << dim << " probes " << n_probes << " k " << k);
					ASSERT_NO_FATAL_FAILURE(held.both.expect_same_answers(batch));
				}
		}
}

TEST(FewLists, ScoresThatAreRounded)
{
	// Some rows are so near that their scores are exact, others are not: elements are 0 or 255, of 1,024.
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 1024};
	std::mt19937 rng(3);
	Rows rows(spec);
	Rows queries(spec);
	std::vector<float> row(spec.dim);

	for (RowId id = 0; id < 2000; id++)
	{
		const unsigned share = 1 + id % 16; // of 32: elements that are 255

		for (float &element : row)
			element = rng() % 32 < share ? 255.0f : 0.0f;
		rows.add(1000 + id, reinterpret_cast<const uint8_t *>(row.data()));
		if (id % 20 == 0)
			queries.add(id, reinterpret_cast<const uint8_t *>(row.data()));
	}

	const engine::test::ListRows lists(rows, 15, rng);
	Both both(engine::CopySpec(spec, CopyKind::kLists));

	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return lists.load(&e, c, 1); }));

	const uint64_t before = both.cuda()->n_few_lists();

	for (const size_t k : {1u, 5u, 100u})
	{
		const SegmentProbes probes[] = {{1, 6}};
		std::vector<SearchQuery> batch;

		for (size_t i = 0; i < queries.n(); i++)
		{
			batch.push_back({queries.vector(i), k, false, {}});
			batch.back().probes = probes;
		}
		SCOPED_TRACE(k);
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
	}
	EXPECT_GT(both.cuda()->n_few_lists() - before, 0u);
	EXPECT_LT(both.cuda()->n_few_lists() - before, 300u);
}

TEST(FewLists, DeadRows)
{
	FewLists held(Metric::kL2, 64, 8000, 20);
	std::vector<uint8_t> dead(1000);

	for (uint8_t &byte : dead)
		byte = static_cast<uint8_t>(held.rng() | held.rng());
	ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
	for (const size_t n : {1u, 40u})
		ASSERT_NO_FATAL_FAILURE(held.expect_batch(n, 20, 6));
	std::fill(dead.begin(), dead.begin() + 999, 0xFF); // 8 are left, anywhere
	ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
	ASSERT_NO_FATAL_FAILURE(held.expect_batch(40, 20, 6));
	std::fill(dead.begin(), dead.end(), 0xFF);
	ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
	ASSERT_NO_FATAL_FAILURE(held.expect_batch(40, 20, 6));
}

TEST(FewLists, SegmentsAndDelta)
{
	FewLists held(Metric::kL2, 96, 5000, 25, 7);
	Rows rows(held.queries.spec);
	Rows delta(held.queries.spec);
	const SegmentProbes probes[] = {{1, 5}, {2, 9}, {3, 2}}; // all rows of the second
	std::vector<SearchQuery> batch;

	add_whole_numbers(&rows, 600, 7, held.rng, 50000);
	add_whole_numbers(&delta, 40, 7, held.rng, 90000);

	const engine::test::ListRows second(rows, 9, held.rng);

	rows = Rows(held.queries.spec);
	add_whole_numbers(&rows, 300, 7, held.rng, 60000);

	const engine::test::ListRows third(rows, 6, held.rng);
	const uint64_t before = held.both.cuda()->n_few_lists();

	ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return second.load(&e, c, 2); }));
	ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return third.load(&e, c, 3); }));
	ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.append_delta(c, 0, delta.block()); }));
	for (size_t i = 0; i < 50; i++)
	{
		batch.push_back({held.queries.vector(i), 1 + i % 30, false, {}});
		batch.back().probes = probes;
	}
	ASSERT_NO_FATAL_FAILURE(held.both.expect_same_answers(batch));
	EXPECT_EQ(held.both.cuda()->n_few_lists() - before, 50u);

	// One query that is not bytes, one that continues after a row: all take the other way, and answers stay the same.
	Rows half(held.queries.spec);
	const std::vector<float> values(96, 1.5f);

	half.add(1, reinterpret_cast<const uint8_t *>(values.data()));
	batch[20].query = half.vector(0);
	ASSERT_NO_FATAL_FAILURE(held.both.expect_same_answers(batch));
	batch[20] = batch[19];
	batch[20].has_after = true;
	batch[20].after = {500.0, 7};
	ASSERT_NO_FATAL_FAILURE(held.both.expect_same_answers(batch));
	EXPECT_EQ(held.both.cuda()->n_few_lists() - before, 50u);
}

TEST(FewLists, SearchesSideBySide)
{
	FewLists held(Metric::kL2, 128, 20000, 50);
	const SegmentProbes probes[] = {{1, 8}};
	std::vector<SearchQuery> all;

	for (size_t i = 0; i < 100; i++)
	{
		all.push_back({held.queries.vector(i), 10, false, {}});
		all.back().probes = probes;
	}
	ASSERT_NO_FATAL_FAILURE(expect_answers_side_by_side(4, 100, held.both, all,
		[](size_t thread, size_t round) { return Part{0, 1 + (round * 7 + thread * 13) % 100}; }));
}

} // namespace
} // namespace vectorgpu::cuda::test
