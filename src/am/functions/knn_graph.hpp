// The k-NN graph of an index: for each of its rows that a snapshot sees, in table order, the k nearest other rows
// according to scans of the index. It is computed in batches, so no caller holds the whole graph, and nothing is open
// or pinned between two batches. PG dialect.
#pragma once

#include "am/method/index_access.hpp"
#include "common/types.hpp"

extern "C"
{
#include "utils/snapshot.h"
}

namespace vectorgpu::am
{

constexpr int32 kMaxGraphK = 10000;

/// A row and one of its nearest rows. Both are given by the TIDs of their visible versions, while the index stores that
/// of the first version of a chain.
struct KnnEdge
{
	RowId source;
	RowId target;
	uint32 rank;     // 1 for the nearest
	double distance; // as computed by the operator
};

struct KnnPages; // knn_pages.cpp
struct ManyLine; // am/siblings/many_searches.hpp
struct KnnBatch; // knn_graph.cpp

/// The state of a walk through the table.
struct KnnWalk
{
	RowId next; // the first row not yet processed; 0 at the beginning
	bool done;
	bool other_table; // sources are rows of another table: no row found is the source itself
	bool overlaps;    // a batch begins before the one before ends

	// Used only by knn_next_edges and the functions it calls.
	MemoryContext context; // in which the walk lives
	ManyLine *requests;    // to the worker; null: none yet
	uint32 n_batches;
	KnnPages *pages; // which rows need no fetch; null: not yet created
};

/// A row of the table whose neighbours are searched.
struct KnnSource
{
	RowId row;
	Datum value; // palloc'd
};

constexpr Size kKnnSourceBytes = 16 * 1024 * 1024; // most bytes of the values under way, unless one row has more

/// For serializable transactions, record that table and index are read, before reading. Neither a TID range scan nor
/// the worker's answers do this, and the scans for single rows come late and may miss some.
void knn_note_reading(const IndexAccess *access, Snapshot snapshot);

/// Raise 42809 if the index is not on vector, halfvec or bit.
void knn_check_index(Relation index);

/// Read the next rows of the table that have a value, at most `most`, into rows [most]. Return how many; sets
/// walk->done if no more follow.
uint32 knn_next_rows(const IndexAccess *access, Snapshot snapshot, KnnWalk *walk, RowId *rows, uint32 most);

/// Return the edges of the next rows in (source, rank) order, palloc'd in the current context. At the end *n is 0 and
/// walk->done is set. A row has fewer than k edges if there are no other rows.
KnnEdge *knn_next_edges(const IndexAccess *access, Snapshot snapshot, uint32 k, KnnWalk *walk, uint64 *n);

/// Begin the walk's next batch: return the most rows that it may have, and the most bytes of their values, unless one
/// row has more. Few rows at first, so that an answer comes soon; but half of the most in each batch if they overlap.
uint32 knn_begin_batch(KnnWalk *walk, uint32 k, Size *most_bytes);

/// Search for the k nearest rows of each source; but for walk->other_table a row is not its own neighbour. Writes
/// edges [n_sources * k] in (source, rank) order without gaps and returns their number. Scratch is left in the current
/// context.
uint64 knn_search(const IndexAccess *access, Snapshot snapshot, KnnWalk *walk, const KnnSource *sources,
	uint32 n_sources, uint32 k, KnnEdge *edges);

/// The same in two parts. Between them the worker makes searches, the next batch may begin, and the caller may do all
/// but scan an index of this extension, or let others run that do. Batches end in the order in which they have begun.
/// The arguments and the context must live until the end. An error leaves nothing to be done.
KnnBatch *knn_begin_search(const IndexAccess *access, Snapshot snapshot, KnnWalk *walk, const KnnSource *sources,
	uint32 n_sources, uint32 k, KnnEdge *edges);
uint64 knn_end_search(KnnBatch *batch);

/// Free what the searches have left in the walk, once all batches have ended.
void knn_end_requests(KnnWalk *walk);

/// The rows that a search for k neighbours asks for: one is usually the source itself.
inline uint64
knn_rows_to_ask(const KnnWalk *walk, uint32 k)
{
	return uint64{k} + (walk->other_table ? 0 : 1);
}

/// Return the row id of a TID.
RowId knn_row_of(const ItemPointerData *tid);

} // namespace vectorgpu::am
