// Exact search of the rows of a segment that meet a scan's conditions, one by one: where few rows pass. PG dialect.
// Used by the files of this folder; the shares also by cost estimates.
#pragma once

#include "am/method/am_interface.hpp"

namespace vectorgpu::am
{

// At most one row in that many is few. Of an approximate access method: above, the graph or the lists find the
// target's recall; below, they would have to look at more rows than there are to compare. Of stored values
// that have matches counted: reading one takes as long as the counts of that many rows, of texts as their counts and
// the comparisons left by these.
constexpr uint64 kFewOfApproximate = 10;
constexpr uint64 kFewOfValues = 2048;
constexpr uint64 kFewOfTexts = 64;

// Most rows that a request names to the worker: the rest of its conditions is for segments.
constexpr uint64 kMostGivenRows = 12 * 1024;

/// True if the rows that pass are so few that they are searched one by one.
bool few_rows_pass(const AccessMethod *am, const SegmentSearch *search, uint64 n_passing);

/// Offers the rows of search->passing. Returns false if a page was foreign (see page_read).
bool few_search_segment(const AccessMethod *am, const SegmentSearch *search);

} // namespace vectorgpu::am
