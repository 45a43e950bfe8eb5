// See halves.hpp. Let e_j be the greatest rounding error of element j, and the row x = h + u, |u_j| <= e_j:
//   L2             the score changes by -2 (q - h)·u + |u|², which is from -2 Σ|q - h| e to 2 Σ|q - h| e + Σ e²
//   inner product  by -q·u, at most Σ|q| e
//   L1             by at most Σ e
//   cosine         the angle between x and h is at most asin(|e| / |h|)
#include "engine/ivf/halves.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace vectorgpu::engine::ivf
{

namespace
{

constexpr float kLargestHalf = 65504;
constexpr float kHalfOfUnit = 0x1p-11F;      // of the power of two below an element: binary16 has 11 bits
constexpr float kLeastHalfOfUnit = 0x1p-25F; // of elements below 2^-14
constexpr uint32_t kExponent = 0x7F800000;
constexpr double kRoundings = 16; // of a canonical sum, beside one for each 32 elements (engine/distance/README.md,
								  // "Error of the canonical sums")

/// Sums over the elements.
struct Sums
{
	double off = 0;         // e
	double off_squared = 0; // e²
	double weighed = 0;     // |q - h| e; of inner products |q| e
	double size = 0;        // |q h|
	double row = 0;         // h²
	bool clamped = false;
};

float
most_off(float half)
{
	return std::max(std::bit_cast<float>(std::bit_cast<uint32_t>(half) & kExponent) * kHalfOfUnit, kLeastHalfOfUnit);
}

Sums
sum_up(Metric metric, const float *query, const float *halves, uint32_t dim)
{
	Sums sums;

	for (uint32_t j = 0; j < dim; j++)
	{
		const double h = halves[j];
		const double q = query[j];
		const double e = most_off(halves[j]);

		sums.clamped |= std::fabs(halves[j]) >= kLargestHalf;
		sums.off += e;
		sums.off_squared += e * e;
		sums.weighed += std::fabs(metric == Metric::kL2 ? q - h : q) * e;
		sums.size += std::fabs(q * h);
		sums.row += h * h;
	}
	return sums;
}

} // namespace

double
least_score_of_halves(Metric metric, const float *query, const float *halves, uint32_t dim, double score)
{
	constexpr double kInfinity = std::numeric_limits<double>::infinity();
	const Sums sums = sum_up(metric, query, halves, dim);
	const double rounding = (dim / 32.0 + kRoundings) * 0x1p-23;

	if (sums.clamped || !std::isfinite(score))
		return -kInfinity;
	if (metric == Metric::kL2)
		return score - 2 * sums.weighed - rounding * score;
	if (metric == Metric::kL1)
		return score - sums.off - rounding * score;
	if (metric == Metric::kInnerProduct)
		return score - sums.weighed - rounding * (sums.size + sums.weighed);
	if (!(sums.off_squared < sums.row))
		return -kInfinity;
	const double angle = std::acos(std::clamp(1 - score + rounding, -1.0, 1.0));
	const double most = std::asin(std::sqrt(sums.off_squared / sums.row));

	return 1 - std::cos(std::max(angle - most, 0.0)) - rounding;
}

double
score_deviation_of_halves(Metric metric, const float *query, const float *halves, uint32_t dim, double score)
{
	double variance = 0; // of an element: e² / 3, of its square: 4 e⁴ / 45
	double qq = 0;
	double hh = 0;

	if (!std::isfinite(score))
		return std::numeric_limits<double>::quiet_NaN();
	for (uint32_t j = 0; metric == Metric::kCosine && j < dim; j++)
	{
		qq += static_cast<double>(query[j]) * query[j];
		hh += static_cast<double>(halves[j]) * halves[j];
	}
	for (uint32_t j = 0; j < dim; j++)
	{
		const double h = halves[j];
		const double q = query[j];
		const double ee = static_cast<double>(most_off(halves[j])) * most_off(halves[j]) / 3;

		if (std::fabs(halves[j]) >= kLargestHalf)
			return std::numeric_limits<double>::quiet_NaN();
		if (metric == Metric::kL2)
			variance += 4 * (q - h) * (q - h) * ee + 0.8 * ee * ee;
		else if (metric == Metric::kL1)
			variance += ee;
		else if (metric == Metric::kInnerProduct)
			variance += q * q * ee;
		else
		{
			const double slope = (q / std::sqrt(qq) - (1 - score) * h / std::sqrt(hh)) / std::sqrt(hh);

			variance += slope * slope * ee;
		}
	}
	return std::sqrt(variance);
}

} // namespace vectorgpu::engine::ivf
