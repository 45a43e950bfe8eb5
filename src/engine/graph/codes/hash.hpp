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
// same codes. codes.hpp calls these functions and describes them.
#pragma once

#include "engine/graph/codes/codes.hpp"

namespace vectorgpu::engine::graph
{

/// How codes are compared.
constexpr DistanceSpec
hash_distance(uint32_t bits)
{
	return {Metric::kHamming, ElementType::kBit, bits};
}

/// Floats of work memory of the functions below.
size_t hash_work_floats(const CodeSpec &spec);

/// Number of rows, at least 1, whose codes take some milliseconds: a caller checks for a stop between such pieces.
uint32_t hash_piece_rows(const CodeSpec &spec);

/// Set *bound and thresholds [bits] from a sample of the rows. False if call.progress, called every few milliseconds,
/// said stop; then both are undefined.
bool hash_train(
	const CodeSpec &spec, const GraphRows &rows, float *bound, float *thresholds, float *work, const Call &call = {});

/// codes [n_rows, code_bytes].
void hash_rows(const CodeModel &model, const GraphRows &rows, uint8_t *codes, float *work);

/// code [code_bytes] of a query, a vector of the rows' type.
void hash_query(const CodeModel &model, const void *query, uint8_t *code, float *work);

} // namespace vectorgpu::engine::graph
