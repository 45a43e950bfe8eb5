// The graph that a merge inserts into: that of the largest of its segments, and the new numbers of its rows. PG
// dialect.
#pragma once

#include "am/gpugraph/graph.hpp"
#include "engine/graph/insert.hpp"

extern "C"
{
#include "storage/buffile.h"
}

namespace vectorgpu::am
{

struct SegmentPlan;

/// A row of the new segment that is not from the base.
struct Newcomer
{
	uint64 hash;   // of its vector
	uint32 number; // in the new segment; kNoNode: it has taken the place of a row of the base
};

/// The base while rows of the new segment come.
struct GraphBase
{
	const SegmentEntry *segment;
	GraphModel model;
	BufferAccessStrategy strategy;
	uint32 *numbers; // [segment->n_rows] in the new segment; kNoNode: not met (yet)
	uint64 n_kept;   // rows of the base that have come, or that a newcomer has taken the place of
	Newcomer *newcomers;
	uint64 n_newcomers; // counted beyond most_newcomers too, but not kept there
	uint64 most_newcomers;
};

/// The base of a merge, palloc'd; null if no segment can be one (codes, several parts, other storage parameters, too
/// few rows).
GraphBase *graph_base_begin(const SegmentPlan *plan);

/// Notes a row of the new segment and its number.
void graph_base_row(GraphBase *base, const RowOrigin &origin, uint64 number, const void *vector, Size vector_bytes);

/// base_match.cpp. Notes a row that is not from the base, for graph_base_match.
void graph_base_newcomer(GraphBase *base, uint64 number, const void *vector, Size vector_bytes);

/// base_match.cpp. Lets newcomers with the vector of a row that leaves take its place in the graph, as a row does whose
/// other columns were updated. vectors: of the new segment, in its order.
void graph_base_match(const SegmentPlan *plan, GraphBase *base, BufFile *vectors);

/// The rows that this merge changes, after n_rows rows of the new segment; and the rows changed since the graph was
/// built anew.
uint64 graph_base_changes(const GraphBase *base, uint64 n_rows);
uint64 graph_base_changed(const GraphBase *base, uint64 n_rows);

/// True if the new segment has the rows of the base, in another order perhaps, and no others.
bool graph_base_is_whole(const GraphBase *base, uint64 n_rows);

/// Sets edges [n_rows, degree] and entries of the new segment from those of a whole base.
void graph_base_renumber(const GraphBase *base, const engine::graph::BaseGraph &graph, uint32 *edges, uint32 *entries);

/// Frees *base and sets it to null: the merge builds anew.
void graph_base_forget(GraphBase **base);

/// Reads the base for an insertion: edges and entry points, palloc'd, by the base's numbers.
engine::graph::BaseGraph graph_base_read(const SegmentPlan *plan, const GraphBase *base);

} // namespace vectorgpu::am
