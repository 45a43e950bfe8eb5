// Interface of an access method whose segments differ from plain ones (only vectors, in TID order): they have streams
// of their own or another order of the vectors. PG dialect.
#pragma once

#include "storage/row_file.hpp"
#include "storage/stream.hpp"
#include "storage/stream_writer.hpp"

namespace vectorgpu::am
{

/// The purpose and the sources of a new segment.
struct SegmentPlan
{
	Relation index;
	WriteMode mode;
	const MetaData *meta;  // build: fresh, without segments; merge: as read at its start
	const uint32 *sources; // indexes into meta->segments of the segments to merge
	uint32 n_sources;
	bool (*give_way)(void *); // true: another session waits, stop soon; null: never stop
	void *give_way_state;
	int n_workers; // parallel workers that may write pages beside this process; 0: none
};

/// The source of a row in a merge.
struct RowOrigin
{
	const SegmentEntry *segment; // one of plan->meta; null: the row comes from the delta or the table
	uint64 number;               // number of the row in that segment
};

/// All callbacks run in one memory context, which lives until the segment is written. For every format the segment
/// writer itself writes row ids, NULL rows and tombstones in TID order: row n of a segment is its n-th by TID.
struct SegmentFormat
{
	/// Begin a new segment; return the state of the callbacks.
	void *(*begin)(const SegmentPlan *plan);

	/// Take the next row that has a value, in TID order.
	void (*put)(void *state, RowId row, const void *vector, const RowOrigin &origin);

	/// Called before `prepare`, if not null, instead of `put` for each row: kVectors, which entry describes, has been
	/// written in TID order, as in plain segments. `write` leaves it alone then. Only in builds. Null: rows always come
	/// by `put`.
	void (*placed)(void *state, const SegmentEntry *entry);

	/// Called before the first row of a build by several processes, if not null: the paths of files to which they write
	/// all vectors, in TID order and without gaps, before `placed`; kVectors is yet to be written then. Null: rows come
	/// by `put`. n_rows: expected.
	const RowPaths *(*share)(void *state, double n_rows);

	/// Called after the last row. Set n_bytes of every stream that `write` will write (kVectors and the format's own):
	/// a merge takes exactly the blocks that they need. entry->n_rows is set. Returns false if it gave way.
	bool (*prepare)(void *state, SegmentEntry *entry);

	/// Write these streams one after the other from block `start` on; stream_write_end sets entry->streams. Return the
	/// block after the last one, or InvalidBlockNumber if it gave way.
	BlockNumber (*write)(void *state, SegmentEntry *entry, BlockNumber start);

	/// Called when the segment is written or abandoned: close remaining temporary files. Not called after an error.
	void (*end)(void *state);

	/// Copy the vectors of rows [first, first + n) by TID to dest [n, vector_bytes]. Null: kVectors is in TID order.
	/// Returns false if a page was foreign.
	bool (*read_vectors)(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 first, uint64 n,
		char *dest, BufferAccessStrategy strategy);

	/// vectorgpu_check with heapallindexed: true if `stored`, from read_vectors or the delta, is the form in which the
	/// index stores the table's `vector`. Null: it stores the vector unchanged.
	bool (*matches)(const MetaData *meta, const char *vector, const char *stored);

	/// False if segments do not keep the vectors as they were inserted: then searches need the table's, and no row
	/// shares an entry. Null: true.
	bool (*reads_back)(const MetaData *meta);

	/// Return null, or a sentence that says what is wrong with the sizes of kVectors and of the format's own streams.
	/// Reads no page; n_rows is in bounds.
	const char *(*check_entry)(const MetaData *meta, const SegmentEntry *segment);

	/// vectorgpu_check: raise ERRCODE_INDEX_CORRUPTED if the contents of the format's streams are wrong. Pages, vectors
	/// and row ids have already been checked. deep: heapallindexed was given, so slow checks are allowed too.
	void (*check)(
		Relation index, const MetaData *meta, const SegmentEntry *segment, bool deep, BufferAccessStrategy strategy);

	/// The format version that an index has from its first such segment on, unless it has a higher one. 0: segments are
	/// those of every release.
	uint32 version;

	/// True if the index, by its options, takes that version. Null: all do.
	bool (*takes_version)(const MetaData *meta);

	/// True if the segment, or, null, the options of the index, may be of an index below `version`, which an earlier
	/// release made. n_rows and sizes are checked. Null: there are no such indexes.
	bool (*may_be_older)(const MetaData *meta, const SegmentEntry *segment);
};

/// Raise the version of a metapage that is to list a new segment. format: null if the segment has plain vectors only.
inline void
meta_raise_version(MetaData *meta, const SegmentFormat *format)
{
	if (format != nullptr && (format->takes_version == nullptr || format->takes_version(meta)))
		meta->version = Max(meta->version, format->version);
}

} // namespace vectorgpu::am
