// The canonical distance: the same bits from every instruction set, close to the exact distance, and the order of
// scores.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <random>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "engine/distance/distance.hpp"
#include "engine/oracle.hpp"

namespace vectorgpu::engine
{
namespace
{

using namespace test;

class Distance : public testing::Test
{
protected:
	void TearDown() override { set_simd_level(SimdLevel::kAuto); }

	/// Compare compute_scores at every level with the oracle, rows `misalign` bytes off and `gap` bytes apart.
	void expect_oracle(const DistanceSpec &spec, Data data, size_t n_rows, size_t misalign, size_t gap)
	{
		std::mt19937 rng(static_cast<unsigned>(spec.dim * 31 + static_cast<int>(data)));
		const size_t bytes = vector_bytes(spec.element, spec.dim);
		const size_t stride = bytes + gap;
		Bytes query(misalign + bytes);
		Bytes rows(misalign + n_rows * stride, 0xFF); // a read beyond a row would meet NaN or set bits

		random_vector(spec, data, rng, query.data() + misalign);
		for (size_t i = 0; i < n_rows; i++)
			random_vector(spec, data, rng, rows.data() + misalign + i * stride);
		if (n_rows > 2 && bytes > 0)
			std::copy_n(query.data() + misalign, bytes, rows.data() + misalign + stride);

		for (SimdLevel level : supported_levels())
		{
			std::vector<double> scores(n_rows, -7);

			ASSERT_TRUE(set_simd_level(level));
			ASSERT_EQ(simd_level(), level);
			compute_scores(spec, query.data() + misalign, rows.data() + misalign, stride, n_rows, scores.data());
			for (size_t i = 0; i < n_rows; i++)
			{
				const double want = oracle_score(spec, query.data() + misalign, rows.data() + misalign + i * stride);

				ASSERT_EQ(bits_of(scores[i]), bits_of(want))
					<< level_name(level) << " " << metric_name(spec.metric) << " element type "
					<< static_cast<int>(spec.element) << " dim " << spec.dim << " data " << static_cast<int>(data)
					<< " row " << i << ": " << scores[i] << " instead of " << want;
			}
		}
	}
};

TEST_F(Distance, HasTheSameBitsAtEveryInstructionSetLevelAndFromTheDefinition)
{
	std::vector<uint32_t> dims;

	std::cout << "levels tested:";
	for (SimdLevel level : supported_levels())
		std::cout << " " << level_name(level);
	std::cout << std::endl;

	for (uint32_t dim = 1; dim <= 130; dim++)
		dims.push_back(dim);
	for (uint32_t dim : {255, 256, 784, 1000, 1536, 16000})
		dims.push_back(dim);
	for (uint32_t dim : dims)
	{
		const size_t n_rows = dim > 1000 ? 5 : 11; // not a multiple of the rows taken at once

		for (Metric metric : kFloatMetrics)
			for (ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
				for (Data data : kAllData)
					ASSERT_NO_FATAL_FAILURE(expect_oracle({metric, element, dim}, data, n_rows, 0, 0));
		for (Metric metric : kBitMetrics)
			ASSERT_NO_FATAL_FAILURE(expect_oracle({metric, ElementType::kBit, dim}, Data::kGaussian, n_rows, 0, 0));
	}
}

TEST_F(Distance, DoesNotDependOnAlignmentOrStride)
{
	for (uint32_t dim : {1, 3, 31, 32, 33, 100, 128, 129})
		for (size_t misalign : {0, 1, 2, 4, 8})
			for (size_t gap : {0, 1, 8, 24})
			{
				for (Metric metric : kFloatMetrics)
					for (ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
						ASSERT_NO_FATAL_FAILURE(
							expect_oracle({metric, element, dim}, Data::kExtremes, 7, misalign, gap));
				for (Metric metric : kBitMetrics)
					ASSERT_NO_FATAL_FAILURE(
						expect_oracle({metric, ElementType::kBit, dim}, Data::kGaussian, 7, misalign, gap));
			}
}

TEST_F(Distance, DoesNotDependOnTheNumberOfRowsInTheBlock)
{
	for (size_t n_rows = 0; n_rows <= 9; n_rows++)
		for (Metric metric : kFloatMetrics)
			ASSERT_NO_FATAL_FAILURE(expect_oracle({metric, ElementType::kFloat32, 70}, Data::kGaussian, n_rows, 0, 0));
}

TEST_F(Distance, ReadsNoByteBeyondTheLastRow)
{
	const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
	uint8_t *pages =
		static_cast<uint8_t *>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

	ASSERT_NE(pages, MAP_FAILED);
	ASSERT_EQ(mprotect(pages + page, page, PROT_NONE), 0);
	for (SimdLevel level : supported_levels())
	{
		ASSERT_TRUE(set_simd_level(level));
		for (uint32_t dim = 1; dim <= 100; dim++)
		{
			double scores[3];

			for (Metric metric : kFloatMetrics)
				for (ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
				{
					const size_t bytes = vector_bytes(element, dim);
					const uint8_t *rows = pages + page - 3 * bytes;

					compute_scores({metric, element, dim}, pages + page - bytes, rows, bytes, 3, scores);
					ASSERT_TRUE(metric == Metric::kCosine ? std::isnan(scores[2]) : scores[2] == 0);
				}
			for (Metric metric : kBitMetrics)
			{
				const size_t bytes = vector_bytes(ElementType::kBit, dim);

				compute_scores(
					{metric, ElementType::kBit, dim}, pages + page - bytes, pages + page - 3 * bytes, bytes, 3, scores);
				ASSERT_EQ(scores[2], metric == Metric::kHamming ? 0 : 1);
			}
		}
	}
	munmap(pages, 2 * page);
}

TEST_F(Distance, ConvertsAll65536HalvesExactlyAtEveryLevel)
{
	for (SimdLevel level : supported_levels())
	{
		ASSERT_TRUE(set_simd_level(level));
		for (uint32_t bits = 0; bits <= 0xFFFF; bits++)
		{
			const uint16_t row[2] = {static_cast<uint16_t>(bits), 0};
			const uint16_t query[2] = {0x3C00, 0}; // 1
			double score;

			compute_scores({Metric::kInnerProduct, ElementType::kFloat16, 2}, query, row, 0, 1, &score);

			const float value = half_to_float(row[0]);

			if (std::isnan(value))
				ASSERT_EQ(bits_of(score), bits_of(std::numeric_limits<double>::quiet_NaN())) << bits;
			else
				ASSERT_EQ(score, -static_cast<double>(value)) << bits;
		}
	}
}

/// Σ in long double, and Σ of magnitudes for the error bound.
struct Exact
{
	long double sum = 0;
	long double magnitude = 0;

	void add(long double term)
	{
		sum += term;
		magnitude += std::fabs(term);
	}
};

TEST_F(Distance, IsWithinItsErrorBoundOfTheExactDistance)
{
	// src/engine/distance/README.md, "Error of the canonical sums": ceil(dim / 32) + 6 roundings along every path, one
	// more for a - b (twice in its square).
	std::mt19937 rng(11);
	const long double u = 0x1p-24L;

	for (uint32_t dim : {1, 2, 31, 32, 33, 128, 784, 2000, 16000})
		for (Data data : {Data::kGaussian, Data::kTinyAndBig})
			for (int repeat = 0; repeat < 10; repeat++)
			{
				const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, dim};
				Bytes a(4 * dim), b(4 * dim);
				Exact l2, ip, l1, aa, bb;

				random_vector(spec, data, rng, a.data());
				random_vector(spec, data, rng, b.data());
				for (size_t i = 0; i < dim; i++)
				{
					const long double x = element_at(spec.element, a.data(), i);
					const long double y = element_at(spec.element, b.data(), i);

					l2.add((x - y) * (x - y));
					ip.add(x * y);
					l1.add(std::fabs(x - y));
					aa.add(x * x);
					bb.add(y * y);
				}

				const long double steps = (dim + 31) / 32 + 8;
				const long double gamma = steps * u / (1 - steps * u);
				const auto score = [&](Metric metric)
				{
					double s;

					compute_scores({metric, ElementType::kFloat32, dim}, a.data(), b.data(), 0, 1, &s);
					return static_cast<long double>(s);
				};

				ASSERT_LE(std::fabs(score(Metric::kL2) - l2.sum), gamma * l2.sum);
				ASSERT_LE(std::fabs(score(Metric::kL1) - l1.sum), gamma * l1.sum);
				ASSERT_LE(std::fabs(score(Metric::kInnerProduct) + ip.sum), gamma * ip.magnitude);

				const long double norms = std::sqrt(aa.sum * bb.sum);

				ASSERT_LE(
					std::fabs(score(Metric::kCosine) - (1 - ip.sum / norms)), 2 * gamma * (1 + ip.magnitude / norms));
			}
}

TEST_F(Distance, OfScoresIsMonotoneAndKeepsDistinctScoresDistinct)
{
	std::mt19937 rng(2);

	for (int i = 0; i < 2000000; i++)
	{
		// Any positive float and its neighbour; the narrowest relative gap is just below a power of two.
		const uint32_t bits = i % 4 == 0 ? (static_cast<uint32_t>(rng() % 255) << 23) - (rng() % 2) : rng();
		const uint32_t low = std::min(bits & 0x7FFFFFFFu, 0x7F7FFFFFu);
		const double distance_low = finish_score(Metric::kL2, std::bit_cast<float>(low));
		const double distance_high = finish_score(Metric::kL2, std::bit_cast<float>(low + 1));

		ASSERT_LT(distance_low, distance_high) << low;
	}
	for (Metric metric : kFloatMetrics)
	{
		EXPECT_EQ(bits_of(finish_score(metric, -0.0)), bits_of(0.0));
		EXPECT_EQ(bits_of(finish_score(metric, -std::numeric_limits<double>::quiet_NaN())),
			bits_of(std::numeric_limits<double>::quiet_NaN()));
		EXPECT_EQ(
			finish_score(metric, std::numeric_limits<double>::infinity()), std::numeric_limits<double>::infinity());
	}
}

TEST_F(Distance, HasTheValuesThatTheOperatorsPromise)
{
	const float a[3] = {1, 2, 2}, b[3] = {3, 0, 3}, zero[3] = {0, 0, 0}, minus[3] = {-2, -4, -4};
	const auto of = [](Metric metric, const float *x, const float *y)
	{ return distance({metric, ElementType::kFloat32, 3}, x, y); };

	EXPECT_EQ(of(Metric::kL2, a, b), 3);
	EXPECT_EQ(of(Metric::kInnerProduct, a, b), -9);
	EXPECT_EQ(of(Metric::kL1, a, b), 5);
	EXPECT_EQ(of(Metric::kCosine, a, a), 0);
	EXPECT_EQ(of(Metric::kCosine, a, minus), 2);
	EXPECT_EQ(of(Metric::kCosine, a, b), 1 - 9 / std::sqrt(9.0 * 18.0));
	EXPECT_EQ(bits_of(of(Metric::kCosine, a, zero)), bits_of(std::numeric_limits<double>::quiet_NaN()));
	EXPECT_EQ(bits_of(of(Metric::kCosine, zero, a)), bits_of(std::numeric_limits<double>::quiet_NaN()));
	EXPECT_EQ(bits_of(of(Metric::kInnerProduct, a, zero)), bits_of(0.0));

	const float huge[3] = {3e38f, 3e38f, 3e38f};

	EXPECT_EQ(of(Metric::kL2, huge, zero), std::numeric_limits<double>::infinity());
	EXPECT_EQ(of(Metric::kInnerProduct, huge, huge), -std::numeric_limits<double>::infinity());

	const uint8_t x[2] = {0xF0, 0x80}, y[2] = {0x30, 0x00}, none[2] = {0, 0};
	const auto of_bits = [](Metric metric, const uint8_t *s, const uint8_t *t)
	{ return distance({metric, ElementType::kBit, 9}, s, t); };

	EXPECT_EQ(of_bits(Metric::kHamming, x, y), 3);
	EXPECT_EQ(of_bits(Metric::kJaccard, x, y), 1 - 2.0 / 5.0);
	EXPECT_EQ(of_bits(Metric::kJaccard, x, none), 1);
	EXPECT_EQ(of_bits(Metric::kJaccard, none, none), 1);
	EXPECT_EQ(of_bits(Metric::kJaccard, x, x), 0);
}

TEST_F(Distance, OfAMetricThatTheElementTypeLacksIsNaN)
{
	const float a[2] = {1, 2};
	double scores[2] = {0, 0};

	for (ElementType element : {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBit})
		for (int metric = 0; metric <= 5; metric++)
		{
			const bool bit_metric = metric >= 4;

			ASSERT_EQ(
				metric_supports(static_cast<Metric>(metric), element), bit_metric == (element == ElementType::kBit));
		}
	compute_scores({Metric::kHamming, ElementType::kFloat32, 2}, a, a, 0, 2, scores);
	EXPECT_TRUE(std::isnan(scores[0]) && std::isnan(scores[1]));
}

TEST_F(Distance, RefusesALevelThatTheCpuLacksAndKeepsTheOld)
{
	ASSERT_TRUE(set_simd_level(SimdLevel::kScalar));
	for (SimdLevel level : {SimdLevel::kAvx2, SimdLevel::kAvx512})
		if (!simd_supported(level))
		{
			EXPECT_FALSE(set_simd_level(level));
			EXPECT_EQ(simd_level(), SimdLevel::kScalar);
		}
	EXPECT_FALSE(set_simd_level(static_cast<SimdLevel>(99)));
	EXPECT_TRUE(set_simd_level(SimdLevel::kAuto));
	EXPECT_EQ(simd_level(), supported_levels().back());
}

} // namespace
} // namespace vectorgpu::engine
