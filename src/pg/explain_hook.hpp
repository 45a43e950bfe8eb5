// EXPLAIN (ANALYZE) tells of each scan of our indexes how it was answered. PostgreSQL 15 lets an index access method
// say nothing in a plan, so that it comes as a list behind the plan. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "commands/explain.h"
#include "nodes/execnodes.h"
}

namespace vectorgpu::pg
{

/// What an access method has to say. The hook does not know of them.
struct ScanExplainer
{
	bool (*is_ours)(Relation index);

	/// True if a scan of such an index has begun: its node may have made it ready only.
	bool (*ran)(IndexScanDesc scan);

	/// Adds what is known of a scan that ran, as properties, or, in text, as indented lines.
	void (*explain)(IndexScanDesc scan, ExplainState *es);
};

/// True while EXPLAIN (ANALYZE) runs a query: scans may count then what they do not else.
bool explain_analyzes();

/// Begins a line of the text format; core keeps its own to itself.
void explain_begin_line(ExplainState *es);

/// Puts the hooks in. Called once, from _PG_init.
void explain_hook_install(const ScanExplainer &explainer);

} // namespace vectorgpu::pg
