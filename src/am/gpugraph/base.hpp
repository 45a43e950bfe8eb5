// The graph that a merge inserts into: that of the largest of its segments, and what becomes of its rows. PG dialect.
#pragma once

#include "am/gpugraph/graph.hpp"
#include "engine/graph/insert.hpp"

namespace vectorgpu::am
{

struct SegmentPlan;

/// The base while rows of the new segment come.
struct GraphBase
{
	const SegmentEntry *segment;
	GraphModel model;
	BufferAccessStrategy strategy;
	uint32 *numbers; // [segment->n_rows] in the new segment; kNoNode: not met (yet)
	uint64 n_kept;   // rows that have met theirs
};

/// Of a merge: the base, palloc'd; null if none of its segments can be one (codes, several parts, other storage
/// parameters, too few rows).
GraphBase *graph_base_begin(const SegmentPlan *plan);

/// A row of the new segment, its number.
void graph_base_row(GraphBase *base, const RowOrigin &origin, uint64 number);

/// Rows that this merge changes, if n_rows of the new segment have come; and rows changed since the graph was built
/// anew.
uint64 graph_base_changes(const GraphBase *base, uint64 n_rows);
uint64 graph_base_changed(const GraphBase *base, uint64 n_rows);

/// The merge builds anew: frees *base, which is null then.
void graph_base_forget(GraphBase **base);

/// What an insertion takes: edges and entry points of the base, palloc'd; numbers stay the base's.
engine::graph::BaseGraph graph_base_read(const SegmentPlan *plan, const GraphBase *base);

} // namespace vectorgpu::am
