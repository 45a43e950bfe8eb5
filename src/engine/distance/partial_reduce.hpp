// PartialReduce (Chern et al., "TPU-KNN", section 5): of each of L bins of rows only the nearest is kept; the k first
// of those are the answer. Here are the number of bins for a recall target, the recall that a number of bins
// guarantees, and the reduction in plain code, which engines' kernels are tested against.
// Bins here are rows j with the same j mod L, where the paper takes runs of consecutive rows: rows that were inserted
// one after another are often alike, and the guarantee needs the k nearest to fall into bins as if at random.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu::engine
{

constexpr uint32_t kPartialReduceUnit = 128; // numbers of bins are multiples of it: the rows of a tile in the kernels
constexpr uint64_t kNoRow = ~uint64_t{0};

/// The fewest bins L with expected recall >= target (equation 14): ceil(1 / (1 - target^(1 / (k - 1)))), 1 for k = 1.
/// 0 for a target of 1 or more, which no number of bins reaches. k >= 1, target > 0.
uint64_t partial_reduce_least_bins(uint64_t k, double target);

/// As above, rounded up to a multiple of kPartialReduceUnit.
uint64_t partial_reduce_bins(uint64_t k, double target);

/// The expected recall of n_bins bins is at least this (equation 13): ((L - 1) / L)^(k - 1).
double partial_reduce_recall(uint64_t k, uint64_t n_bins);

/// Set rows [n_bins] to the row with the smallest score among j = bin, bin + n_bins, ... < n, the first of equals;
/// kNoRow if there is none. NaN is larger than all numbers. Rows marked in `dead` (bitmap as in topk.hpp, may be null)
/// do not count.
void partial_reduce(const double *scores, uint64_t n, const uint8_t *dead, uint64_t n_bins, uint64_t *rows);

} // namespace vectorgpu::engine
