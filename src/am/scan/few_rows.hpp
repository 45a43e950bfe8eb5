// Exact search of the rows of a segment that meet a scan's conditions, one by one: where few rows pass. PG dialect.
// Used by the files of this folder.
#pragma once

#include "am/method/am_interface.hpp"

namespace vectorgpu::am
{

/// True if the rows that pass are so few that they are searched one by one.
bool few_rows_pass(const AccessMethod *am, const SegmentSearch *search, uint64 n_passing);

/// Offers the rows of search->passing. Returns false if a page was foreign (see page_read).
bool few_search_segment(const AccessMethod *am, const SegmentSearch *search);

} // namespace vectorgpu::am
