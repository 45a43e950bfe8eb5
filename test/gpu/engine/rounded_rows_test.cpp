// The filter over rows and queries that were rounded to binary16 gives the CPU engine's answers, and is taken.
#include "common/half.hpp"
#include "engines.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr size_t kRows = 20000;
constexpr size_t kQueries = 70;
constexpr double kMostRescored = 500; // far below the room for candidates, beyond which queries go another way
constexpr Metric kMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine};

/// Adds n rows of element(row, e).
template <class Element>
void
add_rows(Rows *rows, size_t n, Element element)
{
	std::vector<float> vector(rows->spec.dim);

	for (size_t i = 0; i < n; i++)
	{
		for (size_t e = 0; e < vector.size(); e++)
			vector[e] = element(i, e);
		rows->add(i, reinterpret_cast<const uint8_t *>(vector.data()));
	}
}

/// Expects the same answers in batches of several sizes; returns the rows that the filter passed on to each query that
/// wants 10, 0 for one that went another way.
void
search_in_batches(Both *both, const Rows &queries, double *rescored)
{
	size_t n_queries = 0;
	const uint64_t before = both->cuda()->stats().n_rescored;

	for (size_t batch : {2, 9, 33, 70})
	{
		ASSERT_NO_FATAL_FAILURE(both->expect_same_answers(queries, batch, 10));
		n_queries += batch;
	}
	*rescored = static_cast<double>(both->cuda()->stats().n_rescored - before) / static_cast<double>(n_queries);
	ASSERT_NO_FATAL_FAILURE(both->expect_same_answers(queries, 20, 150));
}

uint64_t
resident_bytes(CudaEngine *engine)
{
	return engine->stats().resident_bytes;
}

TEST(RoundedRows, RealRowsHaveARoundedCopyThatTheFilterReads)
{
	for (const Metric metric : kMetrics)
		for (const uint32_t dim : {5u, 100u, 768u})
		{
			SCOPED_TRACE(testing::Message() << metric_name(metric) << " dim " << dim);

			std::mt19937 rng(dim);
			Rows rows({metric, ElementType::kFloat32, dim}), queries(rows.spec);
			const uint64_t before = resident_bytes(cuda_engine());
			Both both(rows.spec);
			double rescored = 0;

			rows.add_random(kRows, Data::kGaussian, rng, 0);
			queries.add_random(kQueries, Data::kGaussian, rng, 0);
			ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
			EXPECT_GE(resident_bytes(both.cuda()) - before, kRows * ((dim + 31) / 32 * 32) * 6u);
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
	for (const Metric metric : kMetrics)
	{
		SCOPED_TRACE(metric_name(metric));

		std::mt19937 rng(4);
		Rows rows({metric, ElementType::kFloat32, 96}), queries(rows.spec);
		Both both(rows.spec);
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
	for (const Metric metric : kMetrics)
		for (const float scale : {1e-6f, 1e-3f, 3e4f, 1e6f})
			for (const float odd : {1e-9f, 1.0f, 1e6f}) // times that for one row
			{
				SCOPED_TRACE(testing::Message() << metric_name(metric) << " scale " << scale << " odd " << odd);

				std::mt19937 rng(5);
				std::normal_distribution<float> normal;
				Rows rows({metric, ElementType::kFloat32, 64}), queries(rows.spec);
				Both both(rows.spec);
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
	for (const Metric metric : kMetrics)
		for (const bool bins : {false, true})
		{
			SCOPED_TRACE(testing::Message() << metric_name(metric) << " bins " << bins);

			std::mt19937 rng(6);
			std::normal_distribution<float> normal;
			Rows rows({metric, ElementType::kFloat32, 96}), queries(rows.spec);
			Both both(rows.spec);
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

			std::vector<SearchQuery> batch;
			std::vector<std::vector<Neighbor>> found;
			size_t n_right = 0;

			for (size_t i = 0; i < kQueries; i++)
				batch.push_back({queries.vector(i), 10, false, {}, 0.9f});
			ASSERT_OK(both.cuda()->search(both.cuda_copy(), batch, &found, nullptr));
			for (size_t i = 0; i < kQueries; i++)
			{
				const std::vector<Neighbor> nearest = rows.nearest(queries.vector(i), 10);

				ASSERT_EQ(found[i].size(), 10u);
				for (const Neighbor &neighbor : found[i])
				{
					EXPECT_EQ(neighbor.score, oracle_score(rows.spec, queries.vector(i), rows.vector(neighbor.row)));
					n_right += neighbor.score <= nearest.back().score;
				}
			}
			EXPECT_GE(n_right, kQueries * 9);
		}
}

TEST(RoundedRows, RoundedRowsGiveWayToOtherRows)
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
	options.memory_bytes = 17 * kUnit; // a copy takes 4, 8 while it is loaded, and 2 for its rounded rows
	ASSERT_OK(make_cuda_engine(options, &engine));

	Both first(rows.spec, engine.get());

	ASSERT_NO_FATAL_FAILURE(first.load(1, rows, 0, rows.n()));
	EXPECT_GE(resident_bytes(engine.get()), 6 * kUnit);

	Both second(rows.spec, engine.get()); // a quarter of the memory would not stay free

	ASSERT_NO_FATAL_FAILURE(second.load(1, rows, 0, rows.n()));
	EXPECT_GE(resident_bytes(engine.get()), 10 * kUnit);
	EXPECT_LT(resident_bytes(engine.get()), 11 * kUnit);

	Both third(rows.spec, engine.get()); // there would be no room

	ASSERT_NO_FATAL_FAILURE(third.load(1, rows, 0, rows.n()));
	EXPECT_LT(resident_bytes(engine.get()), 13 * kUnit);
	for (Both *both : {&first, &second, &third})
	{
		ASSERT_NO_FATAL_FAILURE(search_in_batches(both, queries, &rescored));
		EXPECT_GE(rescored, 10);
	}
}

} // namespace
} // namespace vectorgpu::cuda::test
