// Bounds on a row's score, and its deviation, from its elements rounded to binary16 (narrow_to_halves). Rows are chosen
// by these.
#pragma once

#include "common/types.hpp"

namespace vectorgpu::engine::ivf
{

/// The least canonical score (distance.hpp) that a row may have. query [dim]; halves [dim]: the row's, widened; score:
/// theirs, canonical. An element may be off by half a unit in the last place, and one at ±65504 by any amount: then,
/// and if the score is not finite, the result is minus infinity. Not for metrics of bits.
double least_score_of_halves(Metric metric, const float *query, const float *halves, uint32_t dim, double score);

/// The standard deviation of the row's score about that of its halves, if its elements are evenly distributed among the
/// values that round alike; for cosine to first order. NaN if an element is at ±65504 or the score is not finite.
double score_deviation_of_halves(Metric metric, const float *query, const float *halves, uint32_t dim, double score);

} // namespace vectorgpu::engine::ivf
