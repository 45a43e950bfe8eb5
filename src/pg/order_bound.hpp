// Conditions on the very distance that an index scan is ordered by, such as `v <-> q < 0.5` beside ORDER BY v <-> q: behind the
// bound no row passes, so that the scan may end there. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "nodes/execnodes.h"
}

namespace vectorgpu::pg
{

/// The conditions that bound one scan's distance from above. Lives in the executor's per-query context.
struct OrderBound;

/// Finds the conditions of a scan that is ordered by one distance; null: there are none. *only: the scan has no other condition.
/// Understood are <, <=, =, > and >= of the distance (either operand order), and of sums, differences, products and quotients of it
/// with what is the same for all rows: constants, parameters, stable functions of them.
OrderBound *order_bound_find(IndexScanState *scan, bool *only);

/// Computes the bound for the scan's present parameters. False: nothing bounds the distance now. The bound may lie a little above
/// the true one, since the executor checks the condition again.
bool order_bound_compute(OrderBound *bound, double *value, bool *open);

} // namespace vectorgpu::pg
