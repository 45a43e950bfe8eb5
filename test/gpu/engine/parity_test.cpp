// The CUDA engine gives the CPU engine's answers: metrics, element types, forms, batches, k, hard data.
#include "engines.hpp"
#include "kernels/filter/filter.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr size_t kFiltered = 17000; // rows that the filter takes (tuning.hpp: 16384)

TEST(Parity, EveryMetricElementTypeAndSmallDimension)
{
	for (Metric metric :
		{Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1, Metric::kHamming, Metric::kJaccard})
		for (ElementType element : {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBit})
			for (uint32_t dim = 1; dim <= 130; dim += dim < 34 ? 1 : 16)
			{
				if (!engine::metric_supports(metric, element))
					continue;
				SCOPED_TRACE(testing::Message()
					<< metric_name(metric) << " element " << static_cast<int>(element) << " dim " << dim);

				std::mt19937 rng(dim);
				Rows rows({metric, element, dim}), queries(rows.spec);
				Both both(rows.spec);

				rows.add_random(1500, Data::kGaussian, rng, 100);
				queries.add_random(9, Data::kGaussian, rng, 0);
				ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
				for (size_t batch : {1, 2, 3, 9})
					ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, batch, 10));
			}
}

TEST(Parity, FilteredBatchesOfEveryFormMetricAndDimension)
{
	for (Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
		for (ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
			for (uint32_t dim : {1u, 3u, 32u, 33u, 96u, 128u, 130u, 784u})
				for (unsigned most : {0u, 255u, 2000u}) // real numbers; bytes; exact in binary16
				{
					if (element == ElementType::kFloat16 && most == 255)
						continue;
					SCOPED_TRACE(testing::Message() << metric_name(metric) << " element " << static_cast<int>(element)
													<< " dim " << dim << " values " << most);

					std::mt19937 rng(dim);
					Rows rows({metric, element, dim}), queries(rows.spec);
					Both both(rows.spec);

					if (most == 0)
					{
						rows.add_random(kFiltered, Data::kGaussian, rng, 100);
						queries.add_random(130, Data::kGaussian, rng, 0);
					}
					else
					{
						add_whole_numbers(&rows, kFiltered, most, rng, 100);
						add_whole_numbers(&queries, 130, most, rng, 0);
					}
					ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
					for (size_t batch : {2, 9, 17, 33, 65, 130})
						ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, batch, 10));
					ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 20, 1));
					ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 20, 200));
				}
}

TEST(Parity, TheFilterWithoutWarpGroupsAnswersTheSame)
{
	struct Restore
	{
		~Restore() { kernels::allow_filter_groups(true); }
	} restore;

	kernels::allow_filter_groups(false);
	for (Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
		for (uint32_t dim : {33u, 128u})
			for (unsigned most : {0u, 255u, 2000u})
			{
				SCOPED_TRACE(testing::Message() << metric_name(metric) << " dim " << dim << " values " << most);

				std::mt19937 rng(dim);
				Rows rows({metric, ElementType::kFloat32, dim}), queries(rows.spec);
				Both both(rows.spec);

				if (most == 0)
				{
					rows.add_random(kFiltered, Data::kGaussian, rng, 100);
					queries.add_random(130, Data::kGaussian, rng, 0);
				}
				else
				{
					add_whole_numbers(&rows, kFiltered, most, rng, 100);
					add_whole_numbers(&queries, 130, most, rng, 0);
				}
				ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
				for (size_t batch : {2, 9, 17, 33, 65, 130})
					ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, batch, 10));
			}
}

TEST(Parity, EveryKFromOneToBeyondTheRows)
{
	for (bool narrow : {true, false})
	{
		std::mt19937 rng(7);
		Rows rows({Metric::kL2, ElementType::kFloat32, 20}), queries(rows.spec);
		Both both(rows.spec, narrow);

		add_whole_numbers(&rows, kFiltered, 9, rng, 5); // many ties
		add_whole_numbers(&queries, 20, 9, rng, 0);
		ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
		for (size_t k :
			{0, 1, 2, 31, 32, 33, 255, 256, 257, 265, 1000, 2047, 2048, 2049, 5000, 16999, 17000, 17001, 100000})
		{
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 1, k));
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 20, k));
		}

		std::vector<SearchQuery> mixed;

		for (size_t i = 0; i < 20; i++)
			mixed.push_back({queries.vector(i), i * i * 8, false, {}});
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(mixed));
	}
}

TEST(Parity, HardFloats)
{
	for (Metric metric : kFloatMetrics)
		for (ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
			for (Data data : kAllData)
				for (size_t n_ordinary : {size_t{800}, kFiltered})
				{
					SCOPED_TRACE(testing::Message() << metric_name(metric) << " element " << static_cast<int>(element)
													<< " data " << static_cast<int>(data) << " beside " << n_ordinary);

					std::mt19937 rng(static_cast<unsigned>(data));
					Rows rows({metric, element, 40}), queries(rows.spec);
					Both both(rows.spec);

					rows.add_random(200, data, rng, 0);
					rows.add_random(n_ordinary, Data::kGaussian, rng, 200);
					queries.add_random(8, data, rng, 0);
					queries.add_random(8, Data::kGaussian, rng, 0);
					ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
					for (size_t k : {20, 700})
						ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 16, k));
					ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 1, 20));
				}
}

TEST(Parity, OnlyHardFloatsWhereTheFilterWouldWork)
{
	for (Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
		for (Data data : kAllData)
		{
			SCOPED_TRACE(testing::Message() << metric_name(metric) << " data " << static_cast<int>(data));

			std::mt19937 rng(11);
			Rows rows({metric, ElementType::kFloat32, 24}), queries(rows.spec);
			Both both(rows.spec);

			rows.add_random(kFiltered, data, rng, 0);
			queries.add_random(12, data, rng, 0);
			ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 12, 30));
		}
}

TEST(Parity, TiesAreBrokenByRowIdWhenAllRowsAreEqual)
{
	for (size_t n : {size_t{1}, size_t{40}, size_t{3000}, size_t{60000}})
	{
		Rows rows({Metric::kL2, ElementType::kFloat32, 8});
		Both both(rows.spec);
		const float vector[8] = {1, 2, 3, 4, 5, 6, 7, 8};

		for (size_t i = 0; i < n; i++)
			rows.add(i * 11 + 3, reinterpret_cast<const uint8_t *>(vector));
		ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, n));
		for (size_t k : {1, 10, 1500})
		{
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers({SearchQuery{vector, k, false, {}}}));
			ASSERT_NO_FATAL_FAILURE(
				both.expect_same_answers(std::vector<SearchQuery>(20, SearchQuery{vector, k, false, {}})));
		}
	}
}

TEST(Parity, NearTiesBelowTheErrorOfTheFilter)
{
	// A large common offset: the estimates of all rows differ by less than their error.
	for (Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
	{
		std::mt19937 rng(3);
		Rows rows({metric, ElementType::kFloat32, 64}), queries(rows.spec);
		Both both(rows.spec);

		for (Rows *to : {&rows, &queries})
			for (size_t i = 0; i < (to == &rows ? kFiltered : 16); i++)
			{
				float vector[64];

				for (float &value : vector)
					value = 1000.0f + 1e-3f * std::normal_distribution<float>()(rng);
				to->add(i, reinterpret_cast<const uint8_t *>(vector));
			}
		ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 16, 10));
	}
}

TEST(Parity, RowsInTheWorstOrder)
{
	// Each row is nearer than the ones before: a running threshold would pass all.
	for (bool nearer : {true, false})
	{
		Rows rows({Metric::kL2, ElementType::kFloat32, 4}), queries(rows.spec);
		Both both(rows.spec);
		constexpr size_t kN = 50000;
		const float origin[4] = {0.5f, 0, 0, 0};

		for (size_t i = 0; i < kN; i++)
		{
			const float x = static_cast<float>(nearer ? kN - i : i) * 0.37f;
			const float vector[4] = {x, 1, 2, 3};

			rows.add(i, reinterpret_cast<const uint8_t *>(vector));
		}
		for (size_t i = 0; i < 16; i++)
			queries.add(i, reinterpret_cast<const uint8_t *>(origin));
		ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
		for (size_t k : {1, 10, 600})
			for (size_t batch : {1, 16})
				ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, batch, k));
	}
}

TEST(Parity, ManyDimensions)
{
	for (Metric metric : {Metric::kL2, Metric::kCosine, Metric::kL1})
		for (uint32_t dim : {2000u, 16000u})
		{
			SCOPED_TRACE(testing::Message() << metric_name(metric) << " dim " << dim);

			std::mt19937 rng(dim);
			Rows rows({metric, ElementType::kFloat32, dim}), queries(rows.spec);
			Both both(rows.spec);

			rows.add_random(300, Data::kGaussian, rng, 0);
			queries.add_random(10, Data::kGaussian, rng, 0);
			ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 1, 10));
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 10, 299));
		}
}

TEST(Parity, ManyDimensionsThroughTheFilter)
{
	for (uint32_t dim : {300u, 1600u, 5000u})
		for (const bool real : {false, true})
		{
			SCOPED_TRACE(testing::Message() << "dim " << dim << (real ? ", real numbers" : ", bytes"));

			std::mt19937 rng(dim);
			Rows rows({Metric::kL2, ElementType::kFloat32, dim}), queries(rows.spec);
			Both both(rows.spec);

			if (real)
			{
				rows.add_random(16500, Data::kGaussian, rng, 0);
				queries.add_random(140, Data::kGaussian, rng, 0);
			}
			else
			{
				add_whole_numbers(&rows, 16500, 255, rng, 0);
				add_whole_numbers(&queries, 140, 255, rng, 0);
			}
			ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
			for (size_t batch : {1, 5, 24, 40, 70, 140})
				ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, batch, 10));
		}
}

TEST(Parity, BitsOfEveryLength)
{
	for (Metric metric : kBitMetrics)
		for (uint32_t dim : {1u, 7u, 8u, 127u, 128u, 129u, 1000u, 64000u})
		{
			SCOPED_TRACE(testing::Message() << metric_name(metric) << " dim " << dim);

			std::mt19937 rng(dim);
			Rows rows({metric, ElementType::kBit, dim}), queries(rows.spec);
			Both both(rows.spec);

			rows.add_random(500, Data::kGaussian, rng, 0);
			queries.add_random(6, Data::kGaussian, rng, 0);
			ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 6, 40));
		}
}

} // namespace
} // namespace vectorgpu::cuda::test
