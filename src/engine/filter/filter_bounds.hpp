// Which rows a filter may skip, by a number that is near the inner product of row and query (README.md, "The GEMM
// filter", has the proof). Internal to the CPU engine and its copies.
#pragma once

#include "engine/distance/distance.hpp"

namespace vectorgpu::engine
{

/// The bounds of one specification that gemm_filter_supports.
class FilterBounds
{
public:
	/// A row with the norm |y| is ruled out if product < offset + row term - slope * |y| (lower), or if it is greater
	/// than offset + row term + slope * |y| (upper).
	struct Bound
	{
		double offset;
		double slope;
	};

	/// product_error: |product - x . y| / (|x||y|) is at most that, for the query x and any row y that are trusted.
	FilterBounds(const DistanceSpec &spec, double product_error);

	/// Of rows whose canonical score is greater than `threshold`. norm: |x|.
	Bound lower(double norm, double square_norm, double threshold) const;

	/// Of rows whose canonical score is less than `after`.
	Bound upper(double norm, double square_norm, double after) const;

	/// The row terms for |y|².
	double below_term(double square_norm) const { return term(square_norm) * (1 - double_error_); }
	double above_term(double square_norm) const { return term(square_norm) * (1 + double_error_); }

private:
	double term(double square_norm) const { return metric_ == Metric::kL2 ? square_norm / 2 : 0; }

	Metric metric_;
	double product_error_;   // relative to |x||y|
	double canonical_error_; // relative to Σ|terms|: rounding of a canonical sum
	double double_error_;    // relative: everything done in double
	double underflow_;       // absolute
};

/// n roundings in fp32: n u / (1 - n u).
double rounding_error(double n);

} // namespace vectorgpu::engine
