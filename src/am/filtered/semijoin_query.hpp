// IN (SELECT …) and EXISTS beside ORDER BY … LIMIT: the sub-select's keys, read first, as a list that a key column
// decides.
#pragma once

namespace vectorgpu::am
{

/// Define vectorgpu.enable_semijoin_list and install the hook of the planner. Called once, from _PG_init.
void semijoin_query_install();

} // namespace vectorgpu::am
