// Locality-sensitive hashing and min-hash against theory (Zhou et al., section IV): collision probabilities, the number
// of hash functions, the bound of tau-ANN. Seeds are fixed: the tests are deterministic.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "engine/match/lsh.hpp"
#include "engine/match/minhash.hpp"

namespace
{

using namespace vectorgpu::engine;
using Vector = std::vector<float>;
using Signature = std::vector<uint32_t>;

class Hasher
{
public:
	explicit Hasher(const LshOptions &options)
		: options_(options), table_(lsh_table_bytes(options) / sizeof(double) + 1), scratch_(options.hashes)
	{
		lsh_make_table(options_, table_.data());
	}

	Signature operator()(const Vector &vector)
	{
		Signature signature(options_.hashes);

		lsh_signature(options_, table_.data(), vector.data(), scratch_.data(), signature.data());
		return signature;
	}

private:
	LshOptions options_;
	std::vector<double> table_;
	std::vector<double> scratch_;
};

LshOptions
options(LshFamily family, uint32_t dim, uint32_t hashes, uint32_t buckets, double width)
{
	LshOptions result;

	result.family = family;
	result.dim = dim;
	result.hashes = hashes;
	result.buckets = buckets;
	result.width = width;
	result.seed = 42;
	return result;
}

double
agreement(const Signature &a, const Signature &b)
{
	int agreed = 0;

	for (size_t i = 0; i < a.size(); i++)
		agreed += a[i] == b[i];
	return agreed / static_cast<double>(a.size());
}

Vector
gaussian_vector(std::mt19937 &random, size_t dim, float scale)
{
	std::normal_distribution<float> normal(0, scale);
	Vector vector(dim);

	for (float &x : vector)
		x = normal(random);
	return vector;
}

double
distance(LshFamily family, const Vector &a, const Vector &b)
{
	double l1 = 0;
	double l2 = 0;
	double ab = 0;
	double aa = 0;
	double bb = 0;

	for (size_t i = 0; i < a.size(); i++)
	{
		const double x = a[i];
		const double y = b[i];

		l1 += std::fabs(x - y);
		l2 += (x - y) * (x - y);
		ab += x * y;
		aa += x * x;
		bb += y * y;
	}
	switch (family)
	{
		case LshFamily::kL2:
			return std::sqrt(l2);
		case LshFamily::kL1:
			return l1;
		case LshFamily::kCosine:
			return std::acos(std::clamp(ab / std::sqrt(aa * bb), -1.0, 1.0));
	}
	return 0;
}

/// Five standard deviations of a share of n that is expected to be p.
double
tolerance(double p, double n)
{
	return 5 * std::sqrt(std::max(p * (1 - p), 1 / n) / n);
}

class LshFamilies : public testing::TestWithParam<LshFamily>
{
};

TEST_P(LshFamilies, agree_with_the_probability_of_theory_at_every_distance)
{
	constexpr uint32_t kHashes = 8192;
	constexpr uint32_t kBuckets = 1 << 20; // re-hashing adds next to nothing
	constexpr uint32_t kDim = 12;
	std::mt19937 random(5);
	Hasher hash(options(GetParam(), kDim, kHashes, kBuckets, 4));
	const Vector query = gaussian_vector(random, kDim, 1);
	const Signature expected = hash(query);
	double lowest = 1;
	double highest = 0;

	for (const float step : {0.0f, 0.05f, 0.2f, 0.5f, 1.0f, 2.0f, 4.0f, 10.0f})
	{
		Vector other = query;
		const Vector move = gaussian_vector(random, kDim, step);

		std::transform(other.begin(), other.end(), move.begin(), other.begin(), std::plus<>());

		const double theory = lsh_similarity(GetParam(), 4, distance(GetParam(), query, other));
		const double measured = agreement(expected, hash(other));

		EXPECT_NEAR(measured, theory, tolerance(theory, kHashes) + 1e-4) << "step " << step;
		lowest = std::min(lowest, measured);
		highest = std::max(highest, measured);
	}
	EXPECT_EQ(highest, 1);
	EXPECT_LT(lowest, 0.6);
}

TEST_P(LshFamilies, rehashing_adds_at_most_one_in_the_number_of_buckets)
{
	constexpr uint32_t kHashes = 8192;
	std::mt19937 random(6);
	const Vector a = gaussian_vector(random, 8, 1);
	const Vector b = gaussian_vector(random, 8, 1);
	const double theory = lsh_similarity(GetParam(), 2, distance(GetParam(), a, b));

	for (const uint32_t buckets : {2u, 7u, 67u})
	{
		Hasher hash(options(GetParam(), 8, kHashes, buckets, 2));
		const Signature x = hash(a);
		const double measured = agreement(x, hash(b));

		EXPECT_GE(measured, theory - tolerance(theory, kHashes)) << buckets;
		EXPECT_LE(measured, theory + 1.0 / buckets + tolerance(theory + 1.0 / buckets, kHashes)) << buckets;
		EXPECT_LT(*std::max_element(x.begin(), x.end()), std::max(buckets, 2u));
		EXPECT_EQ(std::set<uint32_t>(x.begin(), x.end()).size(), GetParam() == LshFamily::kCosine ? 2 : buckets);
	}
}

/// Theorem IV.2: with m functions the first by count is within 2 epsilon (and 2 / D for re-hashing) of the nearest in
/// similarity, for at least a share of 1 - 2 delta of the queries.
TEST_P(LshFamilies, first_by_count_is_the_tau_nearest_neighbour)
{
	constexpr double kEpsilon = 0.06;
	constexpr double kDelta = 0.06;
	constexpr size_t kDim = 16;
	constexpr int kQueries = 100;
	std::mt19937 random(8);
	const uint32_t buckets = 67;
	const double width = GetParam() == LshFamily::kL1 ? 16 : 6;
	Hasher hash(options(GetParam(), kDim, static_cast<uint32_t>(lsh_hashes(kEpsilon, kDelta)), buckets, width));
	std::vector<Vector> points(1000);
	std::vector<Signature> signatures;
	int within = 0;

	for (Vector &point : points)
	{
		point = gaussian_vector(random, kDim, 1);
		signatures.push_back(hash(point));
	}
	for (int i = 0; i < kQueries; i++)
	{
		Vector query = points[static_cast<size_t>(random() % points.size())];
		const Vector noise = gaussian_vector(random, kDim, 0.3f);
		double nearest = 0;
		double best = -1;
		double first = 0;

		std::transform(query.begin(), query.end(), noise.begin(), query.begin(), std::plus<>());

		const Signature signature = hash(query);

		for (size_t j = 0; j < points.size(); j++)
		{
			const double similarity = lsh_similarity(GetParam(), width, distance(GetParam(), query, points[j]));
			const double count = agreement(signature, signatures[j]);

			nearest = std::max(nearest, similarity);
			if (count > best)
			{
				best = count;
				first = similarity;
			}
		}
		within += nearest - first <= 2 * (kEpsilon + 1.0 / buckets);
	}
	EXPECT_GE(within, static_cast<int>(std::ceil((1 - 2 * kDelta) * kQueries)));
}

TEST_P(LshFamilies, equal_options_give_equal_functions_and_seeds_different_ones)
{
	std::mt19937 random(9);
	const Vector vector = gaussian_vector(random, 10, 3);
	LshOptions one = options(GetParam(), 10, 256, 1 << 16, 1);
	LshOptions other = one;

	other.seed++;
	EXPECT_EQ(Hasher(one)(vector), Hasher(one)(vector));
	EXPECT_LT(agreement(Hasher(one)(vector), Hasher(other)(vector)), 0.7);
	// With fewer functions these are others, but a wider table is not read beyond its end.
	one.hashes = 1;
	EXPECT_EQ(Hasher(one)(vector).size(), 1u);
}

TEST_P(LshFamilies, accept_extreme_numbers)
{
	const double widths[] = {kMinLshWidth, 1, kMaxLshWidth};

	for (const double width : widths)
	{
		Hasher hash(options(GetParam(), 4, 64, 67, width));
		const Signature huge = hash({3.4e38f, -3.4e38f, 3.4e38f, 1});
		const Signature zero = hash({0, 0, 0, 0});

		EXPECT_EQ(hash({3.4e38f, -3.4e38f, 3.4e38f, 1}), huge);
		EXPECT_EQ(hash({0, 0, 0, -0.0f}), zero);
	}
}

INSTANTIATE_TEST_SUITE_P(All, LshFamilies, testing::Values(LshFamily::kL2, LshFamily::kL1, LshFamily::kCosine));

TEST(LshHashes, number_of_functions_is_that_of_the_paper)
{
	EXPECT_EQ(lsh_hashes(0.06, 0.06), 237);
}

/// Pr[|c / m - s| <= epsilon] by adding up a binomial distribution from logarithms.
double
probability(int64_t m, double s, double epsilon)
{
	const auto trials = static_cast<double>(m);
	double sum = 0;

	for (int64_t c = 0; c <= m; c++)
		if (c >= std::floor((s - epsilon) * trials + 0.5) && c <= std::floor((s + epsilon) * trials + 0.5))
		{
			const auto agreed = static_cast<double>(c);

			sum += std::exp(std::lgamma(trials + 1) - std::lgamma(agreed + 1) - std::lgamma(trials - agreed + 1) +
				agreed * std::log(s) + (trials - agreed) * std::log1p(-s));
		}
	return sum;
}

TEST(LshHashes, number_of_functions_suffices_for_every_similarity)
{
	for (const double epsilon : {0.03, 0.06, 0.1, 0.2})
		for (const double delta : {0.01, 0.06, 0.2})
		{
			const int64_t m = lsh_hashes(epsilon, delta);

			for (int i = 1; i < 1000; i += 3)
				ASSERT_GE(probability(m, i / 1000.0, epsilon), 1 - delta - 1e-9)
					<< epsilon << ", " << delta << " at " << i;
			EXPECT_LT(
				static_cast<double>(m), 2 * std::log(3 / delta) / (epsilon * epsilon)); // theorem IV.1 asks for more
			EXPECT_GE(lsh_hashes(epsilon, delta / 4), m);
			EXPECT_GE(lsh_hashes(epsilon / 2, delta), m);
		}
}

TEST(LshHashes, refuses_values_that_are_no_probability)
{
	for (const double bad : {0.0, 1.0, -0.1, 2.0, std::nan("")})
	{
		EXPECT_EQ(lsh_hashes(bad, 0.5), 0);
		EXPECT_EQ(lsh_hashes(0.5, bad), 0);
	}
	EXPECT_GT(lsh_hashes(1e-12, 1e-300), 1000000);
	EXPECT_EQ(lsh_hashes(0.99, 0.99), 1);
}

TEST(MinHash, agrees_with_the_jaccard_similarity)
{
	constexpr int kHashes = 4096;

	for (const int common : {0, 1, 10, 50, 90, 100})
	{
		// two sets of 100, `common` of them the same
		std::vector<uint64_t> a(kHashes, ~uint64_t{0});
		std::vector<uint64_t> b = a;
		int agreed = 0;

		for (uint32_t i = 0; i < 200 - static_cast<uint32_t>(common); i++)
		{
			const uint8_t key[4] = {0x80, 0, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i)};

			if (i < 100)
				minhash_add(hash_bytes(key, 4), 7, kHashes, a.data());
			if (i >= 100 - static_cast<uint32_t>(common))
				minhash_add(hash_bytes(key, 4), 7, kHashes, b.data());
		}
		for (size_t i = 0; i < kHashes; i++)
			agreed += minhash_value(a[i]) == minhash_value(b[i]);

		const double theory = common / (200.0 - common);

		EXPECT_NEAR(agreed / static_cast<double>(kHashes), theory, tolerance(theory, kHashes)) << common;
	}
}

TEST(HashFamily, values_are_those_that_indexes_have_stored)
{
	const uint8_t bytes[] = {'a', 'b', 'c'};

	EXPECT_EQ(mix64(0), 0u);
	EXPECT_EQ(
		mix64(UINT64_C(0x9E3779B97F4A7C15)), UINT64_C(0xE220A8397B1DCDAF)); // splitmix64's first number for seed 0
	EXPECT_EQ(hash_bytes(bytes, 3), mix64(UINT64_C(0xE71FA2190541574B)));   // FNV-1a of "abc"
	EXPECT_EQ(reduce(~uint64_t{0}, 67), 66u);
	EXPECT_EQ(reduce(0, 67), 0u);
	EXPECT_GT(uniform(0), 0);
	EXPECT_LT(uniform(~uint64_t{0}), 1);
}

} // namespace
