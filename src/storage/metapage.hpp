// The metapage (block 0): kind of index, manifest of live segments, chunks of the delta, free extents. All changes go
// through MetaUpdate: one exclusive content lock on block 0, one GenericXLog record. PG dialect.
#pragma once

#include "storage/key_layout.hpp"
#include "storage/page.hpp"

extern "C"
{
#include "access/generic_xlog.h"
#include "utils/snapshot.h"
}

namespace vectorgpu::am
{

/// Access methods, as stored. Never renumber.
enum class AmId : uint8
{
	kFlat = 1,
	kIvf = 2,
	kGraph = 3,
	kMatch = 4,
	kSparse = 5, // over sparsevec, whatever the access method's name
};

constexpr uint32 kMetaMagic = 0x5647504D; // "VGPM"
constexpr uint32 kFormatVersion = 5;      // rows have codes of key columns (key_layout.hpp)
constexpr uint32 kAliasVersion = 4;       // the metapage lists aliases (alias.hpp), or a segment of kSegmentVersion
constexpr uint32 kPlainVersion = 3;       // it never has: such an index is new, or release 0.2 made it

/// Version of an index with a segment that release 0.2 would read wrongly (SegmentFormat::version).
constexpr uint32 kSegmentVersion = kAliasVersion;

/// True if this release reads the version.
inline bool
meta_version_known(uint32 version)
{
	return version >= kPlainVersion && version <= kFormatVersion;
}

/// A contiguous run of blocks that holds n_bytes, kPayloadBytes per block.
struct StreamEntry
{
	BlockNumber start_block;
	uint32 reserved;
	uint64 n_bytes;
};

/// Return the number of blocks that n_bytes need. The caller must refuse more blocks than an index can have.
inline uint64
stream_blocks(uint64 n_bytes)
{
	return n_bytes / kPayloadBytes + (n_bytes % kPayloadBytes != 0);
}

struct SegmentEntry
{
	uint32 id;    // unique in this index's life
	uint32 level; // tier: a merge of level n segments makes one of a higher level
	uint64 n_rows;
	uint64 n_null_rows;
	uint64 n_dead;                    // tombstones, as of the last vacuum
	uint64 tombstone_generation;      // the metapage's tombstone_generation when a tombstone was last set
	StreamEntry streams[kMaxStreams]; // by StreamKind; n_bytes 0: absent
};

/// A run of blocks of the delta or of the aliases. Rows [first_row, first_row + chunk_capacity) start and end inside
/// it.
struct DeltaChunk
{
	uint64 first_row;
	BlockNumber start_block;
	uint32 n_blocks;
	uint32 id; // unique in this index's life
	uint32 reserved;
};

/// Blocks not in use. They may be written again once no snapshot older than parked_xid can be running.
struct FreeExtent
{
	BlockNumber start_block;
	uint32 n_blocks;
	uint64 parked_xid; // FullTransactionId
};

constexpr uint32 kMaxSegments = 16; // a merge leaves at most 8
constexpr uint32 kMaxChunks = 64;
constexpr uint32 kMaxAliasChunks = 16;
constexpr uint32 kMaxFreeExtents = 96;
constexpr uint32 kAmOptionBytes = 64;

/// Extents taken but not yet part of the index. The next vacuum or merge reclaims those that a crash left here.
enum PendingSlot
{
	kPendingMerge = 0, // guarded by ShareUpdateExclusiveLock on the table
	kPendingChunk = 1, // guarded by LockPage(index, 0, ExclusiveLock)
	kPendingSlots = 2,
};

struct MetaData
{
	uint32 magic;
	uint32 version;
	AmId am;
	ElementType element;
	Metric metric;
	uint8 complete; // 1 once the build has finished; any other value is corruption
	uint32 dim;     // elements (bits for ElementType::kBit)
	IndexUuid uuid;
	uint64 manifest_generation;  // incremented when segments or delta_first_row change
	uint64 tombstone_generation; // incremented by every ambulkdelete that set a tombstone
	uint64 delta_first_row;      // delta rows before this one are in segments
	uint64 delta_dead;           // dead rows in the delta, as of the last vacuum
	uint32 next_segment_id;
	uint32 next_chunk_id;
	BlockNumber high_water; // blocks from here on have never been taken
	uint32 n_segments;
	uint32 n_chunks;
	uint32 n_free;
	uint32 leaked_blocks; // free blocks for which free_extents had no room
	uint32 reserved;
	FreeExtent pending[kPendingSlots];
	uint8 am_options[kAmOptionBytes];
	SegmentEntry segments[kMaxSegments]; // ascending id
	DeltaChunk chunks[kMaxChunks];       // ascending first_row
	FreeExtent free_extents[kMaxFreeExtents];
	uint64 alias_first; // aliases before this one are resolved: their rows have entries of their own, or are dead
	uint32 n_alias_chunks;
	uint32 alias_reserved;
	DeltaChunk alias_chunks[kMaxAliasChunks]; // ascending first_row
	KeyLayout keys;                           // zeros unless the version is kFormatVersion
};

static_assert(sizeof(MetaData) <= kPayloadBytes);

/// Bytes of one vector of this index.
inline Size
meta_vector_bytes(const MetaData *meta)
{
	return vector_bytes(meta->element, meta->dim);
}

/// Bytes of a row's codes of key columns; 0: the index has none.
inline Size
meta_key_bytes(const MetaData *meta)
{
	return meta->keys.n_columns > 0 ? key_image_bytes(&meta->keys) : 0;
}

/// Bytes of the row ids of a segment's n rows (or NULL rows) and of the codes behind them.
inline uint64
meta_row_id_bytes(const MetaData *meta, uint64 n_rows)
{
	return n_rows * sizeof(RowId) + key_area_bytes(&meta->keys, n_rows);
}

/// Copy the metapage under a share lock and verify it. With a snapshot, also perform core's "snapshot too old" test.
/// Raises ERRCODE_INDEX_CORRUPTED, or 0A000 for a format of another release.
void meta_read(Relation index, Snapshot snapshot, MetaData *meta);

/// Read MetaData::alias_first alone.
uint64 meta_alias_first(Relation index);

/// Initialize a MetaData with a random uuid; high_water is 1, complete is 1. keys: null for an index of one column.
void meta_init(MetaData *meta, AmId am, ElementType element, Metric metric, uint32 dim, const KeyLayout *keys);

/// Form the sealed image of the metapage in `page` (BLCKSZ bytes).
void meta_form_page(const MetaData *meta, Page page);

/// A change of the metapage in progress. POD; after an error between begin and finish, abort processing releases
/// everything.
struct MetaUpdate
{
	Relation index;
	Buffer buffer;
	GenericXLogState *xlog;
	Page page;
	MetaData *meta; // points into the page image; change it in place
};

void meta_update_begin(MetaUpdate *update, Relation index);
void meta_update_finish(MetaUpdate *update);
void meta_update_abort(MetaUpdate *update);

} // namespace vectorgpu::am
