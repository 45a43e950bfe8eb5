// Who may see the size and state of a table's indexes. PG dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::pg
{

/// True if the current user may see the size and state of a table's indexes: superusers, members of
/// pg_stat_scan_tables, and users who may SELECT from the table without row-level security in force.
bool may_read_table(Oid table);

} // namespace vectorgpu::pg
