// Codes of rows while lists are built: those of engine/ivf in one thread, bit for bit, whatever the batches and the
// threads.
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "engine/cpu/cpu_engine.hpp"
#include "engine/interface/list_builder.hpp"

namespace vectorgpu::engine
{
namespace
{

using ivf::CodeKind;

constexpr uint32_t kDim = 22;
constexpr uint32_t kLists = 9;
constexpr size_t kRows = 1500;

struct Coded
{
	std::vector<uint32_t> labels;
	std::vector<float> scores;
	std::vector<uint8_t> codes;
	std::vector<float> terms;
	std::vector<uint8_t> is_out;
};

struct ListCodes : testing::Test
{
	ListCodes() : engine(make_cpu_engine({.n_threads = 4})), rows(kRows * kDim)
	{
		std::mt19937 rng(5);
		std::normal_distribution<float> normal;

		for (float &x : rows)
			x = normal(rng);
		// The last rows have elements beyond the ranges of the others.
		for (size_t i = kRows - 100; i < kRows; i++)
			rows[i * kDim + i % kDim] *= 40;
	}

	std::unique_ptr<ListBuilder> begin(Metric metric, ElementType element = ElementType::kFloat32)
	{
		std::unique_ptr<ListBuilder> builder;
		ListBuildSpec spec;

		spec.rows = {metric, element, kDim};
		spec.n_clusters = kLists;
		EXPECT_TRUE(engine->make_list_builder(spec, &control, &builder).is_ok());
		return builder;
	}

	/// A builder with centroids.
	std::unique_ptr<ListBuilder> with_lists(Metric metric)
	{
		std::unique_ptr<ListBuilder> builder = begin(metric);
		std::vector<float> centroids(rows.begin() + 200 * kDim, rows.begin() + (200 + kLists) * kDim);

		if (metric == Metric::kCosine)
			ivf::normalise_rows(centroids.data(), kLists, kDim);
		EXPECT_TRUE(builder->add_centroids(centroids.data(), kLists).is_ok());
		return builder;
	}

	static ListCodeSpec codes(CodeKind kind, Metric metric, uint32_t m, uint32_t bits, bool opq, uint32_t n_training)
	{
		ListCodeSpec spec;

		spec.codes.kind = kind;
		spec.codes.metric = metric;
		spec.codes.dim = kDim;
		if (kind == CodeKind::kPq)
			spec.codes.pq = {metric, kDim, m, bits, opq};
		if (kind == CodeKind::kRabitq)
			spec.codes.bits = bits;
		spec.n_training = n_training;
		return spec;
	}

	static Status assign(ListBuilder *builder, const float *vectors, size_t n, size_t batch, Coded *result)
	{
		const ivf::CodeSpec &spec = builder->coder()->spec().codes;
		const size_t code_bytes = ivf::code_bytes(spec);

		*result = {std::vector<uint32_t>(n), std::vector<float>(n), std::vector<uint8_t>(n * code_bytes, 0xAA),
			std::vector<float>(n), std::vector<uint8_t>(n, 7)};
		for (size_t first = 0; first < n; first += batch)
		{
			const size_t here = std::min(batch, n - first);
			const CodedRows coded = {result->codes.data() + first * code_bytes,
				ivf::code_has_terms(spec) ? result->terms.data() + first : nullptr, result->is_out.data() + first};
			const Status status = builder->assign(first, vectors + first * kDim, here, result->labels.data() + first,
				result->scores.data() + first, coded);

			if (!status.is_ok())
				return status;
		}
		return Status::ok();
	}

	/// The codes that a backend makes of the same rows, lists and model.
	static Coded expected(const ListBuilder &builder, const Coded &found, std::vector<float> vectors)
	{
		const ListCoder &coder = *builder.coder();
		const ivf::CodeSpec &spec = coder.spec().codes;
		const size_t n = vectors.size() / kDim;
		std::vector<float> floats = coder.model();
		const ivf::CodeModel model = ivf::make_code_model(spec, floats.data());
		Coded result = found;

		if (spec.metric == Metric::kCosine)
			ivf::normalise_rows(vectors.data(), n, kDim);
		if (spec.kind == CodeKind::kSq8)
		{
			(void) ivf::sq8_encode(model.sq8, vectors.data(), n, kDim, result.codes.data(), result.is_out.data());
			return result;
		}
		std::fill(result.is_out.begin(), result.is_out.end(), uint8_t{0});
		if (spec.kind == CodeKind::kRabitq)
		{
			std::vector<float> rotated(kLists * ivf::rabitq_padded_dim(model.rabitq.spec));
			std::vector<uint8_t> work(ivf::rabitq_encode_work_bytes(model.rabitq.spec));

			ivf::rabitq_rotate(model.rabitq, builder.centroids().data(), model.rabitq.centre, kLists, rotated.data());
			EXPECT_TRUE(ivf::rabitq_encode({&model.rabitq, builder.centroids().data(), rotated.data()}, vectors.data(),
				found.labels.data(), n, result.codes.data(), work.data(), work.size())
					.is_ok());
			return result;
		}

		std::vector<float> rotated(kLists * ivf::pq_padded_dim(spec.pq));
		std::vector<uint8_t> memory(ivf::pq_encoder_bytes(spec.pq));
		ivf::PqEncoder encoder;

		ivf::pq_rotate(model.pq, builder.centroids().data(), kLists, rotated.data());
		EXPECT_TRUE(ivf::pq_encoder_init(model.pq, rotated.data(), memory.data(), memory.size(), &encoder).is_ok());

		std::vector<uint8_t> work(ivf::pq_encode_work_bytes(encoder, 1));

		EXPECT_TRUE(ivf::pq_encode(encoder, vectors.data(), found.labels.data(), n, result.codes.data(),
			result.terms.data(), work.data(), work.size())
				.is_ok());
		return result;
	}

	static void expect_same(const Coded &a, const Coded &b)
	{
		EXPECT_EQ(a.labels, b.labels);
		EXPECT_EQ(a.codes, b.codes);
		EXPECT_EQ(a.is_out, b.is_out);
		EXPECT_EQ(std::memcmp(a.terms.data(), b.terms.data(), a.terms.size() * sizeof(float)), 0);
	}

	std::unique_ptr<Engine> engine;
	SearchControl control;
	std::vector<float> rows;
};

TEST_F(ListCodes, are_those_of_one_thread)
{
	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
		for (const ListCodeSpec &spec :
			{codes(CodeKind::kSq8, metric, 0, 0, false, 400), codes(CodeKind::kPq, metric, 6, 8, false, 400),
				codes(CodeKind::kPq, metric, 7, 4, false, 400), codes(CodeKind::kPq, metric, 11, 4, true, 400)})
		{
			std::unique_ptr<ListBuilder> builder = with_lists(metric);
			Coded small;
			Coded large;

			ASSERT_TRUE(builder->begin_codes(spec).is_ok());
			ASSERT_TRUE(builder->add_code_training(rows.data(), 150).is_ok());
			EXPECT_EQ(builder->train_codes().code, StatusCode::kInvalidArgument) << "before all rows are there";
			ASSERT_TRUE(builder->add_code_training(rows.data() + 150 * kDim, 250).is_ok());
			EXPECT_EQ(builder->add_code_training(rows.data(), 1).code, StatusCode::kInvalidArgument)
				<< "more than announced";
			EXPECT_EQ(assign(builder.get(), rows.data(), 1, 1, &small).code, StatusCode::kInvalidArgument)
				<< "before the training";
			ASSERT_TRUE(builder->train_codes().is_ok());
			EXPECT_EQ(builder->add_code_training(rows.data(), 1).code, StatusCode::kInvalidArgument);
			ASSERT_TRUE(assign(builder.get(), rows.data(), kRows, 77, &small).is_ok());
			ASSERT_TRUE(assign(builder.get(), rows.data(), kRows, kRows, &large).is_ok());
			expect_same(small, large);
			expect_same(small, expected(*builder, small, rows));
			if (spec.codes.kind == CodeKind::kSq8 && metric == Metric::kL2)
			{
				EXPECT_GT(std::count(small.is_out.end() - 100, small.is_out.end(), 1), 80);
				EXPECT_EQ(std::count(small.is_out.begin(), small.is_out.begin() + 400, 1), 0);
			}

			// The same with the model handed over.
			std::unique_ptr<ListBuilder> second = with_lists(metric);
			ListCodeSpec given = spec;
			Coded again;
			const std::vector<float> &model = builder->coder()->model();

			given.n_training = 0;
			ASSERT_TRUE(second->begin_codes(given).is_ok());
			ASSERT_TRUE(second->add_code_model(model.data(), 5).is_ok());
			EXPECT_EQ(assign(second.get(), rows.data(), 1, 1, &again).code, StatusCode::kInvalidArgument)
				<< "a part of the model";
			ASSERT_TRUE(second->add_code_model(model.data() + 5, model.size() - 5).is_ok());
			EXPECT_EQ(second->add_code_model(model.data(), 1).code, StatusCode::kInvalidArgument);
			ASSERT_TRUE(assign(second.get(), rows.data(), kRows, 300, &again).is_ok());
			expect_same(again, small);
		}
}

TEST_F(ListCodes, of_rabitq_are_those_of_one_thread)
{
	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
		for (const uint32_t bits : {1u, 4u, 7u})
		{
			std::vector<float> model(kDim + 1, 0.25f);

			model[kDim] = 4711;
			for (const size_t batch : {size_t{1}, size_t{33}, kRows})
			{
				std::unique_ptr<ListBuilder> builder = with_lists(metric);
				Coded coded;

				ASSERT_TRUE(builder->begin_codes(codes(CodeKind::kRabitq, metric, 0, bits, false, 0)).is_ok());
				ASSERT_TRUE(builder->add_code_model(model.data(), model.size()).is_ok());
				ASSERT_TRUE(assign(builder.get(), rows.data(), kRows, batch, &coded).is_ok());
				expect_same(coded, expected(*builder, coded, rows));
			}
		}
}

TEST_F(ListCodes, that_cannot_be_are_refused)
{
	std::unique_ptr<ListBuilder> builder = begin(Metric::kL2);
	const float nan = std::nanf("");

	EXPECT_EQ(
		builder->begin_codes(codes(CodeKind::kSq8, Metric::kL2, 0, 0, false, 4)).code, StatusCode::kInvalidArgument)
		<< "no lists yet";
	EXPECT_EQ(builder->add_code_model(rows.data(), 1).code, StatusCode::kInvalidArgument);
	EXPECT_EQ(builder->add_code_training(rows.data(), 1).code, StatusCode::kInvalidArgument);
	builder = with_lists(Metric::kL2);
	EXPECT_EQ(
		builder->begin_codes(codes(CodeKind::kHalves, Metric::kL2, 0, 0, false, 4)).code, StatusCode::kUnsupported);
	EXPECT_FALSE(builder->begin_codes(codes(CodeKind::kPq, Metric::kL2, kDim + 1, 8, false, 4)).is_ok());
	EXPECT_FALSE(builder->begin_codes(codes(CodeKind::kPq, Metric::kL2, 4, 5, false, 4)).is_ok());
	EXPECT_FALSE(builder->begin_codes(codes(CodeKind::kRabitq, Metric::kL2, 0, 9, false, 0)).is_ok());
	EXPECT_FALSE(builder->begin_codes(codes(CodeKind::kRabitq, Metric::kL2, 0, 4, false, 4)).is_ok())
		<< "its model is given, not trained";
	EXPECT_FALSE(builder->begin_codes(codes(CodeKind::kSq8, Metric::kCosine, 0, 0, false, 4)).is_ok())
		<< "another metric";
	ASSERT_TRUE(builder->begin_codes(codes(CodeKind::kSq8, Metric::kL2, 0, 0, false, 0)).is_ok());
	EXPECT_FALSE(builder->begin_codes(codes(CodeKind::kSq8, Metric::kL2, 0, 0, false, 0)).is_ok()) << "twice";
	EXPECT_EQ(builder->add_code_model(&nan, 1).code, StatusCode::kInvalidArgument);
}

TEST_F(ListCodes, stop_when_they_are_told_to)
{
	std::unique_ptr<ListBuilder> builder = with_lists(Metric::kL2);

	ASSERT_TRUE(builder->begin_codes(codes(CodeKind::kPq, Metric::kL2, 6, 8, false, 400)).is_ok());
	ASSERT_TRUE(builder->add_code_training(rows.data(), 400).is_ok());
	control.stop = true;
	EXPECT_EQ(builder->train_codes().code, StatusCode::kCancelled);
	control.stop = false;
	EXPECT_TRUE(builder->train_codes().is_ok());
	EXPECT_GT(control.progress.load(), 0U);
}

TEST_F(ListCodes, turn_the_centroids_with_progress_and_stop)
{
	std::unique_ptr<ListBuilder> trained = with_lists(Metric::kL2);
	const ListCodeSpec given = codes(CodeKind::kPq, Metric::kL2, 6, 8, true, 0);

	ASSERT_TRUE(trained->begin_codes(codes(CodeKind::kPq, Metric::kL2, 6, 8, true, 400)).is_ok());
	ASSERT_TRUE(trained->add_code_training(rows.data(), 400).is_ok());
	ASSERT_TRUE(trained->train_codes().is_ok());

	const std::vector<float> model = trained->coder()->model();

	for (const bool stop : {false, true})
	{
		std::unique_ptr<ListBuilder> builder = with_lists(Metric::kL2);

		ASSERT_TRUE(builder->begin_codes(given).is_ok());
		control.progress = 0;
		control.stop = stop;
		EXPECT_EQ(
			builder->add_code_model(model.data(), model.size()).code, stop ? StatusCode::kCancelled : StatusCode::kOk);
		EXPECT_GT(control.progress.load(), 0U);
		EXPECT_EQ(builder->coder()->started(), !stop);
		control.stop = false;
	}
}

/// Bit strings: labels are those of zeros and ones, neighbours by the bits.
TEST(ListsOfBits, AreTrainedAssignedAndSearched)
{
	const std::unique_ptr<Engine> engine = make_cpu_engine({.n_threads = 3});

	for (const Metric metric : {Metric::kHamming, Metric::kJaccard})
	{
		constexpr uint32_t kBits = 75;
		constexpr size_t kRowBytes = 10;
		constexpr size_t kN = 900;
		constexpr uint32_t kK = 7;
		SearchControl control;
		std::unique_ptr<ListBuilder> builder;
		ListBuildSpec spec;
		std::mt19937 rng(11);
		std::vector<uint8_t> bits(kN * kRowBytes);
		std::vector<float> floats(kN * kBits);
		std::vector<uint32_t> labels(kN);
		std::vector<float> scores(kN);
		std::vector<Neighbor> found;

		spec.rows = {metric, ElementType::kBit, kBits};
		spec.n_clusters = 12;
		spec.n_training = kN;
		spec.n_queries = 3;
		spec.k = kK;
		for (size_t i = 0; i < bits.size(); i++)
			bits[i] = static_cast<uint8_t>(rng() & (i % kRowBytes == kRowBytes - 1 ? 0xE0 : 0xFF));
		ASSERT_TRUE(engine->make_list_builder(spec, &control, &builder).is_ok());
		ASSERT_TRUE(builder->add_training(bits.data(), kN).is_ok());
		ASSERT_TRUE(builder->train().is_ok());
		for (const float x : builder->centroids())
			ASSERT_TRUE(x >= 0 && x <= 1) << x;
		ASSERT_TRUE(builder->add_queries(bits.data(), 3).is_ok());
		EXPECT_EQ(builder->begin_codes(ListCodeSpec{}).code, StatusCode::kUnsupported);
		for (size_t first = 0; first < kN; first += 400)
			ASSERT_TRUE(builder
					->assign(first, bits.data() + first * kRowBytes, std::min<size_t>(400, kN - first),
						labels.data() + first, scores.data() + first)
					.is_ok());

		ivf::list_floats(spec.rows, bits.data(), kN, floats.data());
		for (size_t i = 0; i < kN; i++)
		{
			std::vector<double> distances(builder->centroids().size() / kBits);

			compute_scores({Metric::kL2, ElementType::kFloat32, kBits}, floats.data() + i * kBits,
				builder->centroids().data(), kBits * sizeof(float), distances.size(), distances.data());
			ASSERT_EQ(labels[i], std::min_element(distances.begin(), distances.end()) - distances.begin());
			ASSERT_EQ(static_cast<double>(scores[i]), distances[labels[i]]);
		}
		ASSERT_TRUE(builder->neighbors(&found).is_ok());
		for (size_t q = 0; q < 3; q++)
		{
			std::vector<Neighbor> all;
			double score;

			for (size_t i = 0; i < kN; i++)
			{
				compute_scores(
					spec.rows, bits.data() + q * kRowBytes, bits.data() + i * kRowBytes, kRowBytes, 1, &score);
				all.push_back({score, i});
			}
			std::sort(all.begin(), all.end(), neighbor_less);
			for (size_t i = 0; i < kK; i++)
			{
				EXPECT_EQ(found[q * kK + i].row, all[i].row);
				EXPECT_EQ(found[q * kK + i].score, all[i].score);
			}
		}
	}
}

} // namespace
} // namespace vectorgpu::engine
