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
/// aligned for uint64_t. Time: ceil(rows / 64) * min(columns, 64 + 2 most), the cheaper way round.
int64_t edit_distance(Sequence a, Sequence b, uint32_t n_symbols, void *memory, int64_t most, Poll poll);

} // namespace vectorgpu::engine
