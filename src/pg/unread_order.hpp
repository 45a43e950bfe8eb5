// Spares an index scan the distance that nobody reads. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "executor/execdesc.h"
#include "utils/rel.h"
}

namespace vectorgpu::pg
{

/// After ExecutorStart. ORDER BY puts the distance into the rows of an index scan even where it is not selected, and
/// computing it reads the vector, for wide ones from the TOAST table. Where the rows go out as they are, with at most a
/// LIMIT above, the column is dropped at the end by the executor; the scan then makes a NULL of it. is_ours: of an
/// index, whether that may be done.
void drop_unread_order(QueryDesc *query, bool (*is_ours)(Relation index));

} // namespace vectorgpu::pg
