// Few queries over inverted lists of any numbers in two launches: every metric and form, every size at which the
// kernels change their way, lists and rows at one distance and nearly at one, tombstones, several segments, NaN and
// infinities, queries that must go other ways, searches side by side.
#include <array>

#include "answers.hpp"
#include "engine/list_rows.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::CopyKind;
using engine::SegmentProbes;

enum class Taken
{
	kAll,
	kNone,
	kAny, // where rows at one distance may be too many
};

/// Made once. It uses this way for any number of pairs of a query and a list: lists here are far fewer than would make
/// it worth while.
CudaEngine *
few_engine(bool narrow)
{
	static std::unique_ptr<CudaEngine> engines[2];
	std::unique_ptr<CudaEngine> &engine = engines[narrow];

	if (engine == nullptr)
	{
		CudaEngineOptions options;

		options.self_test = options.list_choice = false;
		options.narrow = narrow;
		options.workspace_bytes = size_t{512} << 20;
		options.few_real_pairs = 1e9;

		make_or_throw(options, &engine);
	}
	return engine.get();
}

/// One segment in both engines, and queries for it.
struct FewRealLists
{
	FewRealLists(const DistanceSpec &spec, Values values, size_t n_rows, uint32_t n_lists, bool narrow = true,
		unsigned most = 255)
		: rng(spec.dim), queries(spec), lists(make(spec, values, most, n_rows, n_lists)),
		  both(engine::CopySpec(spec, CopyKind::kLists), few_engine(narrow))
	{
		add_values(&queries, values, most, 130, rng, 0);
		both.change([&](Engine &e, CopyId c) { return lists.load(&e, c, 1); });
	}

	FewRealLists(const Rows &rows, uint32_t n_lists)
		: rng(1), queries(rows.spec), lists(rows, n_lists, rng),
		  both(engine::CopySpec(rows.spec, CopyKind::kLists), few_engine(true))
	{
		queries.add_random(130, Data::kGaussian, rng, 0);
		both.change([&](Engine &e, CopyId c) { return lists.load(&e, c, 1); });
	}

	engine::test::ListRows make(const DistanceSpec &spec, Values values, unsigned most, size_t n_rows, uint32_t n_lists)
	{
		Rows rows(spec);

		add_values(&rows, values, most, n_rows, rng, 100);
		return engine::test::ListRows(rows, n_lists, rng);
	}

	/// Each query has another k and other probes, up to these.
	void expect_batch(size_t n, size_t k, uint32_t n_probes, Taken taken = Taken::kAll)
	{
		std::vector<SearchQuery> batch;
		std::vector<std::array<SegmentProbes, 1>> named(n);
		const uint64_t before = both.cuda()->n_few_real_lists();

		for (size_t i = 0; i < n; i++)
		{
			named[i] = {SegmentProbes{1, n_probes - std::min(n_probes - 1, static_cast<uint32_t>(i % 3))}};
			batch.push_back({queries.vector(i % queries.n()), std::max<size_t>(1, k - i % 2), false, {}});
			batch.back().probes = named[i];
		}
		SCOPED_TRACE(testing::Message() << metric_name(queries.spec.metric) << " element "
										<< static_cast<int>(queries.spec.element) << " dim " << queries.spec.dim
										<< " lists " << lists.n_lists << " batch " << n << " k " << k << " probes "
										<< n_probes);
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
		if (taken != Taken::kAny)
		{
			EXPECT_EQ(both.cuda()->n_few_real_lists() - before, taken == Taken::kAll ? n : 0);
		}
	}

	std::mt19937 rng;
	Rows queries;
	engine::test::ListRows lists;
	Both both;
};

TEST(FewRealLists, DimensionsAndBatches)
{
	for (const Metric metric : kFloatMetrics)
		for (const uint32_t dim : {1u, 3u, 31u, 32u, 33u, 64u, 65u, 96u, 100u, 128u, 129u, 200u, 784u, 960u})
		{
			FewRealLists held({metric, ElementType::kFloat32, dim}, Values::kReal, dim > 128 ? 900 : 3000, 30);
			const Taken taken = dim == 1 && metric == Metric::kCosine
				? Taken::kAny
				: Taken::kAll; // all rows are at one of two distances

			for (const size_t n : {1u, 2u, 4u, 7u, 8u, 9u, 16u, 17u, 33u, 64u, 128u})
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(n, 10, 7, taken));
			for (const size_t k : {1u, 100u})
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(5, k, 9, taken));
		}
}

TEST(FewRealLists, TheMostDimensions)
{
	for (const auto &[dim, taken] : {std::pair{2047u, Taken::kAll}, {2048u, Taken::kAll}, {2049u, Taken::kNone}})
	{
		FewRealLists held({Metric::kL2, ElementType::kFloat32, dim}, Values::kReal, 400, 12);

		for (const size_t n : {1u, 9u, 128u})
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(n, 10, 5, taken));
	}
}

TEST(FewRealLists, HalvesAndBytes)
{
	for (const Metric metric : kFloatMetrics)
		for (const uint32_t dim : {5u, 40u, 64u, 100u, 200u})
		{
			// Rows of halves; of bytes; of whole numbers as floats.
			for (const auto &[element, values, narrow] :
				{std::tuple{ElementType::kFloat16, Values::kReal, true}, {ElementType::kFloat16, Values::kBytes, true},
					{ElementType::kFloat32, Values::kBytes, true}, {ElementType::kFloat32, Values::kBytes, false}})
			{
				FewRealLists held({metric, element, dim}, values, 2000, 30, narrow);
				const bool for_bytes = element == ElementType::kFloat32 && narrow &&
					(metric == Metric::kL2 || metric == Metric::kInnerProduct);

				for (const size_t n : {1u, 9u, 70u})
					ASSERT_NO_FATAL_FAILURE(held.expect_batch(n, 20, 7, for_bytes ? Taken::kNone : Taken::kAny));
				if (!for_bytes)
					continue;

				// Queries that are not bytes, over rows that are.
				held.queries = Rows(held.queries.spec);
				held.queries.add_random(130, Data::kGaussian, held.rng, 0);
				for (const size_t n : {1u, 9u, 70u})
					ASSERT_NO_FATAL_FAILURE(held.expect_batch(n, 20, 7));
			}
		}
}

TEST(FewRealLists, Probes)
{
	for (const Metric metric : {Metric::kL2, Metric::kCosine})
		for (const auto &[n_lists, n_rows] :
			{std::pair<uint32_t, size_t>{2, 500}, {31, 4000}, {257, 3000}, {1100, 3000}, {1500, 1600}})
		{
			FewRealLists held({metric, ElementType::kFloat32, 24}, Values::kReal, n_rows, n_lists);

			for (const uint32_t n_probes : {1u, 2u, 3u, 32u, 33u, 255u, 256u, 257u, 1023u, 1024u})
			{
				if (n_probes >= n_lists)
					continue;
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(1, 10, n_probes));
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(20, 128, n_probes)); // more than the few rows of a list
			}
			if (n_lists > 1026)
			{
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(5, 10, 1027, Taken::kNone));
			}
		}
}

TEST(FewRealLists, ManyRowsAndResults)
{
	for (const uint32_t dim : {20u, 100u})
	{
		FewRealLists held({Metric::kL2, ElementType::kFloat32, dim}, Values::kReal, 30000, 12);

		for (const size_t k : {1u, 2u, 33u, 100u, 127u, 128u})
			for (const size_t n : {1u, 3u, 64u, 128u})
				for (const uint32_t n_probes : {1u, 5u, 11u})
					ASSERT_NO_FATAL_FAILURE(held.expect_batch(n, k, n_probes));
		for (const size_t k : {130u, 1000u})
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(3, k, 5, Taken::kNone));
		ASSERT_NO_FATAL_FAILURE(held.expect_batch(129, 10, 5, Taken::kNone));
	}
}

TEST(FewRealLists, FewDifferentRows)
{
	// Many lists at one distance from a query, and many rows: with numbers 0 ... 1 there are four different ones. Not
	// narrow: rows are floats.
	for (const auto &[most, dim] : {std::pair{1u, 2u}, {1u, 6u}, {3u, 4u}, {0u, 5u}, {1u, 70u}})
		for (const Metric metric : kFloatMetrics)
		{
			FewRealLists held({metric, ElementType::kFloat32, dim}, Values::kBytes, 9000, 60, false, most);

			for (const uint32_t n_probes : {1u, 13u, 59u})
				for (const size_t k : {1u, 40u, 128u})
					ASSERT_NO_FATAL_FAILURE(held.expect_batch(40, k, n_probes, Taken::kAny));
		}
}

TEST(FewRealLists, ManyRowsAtOneDistance)
{
	// More of them than are sorted, up to the k-th place or beyond it.
	for (const Metric metric : kFloatMetrics)
	{
		Rows rows({metric, ElementType::kFloat32, 16});
		std::mt19937 rng(static_cast<unsigned>(metric));
		const std::vector<float> same(16, 0.37f);

		rows.add_random(3000, Data::kGaussian, rng, 1);
		for (RowId id = 10001; id < 16001; id++)
			rows.add(id, reinterpret_cast<const uint8_t *>(same.data()));

		FewRealLists held(rows, 12);
		const uint64_t before = held.both.cuda()->n_few_real_lists();

		held.queries = Rows(rows.spec);
		for (RowId id = 0; id < 20; id++) // these are the nearest of all
			held.queries.add(id, reinterpret_cast<const uint8_t *>(same.data()));
		held.queries.add_random(20, Data::kGaussian, held.rng, 1000);
		for (const size_t n : {1u, 40u})
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(n, 25, 11, Taken::kAny));
		if (metric != Metric::kInnerProduct) // there others come before them
		{
			EXPECT_LE(held.both.cuda()->n_few_real_lists() - before, 20u);
		}
	}
}

TEST(FewRealLists, NearlyOneDistance)
{
	// Cosines that are 1 as floats, and equal in the upper halves of their bits, of rows and of centroids.
	for (const uint32_t dim : {40u, 100u})
	{
		const DistanceSpec spec = {Metric::kCosine, ElementType::kFloat32, dim};
		std::mt19937 rng(dim);
		std::normal_distribution<float> normal;
		std::vector<float> around(dim);
		Rows rows(spec);

		for (float &element : around)
			element = normal(rng);
		for (RowId id = 0; id < 4000; id++)
		{
			std::vector<float> row = around;

			for (float &element : row)
				element += 1e-6f * normal(rng);
			rows.add(id, reinterpret_cast<const uint8_t *>(row.data()));
		}

		FewRealLists held(rows, 80);

		for (const uint32_t n_probes : {1u, 5u, 40u, 79u})
			for (const size_t k : {1u, 10u, 100u})
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(64, k, n_probes, Taken::kAny));
	}
}

TEST(FewRealLists, NaNAndInfinities)
{
	for (const Metric metric : kFloatMetrics)
		for (const ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
			for (const uint32_t dim : {5u, 33u, 100u})
			{
				FewRealLists held({metric, element, dim}, Values::kExtremes, 3000, 40);

				for (const size_t k : {1u, 20u, 128u})
					for (const uint32_t n_probes : {1u, 12u, 39u})
						ASSERT_NO_FATAL_FAILURE(held.expect_batch(50, k, n_probes, Taken::kAny));
			}
}

TEST(FewRealLists, DeadRows)
{
	for (const auto &[metric, element, dim] :
		{std::tuple{Metric::kL2, ElementType::kFloat32, 50u}, {Metric::kCosine, ElementType::kFloat16, 100u}})
	{
		FewRealLists held({metric, element, dim}, Values::kReal, 8000, 20);
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
}

TEST(FewRealLists, SegmentsAndDelta)
{
	for (const Metric metric : {Metric::kL2, Metric::kCosine})
	{
		FewRealLists held({metric, ElementType::kFloat32, 96}, Values::kReal, 5000, 25);
		Rows rows(held.queries.spec);
		Rows delta(held.queries.spec);
		const SegmentProbes probes[] = {{1, 5}, {2, 9}, {3, 2}}; // all rows of the second
		std::vector<SearchQuery> batch;

		rows.add_random(600, Data::kGaussian, held.rng, 50000);
		delta.add_random(40, Data::kGaussian, held.rng, 90000);

		const engine::test::ListRows second(rows, 9, held.rng);

		rows = Rows(held.queries.spec);
		add_whole_numbers(&rows, 300, 2, held.rng, 60000); // narrower than the others

		const engine::test::ListRows third(rows, 6, held.rng);
		const uint64_t before = held.both.cuda()->n_few_real_lists();

		ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return second.load(&e, c, 2); }));
		ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return third.load(&e, c, 3); }));
		ASSERT_NO_FATAL_FAILURE(
			held.both.change([&](Engine &e, CopyId c) { return e.append_delta(c, 0, delta.block()); }));
		for (size_t i = 0; i < 50; i++)
		{
			batch.push_back({held.queries.vector(i), 1 + i % 30, false, {}});
			batch.back().probes = probes;
		}
		ASSERT_NO_FATAL_FAILURE(held.both.expect_same_answers(batch));
		EXPECT_EQ(held.both.cuda()->n_few_real_lists() - before, 50u);

		// One that continues after a row: all take the other way.
		batch[20].has_after = true;
		batch[20].after = {metric == Metric::kL2 ? 100.0 : 0.5, 7};
		ASSERT_NO_FATAL_FAILURE(held.both.expect_same_answers(batch));
		EXPECT_EQ(held.both.cuda()->n_few_real_lists() - before, 50u);
	}
}

TEST(FewRealLists, ManyPairsUseTheChain)
{
	CudaEngineOptions options;
	std::unique_ptr<CudaEngine> engine;

	options.self_test = options.list_choice = false;
	options.workspace_bytes = size_t{256} << 20;
	options.few_real_pairs = 1.0; // of a query and a list, for each list
	ASSERT_OK(make_cuda_engine(options, &engine));

	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 24};
	std::mt19937 rng(1);
	Rows rows(spec);
	Rows queries(spec);

	rows.add_random(2000, Data::kGaussian, rng, 1);
	queries.add_random(7, Data::kGaussian, rng, 1);

	const engine::test::ListRows lists(rows, 30, rng);
	Both both(engine::CopySpec(spec, CopyKind::kLists), engine.get());
	const SegmentProbes probes[] = {{1, 5}};

	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return lists.load(&e, c, 1); }));
	for (const size_t n : {6u, 7u})
	{
		const uint64_t before = engine->n_few_real_lists();
		std::vector<SearchQuery> batch;

		for (size_t i = 0; i < n; i++)
		{
			batch.push_back({queries.vector(i), 10, false, {}});
			batch.back().probes = probes;
		}
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
		EXPECT_EQ(engine->n_few_real_lists() - before, n == 6 ? 6u : 0u);
	}
}

TEST(FewRealLists, SearchesSideBySide)
{
	for (const Metric metric : {Metric::kL2, Metric::kCosine})
	{
		FewRealLists held({metric, ElementType::kFloat32, 128}, Values::kReal, 20000, 50);
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
}

} // namespace
} // namespace vectorgpu::cuda::test
