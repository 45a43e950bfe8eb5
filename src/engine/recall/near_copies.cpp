// See near_copies.hpp.
#include "engine/recall/near_copies.hpp"

#include <algorithm>
#include <cmath>

#include "engine/distance/distance.hpp"

namespace vectorgpu::engine
{

namespace
{

constexpr double kRounding = 1e-6; // of an inner product of binary32, relative

/// The distance of a row, up to a factor that is the same for all.
double
length_of(Metric metric, double own_score, double score)
{
	switch (metric)
	{
		case Metric::kCosine: // half the square of the difference of vectors of length 1
			return std::sqrt(std::max(score, 0.0));
		case Metric::kInnerProduct: // likewise, if the vectors are as long as the row
			return std::sqrt(std::max(score - own_score, 0.0));
		case Metric::kHamming: // the square of the Euclidean distance of zeros and ones
		case Metric::kJaccard: // likewise the square of one (Gower, Legendre 1986)
			return std::sqrt(score);
		case Metric::kL2:
		case Metric::kL1:
		case Metric::kMatchCount:
		case Metric::kEdit:
			break;
	}
	return finish_score(metric, score);
}

} // namespace

size_t
near_copies(Metric metric, double own_score, const double *scores, size_t n, size_t n_wanted)
{
	if (n <= n_wanted)
		return 0;
	if (metric == Metric::kInnerProduct && scores[0] < own_score - kRounding * std::fabs(own_score))
		return 0;
	for (size_t copies = n - n_wanted; copies > 0; copies--)
		if (length_of(metric, own_score, scores[copies]) > kCopyGap * length_of(metric, own_score, scores[copies - 1]))
			return copies;
	return 0;
}

} // namespace vectorgpu::engine
