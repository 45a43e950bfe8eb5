// float32 rows that are kept in signed bytes and in binary16: searches read one of them, and the second gives way
// first.
#include "rounded_rows.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr size_t kRows = 20000;
constexpr size_t kQueries = 140;

struct Case
{
	size_t n_queries;
	size_t k;
	bool reads_bytes;
};

/// Searches rows kept in both forms beside the same rows in bytes alone. Returns once a batch reads another form than
/// expected: the bound of binary16 leaves fewer candidates.
void
search_beside_bytes(Metric metric, uint32_t dim, const std::vector<Case> &cases, bool with_bins)
{
	SCOPED_TRACE(testing::Message() << metric_name(metric) << " dim " << dim);

	std::mt19937 rng(1);
	Rows rows({metric, ElementType::kFloat32, dim}), queries(rows.spec);
	Both both(rows.spec, rounded_engine(true, true)), bytes(rows.spec, rounded_engine(true));

	rows.add_random(kRows, Data::kGaussian, rng, 0);
	queries.add_random(kQueries, Data::kGaussian, rng, 0);
	ASSERT_NO_FATAL_FAILURE(load_into(&both, rows, bytes_with_both(rows)));
	ASSERT_NO_FATAL_FAILURE(load_into(&bytes, rows, bytes_with_scaled(rows)));
	ASSERT_GT(both.cuda()->n_scaled_segments(), 0u);
	for (const Case &test : cases)
	{
		SCOPED_TRACE(testing::Message() << test.n_queries << " queries, k " << test.k);

		double with_both = 0;
		double with_bytes = 0;

		ASSERT_NO_FATAL_FAILURE(count_rescored(&both, queries, test.n_queries, test.k, &with_both));
		ASSERT_NO_FATAL_FAILURE(count_rescored(&bytes, queries, test.n_queries, test.k, &with_bytes));
		ASSERT_GE(with_both, static_cast<double>(test.k));
		ASSERT_LE(with_both, with_bytes);
		ASSERT_EQ(with_both == with_bytes, test.reads_bytes);
	}
	for (const size_t k : {33, 150, 1000})
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 5, k));
	if (with_bins) // the expected rows take long to find
		expect_most_by_bins(&both, rows, queries);
	expect_undamaged(both, kRows);
}

TEST(BothRoundings, SearchesForManyRowsReadHalves)
{
	for (const Metric metric : kRoundedMetrics)
	{
		ASSERT_NO_FATAL_FAILURE(search_beside_bytes(metric, 100,
			{{1, 10, true}, {8, 100, true}, {40, 10, true}, {40, 100, false}, {kQueries, 10, false}}, true));
		ASSERT_NO_FATAL_FAILURE(
			search_beside_bytes(metric, 512, {{kQueries, 10, true}, {kQueries, 100, false}}, false));
	}
}

TEST(BothRoundings, FewQueriesReadBytesOfShortSegments)
{
	CudaEngineOptions options;
	std::unique_ptr<CudaEngine> engine;
	std::mt19937 rng(3);
	Rows rows({Metric::kL2, ElementType::kFloat32, 256}), queries(rows.spec);

	rows.add_random(kRows, Data::kGaussian, rng, 0);
	queries.add_random(kQueries, Data::kGaussian, rng, 0);
	options.self_test = false;
	options.scaled_least_bytes = 5 * kRows * 256;
	ASSERT_OK(make_cuda_engine(options, &engine));

	Both both(rows.spec, engine.get()), halves(rows.spec, rounded_engine(false));

	ASSERT_NO_FATAL_FAILURE(load_into(&both, rows, bytes_with_both(rows)));
	ASSERT_NO_FATAL_FAILURE(load_into(&halves, rows, bytes_with_halves(rows)));
	for (const auto &[n, k] : {std::pair<size_t, size_t>{1, 10}, {4, 32}, {4, 33}, {5, 10}, {kQueries, 10}})
	{
		SCOPED_TRACE(testing::Message() << n << " queries, k " << k);

		double with_both = 0;
		double with_halves = 0;

		ASSERT_NO_FATAL_FAILURE(count_rescored(&both, queries, n, k, &with_both));
		ASSERT_NO_FATAL_FAILURE(count_rescored(&halves, queries, n, k, &with_halves));
		if (n <= 4 && k <= 32)
			EXPECT_GT(with_both, with_halves);
		else
			EXPECT_EQ(with_both, with_halves);
	}

	// One byte too few.
	Rows fewer(rows.spec);

	fewer.add_random(kRows - 1, Data::kGaussian, rng, 0);

	Both without(rows.spec, engine.get());

	ASSERT_NO_FATAL_FAILURE(load_into(&without, fewer, bytes_with_halves(fewer)));
}

TEST(BothRoundings, TheSecondGivesWayFirst)
{
	constexpr uint32_t kDim = 256;
	constexpr uint64_t kUnit = uint64_t{kRows} * kDim; // bytes
	CudaEngineOptions options;
	std::unique_ptr<CudaEngine> engine;
	std::mt19937 rng(2);
	Rows rows({Metric::kL2, ElementType::kFloat32, kDim}), queries(rows.spec);

	rows.add_random(kRows, Data::kGaussian, rng, 0);
	queries.add_random(20, Data::kGaussian, rng, 0);
	options.self_test = false;
	options.workspace_bytes = size_t{256} << 20;
	options.scaled_least_bytes = 1;
	options.memory_bytes = 18 * kUnit; // rows take 4, and 8 while they are loaded; bytes 1, binary16 2
	ASSERT_OK(make_cuda_engine(options, &engine));

	Both first(rows.spec, engine.get());

	ASSERT_NO_FATAL_FAILURE(first.load(1, rows, 0, kRows));
	EXPECT_GE(resident_bytes(engine.get()), 7 * kUnit);

	Both second(rows.spec, engine.get()); // a quarter of the memory would not stay free

	ASSERT_NO_FATAL_FAILURE(second.load(1, rows, 0, kRows));
	EXPECT_GE(resident_bytes(engine.get()), 11 * kUnit);
	EXPECT_LT(resident_bytes(engine.get()), 12 * kUnit);

	Both third(rows.spec, engine.get()); // there would be no room

	ASSERT_NO_FATAL_FAILURE(third.load(1, rows, 0, kRows));
	EXPECT_GE(resident_bytes(engine.get()), 13 * kUnit);
	EXPECT_LT(resident_bytes(engine.get()), 14 * kUnit);
	EXPECT_EQ(engine->n_scaled_segments(), 1u);
	for (Both *both : {&first, &second, &third})
		for (const size_t k : {10, 100})
			ASSERT_NO_FATAL_FAILURE(both->expect_same_answers(queries, 20, k));
}

} // namespace
} // namespace vectorgpu::cuda::test
