// The loader: a dynamic background worker that copies one large index, or a large change of one, to the worker process
// and then exits. PG dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::am
{

/// Request a background load. For scans: cheap, never raises an error, never waits. Does nothing if the same load, or
/// the greatest allowed number of loads, is in progress.
void loader_request(Relation index);

/// Return the process id of the loader of an index; 0 if none is running.
int loader_pid(Oid database, Oid index_oid);

} // namespace vectorgpu::am
