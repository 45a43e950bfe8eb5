// The bound of the GEMM filter: every row it rules out is ruled out by the canonical score too, for thresholds as near
// to the scores as possible.
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "engine/filter/gemm_filter.hpp"
#include "engine/oracle.hpp"

namespace vectorgpu::engine
{
namespace
{

using namespace test;

const Metric kFilteredMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine};

struct Block
{
	DistanceSpec spec;
	size_t row_bytes;
	size_t n_rows;
	Bytes rows;
	Bytes queries;
	std::vector<const void *> query_pointers;
	std::vector<double> norms;

	/// `offset` is added to float32 elements, which causes cancellation.
	Block(const DistanceSpec &s, Data data, float offset, size_t n, size_t n_queries, std::mt19937 &rng)
		: spec(s), row_bytes(vector_bytes(s.element, s.dim)), n_rows(n), rows(n * row_bytes),
		  queries(n_queries * row_bytes)
	{
		for (size_t i = 0; i < n; i++)
			draw(data, offset, rng, rows.data() + i * row_bytes);
		for (size_t i = 0; i < n_queries; i++)
		{
			draw(data, offset, rng, queries.data() + i * row_bytes);
			if (gemm_filter_trusts(spec, square_norm(spec, queries.data() + i * row_bytes)))
				query_pointers.push_back(queries.data() + i * row_bytes);
		}
		for (size_t i = 0; i < n; i++)
			norms.push_back(square_norm(spec, rows.data() + i * row_bytes));
	}

	void draw(Data data, float offset, std::mt19937 &rng, uint8_t *to)
	{
		random_vector(spec, data, rng, to);
		for (size_t i = 0; offset != 0 && i < spec.dim; i++)
		{
			const float x = offset + 1e-6f * offset * element_at(spec.element, to, i);

			std::memcpy(to + 4 * i, &x, 4);
		}
	}

	double score(const void *query, size_t row) const
	{
		return oracle_score(spec, query, rows.data() + row * row_bytes);
	}
};

/// Check all rows of the block against thresholds at, just below and just above scores of its rows. Return the number
/// of rows ruled out.
size_t
expect_safe(const Block &block)
{
	GemmFilter filter(block.spec, block.query_pointers);
	std::vector<uint32_t> survivors(block.n_rows);
	const double infinity = std::numeric_limits<double>::infinity();
	size_t n_out = 0;

	for (size_t q = 0; q < block.query_pointers.size(); q++)
	{
		std::vector<double> scores, bounds = {0.0, infinity, -infinity, std::numeric_limits<double>::quiet_NaN()};

		for (size_t row = 0; row < block.n_rows; row++)
			scores.push_back(block.score(block.query_pointers[q], row));
		for (size_t row = 0; row < block.n_rows; row += 7)
			for (double bound :
				{scores[row], std::nextafter(scores[row], infinity), std::nextafter(scores[row], -infinity)})
				bounds.push_back(bound);

		for (double bound : bounds)
			for (bool after : {false, true})
			{
				TopK topk;

				topk_init(&topk, 1, nullptr, 1, nullptr);
				topk.full = !after;
				topk.has_after = after;
				(after ? topk.after : topk.threshold) = {bound, 0};

				const std::vector<const TopK *> topks(block.query_pointers.size(), &topk);

				filter.load_block(block.rows.data(), block.norms.data(), block.n_rows, topks.data());

				const size_t n = filter.survivors(q, topk, survivors.data());
				const std::set<uint32_t> kept(survivors.begin(), survivors.begin() + static_cast<ptrdiff_t>(n));

				EXPECT_EQ(kept.size(), n);
				n_out += block.n_rows - n;
				for (uint32_t row = 0; row < block.n_rows; row++)
				{
					if (kept.contains(row))
						continue;

					// A row is out if it is strictly beyond the bound, whatever the row id; NaN is last.
					const Neighbor judged = {scores[row], 0}, limit = {bound, std::numeric_limits<RowId>::max()};
					const bool beyond =
						after ? neighbor_less({scores[row], limit.row}, {bound, 0}) : neighbor_less(limit, judged);

					EXPECT_TRUE(beyond) << metric_name(block.spec.metric) << " dim " << block.spec.dim << " score "
										<< scores[row] << " bound " << bound << " after " << after;
					if (!beyond)
						return n_out;
				}
			}
	}
	return n_out;
}

TEST(GemmFilter, RulesOutNothingThatTheCanonicalScoreWouldKeep)
{
	for (Metric metric : kFilteredMetrics)
		for (ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
			for (uint32_t dim : {1, 2, 31, 128, 1000})
				for (Data data : kAllData)
				{
					std::mt19937 rng(dim);
					const Block block({metric, element, dim}, data, 0, 60, 5, rng);
					const size_t n_out = expect_safe(block);

					ASSERT_FALSE(testing::Test::HasFailure());
					EXPECT_TRUE(data != Data::kGaussian || n_out > 0)
						<< "a filter that rules out nothing proves nothing";
				}
}

TEST(GemmFilter, IsSafeUnderCancellation)
{
	for (Metric metric : kFilteredMetrics)
		for (uint32_t dim : {3, 64, 1000})
			for (float offset : {1e-12f, 1.0f, 1e5f, 1e12f})
			{
				std::mt19937 rng(dim);

				expect_safe(Block({metric, ElementType::kFloat32, dim}, Data::kGaussian, offset, 60, 5, rng));
				ASSERT_FALSE(testing::Test::HasFailure());
			}
}

TEST(GemmFilter, TrustsNoVectorWhoseSumsCouldOverflowOrVanish)
{
	const DistanceSpec l2 = {Metric::kL2, ElementType::kFloat32, 4},
					   cosine = {Metric::kCosine, ElementType::kFloat32, 4};

	for (const DistanceSpec &spec : {l2, cosine})
	{
		EXPECT_TRUE(gemm_filter_trusts(spec, 1));
		EXPECT_FALSE(gemm_filter_trusts(spec, std::numeric_limits<double>::quiet_NaN()));
		EXPECT_FALSE(gemm_filter_trusts(spec, std::numeric_limits<double>::infinity()));
		EXPECT_FALSE(gemm_filter_trusts(spec, 1e38));
	}
	EXPECT_TRUE(gemm_filter_trusts(l2, 0));
	EXPECT_FALSE(gemm_filter_trusts(cosine, 0));
	EXPECT_FALSE(gemm_filter_trusts(cosine, 1e-40));
}

TEST(GemmFilter, SupportsMetricsThatAreInnerProductsOfFloats)
{
	for (int metric = 0; metric <= 5; metric++)
		for (int element = 0; element <= 2; element++)
			EXPECT_EQ(gemm_filter_supports({static_cast<Metric>(metric), static_cast<ElementType>(element), 10}),
				metric <= 2 && element <= 1);
	EXPECT_FALSE(gemm_filter_supports({Metric::kL2, ElementType::kFloat32, 1u << 20}));
}

TEST(SquareNorm, IsTheSumOfSquaresToDoublePrecision)
{
	std::mt19937 rng(1);

	for (ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
		for (uint32_t dim : {1, 2, 3, 5, 255, 256, 257, 1000})
		{
			const DistanceSpec spec = {Metric::kL2, element, dim};
			Bytes vector(vector_bytes(element, dim));
			long double exact = 0;

			random_vector(
				spec, element == ElementType::kFloat32 ? Data::kTinyAndBig : Data::kGaussian, rng, vector.data());
			for (size_t i = 0; i < dim; i++)
			{
				const long double x = element_at(element, vector.data(), i);

				exact += x * x;
			}
			ASSERT_NEAR(square_norm(spec, vector.data()), static_cast<double>(exact),
				static_cast<double>(exact) * (dim + 1) * 0x1p-53);
		}
}

} // namespace
} // namespace vectorgpu::engine
