// A segment whose elements cannot be numbered with 31 bits. One block of rows is repeated under other row ids, so the
// oracle needs a copy of the block only: each of its answers stands for as many rows as there are blocks, at one
// distance, in order of their ids.
#include <algorithm>
#include <vector>

#include <cuda_runtime_api.h>

#include "engines.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr size_t kBlockRows = 200000;
constexpr size_t kBlocks = 85;
constexpr uint32_t kDim = 128;
constexpr size_t kNeighbors = 100; // more than blocks, so that rows of the last are among them
constexpr size_t kBehind = 30;     // answers that a query leaves out

static_assert(uint64_t{kBlockRows} * (kBlocks - 1) * kDim > uint64_t{1} << 31); // the last block begins here

TEST(ManyRows, ElementsBeyondTwoToThe31)
{
	size_t free_bytes = 0, total_bytes = 0;

	cuda_engine(); // takes its memory first
	ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
	if (free_bytes < size_t{20} << 30)
		GTEST_SKIP() << "the GPU has no 20 GiB left for 17 million rows of float32 and their narrower form";

	std::mt19937 rng(16);
	Rows rows({Metric::kL2, ElementType::kFloat32, kDim}), queries(rows.spec);
	std::vector<RowId> ids(kBlockRows);
	std::vector<std::vector<Neighbor>> expected, found;
	std::vector<SearchQuery> all;
	CopyId cuda_copy = 0, cpu_copy = 0;

	add_whole_numbers(&rows, kBlockRows, 255, rng, 0);
	add_whole_numbers(&queries, 130, 255, rng, 0);
	ASSERT_OK(cuda_engine()->create({rows.spec}, &cuda_copy));
	ASSERT_OK(cpu_engine()->create({rows.spec}, &cpu_copy));
	ASSERT_OK(cpu_engine()->load_segment(cpu_copy, 1, rows.block()));
	ASSERT_OK(cpu_engine()->seal_segment(cpu_copy, 1));
	for (size_t block = 0; block < kBlocks; block++)
	{
		for (size_t i = 0; i < kBlockRows; i++)
			ids[i] = block * kBlockRows + i;
		ASSERT_OK(cuda_engine()->load_segment(cuda_copy, 1, {ids, rows.vectors.data(), kBlockRows}));
	}
	ASSERT_OK(cuda_engine()->seal_segment(cuda_copy, 1));
	for (size_t i = 0; i < queries.n(); i++)
		all.push_back({queries.vector(i), kNeighbors + kBehind, false, {}});
	ASSERT_OK(cpu_engine()->search(cpu_copy, all, &expected, nullptr));
	for (std::vector<Neighbor> &answers : expected)
	{
		std::vector<Neighbor> every;

		for (const Neighbor &answer : answers)
			for (size_t block = 0; block < kBlocks; block++)
				every.push_back({answer.score, answer.row + block * kBlockRows});
		std::sort(every.begin(), every.end(), engine::neighbor_less);
		every.resize(kNeighbors + kBehind);
		answers = std::move(every);
	}
	for (SearchQuery &query : all)
		query.k = kNeighbors;
	for (const size_t batch : {size_t{1}, size_t{12}, size_t{40}, all.size()}) // in one pass; by the filter, in stages
	{
		SCOPED_TRACE(testing::Message() << "batch " << batch);
		ASSERT_OK(cuda_engine()->search(cuda_copy, std::span(all).first(batch), &found, nullptr));
		ASSERT_EQ(found.size(), batch);
		for (size_t i = 0; i < batch; i++)
			ASSERT_NO_FATAL_FAILURE(
				expect_same(found[i], std::vector<Neighbor>(expected[i].begin(), expected[i].begin() + kNeighbors)));
	}
	for (size_t i = 0; i < 3; i++) // directly
	{
		all[i].has_after = true;
		all[i].after = expected[i][kBehind - 1];
	}
	ASSERT_OK(cuda_engine()->search(cuda_copy, std::span(all).first(3), &found, nullptr));
	for (size_t i = 0; i < 3; i++)
		ASSERT_NO_FATAL_FAILURE(
			expect_same(found[i], std::vector<Neighbor>(expected[i].begin() + kBehind, expected[i].end())));
	ASSERT_OK(cuda_engine()->drop(cuda_copy));
	ASSERT_OK(cpu_engine()->drop(cpu_copy));
}

} // namespace
} // namespace vectorgpu::cuda::test
