// Drops the worker's copies of indexes that exist no more. Called by the supervisor. PG dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::bridge
{

/// CopyKey::uuid_high of copies that a build makes for itself, under the file of its table: there may be several of one file. No index has
/// it, whose two halves are random.
constexpr uint64 kBuildUuidHigh = 0x76656367'6275696c;

/// Asks the worker for its copies and drops those whose relation file is gone or empty. Waits for the worker as any
/// request does; gives up at the first one that fails.
void sweep_copies();

} // namespace vectorgpu::bridge
