// The graph that a merge inserts into: that of the largest of its segments, and the new numbers of its rows. PG
// dialect.
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
	uint64 n_kept;   // rows of the base that have come
};

/// The base of a merge, palloc'd; null if no segment can be one (codes, several parts, other storage parameters, too
/// few rows).
GraphBase *graph_base_begin(const SegmentPlan *plan);

/// Notes a row of the new segment and its number.
void graph_base_row(GraphBase *base, const RowOrigin &origin, uint64 number);

/// The rows that this merge changes, after n_rows rows of the new segment; and the rows changed since the graph was
/// built anew.
uint64 graph_base_changes(const GraphBase *base, uint64 n_rows);
uint64 graph_base_changed(const GraphBase *base, uint64 n_rows);

/// Frees *base and sets it to null: the merge builds anew.
void graph_base_forget(GraphBase **base);

/// Reads the base for an insertion: edges and entry points, palloc'd, by the base's numbers.
engine::graph::BaseGraph graph_base_read(const SegmentPlan *plan, const GraphBase *base);

} // namespace vectorgpu::am
