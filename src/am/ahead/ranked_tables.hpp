// Which tables of a sub-query that ranks rows may be searched one row after the other. See ranked_query.hpp. PG
// dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "nodes/parsenodes.h"
}

namespace vectorgpu::am
{

/// True if each partition of the window is one row of the relation `rel` of the query's range table: it is partitioned
/// by all columns of a unique key that cannot be NULL.
bool partitions_are_rows(const Query *query, const WindowClause *window, int rel);

/// True if an index of ours orders the relation `rel` by the distance.
bool has_index_for(const Query *query, int rel, const OpExpr *distance);

} // namespace vectorgpu::am
