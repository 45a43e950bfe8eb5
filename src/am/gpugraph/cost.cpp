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
constexpr double kRowCost = 4;        // x cpu_tuple_cost: reading and scoring a vector out of order, in an index of kSmallPages,
constexpr double kSmallPages = 768;   // and in larger ones more, as less of what a search meets is in the processor's caches
constexpr double kLargePages = 131072;
constexpr double kMorePages = 0.4;
constexpr double kGpuUs = 60;         // a narrow search of 10,000 rows by an H200, the way included;
constexpr double kGpuWidthUs = 1;     // more for each row that it keeps in mind,
constexpr double kGpuDecadeUs = 15;   // and for ten times as many rows
constexpr double kPassesOfAll = 3;    // exact passes of a scan that returns every row: batches grow by 16

Cost
row_cost(double pages)
{
	return kRowCost * cpu_tuple_cost * std::pow(Max(Min(pages, kLargePages) / kSmallPages, 1.0), kMorePages);
}

} // namespace

void
graph_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost, Cost *total_cost,
	Selectivity *selectivity, double *correlation, double *pages)
{
	const double rows = Max(path->indexinfo->tuples, 1.0);
	const double all_pages = Max(static_cast<double>(path->indexinfo->pages), 1.0);
	double width;
	double gpu_us;
	uint32 hash_bits;
	Relation index;
	Cost pass_of_all;
	double degree;
	double scored;

	if (common_cost_estimate(path, startup_cost, total_cost, selectivity, correlation, pages))
		return;
	index = index_open(path->indexinfo->indexoid, NoLock); // the planner holds a lock
	degree = graph_plan_degree(index);
	hash_bits = graph_plan_hash_bits(index);
	index_close(index, NoLock);
	width = graph_plan_width(wanted_rows(root, rows), hash_bits);
	gpu_us = kGpuUs + width * kGpuWidthUs + kGpuDecadeUs * Max(std::log10(rows / 1e4), 0.0);
	scored = width * degree * kNewNeighbors;
	if (!engine::graph::looks_at_all(width, rows))
		*pages = Min(scored, all_pages);
	// What searches by codes take with a GPU has not been measured: they count as the processor's.
	if (hash_bits > 0 || !gpu_search_cost(path, gpu_us, *pages, startup_cost) || !gpu_search_cost(path, gpu_us, all_pages, &pass_of_all))
	{
		pass_of_all = pass_cost(path, all_pages, rows);
		*startup_cost = engine::graph::looks_at_all(width, rows) ? pass_of_all
			: pass_cost(path, 0, std::sqrt(rows)) + scored * row_cost(all_pages);
	}
	*total_cost = *startup_cost + kPassesOfAll * pass_of_all + fetch_cost(rows);
}

} // namespace vectorgpu::am
