// The cost of a scan of gpumatch, from the index's size. PG dialect. Called by the planner; reads no page of the index.
#include "am/gpumatch/gpumatch.hpp"

#include "am/shared/cost.hpp"

extern "C"
{
#include "nodes/pathnodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "utils/selfuncs.h"
}

namespace vectorgpu::am
{

namespace
{

// Values, keys and dictionary are about half of an index and not read; of the lists those that the query names. Without a look
// at the query: a quarter of all pages. Counters are compared for each row all the same.
constexpr double kPagesRead = 0.25;
constexpr double kFirstRows = 100; // of a batch, see scan.cpp
constexpr double kBatchGrowth = 16;

/// Passes over the lists that return so many rows.
double
passes_for(double rows)
{
	double passes = 1;

	for (double batch = kFirstRows; batch < rows; batch *= kBatchGrowth)
		passes++;
	return passes;
}

} // namespace

void
match_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost, Cost *total_cost,
	Selectivity *selectivity, double *correlation, double *pages)
{
	const double rows = Max(path->indexinfo->tuples, 1.0);
	Cost pass;

	if (path->indexclauses == NIL)
	{
		if (common_cost_estimate(path, startup_cost, total_cost, selectivity, correlation, pages))
			return;
		pass = pass_cost(path, *pages * kPagesRead, rows);
		*startup_cost = pass;
		*total_cost = pass * passes_for(rows) + fetch_cost(rows);
		return;
	}
	*selectivity = clauselist_selectivity(root, get_quals_from_indexclauses(path->indexclauses),
		static_cast<int>(path->indexinfo->rel->relid), JOIN_INNER, nullptr);
	*correlation = 0;
	*pages = Max(static_cast<double>(path->indexinfo->pages) * kPagesRead, 1.0);
	pass = pass_cost(path, *pages, rows);
	*startup_cost = pass;
	*total_cost = pass * passes_for(rows * *selectivity) + rows * *selectivity * cpu_index_tuple_cost;
	if (path->path.pathtype == T_IndexOnlyScan || list_length(path->indexorderbys) > 1)
		*startup_cost = *total_cost = disable_cost * 1e10;
	else if (path->indexorderbys != NIL)
		*total_cost += fetch_cost(rows); // ordered, and each row looked at again
}

} // namespace vectorgpu::am
