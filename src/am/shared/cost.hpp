// Cost estimates of index scans. PG dialect. Called by the planner; reads no page of the index.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "nodes/pathnodes.h"
}

namespace vectorgpu::am
{

/// amcostestimate of an exact access method: the first row costs a pass over the whole index.
void exact_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost, Cost *total_cost,
	Selectivity *selectivity, double *correlation, double *pages);

} // namespace vectorgpu::am
