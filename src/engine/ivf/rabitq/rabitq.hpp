// RaBitQ (Gao, Long, arXiv:2405.12497; with more bits: arXiv:2409.09913): codes of 1 to 8 bits for each dimension of a
// row's residual to the centre of its list, after a random rotation, with an unbiased estimate of scores and a bound on
// its error. Model, encoding, decoding; rabitq_scan.hpp scores codes.
//
// Notation: c the list's centroid, r = x - c; all of these rotated: R r. A code of b bits stands for the vector u of
// odd multiples of 1/2: u_i = k_i - (2^b - 1) / 2 for the number k_i of dimension i, whose highest bit is the sign of
// r_i. Since the rotation is random, (r·r / u·r) u - r is a vector at right angles to r in a random direction, so that
//
//     r·(q - c) ≈ (r·r / u·r) u·(q - c),  deviation |r| |q - c| sqrt((|u|²|r|² / (u·r)² - 1) / (D - 1))
//
// with D dimensions. u·(q - c) = u·(q - g) - u·(c - g), where g is the model's centre: the second product depends on
// the row alone and is part of a factor of the row, so that a query is prepared once for all lists (README.md,
// "RaBitQ").
#pragma once

#include "engine/ivf/codec.hpp"

namespace vectorgpu::engine::ivf
{

struct RabitqSpec
{
	Metric metric = Metric::kL2; // L2, inner product, cosine
	uint32_t dim = 0;
	uint32_t bits = 0; // 1 .. 8
};

constexpr uint32_t kMaxRabitqBits = 8;

/// Dimensions of a rotated vector.
constexpr uint32_t
rabitq_padded_dim(const RabitqSpec &spec)
{
	return (spec.dim + 7) / 8 * 8;
}
/// Bytes of one bit of all dimensions of a row.
constexpr size_t
rabitq_plane_bytes(const RabitqSpec &spec)
{
	return rabitq_padded_dim(spec) / 8;
}

/// A row's factors. An estimate is list constant + add + scale * u·(q - g).
enum RabitqFactor : uint8_t
{
	kRabitqAdd = 0, // of u by the highest bits alone
	kRabitqScale = 1,
	kRabitqError = 2, // times |q - c| (|q - g| for the inner product): the deviation of that estimate; from 2 bits on
	kRabitqFullAdd = 3,
	kRabitqFullScale = 4,
};
constexpr uint32_t kMaxRabitqFactors = 5;

constexpr uint32_t
rabitq_n_factors(const RabitqSpec &spec)
{
	return spec.bits == 1 ? 2 : kMaxRabitqFactors;
}
/// Bytes of a row's code: its highest bits; the factors, float32; the other bits, plane by plane, the lowest first. Bit
/// i of a plane is bit i % 8 of byte i / 8.
constexpr size_t
rabitq_code_bytes(const RabitqSpec &spec)
{
	return spec.bits * rabitq_plane_bytes(spec) + rabitq_n_factors(spec) * sizeof(float);
}

/// kInvalidArgument or kUnsupported with a message if the spec is impossible.
Outcome rabitq_check(const RabitqSpec &spec);

/// Put the codes of n rows, at most kCodeBlockRows, into a block: the highest bits as of interleave_codes, then each
/// factor of all rows, then the rows' other bits, row by row. Rows that are missing are zeros. codes [n, code_bytes].
void rabitq_make_block(const RabitqSpec &spec, const uint8_t *codes, size_t n, uint8_t *block);
/// The code [code_bytes] of row i of a block.
void rabitq_read_block(const RabitqSpec &spec, const uint8_t *block, size_t i, uint8_t *code);

/// The model, stored with the index. Its floats: centre [dim], seed.
struct RabitqModel
{
	RabitqSpec spec;
	float *centre = nullptr; // [dim]: g
	float *seed = nullptr;   // [1] of the rotation: a whole number from 0 to 2^24 - 1
};

constexpr size_t
rabitq_model_floats(const RabitqSpec &spec)
{
	return size_t{spec.dim} + 1;
}

/// Set the centre to the mean of rows [n_rows, dim] (0 without rows), and the seed.
void rabitq_train(const RabitqModel &model, const float *rows, size_t n_rows, uint64_t seed);

/// rotated [n_rows, padded_dim] of rows [n_rows, dim], less `origin` [dim], or null. Orthogonal: products and lengths
/// stay as they are, but for rounding.
void rabitq_rotate(const RabitqModel &model, const float *rows, const float *origin, size_t n_rows, float *rotated);

/// centroids [n_lists, dim]; rotated [n_lists, padded_dim]: of centroids less the model's centre (rabitq_rotate). Both
/// live as long as the encoder.
struct RabitqEncoder
{
	const RabitqModel *model = nullptr;
	const float *centroids = nullptr;
	const float *rotated = nullptr;
};

size_t rabitq_encode_work_bytes(const RabitqSpec &spec);
/// Set codes [n_rows, code_bytes] of rows [n_rows, dim] in lists labels [n_rows]. The same bits at every level.
Outcome rabitq_encode(const RabitqEncoder &encoder, const float *rows, const uint32_t *labels, size_t n_rows,
	uint8_t *codes, void *work, size_t work_bytes, const Call &call = {});

/// rows [n_rows, dim] of codes [n_rows, code_bytes]. scratch [padded_dim].
void rabitq_decode(const RabitqModel &model, const float *centroids, const uint8_t *codes, const uint32_t *labels,
	size_t n_rows, float *rows, float *scratch);

} // namespace vectorgpu::engine::ivf
