// VACUUM's two callbacks, the same for all access methods. Core holds ShareUpdateExclusiveLock on the table, so neither
// a merge nor another vacuum runs beside them; inserts and scans do. PG dialect.
#pragma once

#include "storage/metapage.hpp"

namespace vectorgpu::am
{

/// ambulkdelete: calls callback once for every entry without a tombstone (segments, NULL rows, delta) and sets
/// tombstones where it says so. Pages first, then the metapage's generation, all before it returns. Also what
/// CREATE INDEX CONCURRENTLY learns the entries by.
IndexBulkDeleteResult *shared_bulkdelete(
	IndexVacuumInfo *info, IndexBulkDeleteResult *stats, IndexBulkDeleteCallback callback, void *callback_state);

/// amvacuumcleanup: merges if the tiers ask for it, and counts.
IndexBulkDeleteResult *shared_vacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats);

/// Gives back extents that an interrupted merge or insert left pending. The caller holds ShareUpdateExclusiveLock (or
/// stronger) on the table, and no LockPage.
void reclaim_pending(Relation index);

} // namespace vectorgpu::am
