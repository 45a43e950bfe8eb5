// Levenshtein distance of two sequences of symbols, bit-parallel. No PostgreSQL; allocates and throws nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu::engine
{

/// Called now and then during a long computation. look returns false to stop: the result is undefined then. It may also
/// leave by a jump: nothing needs cleaning up.
struct Poll
{
	bool (*look)(void *context) = nullptr; // null: never stop
	void *context = nullptr;
};

inline bool
keep_going(const Poll &poll)
{
	return poll.look == nullptr || poll.look(poll.context);
}

/// One of two sequences. Symbols are numbers below n_symbols; a symbol that occurs in one sequence only may be any
/// number that the other does not have.
struct Sequence
{
	const uint32_t *symbols; // [length]
	int64_t length;
};

/// Bytes of edit_distance's work memory for sequences of at most `length` symbols.
constexpr size_t
edit_distance_memory(int64_t length, uint32_t n_symbols)
{
	return static_cast<size_t>(n_symbols) * sizeof(uint64_t) + static_cast<size_t>(length);
}

/// The least number of insertions, deletions and replacements of a symbol that turn one sequence into the other, if it
/// is at most `most`, else some number above `most`. memory [edit_distance_memory(longer of the two, n_symbols)],
/// aligned for uint64_t.
/// Myers' algorithm (Journal of the ACM 46(3), 1999) in the form of Hyyroe: columns of the table of distances are bit
/// vectors of their vertical differences, 64 rows to a word. Rows are taken 64 at a time through the whole text; the
/// horizontal differences of the last one are kept for the next 64. Only the columns are computed that a distance of at
/// most `most` can go through: a band along the diagonal (Ukkonen, Information and Control 64, 1985), which ends as
/// soon as no distance in it can stay below that. A common beginning and end are skipped, then the cheaper way round is
/// chosen. Time: ceil(rows / 64) * min(columns, 64 + 2 most).
int64_t edit_distance(Sequence a, Sequence b, uint32_t n_symbols, void *memory, int64_t most, Poll poll);

} // namespace vectorgpu::engine
