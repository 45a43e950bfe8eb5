// Large batches over several devices are cut into pieces, and the answers of shards are merged while later pieces are
// searched: the answers are those of one engine, whatever memory they are written to, and a failure in any step ends
// the batch.
#include <thread>

#include "worker/spread_fixture.hpp"

namespace vectorgpu::worker
{
namespace
{

constexpr uint32_t kDim = 16;
const DistanceSpec kSpec = {Metric::kL2, ElementType::kFloat32, kDim};
constexpr uint64_t kRowBytes = kDim * 4 + 16;
constexpr size_t kRows = 600;
constexpr size_t kDevices = 3;

class SpreadPieces : public testing::TestWithParam<bool>
{
protected:
	SpreadPieces()
	{
		std::mt19937 rng(4);

		rows_.add_random(kRows, Data::kGaussian, rng, 1);
		engine_ = bench_.make(kDevices, GetParam() ? 400 * kRowBytes : 0);
		load_into(engine_.get(), &copy_);
		load_into(plain_.get(), &plain_copy_);
	}

	void load_into(engine::Engine *engine, CopyId *copy)
	{
		ASSERT_OK(engine->create(kSpec, copy));
		for (size_t first = 0; first < kRows; first += 25)
			ASSERT_OK(engine->load_segment(*copy, 1, rows_.block(first, 25)));
		ASSERT_OK(engine->seal_segment(*copy, 1));
	}

	/// n queries, each with a k up to most_k.
	std::vector<SearchQuery> make_queries(size_t n, size_t most_k)
	{
		std::vector<SearchQuery> queries(n);

		for (size_t i = 0; i < n; i++)
		{
			queries[i].query = rows_.vector(i * 7 % kRows);
			queries[i].k = 1 + i * 5 % most_k;
			queries[i].has_after = i % 3 == 1;
			queries[i].after = {10, 5};
		}
		return queries;
	}

	void expect_right(
		const std::vector<std::vector<Neighbor>> &got, const std::vector<SearchQuery> &queries, const char *what)
	{
		std::vector<std::vector<Neighbor>> want;

		ASSERT_OK(plain_->search(plain_copy_, queries, &want, nullptr));
		ASSERT_EQ(got.size(), want.size()) << what;
		for (size_t i = 0; i < want.size(); i++)
			ASSERT_NO_FATAL_FAILURE(expect_same(got[i], want[i])) << what << ", query " << i;
	}

	SpreadBench bench_;
	Rows rows_{kSpec};
	std::unique_ptr<SpreadEngine> engine_;
	std::unique_ptr<engine::Engine> plain_ = engine::make_cpu_engine({});
	CopyId copy_ = 0;
	CopyId plain_copy_ = 0;
};

/// Sizes around those of pieces and of merges; the answers before were more, fewer, or those of another batch.
TEST_P(SpreadPieces, AnswersAreThoseOfOneEngine)
{
	std::vector<std::vector<Neighbor>> results;

	ASSERT_EQ(engine_->is_sharded(copy_), GetParam());
	for (const size_t n : {1u, 2u, 3u, 5u, 511u, 2049u, 7u, 2600u, 512u, 0u, 1500u})
		for (const size_t most_k : {40u, 3u})
		{
			const std::vector<SearchQuery> queries = make_queries(n, most_k);

			ASSERT_OK(engine_->search(copy_, queries, &results, nullptr));
			ASSERT_NO_FATAL_FAILURE(expect_right(results, queries, "alone"));
		}
	EXPECT_GT(engine_->times().whole, 0u);
	EXPECT_EQ(engine_->times().merging > 0, GetParam());
}

TEST_P(SpreadPieces, BatchesOfSeveralCallersDoNotMix)
{
	std::vector<std::thread> callers;
	std::atomic<int> n_failed{0};

	for (size_t c = 0; c < 4; c++)
		callers.emplace_back(
			[&, c]
			{
				std::vector<std::vector<Neighbor>> results;

				for (size_t i = 0; i < 12; i++)
				{
					const std::vector<SearchQuery> queries = make_queries(300 + 400 * c + 17 * i, 5 + 7 * c);

					n_failed += engine_->search(copy_, queries, &results, nullptr).is_ok() ? 0 : 1;
					expect_right(results, queries, "several callers");
				}
			});
	for (std::thread &caller : callers)
		caller.join();
	EXPECT_EQ(n_failed, 0);
}

/// The device of the n-th call of an engine is lost: another replica has the rows; with shards they are gone.
TEST_P(SpreadPieces, ALossInAnyStepEndsTheBatch)
{
	for (int at = 1; at <= static_cast<int>(kDevices) * 4 + 1; at++)
	{
		std::vector<std::vector<Neighbor>> results(7);
		const std::vector<SearchQuery> queries = make_queries(2100, 9);

		engine_ = bench_.make(kDevices, GetParam() ? 400 * kRowBytes : 0);
		load_into(engine_.get(), &copy_);
		bench_.lose_at = at;

		const Status status = engine_->search(copy_, queries, &results, nullptr);
		const bool lost = bench_.lose_at <= 0;

		bench_.lose_at = 0;
		ASSERT_EQ(status.code, GetParam() && lost ? StatusCode::kNotFound : StatusCode::kOk) << at;
		if (status.is_ok())
		{
			ASSERT_NO_FATAL_FAILURE(expect_right(results, queries, "after a loss"));
		}
		else
			EXPECT_TRUE(results.empty());
	}
}

/// Gives one answer too few, or none.
TEST_P(SpreadPieces, AnEngineThatFailsEndsTheBatch)
{
	std::vector<std::vector<Neighbor>> results;
	std::vector<SearchQuery> queries = make_queries(2100, 9);

	queries[1800].query_bytes = 0;
	queries[1800].query = nullptr; // the CPU engine refuses it, in the last piece only
	EXPECT_EQ(engine_->search(copy_, queries, &results, nullptr).code, StatusCode::kInvalidArgument);
	EXPECT_TRUE(results.empty());
	queries = make_queries(2100, 9);
	ASSERT_OK(engine_->search(copy_, queries, &results, nullptr));
	ASSERT_NO_FATAL_FAILURE(expect_right(results, queries, "after a failure"));
}

INSTANTIATE_TEST_SUITE_P(All, SpreadPieces, testing::Bool(),
	[](const testing::TestParamInfo<bool> &one) { return one.param ? "Shards" : "Replicas"; });

} // namespace
} // namespace vectorgpu::worker
