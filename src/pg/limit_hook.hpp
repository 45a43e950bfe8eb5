// Tells an index scan what the plan above it needs: whether a Limit can end it early, how many rows that Limit wants
// and has received, and a bound on the distance. PostgreSQL does not give an access method this information. PG
// dialect.
#pragma once

#include "pg/order_bound.hpp"
#include "pg/postgres.hpp"

extern "C"
{
#include "access/relscan.h"
#include "nodes/execnodes.h"
#include "utils/rel.h"
}

namespace vectorgpu::pg
{

/// The reason why an ordered scan may end before its last row.
enum class ScanEnd : uint8
{
	kUnknown, // no executor runs the scan, or its plan was not seen (EvalPlanQual): every row is wanted
	kNothing, // no Limit up to the root of the plan, or only one without a count: every row is wanted
	kLimit,   // a Limit somewhere above; the number of rows that it takes from this scan is not known
	kCount,   // a Limit above; nothing between it and the scan changes the number of rows, except filters
};

/// The plan's demand on a scan.
struct ScanWish
{
	ScanEnd end;
	uint64 rows;       // kCount: rows that the Limit wants, including those of its OFFSET
	bool filtered;     // a condition drops rows at the scan or between it and that Limit
	bool changes_rows; // the statement changes or deletes rows: what the scan misses would stay as it is
	bool shared;       // other scans, such as those of other partitions, also give rows to that Limit
	double
		selectivity; // share of the scan's rows that the planner expects to pass the scan's own conditions, in (0, 1]
	double expected; // share of the table's rows that the planner expects the scan to give, in (0, 1]
};

/// Install the ExecutorStart hook, which also serves unread_order.hpp. Called once, from _PG_init.
void limit_hook_install(bool (*is_our_index)(Relation index));

/// Return what the plan needs from this scan, which must have begun. The numbers are hints: a scan that has returned
/// that many rows goes on if asked for more.
ScanWish scan_wish(IndexScanDesc scan);

/// True if the plan of this scan, which must be ordered, is measured: by EXPLAIN (ANALYZE) or auto_explain.
bool scan_is_measured(IndexScanDesc scan);

/// True if the Limit above takes rows from this scan only. *rows: how many it has received since it was last
/// (re)started.
bool scan_received(IndexScanDesc scan, uint64 *rows);

/// Return the Merge Append that the scan's node is a child of. *node: that node. Null: it has another parent, or none.
MergeAppendState *scan_merge(IndexScanDesc scan, const PlanState **node);

/// True if a condition on the distance ends the scan: no row beyond the bound satisfies it, and no row with NULL.
bool scan_bound(IndexScanDesc scan, DistanceBound *bound);

} // namespace vectorgpu::pg
