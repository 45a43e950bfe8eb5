// Pages of an index: the tag of every page, its checksum, reading and writing one page. Every page that was written has
// PageHeaderData (24 bytes), PageTag (40) and payload (8128), no special space and no hole. Only pages of the
// delta and of aliases have a hole: the bytes after the last row, which are zero. PG dialect.
#pragma once

#include "common/types.hpp"
#include "pg/postgres.hpp"

extern "C"
{
#include "storage/block.h"
#include "storage/buf.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
}

namespace vectorgpu::am
{

/// Random at build: distinguishes a page of this index from one of an earlier use of the same block or file.
struct IndexUuid
{
	uint64 high;
	uint64 low;
};

inline bool
uuid_equal(const IndexUuid &a, const IndexUuid &b)
{
	return a.high == b.high && a.low == b.low;
}

enum class PageRole : uint16
{
	kMeta = 1,   // block 0
	kStream = 2, // bytes of a segment: immutable except for tombstones
	kDelta = 3,  // rows inserted since the last merge
	kAlias = 4,  // rows that share the entry of another one
};

/// True for pages with a hole after their last row.
inline bool
has_hole(PageRole role)
{
	return role == PageRole::kDelta || role == PageRole::kAlias;
}

/// The stream of a segment to which a page belongs. Stored: never renumber. 0 to 3 are common to all access methods;
/// the index's access method (AccessMethod::format) defines those from kFirstAmStream on.
enum class StreamKind : uint16
{
	kVectors = 0,    // n_rows vectors, vector_bytes each, in TID order unless the format defines another
	kRowIds = 1,     // n_rows uint64 row ids, ascending
	kNullRowIds = 2, // n_null_rows uint64 row ids of NULL values, ascending
	kTombstones = 3, // n_rows + n_null_rows bits: rows, then null rows
	kFirstAmStream = 4,
};

constexpr uint32 kMaxStreams = 12; // streams of one segment

/// The identity of a page. 40 bytes, directly after the page header.
struct PageTag
{
	uint32 checksum; // low 32 bits of XXH3 over the page from `role` on
	PageRole role;
	StreamKind stream; // kStream only, else 0
	uint32 owner;      // kStream: segment id; kDelta, kAlias: chunk id
	uint32 position;   // page number within the stream or chunk
	uint32 used;       // kStream: payload bytes; kDelta, kAlias: rows that start on this page and are visible
	uint32 magic;
	IndexUuid uuid;
};

constexpr uint32 kPageMagic = 0x56475031; // "VGP1"
constexpr Size kTagOffset = 24;
constexpr Size kPayloadOffset = kTagOffset + sizeof(PageTag);
constexpr Size kPayloadBytes = BLCKSZ - kPayloadOffset;

static_assert(SizeOfPageHeaderData == kTagOffset && sizeof(PageTag) == 40 && kPayloadBytes % 64 == 0);

inline PageTag *
page_tag(Page page)
{
	return reinterpret_cast<PageTag *>(page + kTagOffset);
}

inline char *
page_payload(Page page)
{
	return page + kPayloadOffset;
}

/// Format a page of BLCKSZ bytes: header, tag, zero payload. Call page_seal after filling the payload.
void page_init(Page page, const IndexUuid &uuid, PageRole role, StreamKind stream, uint32 owner, uint32 position);

/// Recompute the checksum. Required after every change, before the page is logged.
void page_seal(Page page);

/// True if the checksum of the page is right.
bool page_checksum_ok(Page page);

/// The page that a reader expects on a block.
struct PageExpectation
{
	IndexUuid uuid;
	PageRole role;
	StreamKind stream;
	uint32 owner;
	uint32 position;
};

/// When page_read verifies the checksum of a page. It always does after a read from disk.
enum class ChecksumPolicy : uint8
{
	kAlways, // pages that change in place: unless the checksum is the one that this backend last verified or computed
	kFirstRead, // immutable pages: once per backend and index life
};

/// Read a block and return it pinned and locked in `lock_mode`. Raises ERRCODE_INDEX_CORRUPTED if the page is damaged.
/// If it is intact but another page than expected ("foreign": its extent was recycled, which a standby can meet), sets
/// *foreign and returns InvalidBuffer, or raises 40001 if foreign is null.
Buffer page_read(Relation index, BlockNumber block, const PageExpectation &expect, int lock_mode, ChecksumPolicy policy,
	BufferAccessStrategy strategy, bool *foreign);

/// page_read for a block that is pinned already, by a read ahead: its checksum is always verified.
Buffer page_take(Relation index, BlockNumber block, Buffer buffer, const PageExpectation &expect, int lock_mode,
	ChecksumPolicy policy, BufferAccessStrategy strategy, bool *foreign);

/// Return the address in memory where this backend last read the block, or null. Another page may be there by now, so
/// use it only to prefetch. Prefetches the bytes that page_read needs first.
const char *page_whereabouts(Relation index, const IndexUuid &uuid, BlockNumber block);

/// Remember that this backend has sealed the page in the buffer (pinned and locked): page_read need not verify it
/// again.
void page_note_sealed(Relation index, const IndexUuid &uuid, Buffer buffer);

/// True if the page need not be verified: it was not read from disk since pgBufferUsage counted reads_before, and its
/// checksum is the one that this backend last verified or computed for this block.
bool page_known_good(Relation index, const IndexUuid &uuid, Buffer buffer, int64 reads_before);

/// Raise ERRCODE_INDEX_CORRUPTED with the index and the block. `what` is a full sentence for the detail.
[[noreturn]] void page_corrupted(Relation index, BlockNumber block, const char *what);

/// Raise 40001: pages were recycled under a reader on a standby. On a primary, where this cannot happen, raise
/// ERRCODE_INDEX_CORRUPTED.
[[noreturn]] void page_recycled(Relation index, BlockNumber block);

/// An end of the delta or of the aliases (role; see delta.hpp) that this backend once saw for this index life, or 0: a
/// hint where to start the search.
uint64 list_end_hint(Relation index, const IndexUuid &uuid, PageRole role);
void set_list_end_hint(Relation index, const IndexUuid &uuid, PageRole role, uint64 end);

/// Extend the main fork to at least n_blocks blocks; new blocks are all zero.
void ensure_blocks(Relation index, BlockNumber n_blocks);

} // namespace vectorgpu::am
