// The cost of a scan of gpugraph: the rows that a search of the first round scores, scattered over the index. PG
// dialect.
#include "am/gpugraph/graph.hpp"

#include "am/method/cost.hpp"
#include "am/scan/batch_plan.hpp"
#include "storage/page.hpp"
#include "engine/graph/gpu_times.hpp"
#include "engine/graph/passing_width.hpp"

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

constexpr double kNewNeighbors = 0.6; // share of a row's neighbours that a search has not met before
constexpr double kWayWidth = 12;      // added width for the rows that a search meets on its way: 425 rows
									  // at width 10, 950 at 28, 1,990 at 100
// x cpu_operator_cost: the beginning of a search beside its model, from scattered rows: in 1,000 rows it takes 4 to 57
// us more than by lists, which cost about as much without this.
constexpr double kWayCost = 3200;
constexpr double kRowCost =
	6; // x cpu_tuple_cost: reading and scoring a vector out of order, in an index of kSmallPages,
constexpr double kCodeCost = 0.55;  // comparing a code, as a share of that: SIFT, 100,000 rows, 64 to 256 bits
constexpr double kSmallPages = 768; // above this more, as the processor's caches hold less of the rows
constexpr double kLargePages = 131072;
constexpr double kMorePages = 0.4;
constexpr double kGpuWayUs = 40;       // from a backend to the GPU's engine and back
constexpr double kGpuMoreUs = 4;       // added to an exact search of gpuflat: gpugraph reads the width first
constexpr double kGpuCodesUs = 60;     // a narrow search by codes of 10,000 rows by an H200, the request included;
constexpr double kGpuCodesWidthUs = 1; // added for each row of its width, and
constexpr double kGpuCodesWidth =
	3000; // at this width a search takes twice as long for each: 0.11 ms at 64, 0.6 at 512, 3.4 at 2,048, 9 at 4,096;
constexpr double kGpuDecadeUs = 15; // added for ten times as many rows

Cost
row_cost(double pages)
{
	return kRowCost * cpu_tuple_cost * std::pow(Max(Min(pages, kLargePages) / kSmallPages, 1.0), kMorePages);
}

/// A search by codes on a GPU, the request included, in us.
double
gpu_codes_us(double width, double rows)
{
	return kGpuCodesUs + width * kGpuCodesWidthUs * (1 + width / kGpuCodesWidth) +
		kGpuDecadeUs * Max(std::log10(rows / 1e4), 0.0);
}

/// The index's pages that gpuflat would have as well: without the edges.
double
flat_pages(double pages, double rows, double degree)
{
	return Max(pages - rows * degree * sizeof(uint32) / kPayloadBytes, 1.0);
}

/// A search by the processor.
Cost
search_cost(double width, double scored, uint32 code_bits, double pages)
{
	// A search by codes scores the rows found, as many as its width, by their vectors.
	return (code_bits == 0 ? scored : scored * kCodeCost + width) * row_cost(pages);
}

/// The values that all steps of a scan share.
struct StepCosts
{
	IndexPath *path;
	ScanDemand demand;
	GraphPlan plan;
	double all_pages;
	double degree;
	uint32 code_bits;
	double code_bytes; // of a row
	Cost pass_of_all;  // on a GPU, if a GPU answers
};

/// A look at all entry points.
Cost
entries_cost(const StepCosts &costs)
{
	const double n = Min(costs.plan.n_entries, costs.demand.rows);
	const double pages = costs.code_bits > 0
		? n * costs.code_bytes / kPayloadBytes
		: flat_pages(costs.all_pages, costs.demand.rows, costs.degree) * n / costs.demand.rows;

	return pass_cost(costs.path, pages, n);
}

/// One step of ranks, by a search of this width. *looks_at_all: it is a look at all rows. Adds the pages read to
/// *pages.
Cost
step_cost(StepCosts *costs, double width, bool *looks_at_all, double *pages)
{
	const double rows = costs->demand.rows;
	const double exact_pages = flat_pages(costs->all_pages, rows, costs->degree);
	const double scored = (width + kWayWidth) * costs->degree * kNewNeighbors;
	const bool hashed = costs->code_bits > 0;
	const double gpu_us = hashed ? gpu_codes_us(width, rows)
								 : kGpuWayUs +
			engine::graph::gpu_graph_us(
				width, exact_pages * kPayloadBytes / rows / sizeof(float), costs->plan.n_entries);
	double read;
	Cost cost;

	*looks_at_all =
		!costs->plan.reaches || graph_looks_at_all(width, rows, costs->plan.rows_per_width, costs->plan.n_entries);
	read = *looks_at_all ? costs->all_pages : Min(scored, costs->all_pages);
	*pages += read;
	// With codes the processor looks at all rows, also beside a GPU, which has no vectors.
	if (!(hashed && *looks_at_all) && gpu_search_cost(costs->path, gpu_us, hashed ? read : 0, &cost))
	{
		if (hashed)
			return cost;
		// The engine there takes the shorter way.
		(void) gpu_search_cost(costs->path, gpu_exact_us(0) + kGpuMoreUs, exact_pages, &costs->pass_of_all);
		return *looks_at_all ? costs->pass_of_all : Min(cost, costs->pass_of_all);
	}
	return *looks_at_all
		? costs->pass_of_all
		: kWayCost * cpu_operator_cost + search_cost(width, scored, costs->code_bits, costs->all_pages);
}

/// The searches for the demand. Adds the pages read to *pages.
Cost
steps_cost(StepCosts *costs, double *pages)
{
	const GraphPlan &plan = costs->plan;
	Cost unused;
	Cost sum = gpu_search_cost(costs->path, 0, 0, &unused) ? 0 : model_cost() + entries_cost(*costs);
	bool looks_at_all = false;

	for (uint32 i = 0; i < plan.n_steps && !looks_at_all; i++)
	{
		const Cost cost = step_cost(costs, plan.widths[i], &looks_at_all, pages);

		if (looks_at_all) // the order is exact from then on
			return (i > 0 ? sum : 0) +
				costs->pass_of_all * (1 + batch_plan_exact_batches(costs->demand, plan.ends[i], plan.ends[i]));
		sum += cost;
	}
	return sum;
}

} // namespace

void
graph_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost, Cost *total_cost,
	Selectivity *selectivity, double *correlation, double *pages)
{
	StepCosts costs = {.path = path, .all_pages = Max(static_cast<double>(path->indexinfo->pages), 1.0)};
	bool by_worker;
	Relation index;

	if (common_cost_estimate(root, path, startup_cost, total_cost, selectivity, correlation, pages))
		return;
	costs.demand = scan_demand(root, path);
	if (few_cost_estimate(root, path, costs.demand, false, startup_cost, total_cost, pages))
		return;
	by_worker = costs.demand.passing < 1 && cpu_worker_is_asked(path);
	index = index_open(path->indexinfo->indexoid, NoLock); // the planner holds a lock
	costs.degree = graph_plan_degree(index);
	costs.code_bits = graph_plan_code_bits(index);
	costs.code_bytes = static_cast<double>(engine::graph::code_bytes(
		costs.code_bits, static_cast<uint32>(Max(TupleDescAttr(RelationGetDescr(index), 0)->atttypmod, 1))));
	// A search of the worker passes over rows that do not meet the conditions.
	costs.plan = graph_plan(
		index, costs.demand, by_worker ? engine::graph::wider(costs.demand.passing) : 1 / costs.demand.passing);
	index_close(index, NoLock);
	costs.pass_of_all = pass_cost(path, costs.all_pages, costs.demand.rows);
	if (by_worker) // which scores no rows that do not meet the conditions
		costs.pass_of_all =
			Min(costs.pass_of_all, costs.demand.rows * costs.demand.passing * few_row_cost(path->indexinfo, true));
	*pages = 0;
	*startup_cost = steps_cost(&costs, pages);
	*pages = Min(*pages, costs.all_pages);
	add_run_cost(root, path, costs.demand, costs.pass_of_all, startup_cost, total_cost);
}

} // namespace vectorgpu::am
