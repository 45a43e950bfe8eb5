// SQ8: codes and scores against the definition, the stated bound, and elements out of range.
#include "engine/ivf/sq8.hpp"

#include <limits>

#include "common/half.hpp"
#include "ivf/ivf_data.hpp"

namespace vectorgpu::engine::ivf::test
{
namespace
{

struct Trained
{
	Trained(const Floats &rows, size_t dim) : low(dim), step(dim)
	{
		sq8_train(rows.data(), rows.size() / dim, dim, {low.data(), step.data()});
	}
	Sq8Ranges ranges() { return {low.data(), step.data()}; }

	Floats low;
	Floats step;
};

/// In double: the score between a query and low + code * step.
double
oracle_score(Metric metric, const float *query, const uint8_t *code, Trained &trained, size_t dim)
{
	double sum = 0;

	for (size_t d = 0; d < dim; d++)
	{
		const double q = static_cast<double>(query[d]);
		const double x = static_cast<double>(trained.low[d]) + code[d] * static_cast<double>(trained.step[d]);

		sum += metric == Metric::kL2 ? (q - x) * (q - x) : metric == Metric::kL1 ? std::fabs(q - x) : -q * x;
	}
	return metric == Metric::kCosine ? 1 + sum : sum;
}

TEST(Sq8, CodesAreTheNearestLevel)
{
	const size_t dim = 13;
	const Floats rows = normal_rows(500, dim, 1);
	Trained trained(rows, dim);
	Buffer codes(rows.size());
	Floats decoded(rows.size());

	EXPECT_EQ(sq8_encode(trained.ranges(), rows.data(), 500, dim, codes.data()), 0u);
	sq8_decode(trained.ranges(), codes.data(), 500, dim, decoded.data());
	for (size_t i = 0; i < rows.size(); i++)
	{
		const float step = trained.step[i % dim];

		EXPECT_LE(std::fabs(rows[i] - decoded[i]), step * 0.5001f);
		for (int other : {codes[i] - 1, codes[i] + 1})
			EXPECT_LE(std::fabs(rows[i] - decoded[i]),
				std::fabs(rows[i] - (trained.low[i % dim] + static_cast<float>(other) * step)) + step * 1e-4f);
	}
}

TEST(Sq8, BytesAreKeptExactly)
{
	Floats rows = integer_rows(2000, 8, 2, 255);
	Buffer codes(rows.size());
	Floats decoded(rows.size());

	for (size_t d = 0; d < 8; d++)
	{
		rows[d] = 0;
		rows[8 + d] = 255;
	}

	Trained trained(rows, 8);

	sq8_encode(trained.ranges(), rows.data(), 2000, 8, codes.data());
	sq8_decode(trained.ranges(), codes.data(), 2000, 8, decoded.data());
	EXPECT_EQ(decoded, rows);
}

TEST(Sq8, ScoresAreWithinTheBoundAndTheSameAtEveryLevel)
{
	for (size_t dim : {1, 2, 31, 32, 33, 63, 64, 100, 784})
	{
		const Floats rows = normal_rows(70, dim, 3, 30);
		const Floats query = normal_rows(1, dim, 4, 30);
		Trained trained(rows, dim);
		Buffer codes(rows.size());
		Floats state(sq8_query_floats(dim));

		sq8_encode(trained.ranges(), rows.data(), 70, dim, codes.data());
		for (Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1})
		{
			const Sq8Query prepared = sq8_prepare(trained.ranges(), metric, query.data(), dim, state.data());
			std::vector<double> first;

			for (SimdLevel level : supported_levels())
			{
				AtLevel at(level);
				std::vector<double> scores(70);

				sq8_scores(prepared, codes.data(), 70, scores.data());
				if (first.empty())
					first = scores;
				EXPECT_EQ(scores, first) << "dim " << dim << ", level " << static_cast<int>(level);
			}
			for (size_t i = 0; i < 70; i++)
			{
				const double expected = oracle_score(metric, query.data(), &codes[i * dim], trained, dim);

				EXPECT_NEAR(first[i], expected, sq8_score_error(prepared));
				EXPECT_NEAR(first[i], expected, 1e-5 * (std::fabs(expected) + 100 * static_cast<double>(dim)));
			}
		}
	}
}

TEST(Sq8, ConstantDimensionsAndOutOfRangeElements)
{
	const Floats sample = {1, 5, 2, 5, 3, 5};
	const Floats rows = {2, 5, 9, 5, -9, 5, 2, 6, std::numeric_limits<float>::quiet_NaN(), 5};
	Trained trained(sample, 2);
	Buffer codes(rows.size());
	Floats decoded(rows.size());

	EXPECT_EQ(sq8_encode(trained.ranges(), rows.data(), 5, 2, codes.data()), 4u);
	sq8_decode(trained.ranges(), codes.data(), 5, 2, decoded.data());
	EXPECT_NEAR(decoded[0], 2, 0.005);
	EXPECT_EQ(decoded[2], 3);
	EXPECT_EQ(decoded[4], 1);
	EXPECT_EQ(decoded[7], 5);
	EXPECT_EQ(codes[8], 0);
}

TEST(Sq8, NoSampleAndTheWidestRangeAreDefined)
{
	Trained none({}, 3);

	EXPECT_EQ(none.low, Floats(3, 0));

	const float most = std::numeric_limits<float>::max();
	Trained widest({-most, most}, 1);
	const Floats rows = {-most, most};
	Buffer codes(2);

	EXPECT_TRUE(std::isfinite(widest.step[0]));
	sq8_encode(widest.ranges(), rows.data(), 2, 1, codes.data());
	EXPECT_EQ(codes, (Buffer{0, 255}));
}

TEST(Codec, HalvesSaturate)
{
	const Floats values = {1, -65504, 65520, 1e30f, -1e30f, 0.1f};
	std::vector<uint16_t> halves(values.size());

	EXPECT_EQ(narrow_to_halves(values.data(), values.size(), halves.data()), 3u);
	for (size_t i = 0; i < values.size(); i++)
	{
		EXPECT_FALSE(half_is_infinite(halves[i]));
		EXPECT_NEAR(half_to_float(halves[i]), std::clamp(values[i], -65504.0f, 65504.0f), 1e-3f);
	}
}

TEST(Codec, InterleavingIsUndone)
{
	for (size_t n : {1, 31, 32, 33, 64, 100})
		for (size_t code_bytes : {1, 3, 16})
		{
			Buffer codes(n * code_bytes);
			Buffer interleaved(interleaved_bytes(n, code_bytes), 0xEE);
			Buffer back(codes.size());

			for (size_t i = 0; i < codes.size(); i++)
				codes[i] = static_cast<uint8_t>(i * 7 + 1);
			interleave_codes(codes.data(), n, code_bytes, interleaved.data());
			deinterleave_codes(interleaved.data(), n, code_bytes, back.data());
			EXPECT_EQ(back, codes);
			EXPECT_EQ(interleaved[1 % kCodeBlockRows], n > 1 ? codes[code_bytes] : 0);
		}
}

} // namespace
} // namespace vectorgpu::engine::ivf::test
