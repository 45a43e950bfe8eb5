// Leaves out the distance of an ordered index scan if the query does not return it. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "executor/execdesc.h"
#include "nodes/execnodes.h"
#include "utils/rel.h"
}

namespace vectorgpu::pg
{

/// Call after ExecutorStart. ORDER BY adds the distance to the rows of an index scan even if it is not selected, and
/// computing it reads the vector, which for wide vectors lies in the TOAST table. If the scan's rows are the query's
/// rows, with at most a LIMIT above, the executor drops the column at the end; this function makes the scan return NULL
/// in it. is_ours: whether this may be done for an index.
void drop_unread_order(QueryDesc *query, bool (*is_ours)(Relation index));

/// The same for scans below a nested loop or a sub-query that does not read the distance. For nodes of other kinds
/// nothing is done.
void drop_unread_below(const PlanState *state, bool (*is_ours)(Relation index));

} // namespace vectorgpu::pg
