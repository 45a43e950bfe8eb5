// The plan of a selection by a sample of a row: which number of the sample is the threshold, and how much room the
// numbers that pass take. On the host alone, without CUDA.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace vectorgpu::kernels
{

/// Values that n_columns and k decide before a launch of select_rows_sampled_kernel.
struct SelectRowsPlan
{
	uint32_t n_sample_vectors = 0; // of 4 numbers, a thread; 0: no sample, all rows by rounds
	uint32_t rank_least = 0;       // at least this many numbers of the sample are not above the threshold
	uint32_t rank_most = 0;        // and at most, if the numbers differ
	uint32_t n_slots = 0;          // of each thread's list; the last one says that the list is full
	uint32_t n_sorted = 0;         // keys that are sorted: a power of two, 2 and k at least
	uint32_t capacity = 0;         // keys of the buffer for rounds
};

constexpr uint32_t kSelectMostSampleVectors = 4;
// Below this k half a sample is taken: it costs less time and passes more numbers. Measured, 10,000 x 128,000, ms, half
// and whole: k = 10 1.293, 1.417; 316 1.398, 1.459; 1000 1.669, 1.568; 2048 2.522, 2.533.
constexpr uint32_t kSelectLargeSampleLeastK = 512;
constexpr uint32_t kSelectLeastColumnsPerSample = 8; // columns for each number of the sample, at least
constexpr double kSelectTooFew = 1e-3; // how often the threshold lets fewer than k pass: the row is then read again
constexpr uint32_t kSelectMostListBytes = 112 * 1024; // with the keys to sort: two blocks a processor

/// Ranks and slots for a sample of n_vectors vectors a thread. Of the k - 1 smallest numbers about k n_sample /
/// n_columns are in the sample; the threshold has rank numbers of the sample up to it, and fewer than k of the row only
/// if `rank` or more of those are in it.
inline void
plan_sample(uint32_t n_columns, uint32_t k, uint32_t n_threads, uint32_t n_vectors, SelectRowsPlan *plan)
{
	const double each =
		static_cast<double>(n_columns) / (n_vectors * n_threads * 4); // columns for a number of the sample
	const double mean = k / each;
	double term = std::exp(-mean); // of Poisson's distribution
	double rest = 1 - term;        // P(X >= rank)
	uint32_t rank = 1;

	while (rest > kSelectTooFew)
	{
		term *= mean / rank++;
		rest -= term;
	}
	plan->n_sample_vectors = n_vectors;
	plan->rank_least = rank;
	plan->rank_most = rank + rank / 16;

	// Numbers up to the rank-th of a sample: their deviation is that of a sum of `rank` gaps. Room for two deviations,
	// and for four of one thread's part of them.
	const double passing = (plan->rank_most + 2 * std::sqrt(static_cast<double>(plan->rank_most))) * each / n_threads;

	plan->n_slots = static_cast<uint32_t>(std::ceil(passing + 4 * std::sqrt(passing))) + 1;
}

/// For rows of n_columns in random order and blocks of n_threads that begin with n_loads vectors a thread. k from 1.
inline SelectRowsPlan
plan_select_rows(uint32_t n_columns, uint32_t k, uint32_t n_threads, uint32_t n_loads)
{
	SelectRowsPlan plan;
	uint32_t n_vectors = k < kSelectLargeSampleLeastK ? kSelectMostSampleVectors / 2 : kSelectMostSampleVectors;

	plan.n_sorted = 2;
	while (plan.n_sorted < k)
		plan.n_sorted *= 2;
	plan.capacity = 2 * k + 1024;
	while (n_vectors > 0 && uint64_t{n_vectors} * n_threads * 4 * kSelectLeastColumnsPerSample > n_columns)
		n_vectors /= 2;
	if (n_vectors == 0 || n_columns / 4 < n_threads * n_loads + 1 || k > n_columns / 16)
		return plan;
	for (; n_vectors <= kSelectMostSampleVectors; n_vectors *= 2) // fewer numbers pass with a larger sample
	{
		plan_sample(n_columns, k, n_threads, n_vectors, &plan);
		if (plan.n_slots * n_threads * 8 + plan.n_sorted * 8 <= kSelectMostListBytes)
			return plan;
	}
	plan.n_sample_vectors = 0;
	return plan;
}

} // namespace vectorgpu::kernels
