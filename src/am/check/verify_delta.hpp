// vectorgpu_check: the delta. PG dialect.
#pragma once

#include "am/check/verify_page.hpp"
#include "storage/delta_map.hpp"

namespace vectorgpu::am
{

/// Check the page tags of a list (the delta, the aliases) and return its end: the number after the last row that is
/// visible. Reads the last page first: then rows that are appended
/// meanwhile cannot make an earlier page look less filled than a later one.
uint64 check_list_fill(PageCheck *check, const ChunkList &list);

/// The same for the delta; its end is that of the last complete row.
uint64 check_delta_fill(PageCheck *check);

/// Check the rows of the delta before `end` and count them.
void check_delta(PageCheck *check, uint64 end);

} // namespace vectorgpu::am
