// What is known of a row's score if only its elements rounded to binary16 are (narrow_to_halves), for those who choose
// rows by these.
#pragma once

#include "common/types.hpp"

namespace vectorgpu::engine::ivf
{

/// The least canonical score (distance.hpp) that a row may have. query, halves [dim]: halves those of the row, widened.
/// score: theirs, canonical. An element may be off by half of a unit in the last place; one at ±65504 by any amount,
/// and then the answer is minus infinity, as it is if the score is not finite. Not for metrics of bits.
double least_score_of_halves(Metric metric, const float *query, const float *halves, uint32_t dim, double score);

/// The standard deviation of the row's score about that of its halves, if its elements lie evenly between those that
/// round alike; for cosine to the first order. NaN if an element is at ±65504 or the score is not finite.
double score_deviation_of_halves(Metric metric, const float *query, const float *halves, uint32_t dim, double score);

} // namespace vectorgpu::engine::ivf
