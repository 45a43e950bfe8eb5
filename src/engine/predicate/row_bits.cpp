// See row_bits.hpp.
#include "engine/predicate/row_bits.hpp"

#include <bit>
#include <cstring>

namespace vectorgpu::engine::predicate
{

namespace
{

/// Bits of rows [first, first + 64), zero behind row `end`.
uint64_t
word_at(const uint8_t *bits, uint64_t first, uint64_t end)
{
	const uint64_t n = end - first < 64 ? end - first : 64;
	const size_t skip = static_cast<size_t>(first % 8);
	const size_t n_bytes = static_cast<size_t>((skip + n + 7) / 8);
	uint64_t low = 0;
	uint64_t word;

	memcpy(&low, bits + first / 8, n_bytes < 8 ? n_bytes : 8);
	word = low >> skip;
	if (n_bytes > 8)
		word |= uint64_t{bits[first / 8 + 8]} << (64 - skip);
	return n < 64 ? word & ((uint64_t{1} << n) - 1) : word;
}

} // namespace

uint64_t
count_rows(const uint8_t *bits, uint64_t first, uint64_t n_rows)
{
	const uint64_t end = first + n_rows;
	uint64_t count = 0;

	for (uint64_t at = first; at < end; at += 64)
		count += static_cast<uint64_t>(std::popcount(word_at(bits, at, end)));
	return count;
}

size_t
list_rows(const uint8_t *bits, uint64_t n_rows, uint32_t *rows, size_t n_most)
{
	size_t n = 0;

	for (uint64_t at = 0; at < n_rows && n < n_most; at += 64)
		for (uint64_t word = word_at(bits, at, n_rows); word != 0 && n < n_most; word &= word - 1)
			rows[n++] = static_cast<uint32_t>(at) + static_cast<uint32_t>(std::countr_zero(word));
	return n;
}

void
exclude_failing(const uint8_t *pass, uint64_t n_rows, uint8_t *dead)
{
	const size_t n_whole = static_cast<size_t>(n_rows / 8);

	for (size_t i = 0; i < n_whole; i++)
		dead[i] = static_cast<uint8_t>(dead[i] | ~pass[i]);
	if (n_rows % 8 != 0)
		dead[n_whole] = static_cast<uint8_t>(dead[n_whole] | (~pass[n_whole] & ((1u << (n_rows % 8)) - 1)));
}

} // namespace vectorgpu::engine::predicate
