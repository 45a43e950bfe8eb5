// The parallel scan of an index build. PG dialect.
#pragma once

#include "am/build/build.hpp"

namespace vectorgpu::am
{

/// Return the number of parallel workers that a build may have.
int build_workers(Relation heap, Relation index, const IndexInfo *info);

/// Scan the table with parallel workers and write their rows. Returns false, without having done anything, if no worker
/// is planned or available. *heap_tuples: live rows seen.
bool parallel_build_scan(BuildState *state, double *heap_tuples);

} // namespace vectorgpu::am
