// Levenshtein distance of two sequences of symbols, bit-parallel. No PostgreSQL; allocates and throws nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu::engine
{

/// Called now and then during a long computation; it may leave the function by a jump: nothing needs cleaning up.
using Poll = void (*)();

/// One of two sequences. Symbols are numbers below n_symbols; a symbol of one sequence that the other does not have may be any
/// number that the other does not have.
struct Sequence
{
	const uint32_t *symbols; // [length]
	int64_t length;
};

/// Bytes of memory that edit_distance needs beside the sequences, for sequences of at most `length` symbols.
constexpr size_t
edit_distance_memory(int64_t length, uint32_t n_symbols)
{
	return static_cast<size_t>(n_symbols) * sizeof(uint64_t) + static_cast<size_t>(length);
}

/// The least number of insertions, deletions and replacements of a symbol that turn one sequence into the other. `memory`
/// [edit_distance_memory(longer of the two, n_symbols)] aligned for uint64_t.
///
/// Myers' algorithm (Journal of the ACM 46(3), 1999) in the form of Hyyroe: columns of the table of distances are bit vectors of
/// their vertical differences, 64 rows to a word. Rows are taken 64 at a time through the whole text, and the horizontal differences
/// that leave the last one are kept for the next 64. Time: ceil(rows / 64) * columns; the cheaper way round is chosen, after a
/// common beginning and end are put aside.
int64_t edit_distance(Sequence a, Sequence b, uint32_t n_symbols, void *memory, Poll poll);

} // namespace vectorgpu::engine
