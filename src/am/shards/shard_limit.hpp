// Sharded searches: hands the LIMIT of a search to each foreign partition of postgres_fdw, and lets them run at the
// same time. PG dialect.
#pragma once

namespace vectorgpu::am
{

/// Define vectorgpu.enable_shard_limit and install the create_upper_paths hook, which adds a path to `SELECT … FROM
/// table ORDER BY v <-> q LIMIT k` over a partitioned table: a Sort of an Append of partitions that return at most k
/// rows each. Called once, from _PG_init.
void shard_limit_install();

} // namespace vectorgpu::am
