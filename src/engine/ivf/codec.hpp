// What scalar and product quantiser have in common: the scan of a list of codes.
//
// Metrics: for L2, L1 (SQ8 only) and inner product codes are made of the rows as they are; for cosine of rows of
// length 1 and searched with a query of length 1 (normalise_rows), as an inner product.
#pragma once

#include "common/types.hpp"
#include "engine/ivf/call.hpp"

namespace vectorgpu::engine::ivf
{

/// Rows that PQ codes are interleaved by: byte j of the 32 rows of a block lies together, so that a register takes a
/// byte of every row and a warp reads 32 rows' codes in one request. A list's last block is filled up with zeros.
constexpr size_t kCodeBlockRows = 32;

/// Bytes of the codes of a list of n_rows rows, interleaved.
constexpr size_t
interleaved_bytes(uint64_t n_rows, size_t code_bytes)
{
	return (n_rows + kCodeBlockRows - 1) / kCodeBlockRows * kCodeBlockRows * code_bytes;
}

/// Row-major codes [n_rows, code_bytes] to interleaved ones [blocks, code_bytes, kCodeBlockRows], and back.
void interleave_codes(const uint8_t *codes, size_t n_rows, size_t code_bytes, uint8_t *interleaved);
void deinterleave_codes(const uint8_t *interleaved, size_t n_rows, size_t code_bytes, uint8_t *codes);

/// float32 to float16 that never becomes infinite: what is out of range goes to ±65504. Returns how many elements did.
size_t narrow_to_halves(const float *values, size_t n, uint16_t *halves);

} // namespace vectorgpu::engine::ivf
