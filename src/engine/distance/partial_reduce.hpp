// PartialReduce (Chern et al., "TPU-KNN", section 5): of each of L bins of rows only the nearest is kept; the k first
// of those are the answer. How many bins a target needs, what a number of bins guarantees, and the reduction in plain
// code: what an engine that does it in its kernels is measured against.
//
// Bins here are rows j with the same j mod L, where the paper takes runs of consecutive rows: rows that were inserted
// one after another are often alike, and the guarantee needs the k nearest to fall into bins as if at random.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu::engine
{

constexpr uint32_t kPartialReduceUnit = 128; // numbers of bins are multiples of it: rows of a tile in the kernels
constexpr uint64_t kNoRow = ~uint64_t{0};

/// The fewest bins L with expected recall >= target (equation 14): ceil(1 / (1 - target^(1 / (k - 1)))), 1 for k = 1.
/// 0 for a target of 1 or more, which no number of bins reaches. k >= 1, target > 0.
uint64_t partial_reduce_least_bins(uint64_t k, double target);

/// As above, rounded up to a multiple of kPartialReduceUnit.
uint64_t partial_reduce_bins(uint64_t k, double target);

/// The expected recall of n_bins bins is at least this (equation 13): ((L - 1) / L)^(k - 1).
double partial_reduce_recall(uint64_t k, uint64_t n_bins);

/// rows [n_bins]: of rows j = bin, bin + n_bins, ... < n the one with the smallest score, the first of equals; NaN is
/// larger than all numbers. Rows that dead (bitmap as in topk.hpp, may be null) marks do not count. kNoRow: no row.
void partial_reduce(const double *scores, uint64_t n, const uint8_t *dead, uint64_t n_bins, uint64_t *rows);

} // namespace vectorgpu::engine
