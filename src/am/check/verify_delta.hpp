// vectorgpu_check: the delta. PG dialect.
#pragma once

#include "am/check/verify_page.hpp"

namespace vectorgpu::am
{

/// Check the page tags of the delta and return its end. Reads the last page first: then rows that are appended
/// meanwhile cannot make an earlier page look less filled than a later one.
uint64 check_delta_fill(PageCheck *check);

/// Check the rows of the delta before `end` and count them.
void check_delta(PageCheck *check, uint64 end);

} // namespace vectorgpu::am
