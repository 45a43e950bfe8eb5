// PartialReduce: the number of bins (equations 13 and 14 of the paper), the reduction, and its recall: on random
// numbers against the exact expectation, on data sets against the guarantee.
#include "engine/distance/partial_reduce.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/distance/distance.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(PartialReduce, BinsAreThoseOfEquation14)
{
	// 1 / (1 - r^(1 / (k - 1))), computed with 50 digits.
	struct Case
	{
		uint64_t k;
		double target;
		uint64_t bins;
	};

	for (const Case &one : {Case{2, 0.5, 2}, Case{2, 0.9, 10}, Case{3, 0.25, 2}, Case{10, 0.5, 14}, Case{10, 0.95, 176},
			 Case{10, 0.99, 896}, Case{100, 0.9, 941}, Case{100, 0.95, 1931}, Case{1000, 0.95, 19477},
			 Case{1000, 0.99, 99401}})
		EXPECT_EQ(partial_reduce_least_bins(one.k, one.target), one.bins) << one.k << " " << one.target;
	EXPECT_EQ(partial_reduce_least_bins(1, 0.999), 1u); // a single row
	EXPECT_EQ(partial_reduce_least_bins(10, 1.0), 0u);
	EXPECT_EQ(partial_reduce_least_bins(10, kNan), 0u);
}

TEST(PartialReduce, BinsAreTheFewestThatReachTheTarget)
{
	for (uint64_t k : {2, 3, 10, 64, 100, 1000, 2048})
		for (double target : {0.1, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999})
		{
			const uint64_t bins = partial_reduce_least_bins(k, target);

			EXPECT_GE(partial_reduce_recall(k, bins), target - 1e-9) << k << " " << target;
			EXPECT_TRUE(bins <= 2 || partial_reduce_recall(k, bins - 1) < target) << k << " " << target;
			EXPECT_EQ(partial_reduce_bins(k, target) % kPartialReduceUnit, 0u);
			EXPECT_GE(partial_reduce_bins(k, target), bins);
			EXPECT_LT(partial_reduce_bins(k, target), bins + kPartialReduceUnit);
		}
}

TEST(PartialReduce, RecallIsThatOfEquation13)
{
	EXPECT_DOUBLE_EQ(partial_reduce_recall(2, 4), 0.75);
	EXPECT_DOUBLE_EQ(partial_reduce_recall(3, 10), 0.81);
	EXPECT_NEAR(partial_reduce_recall(10, 176), 0.950010, 1e-6);
	EXPECT_EQ(partial_reduce_recall(1, 1), 1.0);
	EXPECT_EQ(partial_reduce_recall(2, 1), 0.0);
}

TEST(PartialReduce, TheSmallestOfEachBin)
{
	const double scores[] = {5, 1, kNan, 3, 1, 2, 3, 0, 7, 9};
	const uint8_t dead[] = {0x80, 0x00}; // row 7
	uint64_t rows[4];

	partial_reduce(scores, 10, nullptr, 3, rows);
	EXPECT_EQ(
		std::vector<uint64_t>(rows, rows + 3), (std::vector<uint64_t>{3, 7, 5})); // 3 of {5,3,3,9}: the first of equals
	partial_reduce(scores, 10, dead, 3, rows);
	EXPECT_EQ(std::vector<uint64_t>(rows, rows + 3), (std::vector<uint64_t>{3, 1, 5}));
	partial_reduce(scores, 3, nullptr, 4, rows);
	EXPECT_EQ(std::vector<uint64_t>(rows, rows + 4), (std::vector<uint64_t>{0, 1, 2, kNoRow})); // NaN is a row as well

	const double numbers_last[] = {kNan, 4, kNan, kNan};

	partial_reduce(numbers_last, 4, nullptr, 1, rows);
	EXPECT_EQ(rows[0], 1u);
}

/// The share of the k nearest that the reduction keeps.
double
recall_of(const std::vector<double> &scores, uint64_t k, uint64_t n_bins)
{
	std::vector<uint64_t> kept(n_bins);
	std::vector<uint64_t> order(scores.size());
	uint64_t n_found = 0;

	partial_reduce(scores.data(), scores.size(), nullptr, n_bins, kept.data());

	const std::set<uint64_t> left(kept.begin(), kept.end());

	std::iota(order.begin(), order.end(), uint64_t{0});
	std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(k), order.end(),
		[&](uint64_t a, uint64_t b) { return scores[a] != scores[b] ? scores[a] < scores[b] : a < b; });
	for (uint64_t i = 0; i < k; i++)
		n_found += left.count(order[i]);
	return static_cast<double>(n_found) / static_cast<double>(k);
}

TEST(PartialReduce, RecallOfRandomNumbersIsTheExpectationOfBallsInBins)
{
	// Of the balls in one bin one is found: L (1 - (1 - 1/L)^k) / k, above the bound of equation 13.
	std::mt19937 rng(17);
	std::uniform_real_distribution<double> uniform;

	for (const auto &[k, n_bins] : {std::pair<uint64_t, uint64_t>{10, 14}, {10, 176}, {100, 941}, {50, 64}})
	{
		constexpr int kTrials = 400;
		const double bins = static_cast<double>(n_bins);
		const double balls = static_cast<double>(k);
		const double expected = bins * (1 - std::pow(1 - 1 / bins, balls)) / balls;
		double sum = 0;

		for (int trial = 0; trial < kTrials; trial++)
		{
			std::vector<double> scores(4000);

			for (double &score : scores)
				score = uniform(rng);
			sum += recall_of(scores, k, n_bins);
		}
		EXPECT_GE(expected, partial_reduce_recall(k, n_bins));
		EXPECT_NEAR(sum / kTrials, expected, 0.02) << k << " of " << n_bins;
	}
}

/// Rows of a *.u8bin.gz as floats; empty if there is no such file.
std::vector<float>
read_rows(const std::string &name, size_t most, uint32_t *dim)
{
	const char *folder = std::getenv("VECTORGPU_DATA");
	const std::string path = std::string(folder == nullptr ? "" : folder) + "/" + name;
	std::vector<float> rows;
	uint32_t head[2];

	if (folder == nullptr || access(path.c_str(), R_OK) != 0)
		return rows;

	FILE *file = popen(("gzip -dc '" + path + "' 2>/dev/null").c_str(), "r");

	if (file == nullptr)
		return rows;
	if (fread(head, sizeof(head), 1, file) == 1)
	{
		std::vector<uint8_t> bytes(std::min<size_t>(most, head[0]) * head[1]);

		*dim = head[1];
		bytes.resize(fread(bytes.data(), 1, bytes.size(), file));
		rows.assign(bytes.begin(), bytes.end());
	}
	pclose(file);
	return rows;
}

TEST(PartialReduce, RecallOnDataSetsReachesTheTarget)
{
	struct DataSet
	{
		const char *name;
		size_t n_rows;
		size_t n_queries;
	};
	bool found = false;

	// Rows in the order of the files, where neighbours come from the same picture.
	for (const DataSet &set : {DataSet{"sift-bsds-128", 60000, 60}, DataSet{"fashion-mnist-784", 20000, 40}})
	{
		uint32_t dim = 0;
		const std::vector<float> rows = read_rows(std::string(set.name) + ".base.u8bin.gz", set.n_rows, &dim);
		const std::vector<float> queries = read_rows(std::string(set.name) + ".query.u8bin.gz", set.n_queries, &dim);

		if (rows.empty() || queries.empty())
			continue;
		found = true;

		const size_t n = rows.size() / dim;
		const size_t n_queries = queries.size() / dim;
		std::vector<std::vector<double>> scores(n_queries, std::vector<double>(n));

		for (size_t q = 0; q < n_queries; q++)
			compute_scores({Metric::kL2, ElementType::kFloat32, dim}, queries.data() + q * dim, rows.data(),
				dim * sizeof(float), n, scores[q].data());
		for (const auto &[k, target] : {std::pair<uint64_t, double>{10, 0.95}, {10, 0.8}, {100, 0.95}, {100, 0.9}})
		{
			double sum = 0;

			for (size_t q = 0; q < n_queries; q++)
				sum += recall_of(scores[q], k, partial_reduce_bins(k, target));
			RecordProperty(std::string(set.name) + "_" + std::to_string(k) + "_" + std::to_string(target),
				std::to_string(sum / static_cast<double>(n_queries)));
			printf("%s: k %zu, target %.2f, %zu bins (guarantee %.4f): recall %.4f\n", set.name, static_cast<size_t>(k),
				target, static_cast<size_t>(partial_reduce_bins(k, target)),
				partial_reduce_recall(k, partial_reduce_bins(k, target)), sum / static_cast<double>(n_queries));
			EXPECT_GE(sum / static_cast<double>(n_queries), target) << set.name << " k " << k;
		}
	}
	if (!found)
		GTEST_SKIP() << "VECTORGPU_DATA is not set";
}

} // namespace
} // namespace vectorgpu::engine
