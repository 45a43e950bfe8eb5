// See filter_bounds.hpp. The constants are those of the proof in README.md, "The GEMM filter".
#include "engine/filter/filter_bounds.hpp"

#include <cmath>

namespace vectorgpu::engine
{

double
rounding_error(double n)
{
	constexpr double kUnit = 0x1p-24; // unit roundoff of fp32

	return n * kUnit / (1 - n * kUnit);
}

FilterBounds::FilterBounds(const DistanceSpec &spec, double product_error)
	: metric_(spec.metric), product_error_(product_error),
	  canonical_error_(rounding_error(std::ceil(static_cast<double>(spec.dim) / 32) + 8)),
	  double_error_((static_cast<double>(spec.dim) + 64) * 0x1p-50),
	  underflow_((4 * static_cast<double>(spec.dim) + 32) * 0x1p-126)
{
}

FilterBounds::Bound
FilterBounds::lower(double norm, double square_norm, double threshold) const
{
	switch (metric_)
	{
		case Metric::kL2:
			return {(square_norm * (1 - double_error_) - (threshold + underflow_) / (1 - canonical_error_)) / 2 -
					underflow_,
				norm * (product_error_ + double_error_)};
		case Metric::kInnerProduct:
			return {-threshold - underflow_, norm * (product_error_ + canonical_error_ + double_error_)};
		default: // cosine
		{
			const double error =
				product_error_ + 2 * canonical_error_ / (1 - canonical_error_) + double_error_ + 0x1p-26;

			return {0, -(1 - error - threshold) * norm};
		}
	}
}

FilterBounds::Bound
FilterBounds::upper(double norm, double square_norm, double after) const
{
	switch (metric_)
	{
		case Metric::kL2:
			return {
				(square_norm * (1 + double_error_) - (after - underflow_) / (1 + canonical_error_)) / 2 + underflow_,
				norm * (product_error_ + double_error_)};
		case Metric::kInnerProduct:
			return {-after + underflow_, norm * (product_error_ + canonical_error_ + double_error_)};
		default: // cosine
		{
			const double error =
				product_error_ + 2 * canonical_error_ / (1 - canonical_error_) + double_error_ + 0x1p-26;

			return {0, (1 + error - after) * norm};
		}
	}
}

} // namespace vectorgpu::engine
