// Shared by the scalar and the product quantiser: layout of the codes of a list, halves.
// Metrics: for L2, L1 (SQ8 only) and inner product codes are made of the rows as they are; for cosine of rows of length
// 1, which are searched with a query of length 1 (normalise_rows), as by inner product.
#pragma once

#include "common/types.hpp"
#include "engine/ivf/call.hpp"

namespace vectorgpu::engine::ivf
{

/// Rows of a block of PQ codes, which are interleaved: byte j of the 32 rows lies together, so that a register takes a
/// byte of every row and a warp reads 32 rows' codes in one request. A list's last block is padded with zeros.
constexpr size_t kCodeBlockRows = 32;

/// Bytes of the codes of a list of n_rows rows, interleaved.
constexpr size_t
interleaved_bytes(uint64_t n_rows, size_t code_bytes)
{
	return (n_rows + kCodeBlockRows - 1) / kCodeBlockRows * kCodeBlockRows * code_bytes;
}

/// Convert row-major codes [n_rows, code_bytes] to interleaved ones [blocks, code_bytes, kCodeBlockRows], and back.
void interleave_codes(const uint8_t *codes, size_t n_rows, size_t code_bytes, uint8_t *interleaved);
void deinterleave_codes(const uint8_t *interleaved, size_t n_rows, size_t code_bytes, uint8_t *codes);

/// Convert float32 to float16 without infinity: values out of range become ±65504. Return how many did.
size_t narrow_to_halves(const float *values, size_t n, uint16_t *halves);

} // namespace vectorgpu::engine::ivf
