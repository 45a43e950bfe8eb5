// EXPLAIN (ANALYZE) shows how each scan of our indexes was answered. PostgreSQL 18 lets a module add to the nodes of a
// plan. Earlier versions do not, so that there this is a list after the plan. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "nodes/execnodes.h"
}

namespace vectorgpu::pg
{

/// The functions that describe a scan. The hook itself does not know the access methods.
struct ScanExplainer
{
	bool (*is_ours)(Relation index);

	/// True if the scan has read rows; the plan's node may only have prepared it.
	bool (*ran)(IndexScanDesc scan);

	/// Add the properties of a scan that ran; in the text format, as indented lines.
	void (*explain)(IndexScanDesc scan, ExplainState *es);
};

/// True if EXPLAIN (ANALYZE) runs the scan's query: scans may then count more than usual. From 18 on also for EXECUTE,
/// and if auto_explain measures the query.
bool explain_analyzes(IndexScanDesc scan);

/// Begin a line of the text format; core's function for this is static.
void explain_begin_line(ExplainState *es);

/// Install the hooks, and for 18 define the option VECTORGPU of EXPLAIN. Called once, from _PG_init.
void explain_hook_install(const ScanExplainer &explainer);

} // namespace vectorgpu::pg
