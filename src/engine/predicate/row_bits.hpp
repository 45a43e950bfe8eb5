// Bitmaps of rows, as tombstones have them: row i is bit i % 8 of byte i / 8, and bits behind the last row are zero.
// Plain functions, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu::engine::predicate
{

/// Bytes of a bitmap.
constexpr size_t
row_bits_bytes(uint64_t n_rows)
{
	return static_cast<size_t>((n_rows + 7) / 8);
}

/// The number of rows of [first, first + n_rows) whose bit is set.
uint64_t count_rows(const uint8_t *bits, uint64_t first, uint64_t n_rows);

/// Write the rows of [0, n_rows) whose bit is set, ascending, at most n_most; return how many were written.
size_t list_rows(const uint8_t *bits, uint64_t n_rows, uint32_t *rows, size_t n_most);

/// Set in `dead` the bits of the rows of [0, n_rows) that have none in `pass`.
void exclude_failing(const uint8_t *pass, uint64_t n_rows, uint8_t *dead);

} // namespace vectorgpu::engine::predicate
