// k-means: quality against a plain Lloyd, the same bits at every level and with threads, and the cases at its edges.
#include "engine/ivf/kmeans.hpp"

#include <limits>
#include <numeric>

#include "ivf/trained.hpp"

namespace vectorgpu::engine::ivf::test
{
namespace
{

/// Lloyd from random rows, in double and in plain loops; the inertia after as many iterations as ours may take.
double
oracle_lloyd(const Floats &rows, size_t dim, size_t k, unsigned seed)
{
	const size_t n = rows.size() / dim;
	std::vector<size_t> numbers(n);
	std::mt19937 rng(seed);
	Floats centroids;

	std::iota(numbers.begin(), numbers.end(), size_t{0});
	std::shuffle(numbers.begin(), numbers.end(), rng);
	for (size_t c = 0; c < k; c++)
		centroids.insert(centroids.end(), rows.begin() + static_cast<ptrdiff_t>(numbers[c] * dim),
			rows.begin() + static_cast<ptrdiff_t>((numbers[c] + 1) * dim));
	for (int iteration = 0; iteration < 20; iteration++)
	{
		const std::vector<uint32_t> labels = oracle_labels(rows, centroids, dim);
		std::vector<double> sums(k * dim);
		std::vector<size_t> sizes(k);

		for (size_t i = 0; i < n; i++)
		{
			sizes[labels[i]]++;
			for (size_t d = 0; d < dim; d++)
				sums[labels[i] * dim + d] += static_cast<double>(rows[i * dim + d]);
		}
		for (size_t c = 0; c < k; c++)
			for (size_t d = 0; sizes[c] > 0 && d < dim; d++)
				centroids[c * dim + d] = static_cast<float>(sums[c * dim + d] / static_cast<double>(sizes[c]));
	}
	return oracle_inertia(rows, centroids, dim);
}

TEST(KMeans, SizesAndInertiaAreThoseOfTheCentroids)
{
	for (uint32_t k : {1u, 2u, 10u, 64u, 65u, 100u, 256u, 300u})
	{
		const Floats rows = normal_rows(2000, 12, k);

		SCOPED_TRACE(k);
		expect_consistent(train(rows, spec_of(12, k)), rows, 12);
	}
}

TEST(KMeans, FindsSeparateClusters)
{
	// k-means++ with as many clusters as there are: the inertia is that of the noise.
	const Floats rows = clustered_rows(2000, 16, 12, 1, 0.1f);
	const Trained trained = train(rows, spec_of(16, 12));

	EXPECT_LT(trained.report.inertia / 2000, 16 * 0.01 * 1.1);
	EXPECT_TRUE(trained.report.converged);
}

TEST(KMeans, IsNoWorseThanPlainLloyd)
{
	for (uint32_t k : {20u, 100u, 300u}) // both kinds of seeding
	{
		const Floats rows = clustered_rows(6000, 8, 150, 7, 2);
		double best = std::numeric_limits<double>::infinity();

		for (unsigned seed = 1; seed <= 2; seed++)
			best = std::min(best, oracle_lloyd(rows, 8, k, seed));

		KMeansSpec spec = spec_of(8, k);

		spec.max_iterations = 20;
		spec.tolerance = 0;

		const Trained trained = train(rows, spec);

		EXPECT_LT(trained.report.inertia, 1.05 * best) << "k " << k; // local optima differ
	}
}

TEST(KMeans, GivesTheSameBitsAtEveryLevelAndWithThreads)
{
	for (uint32_t k : {16u, 100u, 260u})
	{
		const Floats rows = integer_rows(3000, 9, 21, 20);
		const Trained expected = train(rows, spec_of(9, k));
		Threads threads(3);

		for (SimdLevel level : supported_levels())
		{
			AtLevel at(level);

			EXPECT_EQ(train(rows, spec_of(9, k)).centroids, expected.centroids)
				<< "k " << k << ", level " << static_cast<int>(level);
		}
		EXPECT_EQ(train(rows, spec_of(9, k), threads.call()).centroids, expected.centroids) << "k " << k;
	}
}

TEST(KMeans, AnotherSeedGivesAnotherResult)
{
	const Floats rows = normal_rows(1000, 6, 3);
	KMeansSpec spec = spec_of(6, 30);
	const Trained one = train(rows, spec);

	EXPECT_EQ(train(rows, spec).centroids, one.centroids);
	spec.seed = 2;
	EXPECT_NE(train(rows, spec).centroids, one.centroids);
}

TEST(KMeans, FillsEveryClusterWhereRowsDiffer)
{
	// 10 rows far out, 2,000 in a heap: random seeds lie in the heap, and clusters run empty.
	Floats rows = normal_rows(2000, 4, 4, 0.01f);
	const Floats far = normal_rows(10, 4, 5, 1000);

	rows.insert(rows.end(), far.begin(), far.end());
	for (uint32_t k : {64u, 200u, 400u})
	{
		const Trained trained = train(rows, spec_of(4, k));

		expect_consistent(trained, rows, 4);
		EXPECT_EQ(trained.report.n_used, k);
	}
}

TEST(KMeans, FewerRowsThanClustersUsesEachRow)
{
	const Floats rows = normal_rows(5, 3, 6);
	const Trained trained = train(rows, spec_of(3, 300));

	expect_consistent(trained, rows, 3);
	EXPECT_EQ(trained.report.n_used, 5u);
	EXPECT_EQ(trained.report.inertia, 0);
}

TEST(KMeans, OneRow)
{
	const Trained trained = train({1, 2, 3}, spec_of(3, 1));

	EXPECT_EQ(trained.centroids, (Floats{1, 2, 3}));
	EXPECT_EQ(trained.report.n_used, 1u);
}

TEST(KMeans, NoRows)
{
	const Trained trained = train({}, spec_of(3, 4));

	EXPECT_TRUE(trained.outcome.is_ok());
	EXPECT_EQ(trained.centroids, Floats(12, 0));
	EXPECT_EQ(trained.report.n_used, 0u);
	EXPECT_EQ(trained.sizes, std::vector<uint64_t>(4));
}

TEST(KMeans, ConstantDataHasOneCluster)
{
	for (uint32_t k : {3u, 100u, 256u})
	{
		const Floats rows(1000 * 7, 2.5f);
		const Trained trained = train(rows, spec_of(7, k));

		expect_consistent(trained, rows, 7);
		EXPECT_EQ(trained.report.n_used, 1u) << "k " << k;
		EXPECT_EQ(trained.centroids, Floats(size_t{k} * 7, 2.5f));
	}
}

TEST(KMeans, DuplicatesGiveOneClusterForEachValue)
{
	for (uint32_t k : {20u, 70u, 300u})
	{
		Floats rows = normal_rows(13, 5, 8);

		for (size_t i = 13; i < 1300; i++)
			for (size_t d = 0; d < 5; d++)
				rows.push_back(rows[(i - 13) * 5 + d]);

		const Trained trained = train(rows, spec_of(5, k));

		expect_consistent(trained, rows, 5);
		EXPECT_EQ(trained.report.n_used, 13u) << "k " << k;
		EXPECT_NEAR(trained.report.inertia, 0, 1e-6);
	}
}

TEST(KMeans, OneDimension)
{
	const Floats rows = normal_rows(3000, 1, 9);

	for (uint32_t k : {5u, 80u, 300u})
		expect_consistent(train(rows, spec_of(1, k)), rows, 1);
}

TEST(KMeans, SphericalCentroidsHaveLengthOne)
{
	Floats rows = clustered_rows(2000, 10, 30, 10, 3);
	KMeansSpec spec = spec_of(10, 40);

	normalise_rows(rows.data(), 2000, 10);
	spec.kind = ClusterKind::kSpherical;

	const Trained trained = train(rows, spec);

	expect_consistent(trained, rows, 10);
	for (size_t c = 0; c < 40; c++)
	{
		double squares = 0;

		for (size_t d = 0; d < 10; d++)
			squares += std::pow(static_cast<double>(trained.centroids[c * 10 + d]), 2);
		EXPECT_NEAR(squares, 1, 1e-6);
	}
	EXPECT_EQ(cluster_kind(Metric::kCosine), ClusterKind::kSpherical);
	EXPECT_EQ(cluster_kind(Metric::kInnerProduct), ClusterKind::kL2);
}

TEST(KMeans, OppositeRowsHaveADefinedSphericalMean)
{
	KMeansSpec spec = spec_of(2, 1);

	spec.kind = ClusterKind::kSpherical;

	const Trained trained = train({1, 0, -1, 0}, spec);

	EXPECT_TRUE(trained.outcome.is_ok());
	for (float x : trained.centroids)
		EXPECT_TRUE(std::isfinite(x));
}

TEST(KMeans, RefusesRowsThatAreNotFinite)
{
	for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
	{
		Floats rows = normal_rows(100, 4, 13);

		rows[399] = bad;
		EXPECT_EQ(train(rows, spec_of(4, 3)).outcome.code, StatusCode::kInvalidArgument);
	}
}

TEST(KMeans, HugeValuesAreDefined)
{
	const Floats rows = normal_rows(500, 4, 14, 1e37f);
	const Trained trained = train(rows, spec_of(4, 8));

	EXPECT_TRUE(trained.outcome.is_ok());
	for (float x : trained.centroids)
		EXPECT_TRUE(std::isfinite(x));
}

TEST(KMeans, RefusesImpossibleSpecs)
{
	const Floats rows = normal_rows(10, 4, 15);
	KMeansSpec spec = spec_of(4, 0);

	EXPECT_EQ(train(rows, spec).outcome.code, StatusCode::kInvalidArgument);
	spec.n_clusters = 2;
	spec.balance = 0.5f;
	EXPECT_EQ(train(rows, spec).outcome.code, StatusCode::kInvalidArgument);
	spec.balance = 0;

	Floats centroids(8);
	uint8_t nothing[64];

	spec.n_rows = 10;
	EXPECT_EQ(kmeans_train(spec, {rows.data(), 4}, centroids.data(), nullptr, nullptr, nothing, sizeof(nothing)).code,
		StatusCode::kInvalidArgument);
}

TEST(KMeans, StopsWhenToldToAtAnyPoint)
{
	const Floats rows = normal_rows(5000, 8, 16);

	for (uint32_t k : {10u, 100u, 300u})
		for (int stop_at : {1, 2, 5, 30, 100})
		{
			int calls = 0;
			Call call;
			KMeansSpec spec = spec_of(8, k);

			struct Context
			{
				int *calls;
				int stop_at;
			} context = {&calls, stop_at};

			call.progress_context = &context;
			call.progress = [](void *p, uint64_t, uint64_t)
			{
				Context *c = static_cast<Context *>(p);

				return ++*c->calls < c->stop_at;
			};

			const Trained trained = train(rows, spec, call);

			EXPECT_EQ(trained.outcome.code, calls >= stop_at ? StatusCode::kCancelled : StatusCode::kOk)
				<< "k " << k << ", stop at " << stop_at;
			EXPECT_LE(calls, stop_at);
		}
}

TEST(KMeans, TrainingSizeIsBounded)
{
	EXPECT_EQ(kmeans_training_rows(100, 1000, 16, 0), 100u);
	EXPECT_EQ(kmeans_training_rows(10000000, 1000, 16, 0), 1000 * kTrainingRowsPerCluster);
	EXPECT_EQ(kmeans_training_rows(10000000, 10, 16, 0), kLeastTrainingRows);
	EXPECT_EQ(kmeans_training_rows(5000, 10, 16, 0), 5000u);
	EXPECT_EQ(kmeans_training_rows(0, 1000, 16, 1000), 0u);
	EXPECT_EQ(kmeans_training_rows(10, 1000, 16, 1), 1u);

	const size_t budget = 64 << 20;
	KMeansSpec spec = spec_of(768, 1000);

	spec.n_rows = kmeans_training_rows(10000000, 1000, 768, budget);
	EXPECT_GT(spec.n_rows, 1000u);
	EXPECT_LE(kmeans_work_bytes(spec) + spec.n_rows * 768 * 4, budget + 4096);
}

TEST(KMeans, RealDataFloor)
{
	uint32_t dim = 0;
	const Floats rows = data_rows("bigann10k-128.base", &dim, 10000);

	if (rows.empty())
		GTEST_SKIP() << "VECTORGPU_DATA is not set";
	for (uint32_t k : {64u, 256u})
	{
		const Trained trained = train(rows, spec_of(dim, k));

		EXPECT_EQ(trained.report.n_used, k);
		EXPECT_LT(trained.report.inertia, 1.01 * oracle_lloyd(rows, dim, k, 1)) << "k " << k;
	}
}

} // namespace
} // namespace vectorgpu::engine::ivf::test
