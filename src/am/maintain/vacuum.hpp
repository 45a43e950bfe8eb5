// The extents that VACUUM and merges give back. VACUUM's two callbacks are declared in am/method/callbacks.hpp. PG
// dialect.
#pragma once

#include "storage/metapage.hpp"

namespace vectorgpu::am
{

/// Gives back extents that an interrupted merge or insert left pending. The caller holds ShareUpdateExclusiveLock (or
/// stronger) on the table, and no LockPage.
void reclaim_pending(Relation index);

} // namespace vectorgpu::am
