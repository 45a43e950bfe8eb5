// See ordered_scan.hpp. What start_ordered_scan does is part of ExecIndexScan in 15 to 18: a node that finds its scan
// begun goes on with it.
#include "pg/ordered_scan.hpp"

#include "pg/compat.hpp"

extern "C"
{
#include "access/genam.h"
#include "executor/executor.h"
#include "nodes/extensible.h"
#include "nodes/plannodes.h"
}

namespace vectorgpu::pg
{

constexpr double kLeastSelectivity = 1e-6;

const char kFilteredScanName[] = "Vectorgpu Filtered Scan";

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

const FilteredNode *
filtered_node(const PlanState *state)
{
	const CustomScanState *custom = reinterpret_cast<const CustomScanState *>(state);

	if (!IsA(state, CustomScanState) || custom->methods->CustomName != kFilteredScanName)
		return nullptr;
	return reinterpret_cast<const FilteredNode *>(custom);
}

const IndexPath *
filtered_path(const Path *path)
{
	const CustomPath *custom = reinterpret_cast<const CustomPath *>(path);

	if (!IsA(path, CustomPath) || custom->methods->CustomName != kFilteredScanName)
		return nullptr;
	return linitial_node(IndexPath, custom->custom_private);
}

bool
ordered_scan(PlanState *state, bool (*is_ours)(Relation index), OrderedScan *scan)
{
	const FilteredNode *filtered = filtered_node(state);

	if (filtered != nullptr)
		*scan = {reinterpret_cast<ScanState *>(state), filtered->index, &filtered->scan, filtered->order};
	else if (IsA(state, IndexScanState))
	{
		IndexScanState *core = reinterpret_cast<IndexScanState *>(state);
		const IndexScan *plan = reinterpret_cast<const IndexScan *>(core->ss.ps.plan);

		*scan = {&core->ss, core->iss_RelationDesc, &core->iss_ScanDesc, plan->indexorderbyorig};
	}
	else
		return false;
	return scan->order != NIL && scan->index != nullptr && is_ours(scan->index);
}

IndexScanDesc
start_ordered_scan(PlanState *node)
{
	return IsA(node, IndexScanState) ? start_core_node(reinterpret_cast<IndexScanState *>(node))
									 : start_filtered_node(reinterpret_cast<FilteredNode *>(node));
}

double
ordered_scan_expected(const OrderedScan &scan)
{
	const double all = scan.index->rd_rel->reltuples;

	if (all <= 0)
		return 1;
	return Min(Max(scan.state->ps.plan->plan_rows / all, kLeastSelectivity), 1.0);
}

} // namespace vectorgpu::pg
