// The k-NN graph of an index: for each row of it that a snapshot sees, in the order of the table, its k nearest other
// rows, as scans of the index give them. In batches, so that no caller ever holds the graph, and nothing is open or
// pinned between two of them. PG dialect.
#pragma once

#include "am/method/index_access.hpp"
#include "bridge/search_lanes.hpp"
#include "common/types.hpp"

extern "C"
{
#include "utils/snapshot.h"
}

namespace vectorgpu::am
{

constexpr int32 kMaxGraphK = 10000;

/// A row and one of its nearest. Both as the snapshot sees them: the TIDs of their visible versions (an index has that
/// of the first version of a chain).
struct KnnEdge
{
	RowId source;
	RowId target;
	uint32 rank;     // from 1: the nearest
	double distance; // as the operator gives it
};

struct KnnPages; // knn_pages.cpp

/// How far a walk through the table has come.
struct KnnWalk
{
	RowId next; // the first that has not been asked for; 0 in the beginning
	bool done;

	// Of knn_next_edges alone.
	MemoryContext context;      // that the walk lives in: its lanes are closed with it
	bridge::SearchLanes *lanes; // to the worker; null: not asked for yet
	bool without_worker;        // they failed, or could not be had
	uint32 n_batches;
	KnnPages *pages; // rows that need not be fetched; null: none was asked for yet
};

/// A row of the table that is asked for.
struct KnnSource
{
	RowId row;
	Datum value; // palloc'd
};

/// Raises 42809 if the index is not on vectors.
void knn_check_index(Relation index);

/// The next rows of the table that have a value, at most `most` of them, into rows [most]. Returns how many; walk->done
/// if no more follow.
uint32 knn_next_rows(const IndexAccess *access, Snapshot snapshot, KnnWalk *walk, RowId *rows, uint32 most);

/// The edges of the next rows, in (source, rank) order, palloc'd in the current context. *n is 0 with walk->done in the
/// end. A row has fewer than k if there are no others.
KnnEdge *knn_next_edges(const IndexAccess *access, Snapshot snapshot, uint32 k, KnnWalk *walk, uint64 *n);

/// Closes the walk's sessions with the worker; the next batch opens them again. To be called whenever there may be no
/// next one soon.
void knn_pause_walk(KnnWalk *walk);

/// A row's own TID as the snapshot sees it.
RowId knn_row_of(const ItemPointerData *tid);

} // namespace vectorgpu::am
