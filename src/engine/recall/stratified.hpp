// Chooses rows that stand for all: one of each of equal parts of a table, at a pseudo-random place.
#pragma once

#include <cstdint>

#include "engine/match/hash_family.hpp"

namespace vectorgpu::engine
{

/// Row i of n <= n_rows < 2^32 that stand for n_rows: one of the i-th of n equal parts. Ascending in i, different for
/// different i, the same in every process; other rows with another seed. Rows a fixed distance apart would not do: if
/// rows repeat with a period (groups loaded by turns, every second row a default), they would all lie in a few of the
/// groups.
constexpr uint64_t
stratified_row(uint64_t i, uint64_t n, uint64_t n_rows, uint64_t seed = 0)
{
	const uint64_t first = i * n_rows / n;
	const uint64_t end = (i + 1) * n_rows / n;

	return end > first ? first + stream64(seed, i) % (end - first) : first;
}

/// Whether `row` is stratified_row(i, n, n_rows) of some i.
constexpr bool
is_stratified_row(uint64_t row, uint64_t n, uint64_t n_rows)
{
	if (n == 0)
		return false;
	const uint64_t i = row * n / n_rows; // the part that has the row is this one or the next

	return stratified_row(i, n, n_rows) == row || (i + 1 < n && stratified_row(i + 1, n, n_rows) == row);
}

} // namespace vectorgpu::engine
