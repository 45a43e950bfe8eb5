// Answers of the CPU engine against a plain sort of oracle scores: metrics, batches, ties, hard data, continuation.
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "engine/held_rows.hpp"

namespace vectorgpu::engine
{
namespace
{

using namespace test;

TEST(CpuEngine, EqualsBruteForceForEveryMetricElementTypeAndBatchSize)
{
	for (Metric metric :
		{Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1, Metric::kHamming, Metric::kJaccard})
		for (ElementType element : {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBit})
			for (uint32_t dim : {1, 33})
			{
				if (!metric_supports(metric, element))
					continue;

				std::mt19937 rng(dim);
				Rows rows({metric, element, dim}), queries(rows.spec);

				rows.add_random(1300, Data::kGaussian, rng, 100); // more than a block of the filter
				queries.add_random(64, Data::kGaussian, rng, 0);

				const Loaded loaded = load(rows);

				for (size_t batch : {7, 8, 64})
					ASSERT_NO_FATAL_FAILURE(expect_exact(loaded, rows, queries, 10, batch));
				queries.ids.resize(3);
				ASSERT_NO_FATAL_FAILURE(expect_exact(loaded, rows, queries, 10, 1));
			}
}

TEST(CpuEngine, EqualsBruteForceOnHardFloats)
{
	for (Metric metric : kFloatMetrics)
		for (ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
			for (Data data : kAllData)
			{
				std::mt19937 rng(static_cast<unsigned>(data));
				Rows rows({metric, element, 40}), queries(rows.spec);

				rows.add_random(800, data, rng, 0);
				rows.add_random(800, Data::kGaussian, rng, 800);
				queries.add_random(8, data, rng, 0);
				queries.add_random(8, Data::kGaussian, rng, 0);

				const Loaded loaded = load(rows);

				for (size_t k : {20, 1600})
					ASSERT_NO_FATAL_FAILURE(expect_exact(loaded, rows, queries, k, 16));
			}
}

TEST(CpuEngine, GivesEveryRowWhenKIsTheirNumberOrMore)
{
	std::mt19937 rng(4);
	Rows rows({Metric::kL2, ElementType::kFloat32, 8}), queries(rows.spec);

	rows.add_random(1500, Data::kGaussian, rng, 0);
	queries.add_random(8, Data::kGaussian, rng, 0);

	const Loaded loaded = load(rows);

	for (size_t k :
		{size_t{0}, size_t{1}, size_t{1499}, size_t{1500}, size_t{1501}, std::numeric_limits<size_t>::max()})
		for (size_t batch : {1, 8})
			ASSERT_NO_FATAL_FAILURE(expect_exact(loaded, rows, queries, k, batch));
}

TEST(CpuEngine, BreaksTiesByRowIdWhenAllRowsAreEqual)
{
	for (Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
	{
		std::mt19937 rng(1);
		Rows rows({metric, ElementType::kFloat32, 50}), queries(rows.spec);
		Bytes vector(rows.row_bytes);

		random_vector(rows.spec, Data::kGaussian, rng, vector.data());
		for (RowId id = 0; id < 5000; id++)
			rows.add(id, vector.data());
		queries.add(0, vector.data());
		queries.add_random(7, Data::kGaussian, rng, 0);
		ASSERT_NO_FATAL_FAILURE(expect_exact(load(rows), rows, queries, 100, 8));
	}
}

TEST(CpuEngine, IsExactWhereDistancesDifferByLessThanTheErrorOfTheMatrixProduct)
{
	// A common offset of a thousand with differences in the last bits: the products agree to all their digits.
	for (Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
		for (float offset : {1.0f, 1000.0f, 1e6f})
		{
			std::mt19937 rng(9);
			Rows rows({metric, ElementType::kFloat32, 64}), queries(rows.spec);
			std::vector<float> vector(64);
			const auto draw = [&](float spread)
			{
				for (float &x : vector)
					x = offset + spread * offset * static_cast<float>(static_cast<int>(rng() % 5) - 2);
				return reinterpret_cast<const uint8_t *>(vector.data());
			};

			for (RowId id = 0; id < 4000; id++)
				rows.add(id, draw(0x1p-22f));
			for (int i = 0; i < 8; i++)
				queries.add(0, draw(0x1p-22f));
			ASSERT_NO_FATAL_FAILURE(expect_exact(load(rows), rows, queries, 10, 8));
		}
}

TEST(CpuEngine, FilterRulesOutMostRowsOfOrdinaryData)
{
	for (Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
		for (ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
		{
			std::mt19937 rng(2);
			Rows rows({metric, element, 32}), queries(rows.spec);

			rows.add_random(20000, Data::kGaussian, rng, 0);
			queries.add_random(8, Data::kGaussian, rng, 0);

			const Loaded loaded = load(rows);

			ASSERT_NO_FATAL_FAILURE(expect_exact(loaded, rows, queries, 10, 8));
			EXPECT_GT(loaded.engine->stats().n_rescored, 8u * 10);
			EXPECT_LT(loaded.engine->stats().n_rescored, 8u * 20000 / 10);
			EXPECT_EQ(loaded.engine->stats().n_batches, 1u);
			EXPECT_EQ(loaded.engine->stats().n_searches, 8u);
		}
}

TEST(CpuEngine, ContinuingAfterTheLastWalksAllRowsOnceInOrder)
{
	for (Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1})
	{
		std::mt19937 rng(6);
		Rows rows({metric, ElementType::kFloat32, 3}), queries(rows.spec);

		rows.add_random(1000, Data::kGaussian, rng, 0);
		rows.add_random(100, Data::kExtremes, rng, 1000);
		for (size_t i = 0; i < 300; i++)
			rows.add(1100 + i, rows.vector(i)); // ties
		queries.add_random(8, Data::kGaussian, rng, 0);

		const Loaded loaded = load(rows);
		std::vector<std::vector<Neighbor>> walked(8), results;

		for (size_t step = 0; step < 1400 / 97 + 2; step++)
		{
			std::vector<SearchQuery> requests;

			for (size_t i = 0; i < 8; i++)
				requests.push_back(
					{queries.vector(i), 97, !walked[i].empty(), walked[i].empty() ? Neighbor{} : walked[i].back()});
			ASSERT_OK(loaded.engine->search(loaded.copy, requests, &results));
			for (size_t i = 0; i < 8; i++)
				walked[i].insert(walked[i].end(), results[i].begin(), results[i].end());
		}
		for (size_t i = 0; i < 8; i++)
			ASSERT_NO_FATAL_FAILURE(expect_same(walked[i], rows.nearest(queries.vector(i), rows.n())));
	}
}

TEST(CpuEngine, AnswerDoesNotDependOnThreadsNorOnTheOtherQueries)
{
	std::mt19937 rng(8);
	Rows rows({Metric::kL2, ElementType::kFloat32, 16}), queries(rows.spec);

	rows.add_random(40000, Data::kGaussian, rng, 0); // several chunks
	queries.add_random(8, Data::kGaussian, rng, 0);

	std::vector<SearchQuery> requests;
	std::vector<std::vector<Neighbor>> want, results;

	for (size_t i = 0; i < queries.n(); i++)
	{
		requests.push_back({queries.vector(i), 50, false, {}});
		want.push_back(rows.nearest(queries.vector(i), 50));
	}
	for (size_t n_threads : {1, 2, 4})
	{
		const Loaded loaded = load(rows, {n_threads, 8});

		for (size_t batch : {1, 8})
			for (size_t first = 0; first < 8; first += batch)
			{
				ASSERT_OK(loaded.engine->search(loaded.copy, {&requests[first], batch}, &results));
				for (size_t i = 0; i < batch; i++)
					ASSERT_NO_FATAL_FAILURE(expect_same(results[i], want[first + i]));
			}
	}
}

/// Another thread prepares the memory of a segment's next rows while rows are written; a copy may be dropped meanwhile.
TEST(CpuEngine, SegmentsOfManyChunksHoldWhatCame)
{
	constexpr size_t kRows = 70000, kPart = 700; // 36 MB: five chunks
	std::mt19937 rng(9);
	Rows rows({Metric::kL2, ElementType::kFloat32, 128});
	const std::unique_ptr<Engine> engine = make_cpu_engine({2, 8});
	Bytes read(kPart * rows.row_bytes);
	std::vector<RowId> ids(kPart);

	rows.add_random(kPart, Data::kGaussian, rng, 0);
	for (const bool to_the_end : {false, true, true})
	{
		CopyId copy = 0;

		ASSERT_OK(engine->create({rows.spec}, &copy));
		for (size_t at = 0; at < (to_the_end ? kRows : kRows / 2); at += kPart)
		{
			for (size_t i = 0; i < kPart; i++)
				rows.ids[i] = at + i;
			ASSERT_OK(engine->load_segment(copy, 1, rows.block(0, kPart)));
		}
		if (to_the_end)
		{
			ASSERT_OK(engine->prepare_segment(copy, 1));
			ASSERT_OK(engine->seal_segment(copy, 1));
			for (size_t at = 0; at < kRows; at += kPart)
			{
				ASSERT_OK(engine->read_rows(copy, 1, at, kPart, ids.data(), read.data()));
				EXPECT_EQ(read, rows.vectors) << at;
				EXPECT_EQ(ids.front(), at);
				EXPECT_EQ(ids.back(), at + kPart - 1);
			}
		}
		ASSERT_OK(engine->drop(copy));
	}
}

} // namespace
} // namespace vectorgpu::engine
