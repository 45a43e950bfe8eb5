// Balanced k-means: no cluster below mean / balance, no change if that is so already, and its cost.
#include "engine/ivf/kmeans.hpp"

#include <climits>
#include <cmath>

#include "ivf/trained.hpp"
#include "support/uniform_rows.hpp"

namespace vectorgpu::engine::ivf::test
{
namespace
{

using vectorgpu::test::uniform_rows;

uint64_t
smallest(const Trained &trained)
{
	return *std::min_element(trained.sizes.begin(), trained.sizes.begin() + trained.report.n_used);
}

/// The guarantees of the training: sizes are those of the centroids, none is below mean / balance.
void
expect_balanced(const Trained &trained, const Floats &rows, const KMeansSpec &spec)
{
	const double mean = static_cast<double>(rows.size() / spec.dim) / spec.n_clusters;

	expect_consistent(trained, rows, spec.dim);
	EXPECT_GE(static_cast<double>(smallest(trained)), mean / static_cast<double>(spec.balance));
}

KMeansSpec
balanced_spec(uint32_t dim, uint32_t n_clusters, float balance)
{
	KMeansSpec spec = spec_of(dim, n_clusters);

	spec.balance = balance;
	spec.max_iterations = 20;
	spec.tolerance = 1e-4f;
	return spec;
}

Trained
train_plain(const Floats &rows, KMeansSpec spec)
{
	spec.balance = 0;
	return train(rows, spec);
}

void
append(Floats *rows, const Floats &more)
{
	rows->insert(rows->end(), more.begin(), more.end());
}

TEST(KMeansBalance, AnOutlierGetsNoClusterOfItsOwn)
{
	for (float far : {100.0f, 1e6f})
	{
		Floats rows = normal_rows(20000, 32, 21);

		append(&rows, Floats(32, far));

		const KMeansSpec spec = balanced_spec(32, 10, 2);
		const Trained plain = train_plain(rows, spec);
		const Trained balanced = train(rows, spec);

		SCOPED_TRACE(far);
		expect_balanced(balanced, rows, spec);
		EXPECT_EQ(balanced.report.n_used, 10u);
		EXPECT_EQ(smallest(plain) == 1, far == 1e6f); // otherwise it was never alone

		// The rows but for the outlier are clustered as well as without it.
		const Floats others(rows.begin(), rows.end() - 32);
		const double alone = train_plain(others, spec).report.inertia;

		EXPECT_LT(oracle_inertia(others, balanced.centroids, 32), 1.02 * alone);
	}
}

TEST(KMeansBalance, FarGroupsOfRowsAreSpread)
{
	Floats rows = normal_rows(8000, 8, 22);

	for (unsigned i = 0; i < 5; i++) // 30 rows each: a tenth of the mean
	{
		Floats group = normal_rows(30, 8, 30 + i);

		for (size_t j = 0; j < group.size(); j++)
			group[j] += j % 8 == i ? 1000.0f : 0.0f;
		append(&rows, group);
	}

	const KMeansSpec spec = balanced_spec(8, 27, 2);
	const Trained balanced = train(rows, spec);

	expect_balanced(balanced, rows, spec);
	EXPECT_GE(balanced.report.n_used, 25u);
}

TEST(KMeansBalance, ATightGroupAmongUniformRows)
{
	Floats rows = uniform_rows(20000, 32, 23);
	Floats tight = normal_rows(3000, 32, 24, 0.001f);

	for (float &x : tight)
		x += 0.5f;
	append(&rows, tight);
	for (uint32_t k : {5u, 20u, 40u})
	{
		const KMeansSpec spec = balanced_spec(32, k, 2);
		const Trained plain = train_plain(rows, spec);
		const Trained balanced = train(rows, spec);

		SCOPED_TRACE(k);
		expect_balanced(balanced, rows, spec);
		EXPECT_GE(smallest(balanced), smallest(plain));
		EXPECT_EQ(balanced.report.n_used, k);
		EXPECT_LT(balanced.report.inertia, 1.05 * plain.report.inertia);
	}
}

TEST(KMeansBalance, DuplicatesStayTogether)
{
	// Seven values of 100 rows each and one of a single row, which gets no cluster of its own.
	Floats rows = normal_rows(7, 5, 26);

	for (size_t i = 7 * 5; i < size_t{700} * 5; i++)
		rows.push_back(rows[i % 35]);
	append(&rows, normal_rows(1, 5, 27));
	for (uint32_t k : {4u, 7u, 8u, 20u, 300u})
	{
		const KMeansSpec spec = balanced_spec(5, k, 2);
		const Trained balanced = train(rows, spec);

		SCOPED_TRACE(k);
		expect_balanced(balanced, rows, spec);
		EXPECT_GE(balanced.report.n_used, std::min(k, 7u) - 1);
		EXPECT_LE(balanced.report.n_used, k >= 20 ? 8u : 7u);
	}

	const KMeansSpec two = balanced_spec(1, 2, 2);
	Floats values(1000, 3);

	values[500] = 4;

	const Trained one = train(values, two);

	expect_balanced(one, values, two);
	EXPECT_EQ(one.report.n_used, 1u);
	EXPECT_EQ(one.centroids[1], one.centroids[0]); // an unused one is a copy of the first
}

TEST(KMeansBalance, AsManyClustersAsRowsAndNearlySo)
{
	const Floats rows = normal_rows(100, 3, 28);

	for (uint32_t k : {1u, 50u, 60u, 99u, 100u, 150u, 300u})
		for (float balance : {1.0f, 1.5f, 2.0f, 100.0f})
		{
			const KMeansSpec spec = balanced_spec(3, k, balance);
			const Trained balanced = train(rows, spec);

			SCOPED_TRACE(::testing::Message() << "k " << k << ", balance " << balance);
			expect_balanced(balanced, rows, spec);
			if (balance >= 2)
			{
				EXPECT_EQ(balanced.report.n_used, std::min(k, 100u));
			}
		}
	for (size_t n : {0u, 1u, 2u})
	{
		const Floats few(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(n * 3));

		EXPECT_EQ(train(few, balanced_spec(3, 4, 2)).report.n_used, n);
	}
}

TEST(KMeansBalance, SphericalCentroidsHaveLengthOne)
{
	Floats rows = normal_rows(6000, 8, 29);
	Floats far(8, 0.0f);
	KMeansSpec spec = balanced_spec(8, 30, 2);

	for (size_t i = 0; i < 3000; i++) // half of the rows have nearly one direction
		for (size_t d = 0; d < 8; d++)
			rows[i * 8 + d] = 5 + 0.1f * rows[i * 8 + d];
	append(&rows, far); // and one has none
	normalise_rows(rows.data(), rows.size() / 8, 8);
	spec.kind = ClusterKind::kSpherical;

	const Trained plain = train_plain(rows, spec);
	const Trained balanced = train(rows, spec);

	expect_balanced(balanced, rows, spec);
	EXPECT_LT(static_cast<double>(smallest(plain)), 6001 / 60.0);
	EXPECT_EQ(balanced.report.n_used, 30u);
	for (size_t c = 0; c < 30; c++)
	{
		double squares = 0;

		for (size_t d = 0; d < 8; d++)
			squares += std::pow(static_cast<double>(balanced.centroids[c * 8 + d]), 2);
		EXPECT_NEAR(squares, 1, 1e-6);
	}
}

TEST(KMeansBalance, WithoutIterationsSmallClustersAreJustTakenOut)
{
	Floats rows = normal_rows(4000, 6, 31);

	append(&rows, Floats(6, 1e5f));
	for (uint32_t iterations : {0u, 1u, 2u})
	{
		KMeansSpec spec = balanced_spec(6, 12, 2);

		spec.max_iterations = iterations;

		const Trained balanced = train(rows, spec);

		SCOPED_TRACE(iterations);
		expect_balanced(balanced, rows, spec);
		EXPECT_GE(balanced.report.n_used, 5u);
	}
}

TEST(KMeansBalance, HugeAndOffsetValuesAreDefined)
{
	Floats huge = normal_rows(2000, 4, 32, 1e37f);
	Floats offset = normal_rows(2000, 4, 33);

	for (float &x : offset)
		x += 1e6f;
	append(&huge, normal_rows(2000, 4, 34, 1e30f));
	append(&offset, Floats(size_t{2000} * 4, 1e6f));
	for (const Floats &rows : {huge, offset})
	{
		const KMeansSpec spec = balanced_spec(4, 50, 2);
		const Trained balanced = train(rows, spec);

		ASSERT_TRUE(balanced.outcome.is_ok());
		EXPECT_GE(smallest(balanced), 40u);
		for (float x : balanced.centroids)
			EXPECT_TRUE(std::isfinite(x));
	}
}

TEST(KMeansBalance, GivesTheSameBitsAtEveryLevelAndWithThreads)
{
	Floats rows = integer_rows(3000, 9, 35, 20);
	Threads threads(3);

	append(&rows, integer_rows(3000, 9, 36, 2));
	for (uint32_t k : {16u, 100u, 260u})
	{
		const KMeansSpec spec = balanced_spec(9, k, 1.5f);
		const Trained expected = train(rows, spec);

		EXPECT_GT(expected.report.n_splits, 0u);
		for (SimdLevel level : supported_levels())
		{
			AtLevel at(level);

			EXPECT_EQ(train(rows, spec).centroids, expected.centroids)
				<< "k " << k << ", level " << static_cast<int>(level);
		}
		EXPECT_EQ(train(rows, spec, threads.call()).centroids, expected.centroids) << "k " << k;
	}
}

TEST(KMeansBalance, StopsWhenToldToAtAnyPoint)
{
	Floats rows = normal_rows(3000, 8, 37, 0.01f);
	int most = 1;

	append(&rows, normal_rows(3000, 8, 38));
	for (int stop_at = 1; stop_at <= most; stop_at += 1 + most / 200)
	{
		struct Context
		{
			int calls;
			int stop_at;
		} context = {0, stop_at == 1 ? INT_MAX : stop_at}; // the first counts them
		Call call;

		call.progress_context = &context;
		call.progress = [](void *p, uint64_t done, uint64_t total)
		{
			Context *c = static_cast<Context *>(p);

			EXPECT_LE(done, total);
			return ++c->calls < c->stop_at;
		};

		const Trained trained = train(rows, balanced_spec(8, 60, 2), call);

		if (stop_at == 1)
			most = context.calls;
		EXPECT_EQ(trained.outcome.code, stop_at == 1 ? StatusCode::kOk : StatusCode::kCancelled)
			<< stop_at << " of " << most;
	}
	EXPECT_GT(most, 20);
}

TEST(KMeansBalance, HeavyTailsInOneDimensionOfMany)
{
	// Sizes that a few far rows decide: a log-normal length on random directions.
	for (unsigned seed = 1; seed <= 3; seed++)
	{
		Floats rows = normal_rows(5000, 4, 40 + seed);
		const Floats lengths = normal_rows(5000, 1, 50 + seed, 2);

		for (size_t i = 0; i < rows.size(); i++)
			rows[i] *= std::exp(lengths[i / 4]);
		for (uint32_t k : {10u, 100u, 400u})
			for (float balance : {1.0f, 2.0f, 5.0f})
			{
				const KMeansSpec spec = balanced_spec(4, k, balance);
				const Trained balanced = train(rows, spec);

				SCOPED_TRACE(::testing::Message() << "seed " << seed << ", k " << k << ", balance " << balance);
				expect_balanced(balanced, rows, spec);
				EXPECT_GE(static_cast<double>(balanced.report.n_used), k * (balance >= 2 ? 0.9 : 0.5));
				EXPECT_TRUE(!balanced.report.converged || balanced.report.n_used == k)
					<< "converged, and clusters are missing";
			}
	}
}

/// kmeans_balance of another training's centroids.
Trained
balance(const Floats &rows, KMeansSpec spec, Floats given)
{
	const uint32_t n_given = static_cast<uint32_t>(given.size() / spec.dim);
	Trained balanced;

	spec.n_rows = rows.size() / spec.dim;
	given.resize(size_t{std::max(spec.n_clusters, n_given)} * spec.dim, std::numeric_limits<float>::quiet_NaN());
	balanced.centroids = std::move(given);
	balanced.sizes.assign(spec.n_clusters, 999);

	Buffer work(kmeans_work_bytes(spec), 0xA5);

	balanced.outcome = kmeans_balance(spec, {rows.data(), spec.dim}, n_given, balanced.centroids.data(),
		balanced.sizes.data(), &balanced.report, work.data(), work.size());
	return balanced;
}

TEST(KMeansBalance, CentroidsOfAnotherTraining)
{
	Floats rows = uniform_rows(4000, 8, 61);

	append(&rows, normal_rows(400, 8, 62, 0.01f));
	for (uint32_t k : {1u, 7u, 40u, 300u})
		for (float factor : {1.5f, 2.0f})
		{
			const KMeansSpec spec = balanced_spec(8, k, factor);
			const Trained plain = train_plain(rows, spec);
			const Trained balanced = balance(rows, spec, plain.centroids);

			SCOPED_TRACE(::testing::Message() << "k " << k << ", balance " << factor);
			expect_balanced(balanced, rows, spec);
			EXPECT_GE(balanced.report.n_used, k - k / 10);
			EXPECT_LT(balanced.report.inertia, 1.1 * train(rows, spec).report.inertia);
		}

	// Fewer than wanted, and one alone: the others are made.
	const KMeansSpec spec = balanced_spec(8, 40, 2);
	Floats few = train_plain(rows, spec).centroids;

	few.resize(size_t{25} * 8);
	for (size_t n : {25u, 1u})
	{
		few.resize(n * 8);

		const Trained balanced = balance(rows, spec, few);

		expect_balanced(balanced, rows, spec);
		EXPECT_GE(balanced.report.n_used, 36u) << n;
	}
}

TEST(KMeansBalance, CentroidsOfAnotherTrainingStayWhereTheyAreBalanced)
{
	for (uint32_t k : {1u, 10u, 300u})
	{
		const Floats rows = uniform_rows(6000, 6, 25);
		const KMeansSpec spec = balanced_spec(6, k, 8);
		const Trained plain = train_plain(rows, spec);
		const Trained balanced = balance(rows, spec, plain.centroids);

		expect_consistent(balanced, rows, 6);
		EXPECT_EQ(balanced.centroids, plain.centroids);
		EXPECT_EQ(balanced.report.n_iterations, 0u);
	}
}

TEST(KMeansBalance, RefusesWhatIsNotToBeBalanced)
{
	const Floats rows = uniform_rows(100, 2, 3);
	const Floats centroids = uniform_rows(4, 2, 4);
	Floats odd = centroids;

	odd[3] = std::numeric_limits<float>::infinity();
	EXPECT_EQ(balance(rows, balanced_spec(2, 4, 0), centroids).outcome.code, StatusCode::kInvalidArgument);
	EXPECT_EQ(balance(rows, balanced_spec(2, 3, 2), centroids).outcome.code, StatusCode::kInvalidArgument);
	EXPECT_EQ(balance(rows, balanced_spec(2, 4, 2), {}).outcome.code, StatusCode::kInvalidArgument);
	EXPECT_EQ(balance(rows, balanced_spec(2, 4, 2), odd).outcome.code, StatusCode::kInvalidArgument);
	EXPECT_TRUE(balance(rows, balanced_spec(2, 4, 2), centroids).outcome.is_ok());
}

TEST(KMeansBalance, ChangesNothingWhereClustersAreBalanced)
{
	for (uint32_t k : {1u, 10u, 300u})
	{
		const Floats rows = uniform_rows(6000, 6, 25);
		const KMeansSpec spec = balanced_spec(6, k, 8);
		const Trained plain = train_plain(rows, spec);
		const Trained balanced = train(rows, spec);

		SCOPED_TRACE(k);
		expect_balanced(balanced, rows, spec);
		EXPECT_EQ(balanced.centroids, plain.centroids);
		EXPECT_EQ(balanced.sizes, plain.sizes);
		EXPECT_EQ(balanced.report.n_iterations, plain.report.n_iterations);
	}
}

TEST(KMeansBalance, MakesTheLargestClusterSmaller)
{
	// Half of the rows in a heap that plain k-means gives few clusters.
	Floats rows = normal_rows(4000, 6, 11, 0.05f);
	const Floats wide = normal_rows(4000, 6, 12, 5);
	KMeansSpec spec = balanced_spec(6, 100, 2);

	rows.insert(rows.end(), wide.begin(), wide.end());

	const Trained plain = train_plain(rows, spec);
	const Trained balanced = train(rows, spec);

	expect_balanced(balanced, rows, spec);
	EXPECT_LT(balanced.report.largest, plain.report.largest);
	EXPECT_GT(balanced.report.n_splits, 0u);
}

} // namespace
} // namespace vectorgpu::engine::ivf::test
