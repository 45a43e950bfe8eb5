// Codes of rows by 1-bit random projections (SONG, section 7): bit b of a row says on which side of a hyperplane of
// random direction it lies, so that the number of bits in which two codes differ (Hamming distance) estimates the angle
// between the rows: Pr[bit differs] = angle / pi. Searches of a graph compare codes; the rows that they find are then
// compared themselves.
//
// Directions are the rows of random rotations of the space padded to a power of two, H D3 H D2 H D1 with H the
// Walsh-Hadamard matrix and D random signs, instead of the paper's independent normal ones: they are orthogonal, so
// that their bits tell more, and rotating a vector takes n log n additions and no table. If there are more bits than
// the padded space has dimensions, there are several rotations. The vector that is rotated depends on the metric:
//   L2             x; hyperplanes through the mean of the rows, seen from which angles tell L2 distances apart
//   cosine         x; hyperplanes through the origin
//   inner product  (x, sqrt(bound - |x|^2)) of rows, (q, 0) of queries, bound the largest |x|^2 (Neyshabur, Srebro
//                  2015): all rows have the same length then, so that the angle to a query orders rows as the inner
//                  product does
// L1 has no angle. Plain functions over the caller's memory; sums in a fixed order, so that every machine makes the
// same codes.
#pragma once

#include "engine/graph/graph.hpp"

namespace vectorgpu::engine::graph
{

constexpr uint32_t kMinHashBits = 32;
constexpr uint32_t kMaxHashBits = 512;

struct HashSpec
{
	DistanceSpec rows; // float32 or float16
	uint32_t bits = 0; // 32, 64, 128, 256, 512
	uint64_t seed = 1;
};

constexpr bool
hash_bits_valid(uint32_t bits)
{
	return bits >= kMinHashBits && bits <= kMaxHashBits && (bits & (bits - 1)) == 0;
}

/// Whether angles tell distances of this metric apart.
constexpr bool
hash_supports(Metric metric)
{
	return metric == Metric::kL2 || metric == Metric::kCosine || metric == Metric::kInnerProduct;
}

/// Bytes of a code, a multiple of 4. Bit b is 1 << (7 - b % 8) of byte b / 8, as in ElementType::kBit.
constexpr size_t
hash_code_bytes(uint32_t bits)
{
	return bits / 8;
}

/// How codes are compared.
constexpr DistanceSpec
hash_distance(uint32_t bits)
{
	return {Metric::kHamming, ElementType::kBit, bits};
}

/// The parameters of codes that depend on the rows. A plain struct over the caller's memory.
struct HashModel
{
	HashSpec spec;
	float bound = 0;                   // inner product: the largest |x|^2
	const float *thresholds = nullptr; // [bits]
};

/// Floats of work memory of the functions below.
size_t hash_work_floats(const HashSpec &spec);

/// Number of rows, at least 1, whose codes take some milliseconds: a caller checks for a stop between such pieces.
uint32_t hash_piece_rows(const HashSpec &spec);

/// Set *bound and thresholds [bits] from a sample of the rows. False if call.progress, called every few milliseconds,
/// said stop; then both are undefined.
bool hash_train(
	const HashSpec &spec, const GraphRows &rows, float *bound, float *thresholds, float *work, const Call &call = {});

/// codes [n_rows, hash_code_bytes].
void hash_rows(const HashModel &model, const GraphRows &rows, uint8_t *codes, float *work);

/// code [hash_code_bytes] of a query, a vector of the rows' type.
void hash_query(const HashModel &model, const void *query, uint8_t *code, float *work);

} // namespace vectorgpu::engine::graph
