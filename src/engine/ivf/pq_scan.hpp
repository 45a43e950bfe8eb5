// Scores of rows by their product quantiser's codes.
#pragma once

#include "engine/ivf/pq.hpp"

namespace vectorgpu::engine::ivf
{

/// A query's tables, for all lists. memory: the caller's, pq_query_bytes.
struct PqQuery
{
	const PqModel *model = nullptr;
	const float *table = nullptr;        // [m, n_codewords]
	const uint8_t *byte_table = nullptr; // 4 bits: [m rounded up to even, 16]; table ≈ byte * byte_scale + its minimum
	double byte_scale = 0;
	double byte_base = 0; // Σ of the minima
	double error = 0;     // of the byte table: a score is within this of the one with exact tables
};

size_t pq_query_bytes(const PqSpec &spec);
/// query [dim] float32; for cosine of length 1.
Outcome pq_prepare(const PqModel &model, const float *query, void *memory, size_t memory_bytes, PqQuery *prepared);

/// scores [n_rows] of the rows of one list. codes interleaved (interleave_codes), row_terms [n_rows] or null,
/// list_constant: coarse_rank's score of the list for L2 (squared distance) and inner product, minus the inner product
/// for cosine (pq_list_constant).
void pq_scores(const PqQuery &query, double list_constant, const uint8_t *codes, const float *row_terms, size_t n_rows,
	double *scores);

/// A bound, over all codes, on the difference between a score and the sum of list constant, |y|² + 2 z_c · y and the
/// exact sum of the table's entries: rounding of fp32 sums, of the row term, and with 4 bits of the byte table.
double pq_score_error(const PqQuery &query, double list_constant, double largest_row_term);

/// The constant of a list from its coarse_rank score.
constexpr double
pq_list_constant(Metric metric, double coarse_score)
{
	return metric == Metric::kCosine ? coarse_score - 1 : coarse_score; // 1 - cos of vectors of length 1
}

} // namespace vectorgpu::engine::ivf
