// Conditions on the very distance that an index scan is ordered by, such as `v <-> q < 0.5` beside ORDER BY v <-> q:
// behind the bound no row passes, so that the scan may end there. PG dialect.
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

/// Finds the conditions of a scan that is ordered by one distance; null: there are none. *only: the scan has no other
/// condition. Understood are <, <=, =, > and >= of the distance (either operand order), and of sums, differences,
/// products and quotients of it with what is the same for all rows: constants, parameters, stable functions of them.
OrderBound *order_bound_find(IndexScanState *scan, bool *only);

/// What the conditions say for the scan's present parameters.
struct DistanceBound
{
	double value;    // rows whose distance is above do not pass; it may lie a little above the true bound
	bool open;       // nor those at it
	bool nan_passes; // rows whose distance is NaN do: PostgreSQL has NaN above all numbers, so that 1 - NaN > 0.5 is
					 // true
	bool none;       // a condition is NULL: no row passes
};

/// Computes the bound. False: nothing bounds the distance now.
bool order_bound_compute(OrderBound *bound, DistanceBound *result);

} // namespace vectorgpu::pg
