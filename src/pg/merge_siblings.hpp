// The ordered scans below one Merge Append. It fetches the first row of each before it returns any, one scan after the
// other; so these scans may be started together. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "access/relscan.h"
#include "nodes/execnodes.h"
}

namespace vectorgpu::pg
{

/// The nodes (PlanState) of our ordered scans whose first rows the Merge Append above this scan fetches next, without
/// waiting for another node: this scan's first, then those that come after it and that run-time pruning keeps. At most
/// `most`; NIL if the scan's node is no child of a Merge Append, or that has fetched the first rows already. is_ours:
/// of an index.
List *merge_siblings(IndexScanDesc scan, bool (*is_ours)(Relation index), int most);

} // namespace vectorgpu::pg
