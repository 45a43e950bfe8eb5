// EXPLAIN (ANALYZE) shows how each scan of our indexes was answered. PostgreSQL 15 does not let an index access method
// add to a plan, so this is a list after the plan. PG dialect.
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

/// True while EXPLAIN (ANALYZE) runs a query: scans may then count more than usual.
bool explain_analyzes();

/// Begin a line of the text format; core's function for this is static.
void explain_begin_line(ExplainState *es);

/// Install the hooks. Called once, from _PG_init.
void explain_hook_install(const ScanExplainer &explainer);

} // namespace vectorgpu::pg
