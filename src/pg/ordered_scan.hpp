// Scans of an index in order of an operator: core's node, and a custom scan of this module that does the same. The
// hooks of this folder treat them alike. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"
}

namespace vectorgpu::pg
{

/// The name of the custom scan in paths, plans and states, which are recognized by this very pointer.
extern const char kFilteredScanName[];

/// The state of the custom scan, as the hooks need it.
struct FilteredNode
{
	CustomScanState custom;            // first
	Relation index;                    // null under EXPLAIN without ANALYZE
	IndexScanDesc scan;                // likewise
	void (*start)(FilteredNode *node); // sets the keys of the scan, as its first row does
	List *order; // the distance by which the index orders, then the ORDER BY if it is another expression
};

/// The state of the custom scan; null if the node is another one.
const FilteredNode *filtered_node(const PlanState *state);

/// The first of the custom path's private nodes: the index scan that it stands for. Null if the path is another one.
const IndexPath *filtered_path(const Path *path);

/// An ordered scan whose index is open.
struct OrderedScan
{
	ScanState *state;
	Relation index;
	const IndexScanDesc *scan; // null where it has not begun
	List *order;               // the distance by which the index orders, then the ORDER BY if it is another expression
};

/// True if the node is an ordered scan, with its index open. is_ours: of the index.
bool ordered_scan(PlanState *state, bool (*is_ours)(Relation index), OrderedScan *scan);

/// Do what the first fetch of such a node does before it asks the index: begin the scan, and set its keys with the
/// present values of parameters.
IndexScanDesc start_ordered_scan(PlanState *node);

/// Return the share of the index's rows that the planner expects to meet the scan's conditions, index conditions
/// included.
double ordered_scan_expected(const OrderedScan &scan);

} // namespace vectorgpu::pg
