// Cost estimates of index scans. PG dialect. Called by the planner; reads no page of the index, except that an access
// method's own estimate may (meta_read_for_plan).
#pragma once

#include "am/method/scan_demand.hpp"
#include "storage/metapage.hpp"

extern "C"
{
#include "nodes/pathnodes.h"
}

namespace vectorgpu::am
{

/// amcostestimate of an exact access method: the first row costs a pass over the whole index. Also of indexes over
/// sparsevec (AccessMethod::sparse).
void exact_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost, Cost *total_cost,
	Selectivity *selectivity, double *correlation, double *pages);

/// True for an index whose operator class is of sparsevec.
bool path_is_sparse(const IndexPath *path);

/// For an amcostestimate: estimates scans that cost the same with every access method (in TID order), or that none can
/// do. False: the scan is ordered by a distance; everything but the two costs is set.
bool common_cost_estimate(PlannerInfo *root, IndexPath *path, Cost *startup_cost, Cost *total_cost,
	Selectivity *selectivity, double *correlation, double *pages);

/// The cost of testing the codes of all rows for the path's conditions on key columns behind the first.
Cost codes_cost(const IndexPath *path);

/// The costs of comparing one by one the rows that meet conditions on key columns. False: there are none, or they pass
/// more than few rows of an approximate access method (kFewOfApproximate). from_table: distances come from the table,
/// so that no worker compares. *pages: of the index on entry.
bool few_cost_estimate(PlannerInfo *root, const IndexPath *path, const ScanDemand &demand, bool from_table,
	Cost *startup_cost, Cost *total_cost, double *pages);

/// The cost of reading a row's vector by itself and scoring it: from the pages of the index, or in the memory of a
/// worker without a GPU.
Cost few_row_cost(const IndexOptInfo *index, bool by_worker);

/// For an approximate access method: *startup_cost is that of the searches for the demand. Where the scan is exact from
/// its first row on, that of passes over all rows takes its place. Adds the cost of codes and of rows that do not pass,
/// and sets *total_cost.
void add_run_cost(PlannerInfo *root, const IndexPath *path, const ScanDemand &demand, Cost pass_of_all,
	Cost *startup_cost, Cost *total_cost);

/// The candidates for this target, over those for 0.95.
double recall_factor(double recall_target);

/// True if a worker is expected to be asked by scans of this index.
bool worker_is_asked(const IndexPath *path);

/// The same of a worker without a GPU.
bool cpu_worker_is_asked(const IndexPath *path);

/// True if a worker on a GPU is expected to answer scans of this index. Then *cost is that of a batch of rows, from the
/// time of request and search (µs, one client), the index's pages that the search reads, and the codes that it tests.
bool gpu_search_cost(const IndexPath *path, double search_us, double pages, Cost *cost);

/// Time of an exact search of one client by a worker on a GPU, the request included, in µs; pages: of its rows in the
/// index.
double gpu_exact_us(double pages);

/// meta_read for the planner, palloc'd. Null where index scans are turned off: then no page may be read, since the
/// index may be damaged. *largest: the segment with the most rows, null if none has any.
MetaData *meta_read_for_plan(Relation index, const SegmentEntry **largest);

/// The cost of beginning a scan and scoring `rows` rows on `pages` pages of the index.
Cost pass_cost(const IndexPath *path, double pages, double rows);

/// The additional cost of beginning a scan of an approximate access method.
Cost model_cost();

/// The cost of returning rows, without the heap fetches, which core adds.
Cost return_cost(double rows);

/// The cost of reading the vectors of rows from the table, out of order.
Cost fetch_cost(double rows);

} // namespace vectorgpu::am
