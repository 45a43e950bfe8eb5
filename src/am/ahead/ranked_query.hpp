// Sub-queries that rank the rows of a table for each row of another, `SELECT *, row_number() OVER (PARTITION BY q.id
// ORDER BY t.v <-> q.v) AS n FROM q, t`, of which the query above wants the first, `n <= 10`: as lateral joins with a
// LIMIT, which use the index. PG dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::am
{

/// Change such sub-queries, at any depth, before the query is planned; of WITH queries, those that only the FROM of the
/// query that defines them reads, once.
void limit_ranked_queries(Query *query);

} // namespace vectorgpu::am
