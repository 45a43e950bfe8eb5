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

/// Set the ranges of rows [n_rows, dim], which have to be finite; n_rows 0 gives zeros.
void sq8_train(const float *rows, size_t n_rows, size_t dim, const Sq8Ranges &ranges);

/// Set codes [n_rows, dim], row-major, to the nearest level, ties to even; elements out of range are clamped. Return
/// the number of rows with such an element (inserted data may differ from the training sample); is_out [n_rows], or
/// null: 1 for these rows, else 0.
size_t sq8_encode(
	const Sq8Ranges &ranges, const float *rows, size_t n_rows, size_t dim, uint8_t *codes, uint8_t *is_out = nullptr);

/// rows [n_rows, dim].
void sq8_decode(const Sq8Ranges &ranges, const uint8_t *codes, size_t n_rows, size_t dim, float *rows);

/// Floats of a query's state.
size_t sq8_query_floats(size_t dim);

/// A query prepared for scans. state [sq8_query_floats(dim)] has to live as long as it.
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

/// Set scores [n_rows] to the metric's scores between the query and the decoded rows, within sq8_score_error of the
/// exact ones; the same bits at every level. codes [n_rows, dim] row-major, any alignment.
void sq8_scores(const Sq8Query &query, const uint8_t *codes, size_t n_rows, double *scores);

/// A bound, over all codes, on the difference between a score and the exact one of the decoded row, rounding included.
double sq8_score_error(const Sq8Query &query);

} // namespace vectorgpu::engine::ivf
