// Builds of inverted lists by both engines: the same centroids give the same labels, scores and neighbours, bit for
// bit.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "common/half.hpp"
#include "engine/interface/list_builder.hpp"
#include "engines.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::ListBuilder;
using engine::ListBuildSpec;

/// A finite half from 16 random bits.
uint16_t
some_half(uint32_t bits)
{
	return static_cast<uint16_t>((bits & 0x87FFu) | 0x3000u | ((bits >> 11 & 3) << 10));
}

struct Rows
{
	Rows(const DistanceSpec &spec, size_t n, std::mt19937 *rng)
		: row_bytes(vector_bytes(spec.element, spec.dim)), bytes(n * row_bytes)
	{
		for (size_t i = 0; i < bytes.size() && spec.element == ElementType::kBit; i++) // pad bits are zero
			bytes[i] = static_cast<uint8_t>(
				(*rng)() & ((i + 1) % row_bytes == 0 && spec.dim % 8 != 0 ? 0xFF00u >> spec.dim % 8 : 0xFFu));
		for (size_t i = 0; i < n * spec.dim && spec.element != ElementType::kBit; i++)
		{
			const uint16_t half = some_half((*rng)());
			const float value = static_cast<float>(static_cast<int>((*rng)() % 512)) / 16;

			if (spec.element == ElementType::kFloat16)
				std::memcpy(bytes.data() + i * sizeof(half), &half, sizeof(half));
			else
				std::memcpy(bytes.data() + i * sizeof(value), &value, sizeof(value));
		}
	}

	const uint8_t *row(size_t i) const { return bytes.data() + i * row_bytes; }

	size_t row_bytes;
	std::vector<uint8_t> bytes;
};

struct Result
{
	std::vector<uint32_t> labels;
	std::vector<float> scores;
	std::vector<Neighbor> neighbors;
};

Result
run(Engine *engine, const ListBuildSpec &spec, const std::vector<float> &centroids, const Rows &rows, size_t n,
	size_t batch)
{
	engine::SearchControl control;
	std::unique_ptr<ListBuilder> builder;
	Result result = {std::vector<uint32_t>(n), std::vector<float>(n), {}};
	const Status made = engine->make_list_builder(spec, &control, &builder);

	EXPECT_TRUE(made.is_ok()) << made.message;
	EXPECT_TRUE(builder->add_centroids(centroids.data(), spec.n_clusters).is_ok());
	EXPECT_TRUE(builder->add_queries(rows.row(0), spec.n_queries).is_ok());
	for (size_t first = 0; first < n; first += batch)
	{
		const size_t here = std::min(batch, n - first);
		const Status status =
			builder->assign(first, rows.row(first), here, result.labels.data() + first, result.scores.data() + first);

		EXPECT_TRUE(status.is_ok()) << status.message;
	}
	EXPECT_TRUE(builder->neighbors(&result.neighbors).is_ok());
	return result;
}

/// Bit for bit.
void
expect_same(const Result &device, const Result &cpu)
{
	EXPECT_EQ(device.labels, cpu.labels);
	ASSERT_EQ(device.scores.size(), cpu.scores.size());
	EXPECT_EQ(std::memcmp(device.scores.data(), cpu.scores.data(), cpu.scores.size() * sizeof(float)), 0);
	ASSERT_EQ(device.neighbors.size(), cpu.neighbors.size());
	for (size_t i = 0; i < cpu.neighbors.size(); i++)
	{
		ASSERT_EQ(device.neighbors[i].row, cpu.neighbors[i].row) << i;
		ASSERT_EQ(device.neighbors[i].score, cpu.neighbors[i].score) << i;
	}
}

TEST(ListBuilder, BothEnginesFindTheSame)
{
	std::mt19937 rng(7);

	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1})
		for (const ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
			for (const uint32_t dim : {5u, 96u, 333u}) // rows go by the driver; by host threads; in pieces, padded
			{
				const size_t n = 6000;
				ListBuildSpec spec;

				spec.rows = {metric, element, dim};
				spec.n_clusters = 150;
				spec.n_queries = 40;
				spec.k = dim == 5 ? 12 : 64; // fewer than a batch has groups of rows, and more

				const Rows rows(spec.rows, n, &rng);
				std::vector<float> centroids(size_t{150} * dim);

				for (float &x : centroids)
					x = static_cast<float>(static_cast<int>(rng() % 4096)) / 128;
				if (metric == Metric::kCosine)
					engine::ivf::normalise_rows(centroids.data(), 150, dim);

				const Result cpu = run(cpu_engine(), spec, centroids, rows, n, 700);

				for (const size_t batch : {size_t{100}, size_t{700}, n}) // the last in parts
					ASSERT_NO_FATAL_FAILURE(expect_same(run(cuda_engine(), spec, centroids, rows, n, batch), cpu));
			}
}

TEST(ListBuilder, RowsThatAreAssignedInParts)
{
	std::mt19937 rng(8);

	for (const Metric metric : {Metric::kL2, Metric::kCosine})
	{
		const size_t n = 70000; // more than two parts of kMostAssignRows
		ListBuildSpec spec;

		spec.rows = {metric, ElementType::kFloat16, 24};
		spec.n_clusters = 150;
		spec.n_queries = 20;
		spec.k = 12;

		const Rows rows(spec.rows, n, &rng);
		std::vector<float> centroids(size_t{150} * 24);

		for (float &x : centroids)
			x = static_cast<float>(static_cast<int>(rng() % 4096)) / 128;
		if (metric == Metric::kCosine)
			engine::ivf::normalise_rows(centroids.data(), 150, 24);

		const Result cpu = run(cpu_engine(), spec, centroids, rows, n, n);

		for (const size_t batch : {n, size_t{33792}})
			ASSERT_NO_FATAL_FAILURE(expect_same(run(cuda_engine(), spec, centroids, rows, n, batch), cpu));
	}
}

TEST(ListBuilder, BothEnginesFindTheSameOfBits)
{
	std::mt19937 rng(8);

	for (const uint32_t dim : {5u, 96u, 1001u})
	{
		const size_t n = 5000;
		ListBuildSpec spec;

		spec.rows = {Metric::kHamming, ElementType::kBit, dim};
		spec.n_clusters = 60;
		spec.n_queries = 40;
		spec.k = 64;

		const Rows rows(spec.rows, n, &rng);
		std::vector<float> centroids(size_t{60} * dim);

		for (float &x : centroids)
			x = static_cast<float>(rng() % 257) / 256;

		const Result cpu = run(cpu_engine(), spec, centroids, rows, n, 700);

		for (const size_t batch : {size_t{100}, n})
			ASSERT_NO_FATAL_FAILURE(expect_same(run(cuda_engine(), spec, centroids, rows, n, batch), cpu));
	}
}

TEST(ListBuilder, TrainsBits)
{
	std::mt19937 rng(12);
	engine::SearchControl control;
	std::unique_ptr<ListBuilder> builder;
	ListBuildSpec spec;

	spec.rows = {Metric::kHamming, ElementType::kBit, 130};
	spec.n_clusters = 20;
	spec.n_training = 2000;

	const Rows rows(spec.rows, 2000, &rng);

	ASSERT_TRUE(cuda_engine()->make_list_builder(spec, &control, &builder).is_ok());
	ASSERT_TRUE(builder->add_training(rows.row(0), 2000).is_ok());
	ASSERT_TRUE(builder->train().is_ok());
	EXPECT_EQ(builder->centroids().size(), size_t{20} * 130);
	for (const float x : builder->centroids())
		ASSERT_TRUE(x >= 0 && x <= 1) << x;
}

/// The worker continues on the CPU engine.
TEST(ListBuilder, OtherBitStringsAreUnsupported)
{
	engine::SearchControl control;
	std::unique_ptr<ListBuilder> builder;
	engine::CopyId copy = 0;
	ListBuildSpec spec;

	spec.rows = {Metric::kJaccard, ElementType::kBit, 64};
	spec.n_clusters = 2;
	EXPECT_TRUE(cuda_engine()->make_list_builder(spec, &control, &builder).is_ok()); // a merge's: labels alone
	spec.n_queries = spec.k = 1;
	EXPECT_EQ(cuda_engine()->make_list_builder(spec, &control, &builder).code, StatusCode::kUnsupported);
	EXPECT_TRUE(cpu_engine()->make_list_builder(spec, &control, &builder).is_ok());
	spec.rows = {Metric::kHamming, ElementType::kBit, 64000};
	EXPECT_EQ(cuda_engine()->make_list_builder(spec, &control, &builder).code, StatusCode::kUnsupported);
	EXPECT_EQ(cuda_engine()->create({{Metric::kHamming, ElementType::kBit, 64}, engine::CopyKind::kLists}, &copy).code,
		StatusCode::kUnsupported);
}

/// Codes [n] of rows by an engine with these centroids and a model, which is trained if it is empty.
struct CodesOfRows
{
	std::vector<uint32_t> labels;
	std::vector<uint8_t> codes;
	std::vector<float> terms;
	std::vector<uint8_t> is_out;
	std::vector<float> model;
};

CodesOfRows
code_rows(Engine *engine, const ListBuildSpec &spec, engine::ListCodeSpec codes, const std::vector<float> &centroids,
	const Rows &rows, size_t n, size_t batch, const std::vector<float> &model)
{
	engine::SearchControl control;
	std::unique_ptr<ListBuilder> builder;
	const size_t code_bytes = engine::ivf::code_bytes(codes.codes);
	const bool has_terms = engine::ivf::code_has_terms(codes.codes);
	CodesOfRows result = {std::vector<uint32_t>(n), std::vector<uint8_t>(n * code_bytes, 0xAA), std::vector<float>(n),
		std::vector<uint8_t>(n, 7), {}};
	std::vector<float> scores(n);

	EXPECT_TRUE(engine->make_list_builder(spec, &control, &builder).is_ok());
	EXPECT_TRUE(builder->add_centroids(centroids.data(), spec.n_clusters).is_ok());
	codes.n_training = model.empty() ? 2000 : 0;
	EXPECT_TRUE(builder->begin_codes(codes).is_ok());
	if (model.empty())
	{
		EXPECT_TRUE(builder->add_code_training(rows.row(0), 2000).is_ok());
		EXPECT_TRUE(builder->train_codes().is_ok());
	}
	else
		EXPECT_TRUE(builder->add_code_model(model.data(), model.size()).is_ok());
	for (size_t first = 0; first < n; first += batch)
	{
		const size_t here = std::min(batch, n - first);
		const Status status =
			builder->assign(first, rows.row(first), here, result.labels.data() + first, scores.data() + first,
				{result.codes.data() + first * code_bytes, has_terms ? result.terms.data() + first : nullptr,
					result.is_out.data() + first});

		EXPECT_TRUE(status.is_ok()) << status.message;
	}
	result.model = builder->coder()->model();
	return result;
}

TEST(ListBuilder, BothEnginesMakeTheSameCodes)
{
	std::mt19937 rng(9);

	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
		for (const ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
			for (const auto &[kind, bits, opq] :
				{std::tuple{engine::ivf::CodeKind::kSq8, 0u, false}, std::tuple{engine::ivf::CodeKind::kPq, 8u, false},
					std::tuple{engine::ivf::CodeKind::kPq, 4u, true}})
			{
				constexpr uint32_t kDim = 40;
				const size_t n = 6000;
				ListBuildSpec spec;
				engine::ListCodeSpec codes;

				spec.rows = {metric, element, kDim};
				spec.n_clusters = 70;
				codes.codes.kind = kind;
				codes.codes.metric = metric;
				codes.codes.dim = kDim;
				if (kind == engine::ivf::CodeKind::kPq)
					codes.codes.pq = {metric, kDim, 8, bits, opq};

				const Rows rows(spec.rows, n, &rng);
				std::vector<float> centroids(size_t{70} * kDim);

				for (float &x : centroids)
					x = static_cast<float>(static_cast<int>(rng() % 4096)) / 128;
				if (metric == Metric::kCosine)
					engine::ivf::normalise_rows(centroids.data(), 70, kDim);

				const CodesOfRows device = code_rows(cuda_engine(), spec, codes, centroids, rows, n, 700, {});

				for (const size_t batch : {size_t{100}, n})
					for (Engine *engine : {cpu_engine(), static_cast<Engine *>(cuda_engine())})
					{
						const CodesOfRows again =
							code_rows(engine, spec, codes, centroids, rows, n, batch, device.model);

						EXPECT_EQ(again.labels, device.labels);
						EXPECT_EQ(again.codes, device.codes);
						EXPECT_EQ(again.is_out, device.is_out);
						EXPECT_EQ(std::memcmp(again.terms.data(), device.terms.data(), n * sizeof(float)), 0);
					}
			}
}

/// Parts of every length that the device codes, some beyond it, and dimensions that parts do not divide; copies of
/// codewords, so that the first of equal ones is asked for; rows that are not assigned together.
TEST(ListBuilder, BothEnginesMakeTheSameCodesOfParts)
{
	std::mt19937 rng(10);

	for (const Metric metric : {Metric::kL2, Metric::kCosine})
		for (const auto &[dim, m, bits] :
			{std::tuple{70u, 70u, 8u}, std::tuple{70u, 23u, 4u}, std::tuple{70u, 9u, 8u}, std::tuple{96u, 24u, 8u},
				std::tuple{96u, 7u, 4u}, std::tuple{96u, 5u, 8u}, std::tuple{96u, 3u, 8u}, std::tuple{96u, 2u, 8u}})
		{
			const size_t n = m == 24 ? 40001 : 9001; // more than are assigned at a time, or fewer
			ListBuildSpec spec;
			engine::ListCodeSpec codes;

			spec.rows = {metric, ElementType::kFloat32, dim};
			spec.n_clusters = 33;
			codes.codes.kind = engine::ivf::CodeKind::kPq;
			codes.codes.metric = metric;
			codes.codes.dim = dim;
			codes.codes.pq = {metric, dim, m, bits, false};

			const Rows rows(spec.rows, n, &rng);
			const float *first = reinterpret_cast<const float *>(rows.row(0));
			std::vector<float> centroids(first, first + size_t{33} * dim);
			std::vector<float> model(engine::ivf::code_model_floats(codes.codes));

			if (metric == Metric::kCosine)
				engine::ivf::normalise_rows(centroids.data(), 33, dim);
			for (size_t i = 0; i < model.size(); i++) // codewords 2 i and 2 i + 1 are the same
				model[i] = i % 2 == 1 ? model[i - 1] : static_cast<float>(static_cast<int>(rng() % 4096) - 2048) / 512;

			const CodesOfRows right = code_rows(cpu_engine(), spec, codes, centroids, rows, n, n, model);

			for (const size_t batch : {size_t{97}, size_t{2730}, n})
			{
				const CodesOfRows device = code_rows(cuda_engine(), spec, codes, centroids, rows, n, batch, model);

				EXPECT_EQ(device.labels, right.labels);
				EXPECT_EQ(device.codes, right.codes) << dim << " dimensions, " << m << " parts, " << bits << " bits";
				EXPECT_EQ(device.is_out, right.is_out);
				EXPECT_EQ(std::memcmp(device.terms.data(), right.terms.data(), n * sizeof(float)), 0);
			}
		}
}

/// Elements as they are coded: those of rows of length 1 for cosine.
std::vector<float>
coded_elements(const DistanceSpec &spec, const Rows &rows, size_t n)
{
	std::vector<float> elements(n * spec.dim);

	if (spec.element == ElementType::kFloat32)
		std::memcpy(elements.data(), rows.row(0), elements.size() * sizeof(float));
	else
		for (size_t i = 0; i < elements.size(); i++)
		{
			uint16_t half;

			std::memcpy(&half, rows.row(0) + i * sizeof(half), sizeof(half));
			elements[i] = half_to_float(half);
		}
	if (spec.metric == Metric::kCosine)
		engine::ivf::normalise_rows(elements.data(), n, spec.dim);
	return elements;
}

/// Ranges of the dimensions of elements [n, dim]. In most all elements are within; of the first a quarter of the range
/// is below, of the last two fifths are beyond. Steps of a power of two have elements in the middle between two bytes.
std::vector<float>
byte_ranges(const std::vector<float> &elements, size_t n, uint32_t dim, std::mt19937 *rng)
{
	std::vector<float> model(size_t{2} * dim);

	for (size_t d = 0; d < dim; d++)
	{
		float least = elements[d], most = elements[d];

		for (size_t i = 1; i < n; i++)
		{
			least = std::min(least, elements[i * dim + d]);
			most = std::max(most, elements[i * dim + d]);
		}

		const float range = std::max(most - least, 0.001f);
		const float even = std::exp2(std::ceil(std::log2(range / 255)));
		const float step = range * (1 + static_cast<float>((*rng)() % 100) / 100) / 254;

		model[d] = d % 2 == 0 ? std::floor(least / even) * even : least - range / 1024;
		model[dim + d] = d % 2 == 0 ? 2 * even : step;
		if (d == 0)
			model[d] = least + range / 4;
		if (d + 1 == dim)
		{
			model[d] = least;
			model[dim + d] = range * 0.6f / 255;
		}
	}
	return model;
}

/// Elements in the middle between two bytes, below and beyond the ranges; dimensions without a range, all rows out if
/// `constant`; rows that are not assigned together.
void
expect_same_bytes(const DistanceSpec &rows_spec, bool constant, size_t n)
{
	const uint32_t dim = rows_spec.dim;
	std::mt19937 rng(11 + dim);
	ListBuildSpec spec;
	engine::ListCodeSpec codes;

	spec.rows = rows_spec;
	spec.n_clusters = 33;
	codes.codes.kind = engine::ivf::CodeKind::kSq8;
	codes.codes.metric = rows_spec.metric;
	codes.codes.dim = dim;

	const Rows rows(spec.rows, n, &rng); // sixteenths from 0 to 32, or halves
	const std::vector<float> elements = coded_elements(spec.rows, rows, n);
	const std::vector<float> centroids(elements.begin(), elements.begin() + ptrdiff_t{33} * dim);
	std::vector<float> model = byte_ranges(elements, n, dim, &rng);

	if (constant) // then all are out
	{
		model[dim / 2] = -5;
		model[dim + dim / 2] = 0;
	}

	const CodesOfRows right = code_rows(cpu_engine(), spec, codes, centroids, rows, n, n, model);
	const auto n_out = std::count(right.is_out.begin(), right.is_out.end(), 1);

	EXPECT_GT(n_out, 0);
	EXPECT_EQ(n_out == static_cast<ptrdiff_t>(n), constant);
	EXPECT_GT(std::count(right.codes.begin(), right.codes.end(), 255), 0);
	for (const size_t batch : {std::min(size_t{97}, n), std::min(size_t{2730}, n), n})
	{
		const CodesOfRows device = code_rows(cuda_engine(), spec, codes, centroids, rows, n, batch, model);

		EXPECT_EQ(device.labels, right.labels);
		EXPECT_EQ(device.codes, right.codes) << dim << " dimensions, " << batch << " rows at a time";
		EXPECT_EQ(device.is_out, right.is_out);
	}
}

using MetricAndElement = std::tuple<Metric, ElementType>;

class ListBuilderBytes : public testing::TestWithParam<MetricAndElement>
{
};

TEST_P(ListBuilderBytes, BothEnginesMakeTheSameBytes)
{
	const auto [metric, element] = GetParam();

	for (const auto &[dim, constant] : {std::tuple{1u, false}, std::tuple{33u, false}, std::tuple{70u, true},
			 std::tuple{96u, false}, std::tuple{768u, false}})
		if (dim > 1 || metric != Metric::kCosine) // all rows are the same then
			expect_same_bytes({metric, element, dim}, constant,
				dim == 96 ? 40001 : 9001); // more than are assigned at a time, or fewer
}

INSTANTIATE_TEST_SUITE_P(Rows, ListBuilderBytes,
	testing::Combine(testing::Values(Metric::kL2, Metric::kInnerProduct, Metric::kCosine),
		testing::Values(ElementType::kFloat32, ElementType::kFloat16)));

TEST(ListBuilder, Reduced)
{
	expect_same_bytes({Metric::kL2, ElementType::kFloat32, 33}, false, 300);
}

TEST(ListBuilder, TrainsAndKeepsItsOrder)
{
	std::mt19937 rng(8);
	engine::SearchControl control;
	std::unique_ptr<ListBuilder> builder;
	ListBuildSpec spec;
	std::vector<uint32_t> labels(3000);
	std::vector<float> scores(3000);

	spec.rows = {Metric::kCosine, ElementType::kFloat32, 20};
	spec.n_clusters = 30;
	spec.n_training = 2000;

	const Rows rows(spec.rows, 3000, &rng);

	ASSERT_TRUE(cuda_engine()->make_list_builder(spec, &control, &builder).is_ok());
	EXPECT_EQ(builder->train().code, StatusCode::kInvalidArgument);
	EXPECT_EQ(builder->assign(0, rows.row(0), 1, labels.data(), scores.data()).code, StatusCode::kInvalidArgument);
	ASSERT_TRUE(builder->add_training(rows.row(0), 1500).is_ok());
	EXPECT_EQ(builder->add_training(rows.row(0), 1500).code, StatusCode::kInvalidArgument);
	ASSERT_TRUE(builder->add_training(rows.row(1500), 500).is_ok());

	const Status trained = builder->train();

	ASSERT_TRUE(trained.is_ok()) << trained.message;
	EXPECT_EQ(builder->report().n_used, 30u);
	for (size_t list = 0; list < 30; list++) // of length 1
	{
		double squares = 0;

		for (size_t d = 0; d < 20; d++)
			squares += std::pow(static_cast<double>(builder->centroids()[list * 20 + d]), 2);
		EXPECT_NEAR(squares, 1, 1e-5);
	}
	ASSERT_TRUE(builder->assign(0, rows.row(0), 3000, labels.data(), scores.data()).is_ok());
	EXPECT_LT(*std::max_element(labels.begin(), labels.end()), 30u);
	EXPECT_GT(control.progress.load(), 0u);
	control.stop = true;
	EXPECT_EQ(builder->assign(0, rows.row(0), 3000, labels.data(), scores.data()).code, StatusCode::kCancelled);
}

} // namespace
} // namespace vectorgpu::cuda::test
