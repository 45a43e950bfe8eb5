// The number of elements of `ARRAY(SELECT …)`, for the planner: core assumes ten, whatever the sub-select returns. PG
// dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "nodes/pathnodes.h"
}

namespace vectorgpu::am
{

/// The most elements of an array, of few bytes each, that are worth reading ahead of a search: half of those that
/// codes decide (am/keys). Twice as many as expected are still decided then.
constexpr double kMostListed = 4000;

/// Estimate by the sub-selects' rows how many rows of the table conditions `column = ANY (ARRAY(SELECT …))` leave, and
/// what follows from that, if an index of ours is on the table.
void list_estimate(PlannerInfo *root, RelOptInfo *rel);

/// Set whether list_estimate() has met an array of more than kMostListed elements, or larger than work_mem. Returns
/// whether it had.
bool list_set_too_long(bool value);

} // namespace vectorgpu::am
