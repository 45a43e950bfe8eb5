// PartialReduce in the kernels against the reduction in plain code. If estimates are exact (whole numbers) the answers
// are the same; else the recall is what the number of bins guarantees. A target of 1 changes nothing.
#include "engine/distance/partial_reduce.hpp"

#include <set>

#include "engines.hpp"
#include "kernels/filter/filter.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr size_t kRows = 60000;

/// The k first of the bins' nearest rows.
std::vector<Neighbor>
reduced(const Rows &rows, const uint8_t *query, size_t k, double target, const std::vector<uint8_t> &dead)
{
	const uint64_t n_bins = engine::partial_reduce_bins(k, target);
	std::vector<double> scores(rows.n());
	std::vector<uint64_t> kept(n_bins);
	std::vector<Neighbor> nearest;

	engine::compute_scores(rows.spec, query, rows.vectors.data(), rows.row_bytes, rows.n(), scores.data());
	engine::partial_reduce(scores.data(), rows.n(), dead.empty() ? nullptr : dead.data(), n_bins, kept.data());
	for (const uint64_t row : kept)
		if (row != engine::kNoRow)
			nearest.push_back({scores[row], rows.ids[row]});
	std::sort(nearest.begin(), nearest.end(), engine::neighbor_less);
	nearest.resize(std::min(k, nearest.size()));
	return nearest;
}

std::vector<SearchQuery>
batch_of(const Rows &queries, size_t n, size_t k, float target)
{
	std::vector<SearchQuery> batch;

	for (size_t i = 0; i < n; i++)
		batch.push_back({queries.vector(i), k, false, {}, target});
	return batch;
}

/// With whole numbers, by warp groups or without.
class WholeNumbers : public testing::TestWithParam<bool>
{
protected:
	WholeNumbers() { kernels::allow_filter_groups(GetParam()); }
	~WholeNumbers() override { kernels::allow_filter_groups(true); }
};

INSTANTIATE_TEST_SUITE_P(PartialReduce, WholeNumbers, testing::Bool(),
	[](const testing::TestParamInfo<bool> &groups) { return groups.param ? "ByWarpGroups" : "ByWarps"; });

TEST_P(WholeNumbers, GiveTheSameRowsAsPlainCode)
{
	for (Metric metric : {Metric::kL2, Metric::kInnerProduct})
		for (uint32_t dim : GetParam() ? std::vector<uint32_t>{20, 128, 250} : std::vector<uint32_t>{20})
		{
			std::mt19937 rng(dim);
			Rows rows({metric, ElementType::kFloat32, dim}), queries(rows.spec);
			Both both(rows.spec);
			std::vector<uint8_t> dead((kRows + 7) / 8);

			add_whole_numbers(&rows, kRows, 255, rng, 100);
			add_whole_numbers(&queries, 150, 255, rng, 0);
			ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
			for (bool some_dead : {false, true})
			{
				if (some_dead)
				{
					for (uint8_t &byte : dead)
						byte = static_cast<uint8_t>(rng() & rng());
					ASSERT_NO_FATAL_FAILURE(
						both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
				}
				for (const auto &[k, target] :
					{std::pair<size_t, float>{1, 0.9f}, {10, 0.95f}, {10, 0.5f}, {50, 0.95f}, {200, 0.8f}})
					for (size_t batch : {1, 8, 9, 33, 65, 150})
					{
						SCOPED_TRACE(testing::Message()
							<< metric_name(metric) << " dim " << dim << " k " << k << " target " << target << " batch "
							<< batch << " dead " << some_dead);

						std::vector<std::vector<Neighbor>> results;

						ASSERT_OK(cuda_engine()->search(
							both.cuda_copy(), batch_of(queries, batch, k, target), &results, nullptr));
						for (size_t i = 0; i < batch; i++)
							ASSERT_NO_FATAL_FAILURE(expect_same(results[i],
								reduced(
									rows, queries.vector(i), k, target, some_dead ? dead : std::vector<uint8_t>())));
					}
			}
		}
}

// Stripes of many tiles, which only large batches have; 784 dimensions leave a key few bits for the tile.
TEST_P(WholeNumbers, LargeBatchesAnswerAsSmallOnesDo)
{
	for (uint32_t dim : {20u, 128u, 784u})
	{
		SCOPED_TRACE(dim);

		constexpr size_t kQueries = 1500;
		std::mt19937 rng(dim);
		Rows rows({Metric::kL2, ElementType::kFloat32, dim}), queries(rows.spec);
		Both both(rows.spec);
		std::vector<std::vector<Neighbor>> large;
		std::vector<std::vector<Neighbor>> small;

		add_whole_numbers(&rows, kRows, 255, rng, 100);
		add_whole_numbers(&queries, kQueries, 255, rng, 0);
		ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
		ASSERT_OK(cuda_engine()->search(both.cuda_copy(), batch_of(queries, kQueries, 10, 0.95f), &large, nullptr));
		ASSERT_OK(cuda_engine()->search(both.cuda_copy(), batch_of(queries, 20, 10, 0.95f), &small, nullptr));
		for (size_t i = 0; i < 20; i++)
			ASSERT_NO_FATAL_FAILURE(expect_same(large[i], small[i]));
		if (dim > 128) // squares do not fit a float, so the estimates do not either
			continue;
		for (size_t i : {size_t{0}, size_t{700}, kQueries - 1})
			ASSERT_NO_FATAL_FAILURE(expect_same(large[i], reduced(rows, queries.vector(i), 10, 0.95, {})));
	}
}

TEST(PartialReduce, RecallOfRealNumbersIsWhatTheBinsGuarantee)
{
	for (Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
		for (ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
			for (const auto &[k, target] : {std::pair<size_t, float>{10, 0.95f}, {10, 0.7f}, {100, 0.9f}})
			{
				SCOPED_TRACE(testing::Message() << metric_name(metric) << " k " << k << " target " << target);

				constexpr size_t kQueries = 200;
				std::mt19937 rng(static_cast<unsigned>(k));
				Rows rows({metric, element, 48}), queries(rows.spec);
				Both both(rows.spec);
				std::vector<std::vector<Neighbor>> found;
				std::vector<std::vector<Neighbor>> exact;
				size_t n_found = 0;

				rows.add_random(kRows, Data::kGaussian, rng, 100);
				queries.add_random(kQueries, Data::kGaussian, rng, 0);
				ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
				ASSERT_OK(
					cuda_engine()->search(both.cuda_copy(), batch_of(queries, kQueries, k, target), &found, nullptr));
				ASSERT_OK(cuda_engine()->search(both.cuda_copy(), batch_of(queries, kQueries, k, 1), &exact, nullptr));
				for (size_t i = 0; i < kQueries; i++)
				{
					std::set<RowId> rows_found;

					ASSERT_EQ(found[i].size(), k);
					ASSERT_TRUE(std::is_sorted(found[i].begin(), found[i].end(), engine::neighbor_less));
					for (const Neighbor &one : found[i])
						rows_found.insert(one.row);
					for (const Neighbor &one : exact[i])
						n_found += rows_found.count(one.row);
				}

				const double recall = static_cast<double>(n_found) / static_cast<double>(kQueries * k);

				// The mean of 200 queries stays within a few standard deviations (0.005) of an expectation above the
				// guarantee.
				EXPECT_GE(recall, engine::partial_reduce_recall(k, engine::partial_reduce_bins(k, target)) - 0.01);
			}
}

TEST(PartialReduce, ATargetOfOneIsExact)
{
	std::mt19937 rng(8);
	Rows rows({Metric::kL2, ElementType::kFloat32, 32}), queries(rows.spec);
	Both both(rows.spec);

	rows.add_random(kRows, Data::kGaussian, rng, 100);
	queries.add_random(20, Data::kGaussian, rng, 0);
	ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
	ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch_of(queries, 20, 10, 1)));
}

TEST(PartialReduce, TargetsOfOneBatchDoNotMix)
{
	std::mt19937 rng(9);
	Rows rows({Metric::kL2, ElementType::kFloat32, 32}), queries(rows.spec);
	Both both(rows.spec);
	std::vector<SearchQuery> mixed;
	std::vector<std::vector<Neighbor>> together;

	add_whole_numbers(&rows, kRows, 255, rng, 100);
	add_whole_numbers(&queries, 40, 255, rng, 0);
	ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
	for (size_t i = 0; i < 40; i++)
		mixed.push_back({queries.vector(i), 10 + i % 3, false, {}, i % 4 == 0 ? 1.0f : i % 4 == 1 ? 0.5f : 0.95f});
	ASSERT_OK(cuda_engine()->search(both.cuda_copy(), mixed, &together, nullptr));
	for (size_t i = 0; i < 40; i++)
	{
		std::vector<std::vector<Neighbor>> alone;

		ASSERT_OK(cuda_engine()->search(both.cuda_copy(), {&mixed[i], 1}, &alone, nullptr));
		ASSERT_NO_FATAL_FAILURE(expect_same(together[i], alone[0]));
	}
}

TEST(PartialReduce, FewRowsAliveAreAllFound)
{
	// Nearly all rows are dead: fewer bins have a row than results are requested.
	std::mt19937 rng(10);
	Rows rows({Metric::kL2, ElementType::kFloat32, 16}), queries(rows.spec);
	Both both(rows.spec);
	std::vector<uint8_t> dead((kRows + 7) / 8, 0xFF);
	std::vector<std::vector<Neighbor>> results;

	add_whole_numbers(&rows, kRows, 255, rng, 100);
	add_whole_numbers(&queries, 3, 255, rng, 0);
	ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
	for (size_t i = 0; i < 12; i++)
		dead[i * 32] = 0xFE; // rows 0, 256, 512, ...: all in one bin of 256
	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
	ASSERT_OK(cuda_engine()->search(both.cuda_copy(), batch_of(queries, 3, 10, 0.95f), &results, nullptr));
	for (const std::vector<Neighbor> &result : results)
		EXPECT_EQ(result.size(), 10u);
}

} // namespace
} // namespace vectorgpu::cuda::test
