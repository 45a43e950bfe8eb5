// Pages of an index: the tag that every page carries, its checksum, and the ways to read and write one page.
// Every page but a never-written one is: PageHeaderData (24 bytes), PageTag (40), payload (8128). No hole, no special
// space; but for delta pages, whose bytes behind the last row are a hole (and zero). PG dialect.
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

/// Random at build: tells a page of this index from one of an earlier life of the same block or file.
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
	kStream = 2, // bytes of a segment: immutable, but for tombstones
	kDelta = 3,  // rows inserted since the last merge
};

/// Which stream of a segment a page belongs to. Stored: never renumber. 0 to 3 are common to all access methods; those
/// from kFirstAmStream on are what the index's own access method says (AccessMethod::format).
enum class StreamKind : uint16
{
	kVectors = 0,    // n_rows vectors, vector_bytes each, in TID order unless the format has another
	kRowIds = 1,     // n_rows uint64 row ids, ascending
	kNullRowIds = 2, // n_null_rows uint64 row ids of NULL values, ascending
	kTombstones = 3, // n_rows + n_null_rows bits: rows, then null rows
	kFirstAmStream = 4,
};

constexpr uint32 kMaxStreams = 12; // streams of one segment

/// What a page is. 40 bytes, right behind the page header.
struct PageTag
{
	uint32 checksum; // low 32 bits of XXH3 over the page from `role` on
	PageRole role;
	StreamKind stream; // kStream only, else 0
	uint32 owner;      // kStream: segment id; kDelta: chunk id
	uint32 position;   // page number within the stream or chunk
	uint32 used;       // kStream: payload bytes; kDelta: rows that start on this page and are visible
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

/// Formats a page of BLCKSZ bytes: header, tag, zero payload. Call page_seal after the payload is filled.
void page_init(Page page, const IndexUuid &uuid, PageRole role, StreamKind stream, uint32 owner, uint32 position);

/// Recomputes the checksum. Required after every change, before the page is logged.
void page_seal(Page page);

/// True if the checksum of the page is right.
bool page_checksum_ok(Page page);

/// What a reader expects to find on a block.
struct PageExpectation
{
	IndexUuid uuid;
	PageRole role;
	StreamKind stream;
	uint32 owner;
	uint32 position;
};

/// When the checksum of a page is computed and compared. Always when the read came from disk.
enum class ChecksumPolicy : uint8
{
	kAlways,    // pages that change in place: whenever the page's checksum is not the one seen or made here last
	kFirstRead, // immutable pages: once for each backend and index life, and whenever the read came from disk
};

/// Reads a block and returns it pinned and locked in `lock_mode`. A page that is not intact raises
/// ERRCODE_INDEX_CORRUPTED. A page that is intact but something else (its extent was recycled; a standby can meet that)
/// sets *foreign, releases the buffer and returns InvalidBuffer; with foreign == nullptr it raises 40001 instead.
Buffer page_read(Relation index, BlockNumber block, const PageExpectation &expect, int lock_mode, ChecksumPolicy policy,
	BufferAccessStrategy strategy, bool *foreign);

/// Where the page of a block was in memory when this backend last read it, or null: a place to prefetch from, for it
/// may be another page's by now. Prefetches what reading the block itself will want.
const char *page_whereabouts(Relation index, const IndexUuid &uuid, BlockNumber block);

/// Remembers that this backend has sealed the page of the buffer (pinned and locked): page_read need not compare it
/// again.
void page_note_sealed(Relation index, const IndexUuid &uuid, Buffer buffer);

/// True if the page need not be compared: it has not been read from disk since pgBufferUsage counted reads_before, and
/// its checksum is the one that this backend has last compared or made for this block.
bool page_known_good(Relation index, const IndexUuid &uuid, Buffer buffer, int64 reads_before);

/// Raises ERRCODE_INDEX_CORRUPTED naming the index and the block. `what` is a full sentence for the detail.
[[noreturn]] void page_corrupted(Relation index, BlockNumber block, const char *what);

/// Raises 40001: pages were recycled under a reader that could not hold them (a standby). On a primary, where that
/// cannot be, raises ERRCODE_INDEX_CORRUPTED.
[[noreturn]] void page_recycled(Relation index, BlockNumber block);

/// A delta end (see delta.hpp) that this backend once saw for this index life, or 0; a hint to start looking from.
uint64 delta_end_hint(Relation index, const IndexUuid &uuid);
void set_delta_end_hint(Relation index, const IndexUuid &uuid, uint64 end);

/// Makes sure that the main fork has at least n_blocks blocks (new ones all zero).
void ensure_blocks(Relation index, BlockNumber n_blocks);

} // namespace vectorgpu::am
