// Spares the planner the cost of a distance that no index scan will compute. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "utils/rel.h"
}

namespace vectorgpu::pg
{

/// Puts the create_upper_paths hook in. Core charges every row of an index scan in order the distance that ORDER BY
/// names, but where only the order wants it, the executor drops it (unread_order.hpp): for vectors in the TOAST table
/// it would outweigh the scan. Not under an Append or MergeAppend: of several partitions the distances are compared
/// when their rows are merged, and are computed; where one partition is left, which the executor does spare them, the
/// planner still charges them. Called once, from _PG_init.
void order_cost_install(bool (*is_our_index)(Relation index));

} // namespace vectorgpu::pg
