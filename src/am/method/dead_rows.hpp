// The rows of a segment that a search leaves out: those with a tombstone, and those that do not meet the scan's
// conditions. PG dialect.
#pragma once

#include "am/method/segment_search.hpp"

namespace vectorgpu::am
{

/// True if the search leaves rows out.
inline bool
search_drops_rows(const SegmentSearch *search)
{
	return search->segment->n_dead > 0 || search->passing != nullptr;
}

/// True if the row of the segment meets the scan's conditions and has no tombstone, or the scan has no conditions.
inline bool
search_row_passes(const SegmentSearch *search, uint64 row)
{
	return search->passing == nullptr || (search->passing[row / 8] >> (row % 8) & 1) != 0;
}

/// Copy bits of rows [first, first + n) to dead: that of row i is bit i % 8 of byte i / 8 - first / 8. 1: left out.
/// dead [(first + n + 7) / 8 - first / 8]. Returns false if a page was foreign (see page_read).
bool search_read_dead(const SegmentSearch *search, uint64 first, uint64 n, uint8 *dead);

/// Set dead [n] to whether rows [n] are left out. items [n]: scratch. Returns false if a page was foreign.
bool search_gather_dead(const SegmentSearch *search, const uint32 *rows, uint64 n, uint64 *items, uint8 *dead);

} // namespace vectorgpu::am
