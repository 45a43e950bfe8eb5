// RaBitQ: codes and scores against the definition in double, and the stated probability of the bound.
#include "engine/ivf/rabitq/rabitq_scan.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "ivf/ivf_data.hpp"

namespace vectorgpu::engine::ivf::test
{
namespace
{

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double
dot(const float *a, const float *b, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
	return sum;
}

/// Rows with codes, in one block after another, whatever their lists.
struct Index
{
	Index(const RabitqSpec &wanted, const Floats &data, const Floats &lists, uint64_t seed = 7)
		: spec(wanted), n(data.size() / wanted.dim), rows(data), centroids(lists),
		  labels(oracle_labels(data, lists, wanted.dim)), floats(rabitq_model_floats(wanted)),
		  model{wanted, floats.data(), floats.data() + wanted.dim}
	{
		Floats rotated(lists.size() / spec.dim * rabitq_padded_dim(spec));
		Buffer work(rabitq_encode_work_bytes(spec));

		rabitq_train(model, rows.data(), n, seed);
		rabitq_rotate(model, centroids.data(), model.centre, lists.size() / spec.dim, rotated.data());
		codes.assign(n * rabitq_code_bytes(spec), 0xAA);
		EXPECT_TRUE(rabitq_encode({&model, centroids.data(), rotated.data()}, rows.data(), labels.data(), n,
			codes.data(), work.data(), work.size())
				.is_ok());
		blocks.assign(interleaved_bytes(n, rabitq_code_bytes(spec)), 0xAA);
		for (size_t i = 0; i < n; i += kCodeBlockRows)
			rabitq_make_block(spec, &codes[i * rabitq_code_bytes(spec)], std::min(kCodeBlockRows, n - i),
				&blocks[i * rabitq_code_bytes(spec)]);
	}

	const float *row(size_t i) const { return &rows[i * spec.dim]; }
	const float *centroid(size_t i) const { return &centroids[size_t{labels[i]} * spec.dim]; }

	float factor(size_t i, RabitqFactor which) const
	{
		float value;

		std::memcpy(&value, &codes[i * rabitq_code_bytes(spec) + rabitq_plane_bytes(spec) + which * sizeof(float)],
			sizeof(value));
		return value;
	}

	/// The number of element d, by the highest bit alone if `first`.
	double element(size_t i, size_t d, bool first) const
	{
		const size_t plane_bytes = rabitq_plane_bytes(spec);
		const uint8_t *code = &codes[i * rabitq_code_bytes(spec)];
		const uint8_t *planes = code + plane_bytes + rabitq_n_factors(spec) * sizeof(float);
		uint32_t number = (code[d / 8] >> (d % 8)) & 1u;

		if (first)
			return number - 0.5;
		for (uint32_t bit = spec.bits - 1; bit-- > 0;)
			number = 2 * number + ((planes[bit * plane_bytes + d / 8] >> (d % 8)) & 1u);
		return number - ((1u << spec.bits) - 1) / 2.0;
	}

	Floats rotated(const float *vector, const float *origin) const
	{
		Floats to(rabitq_padded_dim(spec));

		rabitq_rotate(model, vector, origin, 1, to.data());
		return to;
	}

	/// The score between a query and row i that its list's constant is part of.
	double constant(const float *query, size_t i) const
	{
		double l2 = 0;

		for (size_t d = 0; d < spec.dim; d++)
			l2 += std::pow(static_cast<double>(query[d]) - static_cast<double>(centroid(i)[d]), 2);
		return spec.metric == Metric::kL2 ? l2 : -dot(query, centroid(i), spec.dim);
	}

	double exact(const float *query, size_t i) const
	{
		double l2 = 0;

		for (size_t d = 0; d < spec.dim; d++)
			l2 += std::pow(static_cast<double>(query[d]) - static_cast<double>(row(i)[d]), 2);
		return spec.metric == Metric::kL2 ? l2 : -dot(query, row(i), spec.dim);
	}

	/// The estimate by the papers' formula: r·v ≈ (r·r / u·r) u·v, and its deviation. v: q - c, or q - g for the inner
	/// product, where the rest of r·q is exact.
	void estimate(const float *query, size_t i, bool first, double *estimate, double *deviation) const
	{
		const size_t padded = rabitq_padded_dim(spec);
		const float *from = spec.metric == Metric::kInnerProduct ? model.centre : centroid(i);
		const Floats r = rotated(row(i), centroid(i));
		const Floats v = rotated(query, from);
		Floats u(padded);

		for (size_t d = 0; d < padded; d++)
			u[d] = static_cast<float>(element(i, d, first));

		const double rr = dot(r.data(), r.data(), padded);
		const double ur = dot(u.data(), r.data(), padded);
		const double product = ur > 0 ? rr / ur * dot(u.data(), v.data(), padded) : 0;
		const double tangent = rr > 0 ? dot(u.data(), u.data(), padded) * rr / (ur * ur) - 1 : 0;
		const double length = std::sqrt(dot(v.data(), v.data(), padded));
		const double sum = product + dot(rotated(row(i), centroid(i)).data(), rotated(from, nullptr).data(), padded);

		*estimate = constant(query, i) + (spec.metric == Metric::kL2 ? rr - 2 * product : -sum);
		*deviation = (spec.metric == Metric::kL2 ? 2 : 1) * length *
			std::sqrt(std::max(rr * tangent, 0.0) / static_cast<double>(padded - 1));
	}

	std::vector<double> scores(const Floats &query, double limit = kInfinity) const
	{
		Buffer memory(rabitq_query_bytes(spec));
		std::vector<double> constants(n), scores(n);
		RabitqQuery prepared;

		for (size_t i = 0; i < n; i++)
			constants[i] = constant(query.data(), i);
		EXPECT_TRUE(rabitq_prepare(model, query.data(), memory.data(), memory.size(), &prepared).is_ok());
		rabitq_scores(prepared, constants.data(), blocks.data(), n, limit, scores.data());
		return scores;
	}

	/// The most that rounding a query's elements and tables to bytes may change the score of row i.
	double rounding(const Floats &query, size_t i) const
	{
		Buffer memory(rabitq_query_bytes(spec));
		RabitqQuery prepared;

		EXPECT_TRUE(rabitq_prepare(model, query.data(), memory.data(), memory.size(), &prepared).is_ok());

		const double padded = rabitq_padded_dim(spec);
		const double table = padded / 4 * static_cast<double>(prepared.table_scale) / 2;
		const double half = (1u << spec.bits) / 4.0;
		const double first = std::fabs(static_cast<double>(factor(i, kRabitqScale)));

		if (spec.bits == 1)
			return first * table;
		return std::max(first * (table + static_cast<double>(prepared.table_slack)),
			std::fabs(static_cast<double>(factor(i, kRabitqFullScale))) *
				(2 * half * table + half * padded * prepared.element_scale / 2));
	}

	RabitqSpec spec;
	size_t n;
	Floats rows;
	Floats centroids;
	std::vector<uint32_t> labels;
	Floats floats;
	RabitqModel model;
	Buffer codes;
	Buffer blocks;
};

void
normalise(Floats *rows, size_t dim)
{
	for (size_t i = 0; i < rows->size(); i += dim)
	{
		const double length = std::sqrt(dot(&(*rows)[i], &(*rows)[i], dim));

		for (size_t d = 0; d < dim; d++)
			(*rows)[i + d] = static_cast<float>(static_cast<double>((*rows)[i + d]) / length);
	}
}

/// Rows in lists, off the origin; of length 1 for cosine, and their centroids too.
struct Data
{
	Data(Metric metric, size_t dim, size_t n, unsigned seed)
		: rows(normal_rows(n, dim, seed)), lists(normal_rows(5, dim, seed + 1, 0.8f)),
		  query(normal_rows(1, dim, seed + 2))
	{
		for (size_t i = 0; i < n; i++)
			for (size_t d = 0; d < dim; d++)
				rows[i * dim + d] += lists[i % 5 * dim + d] + 1;
		for (float &x : lists)
			x += 1;
		if (metric == Metric::kCosine)
			for (Floats *vectors : {&rows, &lists, &query})
				normalise(vectors, dim);
	}

	Floats rows;
	Floats lists;
	Floats query;
};

const Metric kMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine};

TEST(Rabitq, ScoresAreThoseOfTheFormulaAtEveryLevel)
{
	for (Metric metric : kMetrics)
		for (uint32_t dim : {3u, 8u, 29u, 64u, 100u, 256u})
			for (uint32_t bits = 1; bits <= 8; bits++)
			{
				const Data data(metric, dim, 75, dim + bits);
				std::vector<double> first;

				for (SimdLevel level : supported_levels())
				{
					AtLevel at(level);
					const Index index({metric, dim, bits}, data.rows, data.lists);
					const std::vector<double> scores = index.scores(data.query);

					if (!first.empty())
					{
						EXPECT_EQ(scores, first) << "dim " << dim << ", bits " << bits;
						continue;
					}
					first = scores;
					for (size_t i = 0; i < index.n; i++)
					{
						double rough, rough_deviation, full, deviation;

						index.estimate(data.query.data(), i, true, &rough, &rough_deviation);
						index.estimate(data.query.data(), i, false, &full, &deviation);

						const double bound = rough - kRabitqDeviations * rough_deviation;
						const double slack = index.rounding(data.query, i) + 1e-5 * (1 + std::fabs(rough));

						if (bits == 1)
							EXPECT_NEAR(scores[i], rough, slack) << "dim " << dim;
						else
							EXPECT_NEAR(scores[i], std::max(bound, full), slack) << "dim " << dim << ", bits " << bits;
					}
				}
			}
}

TEST(Rabitq, TheErrorHasTheStatedDistribution)
{
	for (Metric metric : kMetrics)
		for (uint32_t dim : {64u, 100u, 256u})
			for (bool first : {true, false})
			{
				const uint32_t bits = 3;
				size_t n = 0, beyond_one = 0, beyond_two = 0;
				double sum = 0, squares = 0;

				for (unsigned seed = 0; seed < 8; seed++) // a rotation each
				{
					const Data data(metric, dim, 500, 100 * seed);
					const Index index({metric, dim, bits}, data.rows, data.lists, seed);

					for (size_t i = 0; i < index.n; i++)
					{
						double estimate, deviation;

						index.estimate(data.query.data(), i, first, &estimate, &deviation);

						const double error = (estimate - index.exact(data.query.data(), i)) / deviation;

						n++;
						sum += error;
						squares += error * error;
						beyond_one += std::fabs(error) > 1;
						beyond_two += error > kRabitqDeviations;
					}
				}
				const double rows = static_cast<double>(n);

				// Errors of a rotation depend on each other a little: wide margins beside those of 4,000 rows.
				EXPECT_NEAR(sum / rows, 0, 0.15) << "unbiased, dim " << dim;
				EXPECT_LT(std::sqrt(squares / rows), 1.1) << "dim " << dim;
				EXPECT_GT(std::sqrt(squares / rows), 0.7) << "dim " << dim;
				EXPECT_LT(static_cast<double>(beyond_one) / rows, 0.36) << "dim " << dim;
				// 2.9 % of a normal distribution lie beyond 1.9 deviations on one side
				EXPECT_LT(static_cast<double>(beyond_two) / rows, 0.045) << "dim " << dim;
			}
}

TEST(Rabitq, TheBoundHoldsWithTheStatedProbability)
{
	for (Metric metric : kMetrics)
	{
		size_t n = 0, broken = 0;

		for (unsigned seed = 0; seed < 10; seed++)
		{
			const Data data(metric, 128, 500, 1000 + 10 * seed);
			const Index index({metric, 128, 2}, data.rows, data.lists, seed);
			const std::vector<double> bounds = index.scores(data.query, -kInfinity);

			for (size_t i = 0; i < index.n; i++)
			{
				n++;
				broken += bounds[i] > index.exact(data.query.data(), i);
			}
		}
		EXPECT_LT(static_cast<double>(broken) / static_cast<double>(n), 0.045);
		EXPECT_GT(broken, 0u) << "a bound that never fails is too wide";
	}
}

TEST(Rabitq, ALimitChangesNoScoreBelowIt)
{
	for (Metric metric : kMetrics)
		for (uint32_t bits = 1; bits <= 8; bits++)
		{
			const Data data(metric, 72, 333, bits);
			const Index index({metric, 72, bits}, data.rows, data.lists);
			const std::vector<double> all = index.scores(data.query);
			std::vector<double> sorted = all;

			std::sort(sorted.begin(), sorted.end());
			for (size_t rank : {0, 5, 50, 332})
			{
				const double limit = sorted[rank];
				const std::vector<double> some = index.scores(data.query, limit);

				for (size_t i = 0; i < index.n; i++)
				{
					EXPECT_LE(some[i], all[i]);
					EXPECT_TRUE(some[i] == all[i] || (all[i] > limit && some[i] > limit)) << some[i];
				}
			}
		}
}

// A merge codes decoded rows again.
TEST(Rabitq, RowsCodedAgainKeepTheirLength)
{
	const Data data(Metric::kInnerProduct, 96, 400, 3);
	const auto squares = [&](const Index &index, const Floats &rows)
	{
		double sum = 0;

		for (size_t i = 0; i < rows.size(); i++)
			sum += std::pow(rows[i] - data.lists[size_t{index.labels[i / 96]} * 96 + i % 96], 2);
		return sum;
	};

	for (uint32_t bits : {1, 2, 4})
	{
		const Index once({Metric::kInnerProduct, 96, bits}, data.rows, data.lists);
		Floats first(data.rows.size()), second(data.rows.size()), scratch(rabitq_padded_dim(once.spec));

		rabitq_decode(
			once.model, data.lists.data(), once.codes.data(), once.labels.data(), once.n, first.data(), scratch.data());

		const Index again({Metric::kInnerProduct, 96, bits}, first, data.lists);

		rabitq_decode(again.model, data.lists.data(), again.codes.data(), again.labels.data(), again.n, second.data(),
			scratch.data());
		EXPECT_NEAR(squares(again, second) / squares(once, first), 1, .03) << bits;
	}
}

TEST(Rabitq, MoreBitsAreNearer)
{
	const Data data(Metric::kL2, 96, 400, 3);
	double last = kInfinity;

	for (uint32_t bits = 1; bits <= 8; bits++)
	{
		const Index index({Metric::kL2, 96, bits}, data.rows, data.lists);
		Floats decoded(data.rows.size()), scratch(rabitq_padded_dim(index.spec));
		double error = 0, estimates = 0;

		rabitq_decode(index.model, data.lists.data(), index.codes.data(), index.labels.data(), index.n, decoded.data(),
			scratch.data());
		for (size_t i = 0; i < data.rows.size(); i++)
			error += std::pow(static_cast<double>(decoded[i]) - static_cast<double>(data.rows[i]), 2);
		for (size_t i = 0; i < index.n; i++)
		{
			double estimate, deviation;

			index.estimate(data.query.data(), i, false, &estimate, &deviation);
			estimates += std::pow(estimate - index.exact(data.query.data(), i), 2);
		}
		// A bit more halves the error at least: nearly to a fourth in its square.
		EXPECT_LT(error, last * 0.45) << bits;
		last = error;
		if (bits == 8)
		{
			EXPECT_LT(std::sqrt(estimates / static_cast<double>(index.n)), 0.5);
		}
	}
}

TEST(Rabitq, BlocksGiveTheCodesBack)
{
	for (uint32_t bits : {1u, 2u, 5u, 8u})
	{
		const Data data(Metric::kL2, 29, 45, bits);
		const Index index({Metric::kL2, 29, bits}, data.rows, data.lists);
		const size_t code_bytes = rabitq_code_bytes(index.spec);
		Buffer code(code_bytes);

		for (size_t i = 0; i < index.n; i++)
		{
			rabitq_read_block(index.spec, &index.blocks[i / kCodeBlockRows * kCodeBlockRows * code_bytes],
				i % kCodeBlockRows, code.data());
			EXPECT_TRUE(std::equal(code.begin(), code.end(), &index.codes[i * code_bytes]));
		}
	}
}

TEST(Rabitq, RowsAtTheirCentroidAndOddNumbers)
{
	const float nan = std::numeric_limits<float>::quiet_NaN();
	const Floats lists = {1, 2, 3, 4, 5, 6, 7, 8, 9};

	for (Metric metric : {Metric::kL2, Metric::kInnerProduct})
		for (uint32_t bits : {1u, 4u})
		{
			const Index index({metric, 9, bits}, lists, lists);
			const Floats query = normal_rows(1, 9, 5);

			EXPECT_NEAR(index.scores(query)[0], index.exact(query.data(), 0), 1e-3);
			EXPECT_TRUE(std::isnan(index.scores({nan, 0, 0, 0, 0, 0, 0, 0, 0})[0]));
		}
	for (float x : {1e30f, 3e38f, 1e-30f, 1e-45f, 0.0f})
	{
		Floats rows(18, x);

		for (size_t i = 0; i < 9; i++)
			rows[i] = i % 2 == 0 ? x : -x;

		const Index index({Metric::kL2, 9, 4}, rows, Floats(9));
		const Floats query(9, 1);

		for (double score : index.scores(query)) // defined, whatever it is: no trap, no undefined conversion
			EXPECT_TRUE(x > 1 || std::fabs(score - 9) < 0.01) << score;
	}
}

/// A NaN's sign and payload differ between instructions and compilers; a server and its worker compare codes.
TEST(Rabitq, RowsBeyondAFloatsRangeHaveOneCode)
{
	constexpr uint32_t kQuietNan = 0x7FC00000;
	const SimdLevel before = simd_level();
	Floats rows = normal_rows(64, 40, 3);
	size_t n_nan = 0;

	for (float &x : rows)
		x = std::clamp(x, -1.0f, 1.0f) * 3e38f;
	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct})
		for (const uint32_t bits : {1u, 4u})
		{
			Buffer codes;

			for (const SimdLevel level : {SimdLevel::kScalar, SimdLevel::kAvx2, SimdLevel::kAvx512})
			{
				if (!set_simd_level(level))
					continue;

				const Index index({metric, 40, bits}, rows, Floats(40));

				for (size_t i = 0; i < index.n; i++)
					for (uint32_t f = 0; f < rabitq_n_factors(index.spec); f++)
						if (const float factor = index.factor(i, static_cast<RabitqFactor>(f)); std::isnan(factor))
						{
							n_nan++;
							EXPECT_EQ(std::bit_cast<uint32_t>(factor), kQuietNan) << "row " << i << ", factor " << f;
						}
				if (codes.empty())
					codes = index.codes;
				EXPECT_EQ(index.codes, codes);
			}
		}
	set_simd_level(before);
	EXPECT_GT(n_nan, 0u);
}

TEST(Rabitq, ImpossibleSpecsAreRefused)
{
	EXPECT_TRUE(rabitq_check({Metric::kL2, 1, 1}).is_ok());
	EXPECT_EQ(rabitq_check({Metric::kL1, 8, 4}).code, StatusCode::kUnsupported);
	EXPECT_EQ(rabitq_check({Metric::kL2, 0, 4}).code, StatusCode::kInvalidArgument);
	EXPECT_EQ(rabitq_check({Metric::kL2, 8, 0}).code, StatusCode::kInvalidArgument);
	EXPECT_EQ(rabitq_check({Metric::kL2, 8, 9}).code, StatusCode::kInvalidArgument);

	const Data data(Metric::kL2, 16, 10, 1);
	const Index index({Metric::kL2, 16, 2}, data.rows, data.lists);
	Buffer memory(rabitq_query_bytes(index.spec));
	RabitqQuery prepared;

	EXPECT_FALSE(rabitq_prepare(index.model, data.query.data(), memory.data(), 8, &prepared).is_ok());
}

TEST(Rabitq, TheProgressCallbackStopsIt)
{
	const Data data(Metric::kL2, 16, 600, 1);
	Index index({Metric::kL2, 16, 2}, data.rows, data.lists);
	Buffer work(rabitq_encode_work_bytes(index.spec));
	Floats rotated(5 * 16);
	Call call;

	call.progress = [](void *, uint64_t done, uint64_t) { return done == 0; };
	rabitq_rotate(index.model, data.lists.data(), index.model.centre, 5, rotated.data());
	EXPECT_EQ(rabitq_encode({&index.model, data.lists.data(), rotated.data()}, data.rows.data(), index.labels.data(),
				  index.n, index.codes.data(), work.data(), work.size(), call)
				  .code,
		StatusCode::kCancelled);
}

} // namespace
} // namespace vectorgpu::engine::ivf::test
