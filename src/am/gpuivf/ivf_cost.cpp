// The cost of a scan of gpuivf: the centroids and the lists that the first round looks at. PG dialect.
#include "am/gpuivf/ivf.hpp"

#include "am/method/cost.hpp"

#include <cmath>

extern "C"
{
#include "access/genam.h"
#include "optimizer/optimizer.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr double kRefineCost = 4; // x cpu_tuple_cost: reading a candidate's vector out of order
// The cost of rows of a few lists, over that of as many rows of a pass: they more often lie in the processor's caches;
// the more rows, the less so. SIFT, 100,000 rows in memory: 0.19 ms for the 6,800 rows of 20 lists and of the
// centroids, 0.89 for the 19,200 of LIMIT 1000, which are also selected from, and 5.6 for a pass. Clusters: 0.045 ms
// for 800 rows.
constexpr double kListCost = 0.45;
constexpr double kPassesOfAll = 3; // exact passes of a scan that returns every row: batches grow by 16
constexpr double kGpuUs = 70; // a search by an H200, the request included: 67 to 75 us, 1,000 to 100,000 rows of SIFT

/// The canonical distances of the candidates: a page each at most, from the index or the table.
Cost
refine_cost(const IvfPlan *plan, double rows)
{
	const double candidates = Min(plan->candidates, rows);

	return plan->from_table ? fetch_cost(candidates) : candidates * kRefineCost * cpu_tuple_cost;
}

} // namespace

void
ivf_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost, Cost *total_cost,
	Selectivity *selectivity, double *correlation, double *pages)
{
	const double rows = Max(path->indexinfo->tuples, 1.0);
	const double all_pages = Max(static_cast<double>(path->indexinfo->pages), 1.0);
	Relation index;
	IvfPlan plan;
	Cost pass_of_all;
	double share;
	double list_rows; // rows whose scores cost as much as the centroids'
	double list_cost;
	bool by_gpu;

	if (common_cost_estimate(path, startup_cost, total_cost, selectivity, correlation, pages))
		return;
	index = index_open(path->indexinfo->indexoid, NoLock); // the planner holds a lock
	plan = ivf_plan(index, rows, wanted_rows(root, rows));
	index_close(index, NoLock);
	share = Min(plan.n_probes * plan.imbalance / plan.n_lists, plan.n_searches);
	list_rows = plan.n_lists * plan.list_cost;
	*pages = Min(Max(std::ceil(all_pages * (share * plan.scanned_share + list_rows / (rows + list_rows))), 1.0),
		all_pages * plan.n_searches);
	by_gpu = !plan.of_bits && gpu_search_cost(path, kGpuUs * plan.n_searches, *pages, startup_cost);
	list_cost = kListCost + (1 - kListCost) * Min(share / plan.n_searches, 1.0);
	if (!by_gpu)
		*startup_cost = model_cost() + pass_cost(path, *pages * list_cost, (rows * share + list_rows) * list_cost) +
			refine_cost(&plan, rows);
	else if (plan.from_table)
		*startup_cost += refine_cost(&plan, rows); // the worker finds the candidates
	if (plan.from_table || !by_gpu || !gpu_search_cost(path, kGpuUs, all_pages, &pass_of_all))
		pass_of_all = pass_cost(path, all_pages, rows) + (plan.from_table ? fetch_cost(rows) : 0);
	if (every_row_wanted(root))
		*startup_cost = pass_of_all;
	*total_cost = *startup_cost + kPassesOfAll * pass_of_all + fetch_cost(rows);
}

} // namespace vectorgpu::am
