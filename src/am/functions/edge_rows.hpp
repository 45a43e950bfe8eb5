// Rows of SQL from edges: what vectorgpu_knn_graph and vectorgpu_join return, (tid, tid, rank int, distance float8). PG
// dialect.
#pragma once

#include "am/functions/knn_graph.hpp"

extern "C"
{
#include "executor/tuptable.h"
#include "utils/tuplestore.h"
}

namespace vectorgpu::am
{

constexpr int kEdgeColumns = 4;

/// Raise 42804 unless the result has the columns of an edge.
void edge_check_columns(TupleDesc columns);

/// The edge as a value of the blessed row type, in the current context.
Datum edge_row(TupleDesc columns, const KnnEdge *edge);

/// Puts edges into a tuplestore. Their rows have the same size and no NULLs, so that a tuple is formed once, and the
/// values of each edge are written into it: forming each row took a fifth of a join's time.
struct EdgePutter
{
	char *values[kEdgeColumns]; // in the tuple
	TupleTableSlot *slot;       // that holds it
};

/// Begin, in the current context.
void edge_putter_begin(EdgePutter *putter, TupleDesc columns);
void edge_put(const EdgePutter *putter, Tuplestorestate *rows, const KnnEdge *edge);
void edge_putter_end(EdgePutter *putter);

} // namespace vectorgpu::am
