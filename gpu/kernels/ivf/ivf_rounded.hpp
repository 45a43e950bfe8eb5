// Scan of inverted lists whose rows are binary16, exact or rounded, or rounded to signed bytes (README.md, "Rounded
// rows"), list by list: estimates by tensor cores, canonical scores of the rows that the filter's bound does not
// exclude.
#pragma once

#include "kernels/filter/filter.hpp"
#include "kernels/ivf/ivf.hpp"

namespace vectorgpu::kernels
{

/// What launch_ivf_scan_rounded needs besides IvfScanArgs, whose rows are those that are scored.
struct IvfRounded
{
	Rows rows;                                  // the same rows in Form::kFloat16 or kScaled
	const float *row_values = nullptr;          // [n_rows] launch_row_values
	const ScaledValue *scaled_values = nullptr; // [n_rows], of scaled rows instead
	FilterBound bound;                          // of these rows
	// Launch_prepare_queries or launch_scale_queries; all rows of a query with redo set are scored.
	FilterQueries queries;
	float *limits = nullptr;      // [n_queries], written: estimates above cannot be within the query's threshold
	float *square_sums = nullptr; // [n_queries], written for cosine: Σ x²
};

/// Queries that a tile has (IvfPlan::queries_per_tile); 0: their room is too small for one. form: kFloat16 or kScaled.
uint32_t ivf_rounded_queries_per_tile(Form form, uint32_t dim_pad);

/// As launch_ivf_scan_lists, with the same candidates, for L2, inner product and cosine over float32 and binary16 rows.
/// args.plan is made with ivf_rounded_queries_per_tile queries a tile. Scaled rows are of float32 rows.
[[nodiscard]] cudaError_t launch_ivf_scan_rounded(
	const IvfScanArgs &args, const IvfRounded &rounded, cudaStream_t stream);

/// Sets shared-memory limits; once per device, after prepare_filter_kernels.
[[nodiscard]] cudaError_t prepare_ivf_rounded();

} // namespace vectorgpu::kernels
