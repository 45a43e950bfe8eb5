// When rows that pass are packed (packed_rows.hpp): data, with what was measured or computed in README.md, "Packed
// rows".
#pragma once

#include <cstdint>

namespace vectorgpu::cuda
{

struct PackedTuning
{
	bool on = true;
	uint64_t least_saved_bytes = uint64_t{16} << 20; // that a pass over a segment need not read; some 6 us
	uint32_t least_rows = 16384;                     // that pass: the filter takes no fewer
	uint32_t least_queries =
		256;                  // of a segment, with the same conditions, before it: to pack takes about a millisecond
	uint32_t budget_part = 8; // all packed rows take at most one such part of the budget

	// Queries ask for packed rows, and go over them instead of lists, where another way takes more than this many
	// times as long (passing_times.hpp). 0: always; not in tests of lists.
	double pays = 1.1;
};

} // namespace vectorgpu::cuda
