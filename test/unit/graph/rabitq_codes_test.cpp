// Codes of graphs by RaBitQ: scores as defined and near the rows' own, the same bytes everywhere, and recall.
#include <limits>
#include <random>

#include <sys/mman.h>
#include <unistd.h>

#include "common/half.hpp"
#include "engine/graph/calibrate/calibrate.hpp"
#include "engine/graph/codes/codes.hpp"
#include "graph/graph_data.hpp"

namespace vectorgpu::engine::graph::test
{
namespace
{

constexpr uint32_t kBits[] = {1, 2, 4};
constexpr Metric kMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine};

/// The codes of some rows. Work memory at any address.
struct Coded
{
	CodeModel model;
	Floats centre;
	Bytes codes;

	Coded(const GraphRows &rows, uint32_t bits, uint64_t seed = 1)
		: centre(code_model_floats(bits, rows.spec.dim)), codes(rows.n_rows * code_bytes(bits, rows.spec.dim))
	{
		model.spec = {rows.spec, bits, seed};
		model.floats = centre.data();

		Floats work(code_work_floats(model.spec) + 1);

		EXPECT_TRUE(train_codes(model.spec, rows, &model.bound, centre.data(), work.data()));
		make_codes(model, rows, codes.data(), work.data() + 1);
	}
	Coded(const Coded &) = delete;
	Coded &operator=(const Coded &) = delete;

	size_t stride() const { return code_bytes(model.spec.bits, model.spec.rows.dim); }

	Bytes query(const void *vector) const
	{
		Bytes code(code_query_bytes(model.spec.bits, model.spec.rows.dim), 0xAA);
		Floats work(code_work_floats(model.spec) + 1);

		make_query_code(model, vector, code.data(), work.data() + 1);
		return code;
	}

	std::vector<double> scores(const void *vector) const
	{
		std::vector<double> scores(codes.size() / stride());
		const Bytes code = query(vector);

		compute_code_scores(
			model.spec.bits, model.spec.rows.dim, code.data(), codes.data(), stride(), scores.size(), scores.data());
		return scores;
	}
};

/// By the description of the layout, one number after another.
double
defined_score(const Coded &coded, const Bytes &query, size_t row)
{
	const uint32_t bits = coded.model.spec.bits;
	const uint8_t *code = coded.codes.data() + row * coded.stride();
	const size_t n_bytes = coded.stride() - 8;
	const int8_t *elements = reinterpret_cast<const int8_t *>(query.data() + 16);
	float factors[2];
	float scale;
	int64_t twice = 0; // of u·q in whole elements

	memcpy(factors, code, 8);
	memcpy(&scale, query.data(), 4);
	for (size_t i = 0; i < n_bytes * 8 / bits; i++)
	{
		const int64_t number = code[8 + i % n_bytes] >> (i / n_bytes * bits) & ((1 << bits) - 1);

		twice += (2 * number - ((1 << bits) - 1)) * elements[i];
	}
	return static_cast<double>(factors[0] + factors[1] * (scale * static_cast<float>(twice)));
}

TEST(RabitqCodes, scores_are_those_of_the_layout_at_every_level)
{
	const SimdLevel before = simd_level();
	std::mt19937 rng(1);

	for (const uint32_t bits : kBits)
		for (const uint32_t dim : {1u, 7u, 8u, 9u, 64u, 100u, 128u, 130u, 784u})
		{
			const Floats rows = overlapping_rows(33, dim, dim);
			Bytes codes;
			std::vector<double> scores;

			for (const SimdLevel level : {SimdLevel::kScalar, SimdLevel::kAvx2, SimdLevel::kAvx512})
			{
				if (!set_simd_level(level))
					continue;

				const Coded coded(rows_of(rows, dim), bits);
				const Bytes query = coded.query(rows.data());
				const std::vector<double> found = coded.scores(rows.data());

				if (codes.empty())
				{
					codes = coded.codes;
					scores = found;
					for (size_t i = 0; i < found.size(); i++)
						ASSERT_EQ(found[i], defined_score(coded, query, i))
							<< bits << " bits, " << dim << ", row " << i;
				}
				EXPECT_EQ(coded.codes, codes) << bits << " bits, " << dim;
				EXPECT_EQ(found, scores) << bits << " bits, " << dim;
			}
		}
	set_simd_level(before);
}

TEST(RabitqCodes, sizes_are_as_documented)
{
	for (const uint32_t bits : kBits)
		for (const uint32_t dim : {1u, 128u, 784u, 16000u})
		{
			EXPECT_GE(code_bytes(bits, dim), (size_t{dim} * bits + 7) / 8 + 8);
			EXPECT_LT(code_bytes(bits, dim), (size_t{dim} * bits + 7) / 8 + 8 + 20);
			EXPECT_EQ(code_bytes(bits, dim) % 16, 8u);
			EXPECT_EQ(code_query_bytes(bits, dim) % 16, 0u);
		}
	EXPECT_EQ(code_bytes(4, 128), 72u);
	for (const uint32_t bits : {3u, 5u, 8u, 16u, 48u, 1024u})
		EXPECT_FALSE(code_bits_valid(bits)) << bits;
}

/// A row's score by its vector, less what scores by codes leave out.
double
own_score(const Coded &coded, const GraphRows &rows, const float *query, uint32_t row)
{
	DistanceSpec spec = coded.model.spec.rows;
	double score;
	double of_centre;

	if (spec.metric == Metric::kCosine)
		spec.metric = Metric::kInnerProduct; // the tests' vectors have length 1
	compute_scores(spec, query, rows.row(row), rows.row_stride, 1, &score, 0);
	compute_scores(spec, query, coded.centre.data(), rows.row_stride, 1, &of_centre, 0);
	return score - of_centre;
}

TEST(RabitqCodes, scores_are_near_those_of_vectors)
{
	constexpr uint32_t kDim = 96;
	constexpr uint32_t kRows = 2000;
	// Deviations of codes in |x - c| |q - c| / sqrt(dim) (engine/ivf/rabitq/README.md), and a little for the query's.
	constexpr double kMost[] = {0, .82, .4, 0, .14};
	Floats rows = overlapping_rows(kRows + 20, kDim, 2);

	for (float *row = rows.data(); row < rows.data() + rows.size(); row += kDim)
	{
		double square = 0;

		for (uint32_t d = 0; d < kDim; d++)
			square += static_cast<double>(row[d]) * static_cast<double>(row[d]);
		for (uint32_t d = 0; d < kDim; d++)
			row[d] = static_cast<float>(static_cast<double>(row[d]) / std::sqrt(square));
	}

	const Floats queries(rows.begin() + kRows * kDim, rows.end());

	rows.resize(kRows * kDim);
	for (const Metric metric : kMetrics)
		for (const uint32_t bits : kBits)
		{
			const GraphRows all = rows_of(rows, kDim, metric);
			const Coded coded(all, bits);
			double square = 0;
			double bias = 0;

			for (size_t q = 0; q < 20; q++)
			{
				const float *query = queries.data() + q * kDim;
				const std::vector<double> scores = coded.scores(query);
				double of_query;

				compute_scores({Metric::kL2, ElementType::kFloat32, kDim}, query, coded.centre.data(), all.row_stride,
					1, &of_query, 0);
				for (uint32_t i = 0; i < kRows; i++)
				{
					double of_row;

					compute_scores({Metric::kL2, ElementType::kFloat32, kDim}, all.row(i), coded.centre.data(),
						all.row_stride, 1, &of_row, 0);

					const double unit =
						(metric == Metric::kL2 ? 2 : 1) * std::sqrt(of_row * of_query / static_cast<double>(kDim));
					const double error = (scores[i] - own_score(coded, all, query, i)) / unit;

					square += error * error;
					bias += error;
				}
			}
			EXPECT_LT(std::sqrt(square / (20 * kRows)), kMost[bits]) << static_cast<int>(metric) << ", " << bits;
			EXPECT_NEAR(bias / (20 * kRows), 0, 0.1) << static_cast<int>(metric) << ", " << bits;
		}
}

/// Codes are stored in indexes: never to be changed.
TEST(RabitqCodes, codes_are_stable)
{
	Floats rows(3 * 10);

	for (size_t i = 0; i < rows.size(); i++)
		rows[i] = static_cast<float>(static_cast<int>(i * i * 7 % 41) - 20) / 4;

	const Coded coded(rows_of(rows, 10), 2, 5);
	const size_t stride = coded.stride();

	ASSERT_EQ(stride, 24u);
	EXPECT_EQ(Bytes(coded.codes.begin() + 8, coded.codes.begin() + 24),
		(Bytes{3, 1, 3, 2, 3, 0, 0, 1, 0, 3, 3, 1, 0, 2, 3, 2}));
	EXPECT_EQ(coded.centre[0], (rows[0] + rows[10] + rows[20]) / 3);
}

TEST(RabitqCodes, halves_have_the_codes_of_their_values)
{
	constexpr size_t kDim = 37;
	std::mt19937 rng(9);
	Floats floats(50 * kDim);
	std::vector<_Float16> halves;

	for (float &x : floats)
	{
		halves.push_back(static_cast<_Float16>(static_cast<float>(rng() % 2000) / 100 - 10));
		x = static_cast<float>(halves.back());
	}
	for (const Metric metric : kMetrics)
	{
		const GraphRows half_rows = {{metric, ElementType::kFloat16, kDim}, halves.data(), kDim * 2, 50};
		const Coded wide(rows_of(floats, kDim, metric), 4);
		const Coded narrow(half_rows, 4);

		EXPECT_EQ(narrow.codes, wide.codes);
		EXPECT_EQ(narrow.query(halves.data()), wide.query(floats.data()));
	}
}

TEST(RabitqCodes, numbers_that_are_none_have_scores_in_order)
{
	const float inf = HUGE_VALF;
	const Floats rows = {
		0, 0, 0, inf, -inf, 1, NAN, 2, 3, 3e38f, 3e38f, -3e38f, 1e-45f, 0, -0.0f, 1e-30f, 1e-31f, 0, 1, 2, 3};

	for (const Metric metric : kMetrics)
		for (const uint32_t bits : kBits)
		{
			const Coded once(rows_of(rows, 3, metric), bits);
			const Coded again(rows_of(rows, 3, metric), bits);

			EXPECT_EQ(once.codes, again.codes);
			for (size_t q = 0; q < rows.size(); q += 3)
				for (const double score : once.scores(rows.data() + q))
				{
					EXPECT_FALSE(std::isnan(score));
					EXPECT_LE(score, static_cast<double>(std::numeric_limits<float>::max()));
					EXPECT_FALSE(score == 0 && std::signbit(score));
				}
		}
}

/// A copy of bytes that ends where memory cannot be read.
class AtTheEnd
{
public:
	explicit AtTheEnd(const Bytes &bytes)
	{
		const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
		const size_t readable = (bytes.size() + page - 1) / page * page;

		n_bytes_ = readable + page;
		memory_ =
			static_cast<uint8_t *>(mmap(nullptr, n_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		EXPECT_NE(static_cast<void *>(memory_), MAP_FAILED);
		EXPECT_EQ(mprotect(memory_ + readable, page, PROT_NONE), 0);
		data_ = memory_ + readable - bytes.size();
		memcpy(data_, bytes.data(), bytes.size());
	}
	~AtTheEnd() { (void) munmap(memory_, n_bytes_); }
	AtTheEnd(const AtTheEnd &) = delete;
	AtTheEnd &operator=(const AtTheEnd &) = delete;

	const uint8_t *data() const { return data_; }

private:
	uint8_t *memory_;
	uint8_t *data_;
	size_t n_bytes_;
};

TEST(RabitqCodes, recall_is_nearly_that_of_vectors_and_as_calibrated)
{
	constexpr size_t kDim = 32;
	const Floats all = overlapping_rows(8000 + 200, kDim, 10);
	const Floats data(all.begin(), all.begin() + 8000 * kDim);
	const Floats queries(all.begin() + 8000 * kDim, all.end());
	BuildSpec spec;

	spec.degree = 16;

	const Built built = build(rows_of(data, kDim), spec);
	const double by_vectors = built.recall(queries, 40);

	for (const uint32_t bits : kBits)
	{
		const Coded coded(built.rows, bits);
		const AtTheEnd bytes(coded.codes);
		MeasuredGraph measured = {built.rows, built.edges.data(), built.degree, built.entries.data(),
			static_cast<uint32_t>(built.entries.size())};
		ivf::Calibration calibration;

		measured.hash = &coded.model;
		measured.codes = bytes.data();

		Bytes work(calibrate_bytes(measured, 1));

		ASSERT_TRUE(calibrate(measured, &calibration, work.data(), work.size()).is_ok());

		const Built codes = {rows_of_codes(bits, kDim, coded.codes.data(), built.rows.n_rows), built.degree,
			built.edges, built.entries, {}};
		size_t hits = 0;

		for (size_t q = 0; q < 200; q++)
		{
			const float *query = queries.data() + q * kDim;
			const std::vector<Candidate> truth = all_ranked(built.rows, query, kNoNode, 10);
			SearchSpec search;

			search.width = 40;
			search.probe_steps = kSearchSteps;
			for (const Candidate &found : codes.search(coded.query(query).data(), search))
				for (size_t i = 0; i < 10; i++)
					hits += truth[i].node == found.node;
		}

		const double recall = static_cast<double>(hits) / 2000;

		EXPECT_NEAR(recall, ivf::recall_of(calibration, 40), 0.05) << bits;
		if (bits == 4)
		{
			EXPECT_GT(recall, by_vectors - 0.02);
		}
	}
}

TEST(RabitqCodes, training_can_be_stopped)
{
	const Floats rows(size_t{2000} * 1000, 1.0f);
	const CodeSpec spec = {{Metric::kL2, ElementType::kFloat32, 1000}, 2};
	Floats centre(code_model_floats(2, 1000));
	Floats work(code_work_floats(spec));
	float bound = 0;
	uint32_t n = 0;
	Call call;

	call.progress = [](void *context, uint64_t, uint64_t) { return ++*static_cast<uint32_t *>(context) < 3; };
	call.progress_context = &n;
	EXPECT_FALSE(train_codes(spec, rows_of(rows, 1000), &bound, centre.data(), work.data(), call));
	EXPECT_EQ(n, 3u);
	EXPECT_LE(uint64_t{code_piece_rows(spec)} * 1000, 1u << 18);
}

} // namespace
} // namespace vectorgpu::engine::graph::test
