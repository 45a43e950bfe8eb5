// See partial_reduce.hpp.
#include "engine/distance/partial_reduce.hpp"

#include <algorithm>
#include <cmath>

namespace vectorgpu::engine
{
namespace
{

constexpr double kRounding = 1e-12; // keeps ceil() from rounding up an integer that rounding errors made larger

} // namespace

uint64_t
partial_reduce_least_bins(uint64_t k, double target)
{
	if (!(target < 1))
		return 0;
	if (k <= 1)
		return 1; // a single row shares no bin

	// 1 - target^(1 / (k - 1)) without the cancellation of the difference.
	const double lost = -std::expm1(std::log(target) / static_cast<double>(k - 1));

	return static_cast<uint64_t>(std::ceil(1 / lost * (1 - kRounding)));
}

uint64_t
partial_reduce_bins(uint64_t k, double target)
{
	return (partial_reduce_least_bins(k, target) + kPartialReduceUnit - 1) / kPartialReduceUnit * kPartialReduceUnit;
}

double
partial_reduce_recall(uint64_t k, uint64_t n_bins)
{
	if (k <= 1)
		return 1;
	if (n_bins <= 1)
		return 0;
	return std::exp(static_cast<double>(k - 1) * std::log1p(-1.0 / static_cast<double>(n_bins)));
}

void
partial_reduce(const double *scores, uint64_t n, const uint8_t *dead, uint64_t n_bins, uint64_t *rows)
{
	const auto less = [](double a, double b) { return a < b || (b != b && a == a); };

	std::fill(rows, rows + n_bins, kNoRow);
	for (uint64_t row = 0, bin = 0; row < n; row++, bin = bin + 1 < n_bins ? bin + 1 : 0)
		if ((dead == nullptr || ((dead[row / 8] >> (row % 8)) & 1) == 0) &&
			(rows[bin] == kNoRow || less(scores[row], scores[rows[bin]])))
			rows[bin] = row;
}

} // namespace vectorgpu::engine
