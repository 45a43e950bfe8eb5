// The cost of an exact scan in the planner's units, from the index's size alone. See cost.hpp and README.md ("Cost").
#include "am/method/cost.hpp"

#include "am/method/am_interface.hpp"
#include "am/method/distance_clause.hpp"
#include "am/scan/batch_plan.hpp"
#include "am/scan/few_rows.hpp"
#include "storage/page.hpp"
#include "bridge/settings.hpp"
#include "bridge/shared_state.hpp"
#include "engine/distance/topk.hpp"

#include <cmath>

extern "C"
{
#include "catalog/pg_class.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/spccache.h"
}

namespace vectorgpu::am
{

namespace
{

// Measured with test/bench/cost_check.sql, which compares plans with a sequential scan of the same table, cached: cost
// for each millisecond of processor time. All in units of a planner's parameter, so that they follow the machine's
// settings.
constexpr double kScanCost = 3000; // x cpu_operator_cost: beginning a scan: metapage, memory, delta's end
// Added for an approximate access method: its model, and scattered pages. Over 1,000 rows in clusters a search of
// nearly all lists takes 1.5 times as long as gpuflat with 16 clients.
constexpr double kModelCost = 3200; // x cpu_operator_cost
constexpr double kPageCost = 0.6;   // x seq_page_cost: reading, scoring and selecting from a page of vectors
constexpr double kRowCost = 1;      // x cpu_operator_cost: the part of a row's cost that does not depend on its bytes
constexpr double kReturnCost = 5;   // x cpu_tuple_cost: returning a row: sorting; core adds a heap fetch out of order
constexpr double kFetchCost = 40;   // x cpu_tuple_cost: reading a row's vector from the table, out of order
constexpr double kFewCost = 25;     // x cpu_tuple_cost: reading a row's vector from the index by itself and scoring it
constexpr double kFewKbyte = 40;    // x cpu_tuple_cost: added for each kB of the vector
constexpr double kFewByWorker = 10; // x cpu_tuple_cost: instead of both, in the memory of a worker without a GPU
constexpr double kCodeCost = 0.5;   // x cpu_operator_cost: reading a row's code of a key column and testing it
constexpr double kPagesOfRowIds = 8.0 / kPayloadBytes; // pages of a row id

constexpr double kPassesOfAll = 3;   // of an approximate scan that returns every row: batches grow by 16
constexpr double kRecall = 0.95;     // the approximate access methods' default
constexpr double kMissesPower = 0.6; // SIFT, gpuivf and gpugraph: for a fifth of the misses 2.6 times the candidates
constexpr double kCostPerUs = 240;   // x cpu_operator_cost, a cached sequential scan costs 0.6 a µs
constexpr double kGpuExactUs = 75;   // an exact search by an H200, the request included,
constexpr double kGpuCodes = 0.2;    // of codes_cost: the worker tests codes with wide registers, or has kept the rows
constexpr double kGpuPagesPerUs =
	1600; // and the bytes it reads: most rows are narrower there, and several searches share a read
// Estimates, of sparse vectors: the GPU bounds each row, its elements read at .5 TB/s, since each is looked up in a
// hash table, and the bounds are read back and compared by the host.
constexpr double kGpuSparsePagesPerUs = 60;
constexpr double kGpuSparseRowUs = 0.001;
constexpr double kLeastWorkerPages =
	128; // the worker answers smaller indexes only where vectorgpu.worker_min_size was lowered for tests

/// Passes over the index that return all rows: batches grow until they fill work_mem (scan.cpp).
double
passes_for(double rows, double first)
{
	const double most = static_cast<double>(work_mem) * 1024 / (2 * sizeof(engine::Neighbor));
	double batch = first;
	double passes = 0;

	while (rows > 0 && batch < most)
	{
		rows -= batch;
		batch *= 16;
		passes++;
	}
	return Max(passes + (rows > 0 ? std::ceil(rows / most) : 0), 1.0);
}

/// The number of the path's conditions on key columns behind the first; each part of OR and the like counts.
int
conditions_on_keys(const IndexPath *path)
{
	int n = 0;
	ListCell *cell;

	foreach (cell, path->indexclauses)
		if (lfirst_node(IndexClause, cell)->indexcol > 0)
			n += list_length(lfirst_node(IndexClause, cell)->indexquals);
	return n;
}

/// True if conditions on key columns, or other indexes, say which rows pass.
bool
has_conditions(const IndexPath *path)
{
	ListCell *cell;

	foreach (cell, path->indexclauses)
		if (lfirst_node(IndexClause, cell)->indexcol > 0)
			return true;
	return false;
}

/// The scans that core makes for lists of values: one for each value.
double
scans_of_lists(PlannerInfo *root, const IndexPath *path)
{
	double n = 1;
	ListCell *cell;

	foreach (cell, path->indexclauses)
	{
		const Expr *clause = lfirst_node(IndexClause, cell)->rinfo->clause;

		if (IsA(clause, ScalarArrayOpExpr))
			n *= Max(pg::array_length(
						 root, static_cast<Node *>(lsecond(reinterpret_cast<const ScalarArrayOpExpr *>(clause)->args))),
				1.0);
	}
	return n;
}

/// The searches of a scan of an approximate access method that compares one by one the rows that meet conditions. They
/// are exact: the first asks for all that the LIMIT wants, or for those of a first step where the LIMIT is not known,
/// or the executor drops rows.
double
few_searches(const PlannerInfo *root, const ScanDemand &demand)
{
	const double first_step = static_cast<double>(batch_plan_step_end(0));

	if (demand.exact || (root->limit_tuples > 0 && demand.share >= 1))
		return batch_plan_exact_batches(demand, 0, 0);
	return 1 + batch_plan_exact_batches(demand, first_step, first_step);
}

/// True if the worker compares, in its own memory, the rows that meet conditions.
bool
worker_compares(const IndexPath *path, const ScanDemand &demand)
{
	ListCell *cell;

	if (!cpu_worker_is_asked(path))
		return false;
	foreach (cell, path->indexclauses)
		if (lfirst_node(IndexClause, cell)->indexcol > 0 && lfirst_node(IndexClause, cell)->indexquals == NIL)
			return demand.rows * demand.passing <= kMostGivenRows; // a bitmap's
	return true;
}

/// Beginning a scan that compares one by one the rows that meet conditions on key columns, and comparing them in each
/// of its searches.
Cost
few_cost(const IndexPath *path, const ScanDemand &demand, double n_searches, bool by_worker)
{
	const double rows = Max(demand.rows * demand.passing, 1.0);

	return cpu_operator_cost * kScanCost + codes_cost(path) +
		rows * few_row_cost(path->indexinfo, by_worker) * n_searches;
}

/// gpu_search_cost of an exact search of all rows.
bool
gpu_exact_cost(const IndexPath *path, double pages, double rows, Cost *cost)
{
	if (path_is_sparse(path))
		return gpu_search_cost(path, kGpuExactUs + pages / kGpuSparsePagesPerUs + rows * kGpuSparseRowUs, 0, cost);
	return gpu_search_cost(path, kGpuExactUs, pages, cost);
}

} // namespace

bool
path_is_sparse(const IndexPath *path)
{
	const IndexOptInfo *index = path->indexinfo;
	const Oid shape = get_opfamily_proc(index->opfamily[0], index->opcintype[0], index->opcintype[0], kShapeSupport);

	return OidIsValid(shape) && shape_element(DatumGetInt32(OidFunctionCall0(shape))) == ElementType::kSet;
}

bool
common_cost_estimate(PlannerInfo *root, IndexPath *path, Cost *startup_cost, Cost *total_cost, Selectivity *selectivity,
	double *correlation, double *pages)
{
	const IndexOptInfo *index = path->indexinfo;
	double seq_page = 0;

	// The index's share of the table: below 1 for a partial index.
	*selectivity = index->rel->tuples > index->tuples ? Max(index->tuples, 1.0) / index->rel->tuples : 1;
	*selectivity *= conditions_share(root, path);
	*correlation = 0;
	*pages = Max(static_cast<double>(index->pages), 1.0);
	// Core asks for an index-only scan where no column is needed (count(*)). The index returns no tuples, and without
	// pins it could not trust the visibility map: a row may have been removed, and its page found all-visible, since it
	// was read. And a scan orders by one distance: only ORDER BY v <-> a, v <-> b would use two.
	if (path->path.pathtype == T_IndexOnlyScan || list_length(path->indexorderbys) > 1)
	{
		pg::forbid_path(path, startup_cost, total_cost);
		return true;
	}
	if (path->indexorderbys != NIL)
	{
		*selectivity *= share_within_bound(root, path);
		return false;
	}
	// Row ids alone, in the order of the table. Each that passes costs what one costs in a btree.
	get_tablespace_page_costs(index->reltablespace, nullptr, &seq_page);
	*startup_cost = 0;
	*pages = Max(std::ceil(Max(index->tuples, 1.0) * kPagesOfRowIds), 1.0);
	*total_cost = scans_of_lists(root, path) *
			(cpu_operator_cost * kScanCost + *pages * seq_page + Max(index->tuples, 1.0) * cpu_operator_cost +
				codes_cost(path)) +
		*selectivity * index->rel->tuples * cpu_index_tuple_cost;
	*correlation = 1;
	return true;
}

Cost
codes_cost(const IndexPath *path)
{
	return conditions_on_keys(path) * Max(path->indexinfo->tuples, 1.0) * cpu_operator_cost * kCodeCost;
}

bool
few_cost_estimate(PlannerInfo *root, const IndexPath *path, const ScanDemand &demand, bool from_table,
	Cost *startup_cost, Cost *total_cost, double *pages)
{
	ScanDemand few = demand; // of no more rows than meet the conditions
	Cost by_gpu;

	few.rows = Max(demand.rows * demand.passing, 1.0);
	if (demand.passing * kFewOfApproximate > 1 || !has_conditions(path))
		return false;
	*startup_cost = few_cost(path, demand, few_searches(root, demand), !from_table && worker_compares(path, demand));
	if (!from_table && gpu_search_cost(path, kGpuExactUs, 0, &by_gpu))
		*startup_cost = Min(*startup_cost, by_gpu * few_searches(root, demand));
	*startup_cost += visit_cost(root, path, few);
	*total_cost = *startup_cost + return_cost(few.rows * demand.within);
	*pages = Min(*pages, few.rows);
	return true;
}

Cost
few_row_cost(const IndexOptInfo *index, bool by_worker)
{
	const double kbytes = index->pages * (BLCKSZ / 1024.0) / Max(index->tuples, 1.0);

	return cpu_tuple_cost * (by_worker ? kFewByWorker : kFewCost + kFewKbyte * kbytes);
}

Cost
pass_cost(const IndexPath *path, double pages, double rows)
{
	double seq_page = 0;

	get_tablespace_page_costs(path->indexinfo->reltablespace, nullptr, &seq_page);
	return cpu_operator_cost * kScanCost + pages * seq_page * kPageCost + rows * cpu_operator_cost * kRowCost;
}

Cost
return_cost(double rows)
{
	return rows * cpu_tuple_cost * kReturnCost;
}

Cost
fetch_cost(double rows)
{
	return rows * cpu_tuple_cost * kFetchCost;
}

void
add_run_cost(PlannerInfo *root, const IndexPath *path, const ScanDemand &demand, Cost pass_of_all, Cost *startup_cost,
	Cost *total_cost)
{
	const double rows = Max(demand.rows * demand.passing * demand.within, 1.0);
	Cost by_gpu;

	if (demand.exact)
		*startup_cost = pass_of_all * batch_plan_exact_batches(demand, 0, 0);
	if (!gpu_search_cost(path, 0, 0, &by_gpu)) // which has it
		*startup_cost += codes_cost(path);
	*startup_cost += visit_cost(root, path, demand);
	*total_cost = *startup_cost + kPassesOfAll * pass_of_all * Max(1 - demand.visited / rows, 0.0) + return_cost(rows);
}

double
recall_factor(double recall_target)
{
	return std::pow((1 - kRecall) / Max(1 - recall_target, 1e-4), kMissesPower);
}

bool
worker_is_asked(const IndexPath *path)
{
	const IndexOptInfo *index = path->indexinfo;
	const double kbytes = static_cast<double>(index->pages) * (BLCKSZ / 1024);

	return !index->hypothetical && index->pages >= kLeastWorkerPages && kbytes >= bridge::settings.worker_min_size_kb &&
		kbytes <= 1024.0 * bridge::settings.worker_memory_mb && bridge::worker_answers_scans() &&
		get_rel_persistence(index->indexoid) != RELPERSISTENCE_TEMP;
}

bool
cpu_worker_is_asked(const IndexPath *path)
{
	return !bridge::worker_on_gpu() && worker_is_asked(path);
}

bool
gpu_search_cost(const IndexPath *path, double search_us, double pages, Cost *cost)
{
	if (!bridge::worker_on_gpu() || !worker_is_asked(path))
		return false;
	*cost = (search_us + pages / kGpuPagesPerUs) * kCostPerUs * cpu_operator_cost + kGpuCodes * codes_cost(path);
	return true;
}

double
gpu_exact_us(double pages)
{
	return kGpuExactUs + pages / kGpuPagesPerUs;
}

void
exact_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost, Cost *total_cost,
	Selectivity *selectivity, double *correlation, double *pages)
{
	ScanDemand demand;
	Cost pass;
	double n_passes;
	double rows;
	Cost few;

	if (common_cost_estimate(root, path, startup_cost, total_cost, selectivity, correlation, pages))
		return;
	demand = scan_demand(root, path);
	rows = Max(demand.rows * demand.passing * demand.within, 1.0);
	if (!gpu_exact_cost(path, *pages, demand.rows, &pass))
		pass = pass_cost(path, *pages, demand.rows) + codes_cost(path);
	n_passes = batch_plan_exact_batches(demand, 0, 0);
	few = few_cost(path, demand, n_passes, worker_compares(path, demand));
	if (has_conditions(path) && few < pass * n_passes)
	{
		*startup_cost = few + visit_cost(root, path, demand);
		*total_cost = *startup_cost + return_cost(rows);
		return;
	}
	*startup_cost = pass * n_passes + visit_cost(root, path, demand);
	*total_cost = *startup_cost + pass * Max(passes_for(rows, demand.visited) - n_passes, 0.0) + return_cost(rows);
}

MetaData *
meta_read_for_plan(Relation index, const SegmentEntry **largest)
{
	MetaData *meta;

	*largest = nullptr;
	if (!enable_indexscan)
		return nullptr;
	meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	meta_read(index, nullptr, meta);
	for (uint32 i = 0; i < meta->n_segments; i++)
		if (meta->segments[i].n_rows > (*largest != nullptr ? (*largest)->n_rows : 0))
			*largest = &meta->segments[i];
	return meta;
}

Cost
model_cost()
{
	return kModelCost * cpu_operator_cost;
}

} // namespace vectorgpu::am
