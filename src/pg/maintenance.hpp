// The maintenance worker: a dynamic background worker that merges one index whose delta has grown, then exits. The
// insert path asks for it; what it does is registered by the access methods, which this folder does not know. PG
// dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::pg
{

/// Runs in the worker, in a transaction. Must leave nothing behind when it raises an error.
using MaintenanceTask = void (*)(Oid index_oid, uint64 threshold_bytes);

/// Defines vectorgpu.auto_merge and vectorgpu.merge_delta_size and notes the task. Called by _PG_init.
void maintenance_init(MaintenanceTask task);

/// Asks for a merge if the delta has vectorgpu.merge_delta_size bytes. For the insert path:
/// cheap, never waits, needs no transaction ID, raises only where a few bytes cannot be had. Nothing happens without a
/// free worker slot, while a quarter of max_worker_processes, at most eight, merge for this backend, and for an index
/// that it has asked for lately. delta_first: where the delta begins, which a merge moves; delta_bytes: bytes of the
/// delta's rows or chunks.
void maintenance_request(Relation index, uint64 delta_first, uint64 delta_bytes);

} // namespace vectorgpu::pg
