// The loader: a dynamic background worker that copies one large index, or a large change of one, to the worker process,
// and ends. PG dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::am
{

/// Asks for a background load. For scans: cheap, never raises, never waits; nothing happens while as many loads as may
/// be are under way, or the same one is.
void loader_request(Relation index);

/// Tells what the process identifier of the loader of an index is; 0 if none is at work.
int loader_pid(Oid database, Oid index_oid);

} // namespace vectorgpu::am
