// The cost of a scan of gpugraph: the rows that a search of the first round scores, here and there in the index. PG dialect.
#include "am/gpugraph/graph.hpp"

#include "am/shared/cost.hpp"
#include "am/shared/page.hpp"
#include "engine/graph/gpu_times.hpp"

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
constexpr double kWayWidth = 12;      // a search meets as many rows more as if it were so much wider, on its way there: 425 at width 10, 950 at 28, 1,990 at 100
// x cpu_operator_cost: what a search begins with beside its model, from rows here and there: of 1,000 rows one takes 4 to 57 us more than by lists, which cost about as much without this.
constexpr double kWayCost = 3200;
constexpr double kRowCost = 4;        // x cpu_tuple_cost: reading and scoring a vector out of order, in an index of kSmallPages,
constexpr double kCodeCost = 0.55;    // comparing a code instead, as a share of that: SIFT, 100,000 rows, 64 to 256 bits
constexpr double kSmallPages = 768;   // and in larger ones more, as less of what a search meets is in the processor's caches
constexpr double kLargePages = 131072;
constexpr double kMorePages = 0.4;
constexpr double kGpuWayUs = 40;      // from a backend to the GPU's engine and back
constexpr double kGpuMoreUs = 4;      // than an exact search by gpuflat takes one by gpugraph: it has read how wide it may be
constexpr double kGpuCodesUs = 60;    // a narrow search by codes of 10,000 rows by an H200, the way included;
constexpr double kGpuCodesWidthUs = 1;   // more for each row that it keeps in mind, and
constexpr double kGpuCodesWidth = 3000;  // so wide a search takes twice as long for each: 0.11 ms at 64, 0.6 at 512, 3.4 at 2,048, 9 at 4,096;
constexpr double kGpuDecadeUs = 15;      // and for ten times as many rows
constexpr double kPassesOfAll = 3;    // exact passes of a scan that returns every row: batches grow by 16

Cost
row_cost(double pages)
{
	return kRowCost * cpu_tuple_cost * std::pow(Max(Min(pages, kLargePages) / kSmallPages, 1.0), kMorePages);
}

/// By codes, by a GPU, the way included.
double
gpu_codes_us(double width, double rows)
{
	return kGpuCodesUs + width * kGpuCodesWidthUs * (1 + width / kGpuCodesWidth) + kGpuDecadeUs * Max(std::log10(rows / 1e4), 0.0);
}

/// Of an index's pages, those that gpuflat has as well: not the edges.
double
flat_pages(double pages, double rows, double degree)
{
	return Max(pages - rows * degree * sizeof(uint32) / kPayloadBytes, 1.0);
}

/// By the processor.
Cost
search_cost(double width, double scored, uint32 hash_bits, double pages)
{
	// By codes what is found, as many rows as the search is wide, is scored by its vectors.
	return (hash_bits == 0 ? scored : scored * kCodeCost + width) * row_cost(pages);
}

} // namespace

void
graph_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost, Cost *total_cost,
	Selectivity *selectivity, double *correlation, double *pages)
{
	const double rows = Max(path->indexinfo->tuples, 1.0);
	const double all_pages = Max(static_cast<double>(path->indexinfo->pages), 1.0);
	GraphPlan plan;
	double gpu_us;
	double exact_pages;
	uint32 hash_bits;
	Relation index;
	Cost pass_of_all;
	double degree;
	double scored;
	bool looks_at_all;
	bool on_gpu;

	if (common_cost_estimate(path, startup_cost, total_cost, selectivity, correlation, pages))
		return;
	index = index_open(path->indexinfo->indexoid, NoLock); // the planner holds a lock
	degree = graph_plan_degree(index);
	hash_bits = graph_plan_hash_bits(index);
	plan = graph_plan(index, wanted_rows(root, rows));
	index_close(index, NoLock);
	exact_pages = flat_pages(all_pages, rows, degree);
	gpu_us = hash_bits > 0 ? gpu_codes_us(plan.width, rows)
						   : kGpuWayUs + engine::graph::gpu_graph_us(plan.width, exact_pages * kPayloadBytes / rows / sizeof(float));
	scored = (plan.width + kWayWidth) * degree * kNewNeighbors;
	looks_at_all = !plan.reaches || graph_looks_at_all(plan.width, rows, hash_bits);
	if (!looks_at_all)
		*pages = Min(scored, all_pages);
	pass_of_all = pass_cost(path, all_pages, rows);
	// By codes the processor looks at all rows, beside a GPU too: that has no vectors.
	on_gpu = !(hash_bits > 0 && looks_at_all) && gpu_search_cost(path, gpu_us, hash_bits > 0 ? *pages : 0, startup_cost);
	if (on_gpu && hash_bits == 0)
	{
		// The engine there takes the shorter way.
		(void) gpu_search_cost(path, gpu_exact_us(0) + kGpuMoreUs, exact_pages, &pass_of_all);
		*startup_cost = looks_at_all ? pass_of_all : Min(*startup_cost, pass_of_all);
	}
	else if (!on_gpu)
		*startup_cost = looks_at_all ? pass_of_all : model_cost() + kWayCost * cpu_operator_cost + pass_cost(path, 0, std::sqrt(rows)) + search_cost(plan.width, scored, hash_bits, all_pages);
	*total_cost = *startup_cost + kPassesOfAll * pass_of_all + fetch_cost(rows);
}

} // namespace vectorgpu::am
