// What follows from another number of rows that meet a table's conditions. Core has computed it, and the table's paths,
// before any hook is called. PG dialect. Used by the files of this folder.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "nodes/pathnodes.h"
}

namespace vectorgpu::am
{

/// Compute the table's rows by the selectivities that its conditions have now (RestrictInfo::norm_selec), those of its
/// paths, and the costs of paths in order of a distance.
void size_anew(PlannerInfo *root, RelOptInfo *rel);

/// Compute the costs of core's paths without parameters anew, those of bitmaps included, and offer the sequential scan
/// again, which may have lost against one of them.
void cost_anew(PlannerInfo *root, RelOptInfo *rel);

} // namespace vectorgpu::am
