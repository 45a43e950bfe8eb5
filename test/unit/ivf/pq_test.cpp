// PQ: codes, decoded rows and scores against the definition; the rotation; the cases at the edges.
#include "engine/ivf/pq.hpp"

#include <atomic>
#include <limits>
#include <memory>
#include <numeric>

#include "engine/ivf/polar.hpp"
#include "engine/ivf/pq_scan.hpp"
#include "engine/ivf/pq_train.hpp"
#include "ivf/ivf_data.hpp"

namespace vectorgpu::engine::ivf::test
{
namespace
{

/// A trained index without lists on disk: everything that a test needs to encode and search.
struct Index
{
	Index(const PqSpec &wanted, const Floats &sample, const Floats &lists, uint32_t opq_iterations = 4,
		const Call &call = {})
		: spec(wanted), centroids(lists), codebook(pq_codebook_floats(spec)), rotation(pq_rotation_floats(spec)),
		  labels(oracle_labels(sample, lists, spec.dim)), model{spec, codebook.data(), rotation.data()},
		  rotated(lists.size() / spec.dim * pq_padded_dim(spec)), encoder_memory(pq_encoder_bytes(spec))
	{
		PqTraining training;

		training.rows = sample.data();
		training.labels = labels.data();
		training.centroids = centroids.data();
		training.n_rows = sample.size() / spec.dim;
		training.max_iterations = 6;
		training.opq_iterations = opq_iterations;
		training.n_threads = call.n_threads;

		Buffer work(pq_train_work_bytes(spec, training));

		outcome = pq_train(model, training, &mean_error, work.data(), work.size(), call);
		EXPECT_TRUE(outcome.is_ok()) << outcome.message;
		pq_rotate(model, centroids.data(), centroids.size() / spec.dim, rotated.data());
		EXPECT_TRUE(
			pq_encoder_init(model, rotated.data(), encoder_memory.data(), encoder_memory.size(), &encoder).is_ok());
	}

	Buffer encode(const Floats &rows, const std::vector<uint32_t> &lists, Floats *terms, const Call &call = {})
	{
		const size_t n = rows.size() / spec.dim;
		Buffer codes(n * pq_code_bytes(spec), 0xAA);
		Buffer work(pq_encode_work_bytes(encoder, call.n_threads));

		terms->assign(n, 0);
		EXPECT_TRUE(pq_encode(
			encoder, rows.data(), lists.data(), n, codes.data(), terms->data(), work.data(), work.size(), call)
				.is_ok());
		return codes;
	}

	Floats decode(const Buffer &codes, const std::vector<uint32_t> &lists)
	{
		Floats rows(lists.size() * spec.dim);
		Floats scratch(pq_padded_dim(spec));

		pq_decode(model, centroids.data(), codes.data(), lists.data(), lists.size(), rows.data(), scratch.data());
		return rows;
	}

	uint32_t code(const Buffer &codes, size_t row, size_t j) const
	{
		const uint8_t *code = &codes[row * pq_code_bytes(spec)];

		return spec.bits == 8 ? code[j] : (code[j / 2] >> (j % 2 * 4)) & 15u;
	}

	float codeword(size_t j, size_t i, size_t d) const
	{
		return codebook[(j * pq_sub_dim(spec) + d) * pq_n_codewords(spec) + i];
	}

	PqSpec spec;
	Floats centroids;
	Floats codebook;
	Floats rotation;
	std::vector<uint32_t> labels;
	PqModel model;
	Floats rotated;
	Buffer encoder_memory;
	PqEncoder encoder;
	Outcome outcome;
	double mean_error = -1;
};

double
mean_square(const Floats &a, const Floats &b, size_t dim)
{
	double sum = 0;

	for (size_t i = 0; i < a.size(); i++)
		sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
	return sum / (static_cast<double>(a.size()) / static_cast<double>(dim));
}

struct Shape
{
	uint32_t dim, m, bits;
	bool opq;
};

const Shape kShapes[] = {{16, 4, 8, false}, {16, 4, 4, false}, {17, 5, 8, false}, {17, 5, 4, false}, {7, 7, 4, false},
	{1, 1, 8, false}, {40, 1, 8, false}, {33, 8, 4, true}, {24, 6, 8, true}, {50, 9, 8, true}};

TEST(Pq, CodesAreTheNearestCodewordsAtEveryLevel)
{
	for (const Shape &shape : kShapes)
	{
		const PqSpec spec = {Metric::kL2, shape.dim, shape.m, shape.bits, shape.opq};
		const Floats sample = normal_rows(600, shape.dim, 1);
		Index index(spec, sample, normal_rows(5, shape.dim, 2));
		const Floats rows = normal_rows(100, shape.dim, 3);
		const std::vector<uint32_t> lists = oracle_labels(rows, index.centroids, shape.dim);
		const size_t padded = pq_padded_dim(spec);
		const size_t sub_dim = pq_sub_dim(spec);
		Floats z(100 * padded);
		Floats terms;
		const Buffer codes = index.encode(rows, lists, &terms);

		SCOPED_TRACE(testing::Message() << "dim " << shape.dim << ", m " << shape.m << ", bits " << shape.bits);
		pq_rotate(index.model, rows.data(), 100, z.data());
		for (size_t i = 0; i < 100; i++)
			for (size_t j = 0; j < spec.m; j++)
			{
				Floats residual(sub_dim);
				std::vector<double> scores;

				for (size_t d = 0; d < sub_dim; d++)
					residual[d] = z[i * padded + j * sub_dim + d] - index.rotated[lists[i] * padded + j * sub_dim + d];
				for (size_t c = 0; c < pq_n_codewords(spec); c++)
				{
					Floats word(sub_dim);

					for (size_t d = 0; d < sub_dim; d++)
						word[d] = index.codeword(j, c, d);
					scores.push_back(l2_score(residual.data(), word.data(), sub_dim));
				}
				ASSERT_EQ(index.code(codes, i, j),
					static_cast<uint32_t>(std::min_element(scores.begin(), scores.end()) - scores.begin()))
					<< "row " << i << ", place " << j;
			}
		for (SimdLevel level : supported_levels())
		{
			AtLevel at(level);
			Index again(spec, sample, index.centroids);
			Floats other_terms;

			EXPECT_EQ(again.codebook, index.codebook) << "level " << static_cast<int>(level);
			EXPECT_EQ(again.rotation, index.rotation) << "level " << static_cast<int>(level);
			EXPECT_EQ(again.encode(rows, lists, &other_terms), codes);
			EXPECT_EQ(other_terms, terms);
		}

		Threads threads(3);
		Index by_threads(spec, sample, index.centroids, 4, threads.call());
		Floats other_terms;

		EXPECT_EQ(by_threads.codebook, index.codebook);
		EXPECT_EQ(by_threads.rotation, index.rotation);
		EXPECT_EQ(by_threads.mean_error, index.mean_error);
		EXPECT_EQ(index.encode(rows, lists, &other_terms, threads.call()), codes);
	}
}

TEST(Pq, TrainingByThreadsStops)
{
	struct Stop
	{
		std::atomic<int> n_calls{0};
	} stop;
	const PqSpec spec = {Metric::kL2, 64, 32, 8, false};
	const Floats sample = normal_rows(4000, spec.dim, 1);
	Floats codebook(pq_codebook_floats(spec));
	const PqModel model = {spec, codebook.data(), nullptr};
	PqTraining training;
	Threads threads(4);
	Call call = threads.call();

	training.rows = sample.data();
	training.n_rows = 4000;
	training.n_threads = call.n_threads;
	call.progress_context = &stop;
	call.progress = [](void *context, uint64_t done, uint64_t total)
	{
		EXPECT_LE(done, total);
		return static_cast<Stop *>(context)->n_calls.fetch_add(1) < 3;
	};

	Buffer work(pq_train_work_bytes(spec, training));

	EXPECT_EQ(pq_train(model, training, nullptr, work.data(), work.size(), call).code, StatusCode::kCancelled);
	EXPECT_LE(stop.n_calls.load(), 8);
}

TEST(Pq, ScoresAreThoseOfTheDecodedRowsWithinTheBound)
{
	for (const Shape &shape : kShapes)
		for (Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
		{
			const PqSpec spec = {metric, shape.dim, shape.m, shape.bits, shape.opq};
			Floats sample = normal_rows(500, shape.dim, 4);
			Floats centroids = normal_rows(3, shape.dim, 5);
			Floats rows = normal_rows(75, shape.dim, 6);
			Floats query = normal_rows(1, shape.dim, 7);

			if (metric == Metric::kCosine)
				for (Floats *vectors : {&sample, &centroids, &rows, &query})
					normalise_rows(vectors->data(), vectors->size() / shape.dim, shape.dim);

			Index index(spec, sample, centroids);
			const std::vector<uint32_t> lists(75, 1); // one list, wherever the rows lie
			Floats terms;
			const Buffer codes = index.encode(rows, lists, &terms);
			const Floats decoded = index.decode(codes, lists);
			Buffer interleaved(interleaved_bytes(75, pq_code_bytes(spec)));
			Buffer memory(pq_query_bytes(spec));
			PqQuery prepared;
			double coarse;
			double largest_term = 0;
			std::vector<double> first;

			SCOPED_TRACE(testing::Message() << "dim " << shape.dim << ", m " << shape.m << ", bits " << shape.bits
											<< ", metric " << static_cast<int>(metric));
			interleave_codes(codes.data(), 75, pq_code_bytes(spec), interleaved.data());
			compute_scores(
				{metric, ElementType::kFloat32, shape.dim}, query.data(), &centroids[shape.dim], 0, 1, &coarse);
			for (float term : terms)
				largest_term = std::max(largest_term, std::fabs(static_cast<double>(term)));

			const double constant = pq_list_constant(metric, coarse);
			const float *row_terms = pq_has_row_terms(spec) ? terms.data() : nullptr;

			for (SimdLevel level : supported_levels())
			{
				AtLevel at(level);
				std::vector<double> scores(75);

				ASSERT_TRUE(pq_prepare(index.model, query.data(), memory.data(), memory.size(), &prepared).is_ok());
				pq_scores(prepared, constant, interleaved.data(), row_terms, 75, scores.data());
				if (first.empty())
					first = scores;
				EXPECT_EQ(scores, first) << "level " << static_cast<int>(level);
			}
			for (size_t i = 0; i < 75; i++)
			{
				double tables = 0;
				double direct = 0;

				for (size_t j = 0; j < spec.m; j++)
					tables += static_cast<double>(prepared.table[j * pq_n_codewords(spec) + index.code(codes, i, j)]);
				for (size_t d = 0; d < shape.dim; d++)
				{
					const double q = static_cast<double>(query[d]);
					const double x = static_cast<double>(decoded[i * shape.dim + d]);

					direct += metric == Metric::kL2 ? (q - x) * (q - x) : -q * x;
				}

				const double by_tables = constant + (row_terms == nullptr ? 0 : static_cast<double>(terms[i])) + tables;

				EXPECT_NEAR(first[i], by_tables, pq_score_error(prepared, constant, largest_term));
				EXPECT_NEAR(first[i], direct, prepared.error + 1e-4 * (1 + std::fabs(direct)));
			}
			EXPECT_EQ(prepared.error > 0, shape.bits == 4);
		}
}

TEST(Pq, ByteSumsCannotOverflow)
{
	// 600 sub-quantisers, each at its largest byte: a 16-bit sum would overflow.
	const uint32_t dim = 600;
	const PqSpec spec = {Metric::kInnerProduct, dim, dim, 4, false};
	Floats codebook(pq_codebook_floats(spec));
	const PqModel model = {spec, codebook.data(), nullptr};
	const Floats query(dim, -1);
	Buffer memory(pq_query_bytes(spec));
	PqQuery prepared;
	Buffer codes(interleaved_bytes(32, pq_code_bytes(spec)), 0xFF);
	std::vector<double> scores(32);

	for (size_t d = 0; d < dim; d++)
		codebook[d * 16 + 15] = 1000; // the table's last entry is the largest
	ASSERT_TRUE(pq_prepare(model, query.data(), memory.data(), memory.size(), &prepared).is_ok());
	for (SimdLevel level : supported_levels())
	{
		AtLevel at(level);

		pq_scores(prepared, 0, codes.data(), nullptr, 32, scores.data());
		for (double score : scores)
			EXPECT_NEAR(score, 600000, 1e-6);
	}
}

TEST(Pq, TablesOfLargeVectorsStayFinite)
{
	// Products around 1e7 were beyond half precision.
	const PqSpec spec = {Metric::kL2, 32, 4, 4, false};
	const Floats sample = normal_rows(400, 32, 8, 3000);
	Index index(spec, sample, normal_rows(2, 32, 9, 3000));
	const Floats query = normal_rows(1, 32, 10, 3000);
	Buffer memory(pq_query_bytes(spec));
	PqQuery prepared;

	ASSERT_TRUE(pq_prepare(index.model, query.data(), memory.data(), memory.size(), &prepared).is_ok());
	EXPECT_TRUE(std::isfinite(prepared.byte_scale));
	EXPECT_GT(prepared.byte_scale, 0);
}

TEST(Pq, MoreBitsAndMorePlacesLoseLess)
{
	const Floats sample = clustered_rows(3000, 16, 40, 11, 2);
	const Floats lists = normal_rows(1, 16, 12);
	const double m4 = Index({Metric::kL2, 16, 4, 8, false}, sample, lists).mean_error;
	const double m8 = Index({Metric::kL2, 16, 8, 8, false}, sample, lists).mean_error;
	const double m8_bits4 = Index({Metric::kL2, 16, 8, 4, false}, sample, lists).mean_error;

	EXPECT_LT(m8, m4);
	EXPECT_LT(m8, m8_bits4);
}

TEST(Pq, MeanErrorIsThatOfTheDecodedRows)
{
	for (bool opq : {false, true})
	{
		const Floats sample = normal_rows(700, 12, 13);
		Index index({Metric::kL2, 12, 3, 4, opq}, sample, normal_rows(4, 12, 14));
		Floats terms;
		const Floats decoded = index.decode(index.encode(sample, index.labels, &terms), index.labels);

		EXPECT_NEAR(index.mean_error, mean_square(sample, decoded, 12), 1e-3 * index.mean_error);
	}
}

TEST(Pq, OpqIsOrthogonalAndLosesLess)
{
	// Correlated data with directions of very different variance, which plain sub-vectors code badly.
	const size_t dim = 24;
	const Floats mix = normal_rows(dim, dim, 15);
	const Floats hidden = normal_rows(3000, dim, 16);
	Floats sample(hidden.size());

	for (size_t i = 0; i < 3000; i++)
		for (size_t d = 0; d < dim; d++)
			for (size_t e = 0; e < dim; e++)
				sample[i * dim + d] += mix[d * dim + e] * hidden[i * dim + e] / static_cast<float>(1 + e);

	const Floats lists(dim, 0);
	Index plain({Metric::kL2, 24, 6, 8, false}, sample, lists);
	Index turned({Metric::kL2, 24, 6, 8, true}, sample, lists, 8);
	const size_t stride = pq_rotation_stride(turned.spec);

	EXPECT_LT(turned.mean_error, 0.95 * plain.mean_error);
	for (size_t a = 0; a < dim; a++)
		for (size_t b = 0; b < dim; b++)
		{
			double dot = 0;

			for (size_t j = 0; j < dim; j++)
				dot += static_cast<double>(turned.rotation[a * stride + j]) *
					static_cast<double>(turned.rotation[b * stride + j]);
			EXPECT_NEAR(dot, a == b, 1e-5);
		}
}

TEST(Pq, DegenerateSamplesAreDefined)
{
	for (bool opq : {false, true})
		for (uint32_t bits : {4u, 8u})
		{
			const PqSpec spec = {Metric::kL2, 10, 3, bits, opq};
			const Floats lists = normal_rows(2, 10, 17);
			Floats terms;

			for (const Floats &sample : {Floats(), Floats(10, 1), Floats(1000, 1), normal_rows(5, 10, 18)})
			{
				Index index(spec, sample, lists);
				const Buffer codes = index.encode(sample, index.labels, &terms);
				const Floats decoded = index.decode(codes, index.labels);

				for (size_t i = 0; i < sample.size(); i++)
					EXPECT_NEAR(decoded[i], sample[i], 1e-3) << "rows " << sample.size() / 10;
				for (float x : index.rotation)
					EXPECT_TRUE(std::isfinite(x));
			}
		}
}

TEST(Pq, RefusesImpossibleSpecs)
{
	EXPECT_EQ(pq_check({Metric::kL2, 8, 0, 8, false}).code, StatusCode::kInvalidArgument);
	EXPECT_EQ(pq_check({Metric::kL2, 8, 9, 8, false}).code, StatusCode::kInvalidArgument);
	EXPECT_EQ(pq_check({Metric::kL2, 8, 4, 6, false}).code, StatusCode::kInvalidArgument);
	EXPECT_EQ(pq_check({Metric::kL1, 8, 4, 8, false}).code, StatusCode::kUnsupported);
	EXPECT_EQ(pq_check({Metric::kL2, 4096, 4, 8, true}).code, StatusCode::kUnsupported);
	EXPECT_TRUE(pq_check({Metric::kL2, 9, 4, 8, true}).is_ok());
}

TEST(Polar, FindsTheRotationThatWasMixedIn)
{
	for (size_t n : {1, 2, 3, 17, 64})
	{
		// Q S with S symmetric positive definite: Q is the polar factor.
		const Floats a = normal_rows(n, n, 19);
		const Floats b = normal_rows(n, n, 20);
		std::vector<double> q(a.begin(), a.end());
		std::vector<double> scratch(2 * n * n);
		std::vector<double> product(n * n);

		ASSERT_TRUE(polar_factor(q.data(), n, scratch.data(), {}, {}).is_ok());
		for (size_t i = 0; i < n; i++)
			for (size_t j = 0; j < n; j++)
				for (size_t k = 0; k < n; k++)
				{
					double s = k == j ? 0.01 : 0;

					for (size_t l = 0; l < n; l++)
						s += static_cast<double>(b[k * n + l]) * static_cast<double>(b[j * n + l]);
					product[i * n + j] += q[i * n + k] * s;
				}
		ASSERT_TRUE(polar_factor(product.data(), n, scratch.data(), {}, {}).is_ok());
		for (size_t i = 0; i < n * n; i++)
			EXPECT_NEAR(product[i], q[i], 1e-9) << "n " << n;
	}
}

TEST(Polar, SaysThatAMatrixIsSingular)
{
	std::vector<double> zero(9);
	std::vector<double> scratch(18);

	EXPECT_EQ(polar_factor(zero.data(), 3, scratch.data(), {}, {}).code, StatusCode::kInternal);
}

} // namespace
} // namespace vectorgpu::engine::ivf::test
