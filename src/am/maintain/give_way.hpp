// When background work has to stop for other sessions. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "utils/relcache.h"
}

namespace vectorgpu::am
{

/// Return true if another session waits for the table, on which this one holds ShareUpdateExclusiveLock, or wants to
/// drop, move or rename the database. Looks every 200 ms. *last_look: pg::monotonic_ms of the last look.
bool other_session_waits(Relation heap, uint64 *last_look);

} // namespace vectorgpu::am
