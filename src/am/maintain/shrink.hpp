// Giving free space at the end of an index's file back to the operating system. Runs in VACUUM. PG dialect.
#pragma once

#include "storage/metapage.hpp"

namespace vectorgpu::am
{

/// If much of the file is free, move streams into free space before them and cut the end off. Does nothing while
/// another session uses the index or waits for it. The caller holds ShareUpdateExclusiveLock on heap, has no scan of
/// the index open, and has reclaimed pending extents. give_way: stop when another session waits for the table. In a
/// VACUUM with parallel workers the maintenance worker is asked to do it. See README.md ("Space").
void shrink_file(Relation index, Relation heap, bool give_way);

/// The maintenance worker's task: the same once the table's lock is free.
void shrink_when_free(Oid index_oid);

} // namespace vectorgpu::am
