// Conditions on the distance by which an index scan is ordered, such as `v <-> q < 0.5` with ORDER BY v <-> q. No row
// beyond the bound passes, so the scan may end there. PG dialect.
#pragma once

#include "pg/ordered_scan.hpp"

namespace vectorgpu::pg
{

/// The conditions that bound one scan's distance from above. Lives in the executor's per-query context.
struct OrderBound;

/// Find the conditions of a scan that is ordered by one distance; null if there are none. *only: the scan has no other
/// condition. Recognized are <, <=, =, > and >= (either operand order) of the distance, and of sums, differences,
/// products and quotients of it with values that are the same for all rows: constants, parameters, stable functions of
/// them.
OrderBound *order_bound_find(const OrderedScan &scan, bool *only);

/// The bound for the scan's current parameters.
struct DistanceBound
{
	double value; // rows with a greater distance do not pass; may be slightly above the true bound
	bool open;    // nor do rows at this distance
	bool
		nan_passes; // rows whose distance is NaN pass: PostgreSQL sorts NaN above all numbers, so 1 - NaN > 0.5 is true
	bool none;      // a condition is NULL: no row passes
};

/// Compute the bound. Returns false if the distance has no bound now.
bool order_bound_compute(OrderBound *bound, DistanceBound *result);

} // namespace vectorgpu::pg
