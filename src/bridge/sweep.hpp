// Drops the worker's copies of indexes that exist no more. Called by the supervisor. PG dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::bridge
{

/// Asks the worker for its copies and drops those whose relation file is gone or empty. Waits for the worker as any
/// request does; gives up at the first one that fails.
void sweep_copies();

} // namespace vectorgpu::bridge
