// The cost of a scan of gpugraph: the rows that a search of the first round scores, here and there in the index. PG dialect.
#include "am/gpugraph/graph.hpp"

#include "am/shared/cost.hpp"
#include "engine/graph/search.hpp"

#include <cmath>

extern "C"
{
#include "access/genam.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr double kNewNeighbors = 0.6; // of a row's neighbours, that a search has not met before
constexpr double kRowCost = 4;        // x cpu_tuple_cost: reading and scoring a vector out of order
constexpr double kPassesOfAll = 3;    // exact passes of a scan that returns every row: batches grow by 16

} // namespace

void
graph_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost, Cost *total_cost,
	Selectivity *selectivity, double *correlation, double *pages)
{
	const double rows = Max(path->indexinfo->tuples, 1.0);
	const double all_pages = Max(static_cast<double>(path->indexinfo->pages), 1.0);
	const double width = graph_width(nullptr, 1, 0);
	Relation index;
	double degree;
	double scored;

	if (common_cost_estimate(path, startup_cost, total_cost, selectivity, correlation, pages))
		return;
	index = index_open(path->indexinfo->indexoid, NoLock); // the planner holds a lock
	degree = graph_plan_degree(index);
	index_close(index, NoLock);
	scored = width * degree * kNewNeighbors;
	if (engine::graph::looks_at_all(width, rows))
		*startup_cost = pass_cost(path, all_pages, rows);
	else
	{
		*pages = Min(scored, all_pages);
		*startup_cost = pass_cost(path, 0, std::sqrt(rows)) + scored * kRowCost * cpu_tuple_cost;
	}
	*total_cost = *startup_cost + kPassesOfAll * pass_cost(path, all_pages, rows) + fetch_cost(rows);
}

} // namespace vectorgpu::am
