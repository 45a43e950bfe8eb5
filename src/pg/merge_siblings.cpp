// See merge_siblings.hpp. What start_sibling does is part of ExecIndexScan in 15 to 18: a node that finds its scan
// begun goes on with it.
#include "pg/merge_siblings.hpp"

#include "pg/compat.hpp"
#include "pg/limit_hook.hpp"
#include "pg/ordered_scan.hpp"

extern "C"
{
#include "access/genam.h"
#include "executor/executor.h"
#include "nodes/bitmapset.h"
}

namespace vectorgpu::pg
{

namespace
{

IndexScanDesc
start_core_node(IndexScanState *node)
{
	if (node->ss.ps.chgParam != nullptr || (node->iss_NumRuntimeKeys != 0 && !node->iss_RuntimeKeysReady))
		ExecReScan(&node->ss.ps);
	if (node->iss_ScanDesc == nullptr)
	{
		const MemoryContext before = MemoryContextSwitchTo(node->ss.ps.state->es_query_cxt);

		node->iss_ScanDesc = begin_node_scan(node);
		index_rescan(node->iss_ScanDesc, node->iss_ScanKeys, node->iss_NumScanKeys, node->iss_OrderByKeys,
			node->iss_NumOrderByKeys);
		MemoryContextSwitchTo(before);
	}
	return node->iss_ScanDesc;
}

IndexScanDesc
start_filtered_node(FilteredNode *node)
{
	if (node->custom.ss.ps.chgParam != nullptr)
		ExecReScan(&node->custom.ss.ps);
	node->start(node);
	return node->scan;
}

} // namespace

List *
merge_siblings(IndexScanDesc scan, bool (*is_ours)(Relation index), int most)
{
	const PlanState *node;
	MergeAppendState *merge = scan_merge(scan, &node);
	bool found = false;
	List *siblings = NIL;
	int i = -1;

	if (merge == nullptr || merge->ms_initialized || merge->ps.state->es_epq_active != nullptr)
		return NIL;
	while ((i = bms_next_member(merge->ms_valid_subplans, i)) >= 0 && list_length(siblings) < most)
	{
		PlanState *child = merge->mergeplans[i];
		OrderedScan ordered;

		found = found || child == node;
		if (found && !child->plan->parallel_aware && ordered_scan(child, is_ours, &ordered))
			siblings = lappend(siblings, child);
	}
	return siblings;
}

IndexScanDesc
start_sibling(PlanState *node)
{
	return IsA(node, IndexScanState) ? start_core_node(reinterpret_cast<IndexScanState *>(node))
									 : start_filtered_node(reinterpret_cast<FilteredNode *>(node));
}

} // namespace vectorgpu::pg
