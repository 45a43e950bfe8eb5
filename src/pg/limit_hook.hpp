// Tells an index scan how many rows the plan wants from it, when a Limit stands above it with nothing in between that
// drops rows. An access method learns this nowhere else. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "access/relscan.h"
#include "utils/rel.h"
}

namespace vectorgpu::pg
{

/// Puts the ExecutorStart hook in, for this and for unread_order.hpp. Called once, from _PG_init.
void limit_hook_install(bool (*is_our_index)(Relation index));

/// The rows that the Limit above this scan wants. *exact: nothing between drops rows, so that no more are needed unless
/// some are invisible; else it is a lower bound. False if no Limit is known. Only a hint: never a reason to stop.
bool scan_limit(IndexScanDesc scan, uint64 *rows, bool *exact);

} // namespace vectorgpu::pg
