// vectorgpu_check with check_cache: the worker's copy against the pages. PG dialect.
#pragma once

#include "am/check/verify.hpp"

namespace vectorgpu::am
{

/// Compare the worker's copy with the pages. Raises 08006 if there is no worker, XX001 for a difference.
/// vacuum_excluded: no vacuum sets tombstones meanwhile.
void check_copy(Relation index, bool vacuum_excluded, CheckResult *result);

} // namespace vectorgpu::am
