// Product quantiser of residuals, with 4 or 8 bits, with or without a learned rotation (OPQ): model, rotation,
// encoding. pq_train.hpp trains it, pq_scan.hpp scores codes.
//
// All vectors are transformed to the quantiser's space first: rotated, then padded with zeros to a multiple of m (z =
// pad(R x)). A row of list c is z ≈ z_c + y with y = the codewords of its m codes. Equation 11 of the paper splits the
// L2 distance into three terms; the second, |y|² + 2 z_c · y, depends on the row alone and is stored with it as one
// float, so that a query needs one table for all lists (README.md, "PQ"):
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

/// The trained model, stored with the index.
struct PqModel
{
	PqSpec spec;
	float *codebook = nullptr; // [m, sub_dim, n_codewords]: element d of codeword i at [j, d, i]
	float *rotation = nullptr; // [dim, rotation_stride], transposed: R x = Σ x[d] rotation[d]; null without opq
};

constexpr uint32_t kMaxOpqDimensions = 2048; // training takes dim³ operations, encoding dim² a row
/// rotated [n_rows, padded_dim] = pad(R x) of rows [n_rows, dim]. Called once for the centroids, and for each query.
void pq_rotate(const PqModel &model, const float *rows, size_t n_rows, float *rotated);

/// The same for many rows, with the threads of `call`.
Outcome pq_rotate(const PqModel &model, const float *rows, size_t n_rows, float *rotated, const Call &call);

/// Floats of a rotated row as the matrix product writes it: dim rounded up to the widest panel.
size_t pq_rotated_stride(const PqSpec &spec);

/// panels [rotated_stride / panel_width, dim, panel_width]: the rotation as the matrix of a product.
void pq_pack_rotation(const PqModel &model, size_t panel_width, float *panels);

/// A model prepared to encode. A plain struct over the caller's memory.
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
/// Set codes [n_rows, code_bytes], row-major, and row_terms [n_rows] (null if the metric has none) of rows [n_rows,
/// dim] in lists labels [n_rows]. Code j is the first of the nearest codewords by canonical L2 score of z - z_c.
Outcome pq_encode(const PqEncoder &encoder, const float *rows, const uint32_t *labels, size_t n_rows, uint8_t *codes,
	float *row_terms, void *work, size_t work_bytes, const Call &call = {});

/// rows [n_rows, dim]: c + unrotate(y). codes row-major; scratch [padded_dim].
void pq_decode(const PqModel &model, const float *centroids, const uint8_t *codes, const uint32_t *labels,
	size_t n_rows, float *rows, float *scratch);

} // namespace vectorgpu::engine::ivf
