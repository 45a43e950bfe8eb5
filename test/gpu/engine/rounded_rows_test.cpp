// The filter over rows and queries that were rounded to binary16 gives the CPU engine's answers, and is taken.
#include "common/half.hpp"
#include "rounded_rows.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr size_t kRows = 20000;
constexpr size_t kQueries = 70;

TEST(RoundedRows, RealRowsHaveARoundedCopyThatTheFilterReads)
{
	for (const Metric metric : kRoundedMetrics)
		for (const uint32_t dim : {5u, 100u, 768u})
		{
			SCOPED_TRACE(testing::Message() << metric_name(metric) << " dim " << dim);

			std::mt19937 rng(dim);
			Rows rows({metric, ElementType::kFloat32, dim}), queries(rows.spec);
			Both both(rows.spec, rounded_engine(false));
			double rescored = 0;

			rows.add_random(kRows, Data::kGaussian, rng, 0);
			queries.add_random(kQueries, Data::kGaussian, rng, 0);
			ASSERT_NO_FATAL_FAILURE(load_into(&both, rows, bytes_with_halves(rows)));
			ASSERT_NO_FATAL_FAILURE(search_in_batches(&both, queries, &rescored));
			EXPECT_GE(rescored, 10);
			EXPECT_LE(rescored, kMostRescored);
		}
}

TEST(RoundedRows, RoundingThatTurnsTheOrderRound)
{
	// Every element lies beside the middle of two binary16 numbers. All of a row's are rounded towards zero or away
	// from it, by as much as the bound allows, so rows of one kind seem shorter than they are, and those of the other
	// longer.
	for (const Metric metric : kRoundedMetrics)
	{
		SCOPED_TRACE(metric_name(metric));

		std::mt19937 rng(4);
		Rows rows({metric, ElementType::kFloat32, 96}), queries(rows.spec);
		Both both(rows.spec, rounded_engine(false));
		double rescored = 0;

		std::normal_distribution<float> normal;

		add_rows(&rows, kRows,
			[&](size_t row, size_t)
			{
				const uint16_t half = float_to_half(normal(rng));
				const float middle = (half_to_float(half) + half_to_float(half + 1)) / 2; // the next away from zero

				return middle * (row % 2 == 0 ? 1 - 0x1p-18f : 1 + 0x1p-18f);
			});
		add_rows(&queries, kQueries, [&](size_t, size_t) { return normal(rng); });
		ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
		ASSERT_NO_FATAL_FAILURE(search_in_batches(&both, queries, &rescored));
		EXPECT_GE(rescored, 10);
		EXPECT_LE(rescored, kMostRescored);
	}
}

TEST(RoundedRows, ElementsTooLargeOrTooSmallForBinary16)
{
	for (const Metric metric : kRoundedMetrics)
		for (const float scale : {1e-6f, 1e-3f, 3e4f, 1e6f})
			for (const float odd : {1e-9f, 1.0f, 1e6f}) // times that for one row
			{
				SCOPED_TRACE(testing::Message() << metric_name(metric) << " scale " << scale << " odd " << odd);

				std::mt19937 rng(5);
				std::normal_distribution<float> normal;
				Rows rows({metric, ElementType::kFloat32, 64}), queries(rows.spec);
				Both both(rows.spec, rounded_engine(false));
				double rescored = 0;

				add_rows(
					&rows, kRows, [&](size_t row, size_t) { return normal(rng) * scale * (row == 77 ? odd : 1.0f); });
				// Queries of the rows' size, and such that no binary16 number holds.
				add_rows(&queries, kQueries,
					[&](size_t query, size_t)
					{
						return normal(rng) * (query % 3 == 0 ? scale : query % 3 == 1 ? 1e7f : 1e-8f);
					});
				ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
				ASSERT_NO_FATAL_FAILURE(search_in_batches(&both, queries, &rescored));
			}
}

TEST(RoundedRows, RealQueriesOverRowsThatAreExactInBinary16)
{
	for (const Metric metric : kRoundedMetrics)
		for (const bool bins : {false, true})
		{
			SCOPED_TRACE(testing::Message() << metric_name(metric) << " bins " << bins);

			std::mt19937 rng(6);
			std::normal_distribution<float> normal;
			Rows rows({metric, ElementType::kFloat32, 96}), queries(rows.spec);
			Both both(rows.spec, rounded_engine(false));
			double rescored = 0;

			add_whole_numbers(&rows, kRows, 2000, rng, 0);
			add_rows(&queries, kQueries, [&](size_t, size_t) { return 1000 + 300 * normal(rng); });
			ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
			if (!bins)
			{
				ASSERT_NO_FATAL_FAILURE(search_in_batches(&both, queries, &rescored));
				EXPECT_GE(rescored, 10); // not answered by the canonical scores of all rows
				continue;
			}
			ASSERT_NO_FATAL_FAILURE(expect_most_by_bins(&both, rows, queries));
		}
}

TEST(RoundedRows, ManyQueriesWithFewAndManyCandidates)
{
	// A warp takes a query, unless it has many candidates: a third of the queries lies beside a thousand equal rows.
	for (const Metric metric : kRoundedMetrics)
	{
		SCOPED_TRACE(metric_name(metric));

		std::mt19937 rng(8);
		std::normal_distribution<float> normal;
		Rows rows({metric, ElementType::kFloat32, 48}), queries(rows.spec);
		Both both(rows.spec, rounded_engine(false));
		std::vector<float> centre(48);
		std::vector<SearchQuery> batch;

		for (float &element : centre)
			element = normal(rng);
		add_rows(&rows, 2 * kRows,
			[&](size_t row, size_t e) { return row % 20 == 0 ? centre[e]
											: row % 999 == 1 ? 1e30f
															 : normal(rng); });
		add_rows(&queries, 1100, [&](size_t query, size_t e)
			{ return query % 3 == 0 ? centre[e] + 0.1f * normal(rng)
				  : query % 97 == 1 ? 1e30f
									: normal(rng); });
		ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, kRows));
		ASSERT_NO_FATAL_FAILURE(both.load(2, rows, kRows, kRows));
		for (const size_t most_k : {1, 32, 33})
		{
			batch.clear();
			for (size_t i = 0; i < queries.n(); i++)
				batch.push_back({queries.vector(i), 1 + i % most_k, false, {}});
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
		}
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 513, 100));

		std::vector<std::vector<Neighbor>> found;

		ASSERT_OK(both.cuda()->search(both.cuda_copy(), batch, &found, nullptr));
		for (size_t i = 0; i < batch.size(); i++)
		{
			batch[i].has_after = i % 2 != 0 && !found[i].empty();
			if (batch[i].has_after)
				batch[i].after = found[i].back();
		}
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
	}
}

/// scaled: as in CudaEngineOptions; r: units that rounded rows take.
void
expect_to_give_way(bool scaled, uint64_t r)
{
	constexpr uint32_t kDim = 256;
	constexpr uint64_t kUnit = uint64_t{kRows} * kDim; // bytes
	CudaEngineOptions options;
	std::unique_ptr<CudaEngine> engine;
	std::mt19937 rng(7);
	Rows rows({Metric::kL2, ElementType::kFloat32, kDim}), queries(rows.spec);
	double rescored = 0;

	rows.add_random(kRows, Data::kGaussian, rng, 0);
	queries.add_random(kQueries, Data::kGaussian, rng, 0);
	options.self_test = false;
	options.workspace_bytes = size_t{256} << 20;
	options.scaled = scaled;
	options.both_roundings = false;
	options.scaled_least_bytes = 1;
	options.memory_bytes = 17 * kUnit; // a copy takes 4, and 8 while it is loaded
	ASSERT_OK(make_cuda_engine(options, &engine));

	Both first(rows.spec, engine.get());

	ASSERT_NO_FATAL_FAILURE(first.load(1, rows, 0, rows.n()));
	EXPECT_GE(resident_bytes(engine.get()), (4 + r) * kUnit);

	Both second(rows.spec, engine.get()); // a quarter of the memory would not stay free

	ASSERT_NO_FATAL_FAILURE(second.load(1, rows, 0, rows.n()));
	EXPECT_GE(resident_bytes(engine.get()), (8 + r) * kUnit);
	EXPECT_LT(resident_bytes(engine.get()), (9 + r) * kUnit);

	Both third(rows.spec, engine.get()); // there would be no room

	ASSERT_NO_FATAL_FAILURE(third.load(1, rows, 0, rows.n()));
	EXPECT_LT(resident_bytes(engine.get()), 13 * kUnit);
	for (Both *both : {&first, &second, &third})
	{
		ASSERT_NO_FATAL_FAILURE(search_in_batches(both, queries, &rescored));
		EXPECT_GE(rescored, 10);
	}
}

TEST(RoundedRows, RoundedRowsGiveWayToOtherRows)
{
	ASSERT_NO_FATAL_FAILURE(expect_to_give_way(false, 2));
	ASSERT_NO_FATAL_FAILURE(expect_to_give_way(true, 1));
}

} // namespace
} // namespace vectorgpu::cuda::test
