// Removes the cost of a distance that the executor will not compute from the planner's estimate. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "utils/rel.h"
}

namespace vectorgpu::pg
{

/// Install the create_upper_paths hook. For an ordered index scan, core adds the cost of the ORDER BY distance to every
/// row. If only the order uses the distance, the executor does not compute it (unread_order.hpp), and for vectors in
/// the TOAST table its cost would exceed that of the scan. The hook does nothing under an Append or MergeAppend:
/// several partitions compute and compare distances when their rows are merged; if one partition is left, the executor
/// spares the distance but the planner still charges it. Called once, from _PG_init.
void order_cost_install(bool (*is_our_index)(Relation index));

} // namespace vectorgpu::pg
