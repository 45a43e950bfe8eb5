// Membership of codes in a long list (Op::kIn): a filter of hash bits that nearly all other codes fail, then a binary
// search. Plain structs, no allocation; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/predicate/program.hpp"

namespace vectorgpu::engine::predicate
{

/// The filter of one step, in 4 kB, so that it stays in the first cache.
struct CodeFilter
{
	static constexpr int kLogBits = 15;

	const Step *step; // null: of none yet
	uint64_t bits[(size_t{1} << kLogBits) / 64];
};

/// Make the filter that of the step, if it is not yet.
void set_filter(CodeFilter *filter, const Step &step);

/// Set words [ceil(n_rows / 64)] to the rows whose code is one of the step's, zero behind the last row. codes [n_rows]
/// of `width` bytes; filter: that of the step.
void match_codes(const CodeFilter &filter, const void *codes, uint8_t width, size_t n_rows, uint64_t *words);

} // namespace vectorgpu::engine::predicate
