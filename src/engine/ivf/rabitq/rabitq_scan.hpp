// Scores of rows by their RaBitQ codes. A first pass estimates by the highest bits, with tables in registers; rows
// whose estimate may be within a limit are scored by all bits.
#pragma once

#include "engine/ivf/rabitq/rabitq.hpp"

namespace vectorgpu::engine::ivf
{

/// Deviations that a bound of the first pass lies below its estimate. A bound is above the estimate by all bits for one
/// row of 35 (normally distributed), and then stands for it.
constexpr double kRabitqDeviations = 1.9;

/// A query prepared for all lists. memory: the caller's, rabitq_query_bytes.
struct RabitqQuery
{
	const RabitqModel *model = nullptr;
	const uint8_t *table = nullptr;   // [padded_dim / 4, 16]: entry - smallest entry ≈ byte * table_scale
	const int8_t *elements = nullptr; // [padded_dim rounded up to 64]: rotated query - centre ≈ element * element_scale
	float table_scale = 0;
	float table_base = 0;  // Σ of the smallest entries: u·(q - g) ≈ table_base + table_scale * Σ bytes
	float table_slack = 0; // kRabitqDeviations of the rounding of the table
	double element_scale = 0;
	double element_sum = 0; // of the rounded elements, scaled
	double distance = 0;    // |q - g|
};

size_t rabitq_query_bytes(const RabitqSpec &spec);
/// query [dim] float32; for cosine of length 1.
Outcome rabitq_prepare(
	const RabitqModel &model, const float *query, void *memory, size_t memory_bytes, RabitqQuery *prepared);

/// Set scores [n_rows] of rows in blocks (rabitq_make_block), n_rows of them from a block's beginning on. constants: by
/// row, of its list (code_list_constant). A score is the larger of the estimate by all bits and the bound of the first
/// pass, which is kRabitqDeviations below the estimate by the highest bits; so a row whose bound is above `limit` has
/// a score above it, and gets the bound. With 1 bit: the estimate. The same bits at every level.
void rabitq_scores(const RabitqQuery &query, const double *constants, const uint8_t *blocks, size_t n_rows,
	double limit, double *scores);

} // namespace vectorgpu::engine::ivf
