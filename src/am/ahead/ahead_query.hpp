// Which joins may have their outer rows read ahead, and which gain by it. PG dialect. Used by ahead_path.cpp.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "nodes/pathnodes.h"
}

namespace vectorgpu::am
{

/// A quick look: true if the inner side may depend on outer rows, so that the others are worth asking.
bool ahead_may_search(PlannerInfo *root, const RelOptInfo *inner);

/// True if reading rows of this side earlier changes nothing that the query can see: nothing on it is volatile, no rows
/// are locked or changed (so that there is no EvalPlanQual).
bool ahead_is_safe(PlannerInfo *root, RelOptInfo *outer);

/// The same of the values that the outer side computes.
bool ahead_target_is_stable(const PlannerInfo *root, const Path *outer_path);

/// True if the path has a scan of our indexes in order of a distance to a value of the outer rows, which the worker may
/// answer.
bool ahead_searches(PlannerInfo *root, const Path *path, const RelOptInfo *outer, const RelOptInfo *inner);

} // namespace vectorgpu::am
