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
constexpr double kListCost = 0.6;
constexpr double kStepCost = 5000; // x cpu_operator_cost: a further step: its rows up to the last one are selected anew
constexpr double kGpuUs = 70; // a search by an H200, the request included: 67 to 75 us, 1,000 to 100,000 rows of SIFT

/// The canonical distances of the candidates: a page each at most, from the index or the table.
Cost
refine_cost(const IvfPlan *plan)
{
	return plan->from_table ? fetch_cost(plan->candidates) : plan->candidates * kRefineCost * cpu_tuple_cost;
}

/// The searches of lists, without passes over all rows. passing: the share of rows that meet the conditions. Sets
/// *pages to those that they read. *by_gpu: a worker with a GPU makes them.
Cost
lists_cost(const IndexPath *path, const IvfPlan *plan, double rows, double passing, double *pages, bool *by_gpu)
{
	const double all_pages = Max(static_cast<double>(path->indexinfo->pages), 1.0);
	const double share = plan->n_probes * plan->imbalance / plan->n_lists; // of all rows, over all searches
	// The worker scores the rows of its lists that meet the conditions, a pass over the pages all rows.
	const double scored = passing < 1 && !plan->from_table && worker_is_asked(path) ? passing : 1;
	const double list_rows = plan->n_lists * plan->list_cost; // rows whose scores cost as much as the centroids'
	const double list_cost = kListCost + (1 - kListCost) * Min(share / plan->n_searches, 1.0);
	Cost cost;

	*pages =
		Min(Max(std::ceil(all_pages * (share * scored * plan->scanned_share + list_rows / (rows + list_rows))), 1.0),
			all_pages * plan->n_searches);
	*by_gpu = !plan->of_bits && gpu_search_cost(path, kGpuUs * plan->n_searches, *pages, &cost);
	if (*by_gpu)
		return cost + (plan->from_table ? refine_cost(plan) : 0); // the worker finds the candidates
	return model_cost() + pass_cost(path, *pages * list_cost, (rows * share * scored + list_rows) * list_cost) +
		refine_cost(plan) + kStepCost * cpu_operator_cost * (plan->n_searches - 1);
}

} // namespace

void
ivf_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost, Cost *total_cost,
	Selectivity *selectivity, double *correlation, double *pages)
{
	const double all_pages = Max(static_cast<double>(path->indexinfo->pages), 1.0);
	bool by_gpu = false;
	ScanDemand demand;
	Relation index;
	IvfPlan plan;
	Cost pass_of_all;

	if (common_cost_estimate(root, path, startup_cost, total_cost, selectivity, correlation, pages))
		return;
	demand = scan_demand(root, path);
	index = index_open(path->indexinfo->indexoid, NoLock); // the planner holds a lock
	plan = ivf_plan(index, demand);
	index_close(index, NoLock);
	if (few_cost_estimate(root, path, demand, plan.from_table, startup_cost, total_cost, pages))
		return;
	*startup_cost = 0;
	*pages = all_pages;
	if (plan.n_searches > 0)
		*startup_cost = lists_cost(path, &plan, demand.rows, demand.passing, pages, &by_gpu);
	else
		by_gpu = !plan.of_bits;
	if (plan.from_table || !by_gpu || !gpu_search_cost(path, kGpuUs, all_pages, &pass_of_all))
		pass_of_all = pass_cost(path, all_pages, demand.rows) + (plan.from_table ? fetch_cost(demand.rows) : 0);
	*startup_cost += plan.n_passes * pass_of_all;
	add_run_cost(root, path, demand, pass_of_all, startup_cost, total_cost);
}

} // namespace vectorgpu::am
