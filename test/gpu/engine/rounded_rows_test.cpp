// The filter over rows and queries that were rounded to binary16 gives the CPU engine's answers, and is taken.
#include <optional>

#include "engines.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr size_t kRows = 20000;
constexpr size_t kQueries = 70;
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

/// Expects the same answers in batches of several sizes; returns the rows that the filter passed on to each query.
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
	ASSERT_NO_FATAL_FAILURE(both->expect_same_answers(queries, 20, 150));
	*rescored = static_cast<double>(both->cuda()->stats().n_rescored - before) / static_cast<double>(n_queries);
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
			EXPECT_GE(resident_bytes(both.cuda()) - before, kRows * dim * 6u);
			ASSERT_NO_FATAL_FAILURE(search_in_batches(&both, queries, &rescored));
			EXPECT_GE(rescored, 10);
		}
}

TEST(RoundedRows, RoundingThatTurnsTheOrderRound)
{
	// Every element lies beside the middle of two binary16 numbers: all of a row's are rounded the same way, by as much
	// as the bound allows, and the rounded rows are in another order than the true ones.
	for (const Metric metric : kMetrics)
	{
		SCOPED_TRACE(metric_name(metric));

		std::mt19937 rng(4);
		Rows rows({metric, ElementType::kFloat32, 96}), queries(rows.spec);
		Both both(rows.spec);
		double rescored = 0;

		add_rows(&rows, kRows,
			[&](size_t row, size_t e)
			{
				const bool up = row % 2 == 0;
				const float middle = 1 + static_cast<float>((row / 2 + e) % 64) * 0x1p-10f + 0x1p-11f;

				return middle + (up ? 1.0f : -1.0f) * static_cast<float>(1 + rng() % 64) * 0x1p-20f;
			});
		add_rows(&queries, kQueries, [&](size_t, size_t) { return 1 + static_cast<float>(rng() % 4096) * 0x1p-12f; });
		ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
		ASSERT_NO_FATAL_FAILURE(search_in_batches(&both, queries, &rescored));
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

TEST(RoundedRows, NoRoomForACopyIsNoFailure)
{
	constexpr uint32_t kDim = 256;
	CudaEngineOptions options;
	std::unique_ptr<CudaEngine> engine;
	std::mt19937 rng(7);
	Rows rows({Metric::kL2, ElementType::kFloat32, kDim}), queries(rows.spec);
	double rescored = 0;

	rows.add_random(kRows, Data::kGaussian, rng, 0);
	queries.add_random(kQueries, Data::kGaussian, rng, 0);
	options.self_test = false;
	options.workspace_bytes = size_t{256} << 20;
	options.memory_bytes = kRows * kDim * 16u; // loading needs the rows twice, and a quarter stays free
	ASSERT_OK(make_cuda_engine(options, &engine));

	for (const bool fits : {true, false})
	{
		Both first(rows.spec, engine.get());
		std::optional<Both> second;

		ASSERT_NO_FATAL_FAILURE(first.load(1, rows, 0, rows.n()));
		if (fits)
			EXPECT_GE(resident_bytes(engine.get()), kRows * kDim * 6u);
		else
		{
			second.emplace(rows.spec, engine.get());
			ASSERT_NO_FATAL_FAILURE(second->load(1, rows, 0, rows.n()));
			EXPECT_LT(resident_bytes(engine.get()), kRows * kDim * 11u);
			ASSERT_NO_FATAL_FAILURE(second->expect_same_answers(queries, 20, 10));
		}
		ASSERT_NO_FATAL_FAILURE(search_in_batches(&first, queries, &rescored));
		EXPECT_GE(rescored, 10);
	}
}

} // namespace
} // namespace vectorgpu::cuda::test
