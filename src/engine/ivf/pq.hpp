// Product quantiser of residuals, with 4 or 8 bits, with or without a learned rotation (OPQ).
//
// All vectors are taken to the quantiser's space first: rotated, then padded with zeros to a multiple of m (z = pad(R
// x)). A row of list c is z ≈ z_c + y with y = the codewords of its m codes. Equation 11 of the paper splits the L2
// distance into three terms; the second, |y|² + 2 z_c · y, depends on the row alone and is stored with it as one float,
// so that a query needs one table for all lists (README.md, "PQ"):
//
//     |q - x|² ≈ |q - c|² + row_term + Σ_j table[j][code_j],   table[j][i] = -2 z_q,j · codeword[j][i]
//
// For inner product and cosine the row term is 0 and not stored, the list's constant -q · c, the table -z_q,j ·
// codeword.
#pragma once

#include "engine/ivf/coarse.hpp"
#include "engine/ivf/codec.hpp"
#include "engine/ivf/kmeans.hpp"

namespace vectorgpu::engine::ivf
{

struct PqSpec
{
	Metric metric = Metric::kL2; // L2, inner product, cosine
	uint32_t dim = 0;
	uint32_t m = 0;    // sub-quantisers, 1 .. dim
	uint32_t bits = 8; // 4 or 8
	bool opq = false;
};

constexpr uint32_t
pq_n_codewords(const PqSpec &spec)
{
	return 1u << spec.bits;
}
constexpr uint32_t
pq_sub_dim(const PqSpec &spec)
{
	return (spec.dim + spec.m - 1) / spec.m;
}
/// Elements of a vector of the quantiser's space.
constexpr uint32_t
pq_padded_dim(const PqSpec &spec)
{
	return pq_sub_dim(spec) * spec.m;
}
/// Bytes of a row's code. With 4 bits the low half of byte j is sub-quantiser 2 j, the high half 2 j + 1.
constexpr size_t
pq_code_bytes(const PqSpec &spec)
{
	return spec.bits == 8 ? spec.m : (spec.m + 1) / 2;
}
constexpr size_t
pq_codebook_floats(const PqSpec &spec)
{
	return size_t{pq_n_codewords(spec)} * pq_padded_dim(spec);
}
/// Floats from one row of the rotation to the next.
constexpr size_t
pq_rotation_stride(const PqSpec &spec)
{
	return (size_t{spec.dim} + 15) / 16 * 16;
}
constexpr size_t
pq_rotation_floats(const PqSpec &spec)
{
	return spec.opq ? spec.dim * pq_rotation_stride(spec) : 0;
}
constexpr bool
pq_has_row_terms(const PqSpec &spec)
{
	return spec.metric == Metric::kL2;
}

/// kInvalidArgument with a message if the spec is impossible.
Outcome pq_check(const PqSpec &spec);

/// What was learned, stored with the index.
struct PqModel
{
	PqSpec spec;
	float *codebook = nullptr; // [m, sub_dim, n_codewords]: element d of codeword i at [j, d, i]
	float *rotation = nullptr; // [dim, rotation_stride], transposed: R x = Σ x[d] rotation[d]; null without opq
};

struct PqTraining
{
	const float *rows = nullptr;      // [n_rows, dim] the sample (cosine: of length 1)
	const uint32_t *labels = nullptr; // [n_rows] list of each, or null: no residual is taken
	const float *centroids = nullptr; // [n_lists, dim]
	size_t n_rows = 0;
	uint64_t seed = 1;
	uint32_t max_iterations = 16; // of each sub-quantiser's k-means
	uint32_t opq_iterations = 8;  // rotations tried
	size_t n_threads = 1;
};

constexpr uint32_t kMaxOpqDimensions = 2048; // training takes dim³ operations, encoding dim² a row
constexpr size_t kPqTrainingRows = 65536;    // worth giving to pq_train

size_t pq_train_work_bytes(const PqSpec &spec, const PqTraining &training);
/// mean_error: mean squared length of what is lost of a row, or null.
Outcome pq_train(const PqModel &model, const PqTraining &training, double *mean_error, void *work, size_t work_bytes,
	const Call &call = {});

/// rotated [n_rows, padded_dim] = pad(R x) of rows [n_rows, dim]. For the centroids once, for each query.
void pq_rotate(const PqModel &model, const float *rows, size_t n_rows, float *rotated);

/// The same for many rows, with what `call` lends.
Outcome pq_rotate(const PqModel &model, const float *rows, size_t n_rows, float *rotated, const Call &call);

/// A model made ready to encode. A plain struct over the caller's memory.
struct PqEncoder
{
	const PqModel *model = nullptr;
	const float *rotated_centroids = nullptr; // [n_lists, padded_dim], the caller's (pq_rotate)
	const Coarse *quantisers = nullptr;       // [m], panels of the codewords
	const float *codewords = nullptr;         // [m, n_codewords, sub_dim]
	const float *rotation = nullptr;          // in panels
};

size_t pq_encoder_bytes(const PqSpec &spec);
Outcome pq_encoder_init(
	const PqModel &model, const float *rotated_centroids, void *memory, size_t memory_bytes, PqEncoder *encoder);

size_t pq_encode_work_bytes(const PqEncoder &encoder, size_t n_threads);
/// codes [n_rows, code_bytes] row-major; row_terms [n_rows] (null if the metric has none). rows [n_rows, dim], labels
/// [n_rows] their lists. Code j is the first of the nearest codewords by canonical L2 score of z - z_c.
Outcome pq_encode(const PqEncoder &encoder, const float *rows, const uint32_t *labels, size_t n_rows, uint8_t *codes,
	float *row_terms, void *work, size_t work_bytes, const Call &call = {});

/// rows [n_rows, dim]: c + unrotate(y). codes row-major; scratch [padded_dim].
void pq_decode(const PqModel &model, const float *centroids, const uint8_t *codes, const uint32_t *labels,
	size_t n_rows, float *rows, float *scratch);

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

/// How far a score may be from the sum of list constant, |y|² + 2 z_c · y and exact sums of the table's entries as they
/// are: rounding of fp32 sums, of the row term, and with 4 bits of the byte table. A worst case over all codes.
double pq_score_error(const PqQuery &query, double list_constant, double largest_row_term);

/// The constant of a list from its coarse_rank score.
constexpr double
pq_list_constant(Metric metric, double coarse_score)
{
	return metric == Metric::kCosine ? coarse_score - 1 : coarse_score; // 1 - cos of vectors of length 1
}

} // namespace vectorgpu::engine::ivf
