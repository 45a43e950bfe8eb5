// Sub-selects in the select list that search for a value of the row, `SELECT id, (SELECT t.id FROM t ORDER BY t.v <->
// q.v LIMIT 1) FROM q`, as lateral joins, whose outer rows can be read ahead. PG dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::am
{

/// Install the planner hook. Called once, from _PG_init.
void scalar_query_install();

} // namespace vectorgpu::am
