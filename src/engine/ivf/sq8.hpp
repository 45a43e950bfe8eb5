// Scalar quantiser with 8 bits: element d of a row is low[d] + code * step[d]. Not residual (README.md, "SQ8").
#pragma once

#include "engine/ivf/codec.hpp"

namespace vectorgpu::engine::ivf
{

/// Ranges learned from a sample, stored with the index: [dim] each.
struct Sq8Ranges
{
	float *low = nullptr;
	float *step = nullptr; // (largest - smallest) / 255; 0 for a constant dimension
};

/// ranges of rows [n_rows, dim] (finite); n_rows 0 gives zeros.
void sq8_train(const float *rows, size_t n_rows, size_t dim, const Sq8Ranges &ranges);

/// codes [n_rows, dim] row-major: the nearest level, ties to even; elements out of range go to its ends. Returns how
/// many rows had such an element (an insert of other data than was trained on); is_out [n_rows], or null: 1 for these,
/// else 0.
size_t sq8_encode(
	const Sq8Ranges &ranges, const float *rows, size_t n_rows, size_t dim, uint8_t *codes, uint8_t *is_out = nullptr);

/// rows [n_rows, dim].
void sq8_decode(const Sq8Ranges &ranges, const uint8_t *codes, size_t n_rows, size_t dim, float *rows);

/// Floats of a query's state.
size_t sq8_query_floats(size_t dim);

/// A query made ready for scans. state [sq8_query_floats(dim)], alive as long as it.
struct Sq8Query
{
	Metric metric = Metric::kL2; // L2, inner product, cosine, L1
	size_t dim = 0;
	const float *offset = nullptr; // [dim] query - low (L2, L1)
	const float *weight = nullptr; // [dim] step, or query * step (inner product, cosine)
	double constant = 0;           // of the score
};

/// query [dim] float32; for cosine of length 1.
Sq8Query sq8_prepare(const Sq8Ranges &ranges, Metric metric, const float *query, size_t dim, float *state);

/// scores [n_rows]: the metric's score between the query and the decoded rows, within sq8_score_error of the exact
/// one; the same bits at every level. codes [n_rows, dim] row-major, any alignment.
void sq8_scores(const Sq8Query &query, const uint8_t *codes, size_t n_rows, double *scores);

/// How far a score may be from the exact one of the decoded row, rounding included. A worst case over all codes.
double sq8_score_error(const Sq8Query &query);

} // namespace vectorgpu::engine::ivf
