// Levenshtein distance of two sequences of symbols, bit-parallel. No PostgreSQL; allocates and throws nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu::engine
{

/// Asked now and then during a long computation whether to go on. If it says no, what the computation returns is of no
/// use; it may also leave by a jump: nothing needs cleaning up.
struct Poll
{
	bool (*look)(void *context) = nullptr; // null: nobody is asked
	void *context = nullptr;
};

inline bool
keep_going(const Poll &poll)
{
	return poll.look == nullptr || poll.look(poll.context);
}

/// One of two sequences. Symbols are numbers below n_symbols; a symbol of one sequence that the other does not have may
/// be any number that the other does not have.
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

/// The least number of insertions, deletions and replacements of a symbol that turn one sequence into the other, if it
/// is at most `most`, else some number above `most`. `memory` [edit_distance_memory(longer of the two, n_symbols)]
/// aligned for uint64_t.
///
/// Myers' algorithm (Journal of the ACM 46(3), 1999) in the form of Hyyroe: columns of the table of distances are bit
/// vectors of their vertical differences, 64 rows to a word. Rows are taken 64 at a time through the whole text, and
/// the horizontal differences that leave the last one are kept for the next 64. Of columns only those are computed that
/// a distance of at most `most` can go through: a band along the diagonal (Ukkonen, Information and Control 64, 1985),
/// left as soon as none of it can end below that. Time: ceil(rows / 64) * min(columns, 64 + 2 most); the cheaper way
/// round is chosen, after a common beginning and end are put aside.
int64_t edit_distance(Sequence a, Sequence b, uint32_t n_symbols, void *memory, int64_t most, Poll poll);

} // namespace vectorgpu::engine
