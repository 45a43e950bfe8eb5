// Drops the worker's copies of indexes that no longer exist. Called by the supervisor. PG dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::bridge
{

/// Read the worker's list of copies and drop those whose relation file is gone or empty. Waits for the worker as any
/// request does; stops at the first request that fails.
void sweep_copies();

} // namespace vectorgpu::bridge
