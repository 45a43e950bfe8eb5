// The filter over rows rounded to signed bytes gives the CPU engine's answers, and is taken; such rows are made where
// they serve.
#include <limits>

#include "rounded_rows.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr size_t kRows = 20000;
constexpr size_t kQueries = 300;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Loads rows as segment 1 and expects that they have bytes beside them, and nothing else.
void
load_scaled(Both *both, const Rows &rows)
{
	ASSERT_NO_FATAL_FAILURE(load_into(both, rows, bytes_with_scaled(rows)));
	ASSERT_GT(both->cuda()->n_scaled_segments(), 0u);
}

/// The same answers in batches that take each shape of the kernels, for small and large k.
void
search_all_shapes(Both *both, const Rows &queries)
{
	for (size_t batch : {1, 3, 12, 20, 40, 64, 100, 300})
		ASSERT_NO_FATAL_FAILURE(both->expect_same_answers(queries, std::min(batch, queries.n()), 10));
	ASSERT_NO_FATAL_FAILURE(both->expect_same_answers(queries, std::min<size_t>(140, queries.n()), 1));
	for (const size_t k : {40, 100, 128, 150, 1000})
		ASSERT_NO_FATAL_FAILURE(both->expect_same_answers(queries, 5, k));
	ASSERT_NO_FATAL_FAILURE(both->expect_same_answers(queries, std::min<size_t>(130, queries.n()), 100));
}

TEST(ScaledRows, RealRowsHaveBytesThatTheFilterReads)
{
	for (const Metric metric : kRoundedMetrics)
		for (const uint32_t dim : {33u, 100u, 256u, 515u})
		{
			SCOPED_TRACE(testing::Message() << metric_name(metric) << " dim " << dim);

			std::mt19937 rng(dim);
			Rows rows({metric, ElementType::kFloat32, dim}), queries(rows.spec);
			Both both(rows.spec, rounded_engine(true));

			rows.add_random(kRows, Data::kGaussian, rng, 0);
			queries.add_random(kQueries, Data::kGaussian, rng, 0);
			ASSERT_NO_FATAL_FAILURE(load_scaled(&both, rows));

			double rescored = 0;

			ASSERT_NO_FATAL_FAILURE(count_rescored(&both, queries, 64, 10, &rescored));
			EXPECT_GE(rescored, 10);
			EXPECT_LE(rescored, kMostRescored);
			ASSERT_NO_FATAL_FAILURE(search_all_shapes(&both, queries));
		}
}

TEST(ScaledRows, QueriesThatAreLoadedWithTheRows)
{
	for (const Metric metric : kRoundedMetrics)
	{
		SCOPED_TRACE(metric_name(metric));

		std::mt19937 rng(9);
		Rows rows({metric, ElementType::kFloat32, 2100}), queries(rows.spec);
		Both both(rows.spec, rounded_engine(true));

		// Groups, since bytes cannot tell independent rows of so many dimensions apart.
		std::normal_distribution<float> normal;
		std::vector<float> centres(size_t{100} * 2100);

		for (float &element : centres)
			element = normal(rng);

		const auto element = [&](size_t row, size_t e) { return centres[row % 100 * 2100 + e] + 0.3f * normal(rng); };

		add_rows(&rows, 16500, element);
		add_rows(&queries, kQueries, element);
		ASSERT_NO_FATAL_FAILURE(load_scaled(&both, rows));
		ASSERT_NO_FATAL_FAILURE(search_all_shapes(&both, queries));
	}
}

TEST(ScaledRows, RoundingThatTurnsTheOrderRound)
{
	// All of a row's elements lie beside the middle of two whole numbers, and are rounded up or down alike. Queries
	// have nearly equal elements, so errors add up as the bound allows.
	for (const Metric metric : kRoundedMetrics)
	{
		SCOPED_TRACE(metric_name(metric));

		std::mt19937 rng(4);
		Rows rows({metric, ElementType::kFloat32, 96}), queries(rows.spec);
		Both both(rows.spec, rounded_engine(true));

		add_rows(&rows, kRows,
			[&](size_t row, size_t e)
			{
				const float whole = static_cast<float>(rng() % 201) - 100;

				return e == 5 ? 127.0f : whole + (row % 2 == 0 ? 0.5f - 0x1p-10f : 0.5f + 0x1p-10f);
			});
		add_rows(&queries, kQueries, [&](size_t, size_t) { return 120.0f + static_cast<float>(rng() % 8); });
		ASSERT_NO_FATAL_FAILURE(load_scaled(&both, rows));
		ASSERT_NO_FATAL_FAILURE(search_all_shapes(&both, queries));
	}
}

TEST(ScaledRows, OutliersZerosAndNormsOfEverySize)
{
	for (const Metric metric : kRoundedMetrics)
		for (const float scale : {1e-6f, 1.0f, 1e6f})
			for (const float odd : {1e-30f, 1e-6f, 30.0f}) // times that for some rows
			{
				SCOPED_TRACE(testing::Message() << metric_name(metric) << " scale " << scale << " odd " << odd);

				std::mt19937 rng(5);
				std::normal_distribution<float> normal;
				Rows rows({metric, ElementType::kFloat32, 65}), queries(rows.spec);
				Both both(rows.spec, rounded_engine(true));

				// A row with an element of 40 standard deviations, one of zeros, one that is longer or shorter.
				add_rows(&rows, kRows,
					[&](size_t row, size_t e)
					{
						const float value = normal(rng) * scale;

						return row % 500 == 1 && e == 7 ? 40 * scale
							: row % 500 == 2            ? 0.0f
							: row % 5000 == 3           ? value * odd
														: value;
					});
				add_rows(&queries, kQueries,
					[&](size_t query, size_t)
					{
						const float value = normal(rng) * scale;

						return query % 4 == 0 ? value
							: query % 4 == 1  ? value * 1e7f
											  : value * (query % 4 == 2 ? 0.01f : 1e-9f);
					});
				ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
				ASSERT_NO_FATAL_FAILURE(search_all_shapes(&both, queries));
			}
}

TEST(ScaledRows, RowsAndQueriesThatTheBoundDoesNotCover)
{
	for (const Metric metric : kRoundedMetrics)
	{
		SCOPED_TRACE(metric_name(metric));

		std::mt19937 rng(6);
		std::normal_distribution<float> normal;
		Rows rows({metric, ElementType::kFloat32, 70}), queries(rows.spec);
		Both both(rows.spec, rounded_engine(true));
		constexpr float kOdd[] = {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity, 1e30f};
		constexpr size_t kOddRows = kRows / 64 * 8; // some of those that are searched for when bytes are made

		add_rows(&rows, kRows,
			[&](size_t row, size_t e)
			{
				const float value = normal(rng);

				return row % kOddRows == 0 && e == 3 ? kOdd[row / kOddRows % 4] : value;
			});
		add_rows(&queries, kQueries,
			[&](size_t query, size_t e)
			{
				const float value = normal(rng);

				return query % 10 == 1 && e == 4 ? kOdd[query / 10 % 4] : query % 10 == 2 ? 0.0f : value;
			});
		ASSERT_NO_FATAL_FAILURE(load_scaled(&both, rows));
		ASSERT_NO_FATAL_FAILURE(search_all_shapes(&both, queries));
	}
}

TEST(ScaledRows, EqualRows)
{
	for (const Metric metric : kRoundedMetrics)
	{
		SCOPED_TRACE(metric_name(metric));

		std::mt19937 rng(7);
		std::normal_distribution<float> normal;
		Rows few({metric, ElementType::kFloat32, 64}), rows(few.spec), queries(few.spec);
		Both both(few.spec, rounded_engine(true));

		add_rows(&few, kRows / 8, [&](size_t, size_t) { return normal(rng); });
		for (size_t row = 0; row < kRows; row++)
			rows.add(row, few.vector(row * 7 % few.n()));
		add_rows(&queries, kQueries, [&](size_t, size_t) { return normal(rng); });
		ASSERT_NO_FATAL_FAILURE(load_scaled(&both, rows));
		ASSERT_NO_FATAL_FAILURE(search_all_shapes(&both, queries));
		ASSERT_NO_FATAL_FAILURE(search_all_shapes(&both, rows)); // queries that are rows
	}
}

TEST(ScaledRows, DeletedRowsADeltaAndContinuedSearches)
{
	for (const Metric metric : kRoundedMetrics)
	{
		SCOPED_TRACE(metric_name(metric));

		std::mt19937 rng(8);
		Rows rows({metric, ElementType::kFloat32, 100}), queries(rows.spec);
		Both both(rows.spec, rounded_engine(true));
		const size_t n_second = 17000;
		const size_t n_delta = 3000;

		// The second segment is ten times as long.
		rows.add_random(kRows + n_second + n_delta, Data::kGaussian, rng, 0);
		for (size_t i = kRows * 100; i < (kRows + n_second) * 100; i++)
			reinterpret_cast<float *>(rows.vectors.data())[i] *= 10;
		queries.add_random(kQueries, Data::kGaussian, rng, 0);
		ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, kRows));
		ASSERT_NO_FATAL_FAILURE(both.load(2, rows, kRows, n_second));
		ASSERT_NO_FATAL_FAILURE(both.change(
			[&](Engine &e, CopyId c) { return e.append_delta(c, 0, rows.block(kRows + n_second, n_delta)); }));
		ASSERT_NO_FATAL_FAILURE(search_all_shapes(&both, queries));
		for (const auto &[segment, n] : {std::pair<SegmentId, size_t>{1, kRows}, {2, n_second}})
		{
			Bytes dead((n + 7) / 8);

			for (size_t i = 0; i < n; i += 1 + rng() % 3)
				dead[i / 8] = static_cast<uint8_t>(dead[i / 8] | 1 << (i % 8));
			ASSERT_NO_FATAL_FAILURE(
				both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, segment, dead); }));
		}
		ASSERT_NO_FATAL_FAILURE(search_all_shapes(&both, queries));

		std::vector<SearchQuery> batch;
		std::vector<std::vector<Neighbor>> found;

		for (size_t i = 0; i < 64; i++)
			batch.push_back({queries.vector(i), 10, false, {}});
		ASSERT_OK(both.cuda()->search(both.cuda_copy(), batch, &found, nullptr));
		for (size_t i = 0; i < 64; i++)
		{
			batch[i].has_after = i % 3 != 0;
			batch[i].after = found[i].back();
		}
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
	}
}

TEST(ScaledRows, PartialReduceReadsTheRowsThemselves)
{
	std::mt19937 rng(10);
	Rows rows({Metric::kL2, ElementType::kFloat32, 96}), queries(rows.spec);
	Both both(rows.spec, rounded_engine(true));
	std::vector<SearchQuery> batch;
	std::vector<std::vector<Neighbor>> found;

	rows.add_random(kRows, Data::kGaussian, rng, 0);
	queries.add_random(70, Data::kGaussian, rng, 0);
	ASSERT_NO_FATAL_FAILURE(load_scaled(&both, rows));
	ASSERT_NO_FATAL_FAILURE(expect_most_by_bins(&both, rows, queries));

	// Exact queries beside such ones.
	for (size_t i = 0; i < queries.n(); i++)
		batch.push_back({queries.vector(i), 10, false, {}, i % 2 == 0 ? 0.9f : 1.0f});
	ASSERT_OK(both.cuda()->search(both.cuda_copy(), batch, &found, nullptr));
	for (size_t i = 1; i < queries.n(); i += 2)
		ASSERT_NO_FATAL_FAILURE(expect_same(found[i], rows.nearest(queries.vector(i), 10)));
}

TEST(ScaledRows, AreNotMadeWhereTheyExcludeTooFewRows)
{
	// Rows far from the origin: what bytes round away is as large as the rows' differences.
	for (const Metric metric : {Metric::kL2, Metric::kCosine})
	{
		SCOPED_TRACE(metric_name(metric));

		std::mt19937 rng(11);
		std::normal_distribution<float> normal;
		Rows rows({metric, ElementType::kFloat32, 100}), queries(rows.spec);
		Both both(rows.spec, rounded_engine(true));

		add_rows(&rows, kRows, [&](size_t, size_t) { return 10 + normal(rng); });
		add_rows(&queries, kQueries, [&](size_t, size_t) { return 10 + normal(rng); });
		ASSERT_NO_FATAL_FAILURE(load_into(&both, rows, bytes_with_halves(rows)));
		ASSERT_NO_FATAL_FAILURE(search_all_shapes(&both, queries));
	}
}

TEST(ScaledRows, AreNotMadeOfFewRows)
{
	CudaEngineOptions options;
	std::unique_ptr<CudaEngine> engine;
	std::mt19937 rng(13);
	Rows rows({Metric::kL2, ElementType::kFloat32, 64});

	options.self_test = false;
	options.both_roundings = false;
	options.scaled_least_bytes = kRows * 64 + 1;
	ASSERT_OK(make_cuda_engine(options, &engine));
	rows.add_random(kRows + 1, Data::kGaussian, rng, 0);

	Both both(rows.spec, engine.get());

	ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, kRows));
	EXPECT_EQ(engine->n_scaled_segments(), 0u);
	ASSERT_NO_FATAL_FAILURE(both.load(2, rows, 0, kRows + 1));
	EXPECT_EQ(engine->n_scaled_segments(), 1u);
}

TEST(ScaledRows, AreFoundUndamaged)
{
	for (const Metric metric : kRoundedMetrics)
		for (const uint32_t dim : {33u, 200u})
		{
			std::mt19937 rng(12);
			Rows rows({metric, ElementType::kFloat32, dim});
			Both both(rows.spec, rounded_engine(true));

			rows.add_random(kRows, Data::kGaussian, rng, 0);
			ASSERT_NO_FATAL_FAILURE(load_scaled(&both, rows));
			ASSERT_NO_FATAL_FAILURE(expect_undamaged(both, kRows));
		}
}

} // namespace
} // namespace vectorgpu::cuda::test
