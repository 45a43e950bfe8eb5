// Scaled rows: a copy of float32 rows for the filter, in signed bytes with a factor of each row. README.md, "Scaled
// rows", has the bound and why sums stay in range. Row y is b / g with whole numbers b up to 127 in magnitude, query x
// is a / h.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "common/types.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::kernels
{

/// What a source's scaled rows have in common.
struct RowScaling
{
	double max_norm = 0; // RowStats, of trusted rows
	double off = 0;      // the largest |y - b / g| of trusted rows; cosine: of |y - b / g| / |y|
};

/// What the filter reads of a row besides b: eight bytes.
struct ScaledValue
{
	float besides; // the part of the estimate without products: L2: |y|² / 2; else 0; NaN: an untrusted row
	float factor;  // g; cosine: g |y|; 0 if untrusted
};

/// A batch over scaled rows, besides the operand.
struct ScaledQueries
{
	float *factors = nullptr; // [n_queries] h
	double *lost = nullptr;   // [n_queries] |x - a / h|, rounded up
};

/// What a pass over scaled rows needs besides FilterArgs.
struct ScaledPass
{
	const ScaledValue *values = nullptr; // [n_rows]
	const float *factors = nullptr;      // ScaledQueries
	float most_kept = 0;                 // thresholds times h are cut down to this, and up to its negative
	uint32_t unit_bits = 0;              // sums begin at multiples of 1 << unit_bits
};

/// The largest factor of queries over rows of these norms: short queries of L2 keep fewer digits, so that |y|² / 2 in
/// units of the products stays in range.
float scaled_most_factor(Metric metric, uint32_t dim, double max_norm);

/// Set the members of a pass that depend on the rows' norms.
void scale_pass(Metric metric, uint32_t dim, double max_norm, ScaledPass *pass);

/// True if rows of these norms may be scaled. It does not tell whether the bound excludes enough rows.
bool scaled_serves(Metric metric, uint32_t dim, double max_norm);

/// Set to [n_rows, pitch_bytes] and values [n_rows] to the scaled rows of `rows` (float32, dim_pad elements). norms:
/// launch_row_values of them. max_norm: of all rows of the source. *off_bits: the bits of RowScaling::off as a float,
/// rounded up; it must be 0 before. Untrusted rows become zeros. Reproducible.
[[nodiscard]] cudaError_t launch_scale_rows(Metric metric, const Rows &rows, const float *norms, uint32_t dim,
	uint32_t dim_pad, double max_norm, void *to, uint32_t pitch_bytes, ScaledValue *values, uint32_t *off_bits,
	cudaStream_t stream);

struct FilterQueries;

/// Fill the operand, norms and out.scaled from queries.vectors (float32); as launch_prepare_queries. most_factor:
/// scaled_most_factor for the largest norm of all sources with scaled rows.
[[nodiscard]] cudaError_t launch_scale_queries(Metric metric, const Queries &queries, float most_factor,
	const Incoming &incoming, const FilterQueries &out, cudaStream_t stream);

} // namespace vectorgpu::kernels
