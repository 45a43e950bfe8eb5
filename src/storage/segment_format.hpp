// How the segments of an access method differ from the plain ones (vectors in TID order and nothing else): streams of
// its own, another order of the vectors. The interface that such an access method fills in. PG dialect.
#pragma once

#include "storage/stream.hpp"
#include "storage/stream_writer.hpp"

namespace vectorgpu::am
{

/// What a new segment is made for and from.
struct SegmentPlan
{
	Relation index;
	WriteMode mode;
	const MetaData *meta;  // of a build: fresh, no segments; of a merge: as the merge found it
	const uint32 *sources; // indexes into meta->segments of the segments that are merged
	uint32 n_sources;
	bool (*give_way)(void *); // true: somebody waits, stop soon; null: nobody can
	void *give_way_state;
};

/// Where a merge has a row from.
struct RowOrigin
{
	const SegmentEntry *segment; // one of plan->meta's; null: it was in no segment before
	uint64 number;               // of the row in that segment
};

/// All callbacks run in one memory context, which lives until the segment is written. Row ids, NULL rows and tombstones
/// are written by the segment writer, in TID order, whatever the format: row n of a segment is its n-th by TID.
struct SegmentFormat
{
	/// A new segment; returns the state of the callbacks.
	void *(*begin)(const SegmentPlan *plan);

	/// The next row that has a value, in TID order.
	void (*put)(void *state, RowId row, const void *vector, const RowOrigin &origin);

	/// All rows are there. Sets n_bytes of every stream that `write` will write (kVectors and those of its own): a
	/// merge takes exactly the blocks that they need. entry->n_rows is known. False: it gave way.
	bool (*prepare)(void *state, SegmentEntry *entry);

	/// Writes these streams one behind the other from block `start` on, entry->streams set by stream_write_end; returns
	/// the block behind the last one, or InvalidBlockNumber if it gave way.
	BlockNumber (*write)(void *state, SegmentEntry *entry, BlockNumber start);

	/// The segment is written or abandoned: closes temporary files, if any are left. Not called after an error.
	void (*end)(void *state);

	/// Copies the vectors of rows [first, first + n) by TID to dest [n, vector_bytes]. Null: kVectors is in TID order.
	/// False if a page was foreign.
	bool (*read_vectors)(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 first, uint64 n,
		char *dest, BufferAccessStrategy strategy);

	/// vectorgpu_check with heapallindexed: true if `stored`, as read_vectors or the delta gives it, is what the index
	/// keeps of the table's `vector`. Null: it keeps the vector as it is.
	bool (*matches)(const MetaData *meta, const char *vector, const char *stored);

	/// Returns what is wrong with the sizes of kVectors and of the format's own streams, as a sentence, or null. Reads
	/// no page; n_rows is in bounds.
	const char *(*check_entry)(const MetaData *meta, const SegmentEntry *segment);

	/// vectorgpu_check: raises ERRCODE_INDEX_CORRUPTED if the contents of its streams are wrong. Their pages, vectors
	/// and row ids have been found intact. deep: heapallindexed was asked for, and what takes long may be checked too.
	void (*check)(
		Relation index, const MetaData *meta, const SegmentEntry *segment, bool deep, BufferAccessStrategy strategy);
};

} // namespace vectorgpu::am
