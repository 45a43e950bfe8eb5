// Cost estimates of index scans. PG dialect. Called by the planner; reads no page of the index: what an access method's
// own estimate has to know, that reads (meta_read_for_plan).
#pragma once

#include "storage/metapage.hpp"

extern "C"
{
#include "nodes/pathnodes.h"
}

namespace vectorgpu::am
{

/// amcostestimate of an exact access method: the first row costs a pass over the whole index.
void exact_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost, Cost *total_cost,
	Selectivity *selectivity, double *correlation, double *pages);

/// For an amcostestimate: answers for the scans that cost the same with every access method (in TID order) or that none
/// can do. False: it is a scan ordered by a distance; all but the two costs are set.
bool common_cost_estimate(const IndexPath *path, Cost *startup_cost, Cost *total_cost, Selectivity *selectivity,
	double *correlation, double *pages);

/// Rows that a scan is to return, as far as its query's LIMIT tells: of all `rows`; else those of a first batch.
double wanted_rows(const PlannerInfo *root, double rows);

/// True if no LIMIT ends the query's scans early, so that those of an approximate access method look at all rows from
/// the first on (vectorgpu.scan_order = strict).
bool every_row_wanted(const PlannerInfo *root);

/// How many times the candidates of a recall of 0.95 another target takes.
double recall_factor(double recall_target);

/// True if a worker on a GPU answers scans of this index, as far as can be told before one. Then *cost is that of a
/// batch of rows, from what the way and a search take (in us, one client) and how many of the index's pages the search
/// reads.
bool gpu_search_cost(const IndexPath *path, double search_us, double pages, Cost *cost);

/// What an exact search of one client takes by a worker on a GPU, the way included, in us; pages: that its rows take in
/// the index.
double gpu_exact_us(double pages);

/// meta_read for the planner, which may look at no page where index scans are turned off, from a damaged index say:
/// null then, else palloc'd. *largest: the segment with the most rows, null if none has any.
MetaData *meta_read_for_plan(Relation index, const SegmentEntry **largest);

/// The cost of beginning a scan and scoring so many rows on so many pages of the index.
Cost pass_cost(const IndexPath *path, double pages, double rows);

/// The cost of beginning a scan of an approximate access method, beside what any scan takes.
Cost model_cost();

/// The cost of returning so many rows: a heap fetch out of order each.
Cost fetch_cost(double rows);

} // namespace vectorgpu::am
