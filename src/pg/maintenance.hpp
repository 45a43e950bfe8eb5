// The maintenance worker: a dynamic background worker that merges one index whose delta has grown, then exits. Inserts
// request it. The merge itself is a function that _PG_init passes in, since this folder does not know the access
// methods. PG dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::pg
{

/// Runs in the worker, in a transaction. Must clean up by transaction abort alone when it raises an error.
using MaintenanceTask = void (*)(Oid index_oid, uint64 threshold_bytes);

/// Define vectorgpu.auto_merge and vectorgpu.merge_delta_size and set the task. Called by _PG_init.
void maintenance_init(MaintenanceTask task);

/// Request a merge if the delta has vectorgpu.merge_delta_size bytes. Cheap, never waits, needs no transaction ID, and
/// raises an error only if memory is exhausted. Does nothing if no worker slot is free, if this backend's workers have
/// reached a quarter of max_worker_processes or eight, or if it requested this index recently. delta_first: first row
/// of the delta, which a merge moves; delta_bytes: bytes of the delta's rows or chunks.
void maintenance_request(Relation index, uint64 delta_first, uint64 delta_bytes);

/// Request the task with threshold 0: give the free space of the index's file back. For a VACUUM that cannot.
void maintenance_request_shrink(Relation index);

} // namespace vectorgpu::pg
