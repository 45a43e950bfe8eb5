// Tells an index scan what the plan above wants of it: whether a Limit can end it early, how many rows that Limit wants
// and has received, and a bound on the distance. An access method learns none of this anywhere else. PG dialect.
#pragma once

#include "pg/order_bound.hpp"
#include "pg/postgres.hpp"

extern "C"
{
#include "access/relscan.h"
#include "utils/rel.h"
}

namespace vectorgpu::pg
{

/// What can end an ordered scan before its last row.
enum class ScanEnd : uint8
{
	kUnknown, // no executor runs the scan, or its plan was not seen (EvalPlanQual): every row is wanted
	kNothing, // no Limit up to the root of the plan, or one without a count: every row is wanted
	kLimit,   // a Limit somewhere above; how many rows of this scan it takes is not known
	kCount,   // a Limit above, with nothing between that changes how many rows it takes, but for filters
};

/// What the plan wants of a scan.
struct ScanWish
{
	ScanEnd end;
	uint64 rows;   // kCount: rows that the Limit wants, those of its OFFSET included
	bool filtered; // a condition drops rows between the scan and that Limit, or at the scan
	bool shared;   // other scans give rows to that Limit as well, such as those of other partitions
	double
		selectivity; // share of the scan's rows that the planner expects to pass the scan's own conditions, in (0, 1]
};

/// Puts the ExecutorStart hook in, for this and for unread_order.hpp. Called once, from _PG_init.
void limit_hook_install(bool (*is_our_index)(Relation index));

/// What the plan wants of this scan, once it has begun. Only a hint on sizes: a scan that has returned that many rows
/// goes on.
ScanWish scan_wish(IndexScanDesc scan);

/// True if the Limit above takes rows of this scan alone; *rows: how many of them it has received since it was started
/// anew.
bool scan_received(IndexScanDesc scan, uint64 *rows);

/// True if a condition beside the order ends the scan: it does not hold of rows behind the bound, nor of those with
/// NULL.
bool scan_bound(IndexScanDesc scan, DistanceBound *bound);

} // namespace vectorgpu::pg
