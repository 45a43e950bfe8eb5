// The cost of a scan of gpuivf: the centroids and the lists that the first round looks at. PG dialect.
#include "am/gpuivf/ivf.hpp"

#include "am/shared/cost.hpp"

#include <cmath>

extern "C"
{
#include "access/genam.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr double kPassesOfAll = 3; // exact passes of a scan that returns every row: batches grow by 16

} // namespace

void
ivf_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost, Cost *total_cost,
	Selectivity *selectivity, double *correlation, double *pages)
{
	const double rows = Max(path->indexinfo->tuples, 1.0);
	const double all_pages = Max(static_cast<double>(path->indexinfo->pages), 1.0);
	Relation index;
	double n_lists;
	double n_probes;
	double share;

	if (common_cost_estimate(path, startup_cost, total_cost, selectivity, correlation, pages))
		return;
	index = index_open(path->indexinfo->indexoid, NoLock); // the planner holds a lock
	ivf_plan_probes(index, rows, &n_lists, &n_probes);
	index_close(index, NoLock);
	share = n_probes / n_lists;
	*pages = Max(std::ceil(all_pages * (share + n_lists / (rows + n_lists))), 1.0);
	*startup_cost = pass_cost(path, *pages, rows * share + n_lists);
	*total_cost = *startup_cost + kPassesOfAll * pass_cost(path, all_pages, rows) + fetch_cost(rows);
}

} // namespace vectorgpu::am
