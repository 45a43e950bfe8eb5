// Codes by 1-bit random projections: bits that differ estimate angles, the same bytes everywhere, and recall against
// that of rows.
#include <bit>
#include <numbers>
#include <random>

#include "engine/graph/calibrate/calibrate.hpp"
#include "engine/graph/codes/hash.hpp"
#include "engine/match/hash_family.hpp"
#include "graph/graph_data.hpp"

namespace vectorgpu::engine::graph::test
{
namespace
{

/// The codes of some rows.
struct Hashed
{
	CodeModel model;
	Floats thresholds;
	Bytes codes;

	Hashed(const GraphRows &rows, uint32_t bits, uint64_t seed = 1)
		: thresholds(bits), codes(rows.n_rows * code_bytes(bits, 0))
	{
		model.spec = {rows.spec, bits, seed};

		Floats work(hash_work_floats(model.spec));

		hash_train(model.spec, rows, &model.bound, thresholds.data(), work.data());
		model.floats = thresholds.data();
		hash_rows(model, rows, codes.data(), work.data());
	}
	Hashed(const Hashed &) = delete;
	Hashed &operator=(const Hashed &) = delete;

	Bytes query(const void *vector) const
	{
		Bytes code(code_bytes(model.spec.bits, 0));
		Floats work(hash_work_floats(model.spec) + 1);

		hash_query(model, vector, code.data(), work.data() + 1); // whatever the alignment
		return code;
	}

	double distance(const Bytes &code, size_t row) const
	{
		return engine::distance(hash_distance(model.spec.bits), code.data(), codes.data() + row * code.size());
	}
};

/// Pairs of vectors of random directions, and the angle between them.
TEST(Hash, bits_that_differ_are_the_angle)
{
	constexpr size_t kPairs = 200;
	std::mt19937 rng(3);
	std::normal_distribution<float> normal;

	for (const uint32_t dim : {2u, 3u, 31u, 64u, 65u, 200u})
		for (const uint32_t bits : {32u, 64u, 128u, 256u, 512u})
		{
			double error = 0;
			double square = 0;

			for (size_t pair = 0; pair < kPairs; pair++)
			{
				Floats two(2 * dim);
				double dot = 0, aa = 0, bb = 0;

				for (size_t d = 0; d < dim; d++)
				{
					two[d] = normal(rng);
					two[dim + d] =
						static_cast<float>(pair % 5) * 0.3f * normal(rng) + two[d]; // all angles up to a right one
					dot += double{two[d]} * double{two[dim + d]};
					aa += double{two[d]} * double{two[d]};
					bb += double{two[dim + d]} * double{two[dim + d]};
				}

				const Hashed hashed(rows_of(two, dim, Metric::kCosine), bits, pair);
				const double angle = std::acos(std::clamp(dot / std::sqrt(aa * bb), -1.0, 1.0)) / std::numbers::pi;
				const double share = hashed.distance(hashed.query(two.data()), 1) / bits;

				error += share - angle;
				square += (share - angle) * (share - angle);
			}
			// Independent bits would have a variance of angle (1 - angle) / bits, of at most a quarter; orthogonal ones
			// have less.
			EXPECT_LT(std::sqrt(square / kPairs), 0.5 / std::sqrt(bits)) << dim << " dimensions, " << bits << " bits";
			EXPECT_NEAR(error / kPairs, 0, 3 * 0.5 / std::sqrt(bits * kPairs))
				<< dim << " dimensions, " << bits << " bits";
		}
}

/// Rotations by their definition, in whole numbers.
TEST(Hash, codes_are_sides_of_rotated_coordinates)
{
	constexpr size_t kPadded = 64;
	constexpr size_t kDim = 50;
	constexpr uint32_t kBits = 256; // four rotations
	std::mt19937 rng(12);
	Floats rows(20 * kDim);

	for (float &x : rows)
		x = static_cast<float>(static_cast<int>(rng() % 21) - 10);

	const Hashed hashed(rows_of(rows, kDim, Metric::kCosine), kBits, 77);

	for (size_t row = 0; row < 20; row++)
		for (size_t rotation = 0; rotation < kBits / kPadded; rotation++)
		{
			std::vector<int64_t> x(kPadded);

			for (size_t i = 0; i < kDim; i++)
				x[i] = static_cast<int64_t>(rows[row * kDim + i]);
			for (size_t round = 3 * rotation; round < 3 * rotation + 3; round++)
			{
				const uint64_t signs = stream64(77, round);
				std::vector<int64_t> turned(kPadded);

				for (size_t i = 0; i < kPadded; i++)
					for (size_t j = 0; j < kPadded; j++)
						turned[i] += x[j] *
							(1 -
								2 *
									static_cast<int64_t>(
										((signs >> j) ^ static_cast<uint64_t>(std::popcount(i & j))) & 1));
				x = turned;
			}
			for (size_t i = 0; i < kPadded; i++)
			{
				const size_t bit = rotation * kPadded + i;

				ASSERT_EQ(hashed.codes[row * kBits / 8 + bit / 8] >> (7 - bit % 8) & 1, x[i] > 0 ? 1 : 0)
					<< row << " " << bit;
			}
		}
}

/// Codes are stored in indexes: never to be changed.
TEST(Hash, codes_are_stable)
{
	Floats rows(3 * 10);

	for (size_t i = 0; i < rows.size(); i++)
		rows[i] = static_cast<float>(static_cast<int>(i * i * 7 % 41) - 20) / 4;

	const Hashed cosine(rows_of(rows, 10, Metric::kCosine), 64, 5);
	const Hashed l2(rows_of(rows, 10, Metric::kL2), 64, 5);
	const Hashed product(rows_of(rows, 10, Metric::kInnerProduct), 64, 5);

	EXPECT_EQ(cosine.codes,
		(Bytes{0x5B, 0xCC, 0x70, 0x6E, 0xF8, 0x74, 0xA5, 0x8D, 0x77, 0xD0, 0x3E, 0x50, 0x04, 0xF6, 0x15, 0x7A, 0x48,
			0x5C, 0xB3, 0x4E, 0xFA, 0xF1, 0xB4, 0x8F}));
	EXPECT_EQ(l2.codes,
		(Bytes{0x9B, 0xEC, 0x60, 0x6C, 0xF8, 0x7A, 0xA4, 0xCD, 0x77, 0x93, 0x2E, 0xD1, 0x04, 0x8E, 0x5B, 0x72, 0x88,
			0x1F, 0x93, 0x87, 0x4B, 0x81, 0x7C, 0x83}));
	EXPECT_EQ(product.codes,
		(Bytes{0x5B, 0xCC, 0x70, 0x6E, 0xF8, 0x74, 0xA5, 0x8D, 0x73, 0xD0, 0x3F, 0x3B, 0x04, 0xFE, 0x83, 0x7E, 0x61,
			0x5C, 0xB9, 0xAF, 0x49, 0xFC, 0xA4, 0x8F}));
	EXPECT_EQ(product.model.bound, 97.4375f);
	EXPECT_EQ(product.query(rows.data()), (Bytes{0x5B, 0xCC, 0x70, 0x6E, 0xF8, 0x74, 0xA5, 0x8D}));
}

TEST(Hash, halves_have_the_codes_of_their_values)
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
	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
	{
		const GraphRows half_rows = {{metric, ElementType::kFloat16, kDim}, halves.data(), kDim * 2, 50};
		const Hashed wide(rows_of(floats, kDim, metric), 128);
		const Hashed narrow(half_rows, 128);

		EXPECT_EQ(narrow.codes, wide.codes);
		EXPECT_EQ(narrow.query(halves.data()), wide.query(floats.data()));
	}
}

/// Euclidean distances do not change when all rows are moved, nor should codes (far away floats would).
TEST(Hash, codes_for_l2_do_not_depend_on_the_origin)
{
	std::mt19937 rng(4);
	Floats rows(64 * 8);
	Floats moved;

	for (float &x : rows)
		x = static_cast<float>(rng() % 64); // sums of whole numbers are exact, but for the mean
	for (const float x : rows)
		moved.push_back(x + 64);

	const Hashed here(rows_of(rows, 8), 128);
	const Hashed there(rows_of(moved, 8), 128);
	size_t differing = 0;

	for (size_t i = 0; i < here.codes.size(); i++)
		differing += here.codes[i] != there.codes[i];
	EXPECT_LT(differing, here.codes.size() / 100);
}

/// Longer rows have larger inner products: without the extra coordinate the order would be that of the angles.
TEST(Hash, codes_for_an_inner_product_respect_lengths)
{
	Floats rows;

	for (int i = 1; i <= 20; i++)
		rows.insert(rows.end(), {static_cast<float>(i), static_cast<float>(i), 0});

	const Hashed hashed(rows_of(rows, 3, Metric::kInnerProduct), 512);
	const Bytes code = hashed.query(rows.data());

	for (size_t i = 3; i < 20; i += 3)
		EXPECT_LT(hashed.distance(code, i), hashed.distance(code, i - 3)) << i;
}

TEST(Hash, numbers_that_are_none_are_no_trouble)
{
	const float inf = HUGE_VALF;
	const Floats rows = {0, 0, 0, inf, -inf, 1, NAN, 2, 3, 3e38f, 3e38f, -3e38f, 1e-45f, 0, -0.0f};

	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
	{
		const Hashed once(rows_of(rows, 3, metric), 32);
		const Hashed again(rows_of(rows, 3, metric), 32);

		EXPECT_EQ(once.codes, again.codes);
		EXPECT_TRUE(std::isfinite(once.model.bound));
	}
}

TEST(Hash, other_seeds_make_other_codes)
{
	const Floats rows = overlapping_rows(100, 20, 8);

	EXPECT_NE(Hashed(rows_of(rows, 20), 64, 1).codes, Hashed(rows_of(rows, 20), 64, 2).codes);
}

/// As in figure 14 of the paper: more bits, and wider searches, find more.
TEST(Hash, recall_grows_with_bits)
{
	constexpr size_t kDim = 32;
	const Floats all = overlapping_rows(8000 + 200, kDim, 10);
	const Floats data(all.begin(), all.begin() + 8000 * kDim);
	const Floats queries(all.begin() + 8000 * kDim, all.end());
	BuildSpec spec;

	spec.degree = 16;

	const Built built = build(rows_of(data, kDim), spec);
	double before = 0;

	for (const uint32_t bits : {32u, 128u, 512u})
	{
		const Hashed hashed(built.rows, bits);
		MeasuredGraph measured = {built.rows, built.edges.data(), built.degree, built.entries.data(),
			static_cast<uint32_t>(built.entries.size())};
		ivf::Calibration calibration;

		measured.hash = &hashed.model;
		measured.codes = hashed.codes.data();

		Bytes work(calibrate_bytes(measured, 1));

		ASSERT_TRUE(calibrate(measured, &calibration, work.data(), work.size()).is_ok());

		// Queries that are not rows find as much as the calibration says.
		const double said = ivf::recall_of(calibration, 100);
		size_t hits = 0;

		for (size_t q = 0; q < 200; q++)
		{
			const float *query = queries.data() + q * kDim;
			const Bytes code = hashed.query(query);
			const std::vector<Candidate> truth = all_ranked(built.rows, query, kNoNode, 10);
			Built codes = {{hash_distance(bits), hashed.codes.data(), code_bytes(bits, 0), built.rows.n_rows},
				built.degree, built.edges, built.entries, {}};
			SearchSpec search;

			search.width = 100;
			search.probe_steps = kSearchSteps;
			for (const Candidate &found : codes.search(code.data(), search))
				for (size_t i = 0; i < 10; i++)
					hits += truth[i].node == found.node;
		}

		const double recall = static_cast<double>(hits) / 2000;

		EXPECT_NEAR(recall, said, 0.05) << bits;
		EXPECT_GT(recall, before + 0.05) << bits;
		before = recall;
	}
	EXPECT_GT(before, 0.9);
}

/// Counts calls of progress; stops at the last one.
struct Looks
{
	uint32_t n = 0;
	uint32_t last = ~0u;

	Call call()
	{
		Call call;

		call.progress = [](void *context, uint64_t, uint64_t)
		{
			Looks *looks = static_cast<Looks *>(context);

			return ++looks->n < looks->last;
		};
		call.progress_context = this;
		return call;
	}
};

TEST(Hash, training_checks_for_a_stop_by_work_done)
{
	constexpr uint32_t kRows = 300;
	uint32_t before = 0;

	for (const uint32_t dim : {64u, 1000u, 16000u})
	{
		const Floats rows(size_t{kRows} * dim, 1.0f);
		const CodeSpec spec = {{Metric::kL2, ElementType::kFloat32, dim}, 128};
		const uint32_t piece = hash_piece_rows(spec);
		Floats thresholds(spec.bits);
		Floats work(hash_work_floats(spec));
		Looks looks;
		float bound = 0;

		EXPECT_LE(uint64_t{piece} * dim, 1u << 20) << dim;
		EXPECT_TRUE(hash_train(spec, rows_of(rows, dim), &bound, thresholds.data(), work.data(), looks.call()));
		EXPECT_EQ(looks.n, (kRows + piece - 1) / piece) << dim;
		EXPECT_GE(looks.n, before);
		before = looks.n;

		Looks stop;

		stop.last = looks.n;
		EXPECT_FALSE(hash_train(spec, rows_of(rows, dim), &bound, thresholds.data(), work.data(), stop.call()));
		EXPECT_EQ(stop.n, looks.n);
	}
	EXPECT_GE(before, 4u);
	EXPECT_EQ(hash_piece_rows({{Metric::kL2, ElementType::kFloat32, 64}, 512}),
		hash_piece_rows({{Metric::kL2, ElementType::kFloat32, 64}, 64}) / 8)
		<< "eight rotations";
}

} // namespace
} // namespace vectorgpu::engine::graph::test
