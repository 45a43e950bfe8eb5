// Parallel workers for the build of an index. From PostgreSQL 17 on core plans them for each access method that says it
// takes them; before, for btree only. PG dialect.
#pragma once

#include "pg/postgres.hpp"

struct IndexAmRoutine;
struct IndexInfo;

namespace vectorgpu::pg
{

/// Say that builds of the access method take parallel workers.
void allow_parallel_build(IndexAmRoutine *routine);

/// Return the number of parallel workers for the build of an index.
int planned_build_workers(Relation heap, Relation index, const IndexInfo *info);

} // namespace vectorgpu::pg
