// Rounded rows: every row that they rule out is ruled out by the canonical score too, for thresholds as near to the
// scores as possible; kernels give the same products.
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "engine/filter/gemm_filter.hpp"
#include "engine/filter/rounded_rows.hpp"
#include "engine/oracle.hpp"

namespace vectorgpu::engine
{
namespace
{

using namespace test;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct RoundedData
{
	RoundedData(const DistanceSpec &s, Data data, float offset, size_t n, std::mt19937 &rng)
		: spec(s), row_bytes(vector_bytes(s.element, s.dim)), rows(n * row_bytes), rounded(n * rounded_bytes(s))
	{
		for (size_t i = 0; i < n; i++)
		{
			uint8_t *const row = rows.data() + i * row_bytes;
			int8_t *const to = rounded.data() + i * rounded_bytes(spec);

			random_vector(spec, data, rng, row);
			for (size_t d = 0; offset != 0 && d < spec.dim; d++)
			{
				const float x = offset + 1e-3f * offset * element_at(spec.element, row, d);

				std::memcpy(row + 4 * d, &x, 4);
			}

			const double norm = square_norm(spec, row);

			block.add(to, round_row(spec, reinterpret_cast<const float *>(row), norm, to), norm);
		}
	}

	DistanceSpec spec;
	size_t row_bytes;
	Bytes rows;
	std::vector<int8_t> rounded;
	RoundedBlock block;
};

/// Check thresholds at, just below and just above scores of the rows. Return the number of rows ruled out.
size_t
expect_safe(const RoundedData &data, const Bytes &query_bytes)
{
	const RoundedQuery query(data.spec, query_bytes.data());
	std::vector<double> scores, bounds = {0.0, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};
	std::vector<uint32_t> survivors(data.block.n);
	size_t n_out = 0;

	if (!query.is_trusted())
		return 0;
	for (size_t row = 0; row < data.block.n; row++)
		scores.push_back(oracle_score(data.spec, query_bytes.data(), data.rows.data() + row * data.row_bytes));
	for (size_t row = 0; row < data.block.n; row += 7)
		for (double bound :
			{scores[row], std::nextafter(scores[row], kInfinity), std::nextafter(scores[row], -kInfinity)})
			bounds.push_back(bound);
	for (double bound : bounds)
	{
		const size_t n = query.survivors(data.block, bound, survivors.data());
		const std::set<uint32_t> kept(survivors.begin(), survivors.begin() + static_cast<ptrdiff_t>(n));

		EXPECT_EQ(kept.size(), n);
		n_out += data.block.n - n;
		for (uint32_t row = 0; row < data.block.n; row++)
			EXPECT_TRUE(kept.contains(row) || scores[row] > bound || std::isnan(scores[row]))
				<< metric_name(data.spec.metric) << " dim " << data.spec.dim << " score " << scores[row] << " bound "
				<< bound;
	}
	return n_out;
}

TEST(RoundedRows, RuleOutNothingThatTheCanonicalScoreWouldKeep)
{
	for (Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
		for (uint32_t dim : {32, 63, 64, 100, 256, 1000})
			for (Data data : kAllData)
				for (float offset : {0.0f, 1.0f, -1e4f})
				{
					std::mt19937 rng(dim);
					const DistanceSpec spec = {metric, ElementType::kFloat32, dim};
					const RoundedData rows(spec, data, offset, 60, rng);
					size_t n_out = 0;

					for (int i = 0; i < 4; i++)
					{
						Bytes query(rows.row_bytes);

						random_vector(spec, data, rng, query.data());
						n_out += expect_safe(rows, query);
					}
					// the query is a row
					n_out += expect_safe(
						rows, Bytes(rows.rows.begin(), rows.rows.begin() + static_cast<ptrdiff_t>(rows.row_bytes)));
					ASSERT_FALSE(testing::Test::HasFailure());
					EXPECT_TRUE(data != Data::kGaussian || offset != 0 || n_out > 0)
						<< "rounded rows that rule out nothing prove nothing";
				}
}

TEST(RoundedRows, RuleOutMostRowsOfOrdinaryData)
{
	std::mt19937 rng(7);
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 256};
	const RoundedData rows(spec, Data::kGaussian, 0, 256, rng);
	Bytes query(rows.row_bytes);
	std::vector<double> scores;
	std::vector<uint32_t> survivors(rows.block.n);

	random_vector(spec, Data::kGaussian, rng, query.data());
	for (size_t row = 0; row < rows.block.n; row++)
		scores.push_back(oracle_score(spec, query.data(), rows.rows.data() + row * rows.row_bytes));
	std::nth_element(scores.begin(), scores.begin() + 9, scores.end());
	EXPECT_LT(RoundedQuery(spec, query.data()).survivors(rows.block, scores[9], survivors.data()), 40u);
}

TEST(RoundedRows, KernelsGiveTheSameProducts)
{
	std::mt19937 rng(3);
	std::uniform_int_distribution<int> value(-127, 127);

	for (size_t n_bytes : {64, 128, 960, 65536})
	{
		std::vector<std::vector<int8_t>> rows(11, std::vector<int8_t>(n_bytes));
		std::vector<const int8_t *> pointers;
		std::vector<int8_t> query(n_bytes);
		int32_t expected[11], products[11];

		for (std::vector<int8_t> &row : rows)
		{
			for (int8_t &x : row)
				x = static_cast<int8_t>(pointers.size() == 5 ? -127 : value(rng));
			pointers.push_back(row.data());
		}
		for (int8_t &x : query)
			x = static_cast<int8_t>(n_bytes == 128 ? 127 : value(rng));
		rounded_products_scalar(pointers.data(), 11, n_bytes, query.data(), expected);
		if (simd_supported(SimdLevel::kAvx2))
		{
			rounded_products_avx2(pointers.data(), 11, n_bytes, query.data(), products);
			EXPECT_TRUE(std::equal(products, products + 11, expected));
		}
		if (simd_supported(SimdLevel::kAvx512))
		{
			rounded_products_avx512(pointers.data(), 11, n_bytes, query.data(), products);
			EXPECT_TRUE(std::equal(products, products + 11, expected));
			if (__builtin_cpu_supports("avx512vnni"))
			{
				rounded_products_vnni(pointers.data(), 11, n_bytes, query.data(), products);
				EXPECT_TRUE(std::equal(products, products + 11, expected));
			}
		}
	}
}

} // namespace
} // namespace vectorgpu::engine
