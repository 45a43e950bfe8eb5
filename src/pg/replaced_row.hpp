// Tells an insert into an index which row version the running UPDATE replaces. PostgreSQL gives an access method this
// only as a hint that the indexed columns did not change (aminsert's indexUnchanged). PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "executor/execdesc.h"
#include "storage/itemptr.h"
#include "utils/rel.h"
}

namespace vectorgpu::pg
{

/// Note a query that may update rows, until its executor's memory is released. Called by the ExecutorStart hook.
void note_update(QueryDesc *query);

/// True if a noted query has just replaced a row version of this heap by the version `now`. *tid: the TID that indexes
/// have for the old version, which is the root of its HOT chain. False if that is not known: the update does not come
/// from the executor (logical replication), or the table's access method is not heap.
bool replaced_row(Relation heap, ItemPointer now, ItemPointer tid);

} // namespace vectorgpu::pg
