// Reading, checking and formatting single pages. See page.hpp for the layout.
#include "storage/page.hpp"

#include "pg/block_file.hpp"
#include "pg/fault.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

#if defined(VECTORGPU_ASSERTS) && __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define VECTORGPU_MEMCHECK
#endif

extern "C"
{
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "executor/instrument.h"
#include "pgstat.h"
#include "storage/buf_internals.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint32 kComparedPages = 512;      // remembered checksums of pages that change in place
constexpr BlockNumber kExtendedBlocks = 64; // between two looks at interrupts
constexpr uint32 kFullLookupShift = 28;     // one read in 16 goes through the buffer table, see read_block

/// The checksum of a page that this backend last verified or computed.
struct ComparedPage
{
	BlockNumber block; // plus one; 0: none
	uint32 checksum;
};

/// The memory of this backend for one index life. Lives in rd_amcache, so core drops it with the relation cache entry.
struct IndexMemory
{
	IndexUuid uuid;
	uint64 end_hints[2]; // ends of the delta and of the aliases that were true once
	uint32 n_blocks;
	uint32 n_recent; // n_blocks, or 0 for an index larger than half of the buffer cache
	uint32 n_reads;
	ComparedPage compared[kComparedPages]; // by block number modulo kComparedPages
	uint8 arrays[FLEXIBLE_ARRAY_MEMBER];   // Buffer recent[n_recent], then one bit per block: its checksum was verified
};

/// The buffer in which each block was last found.
Buffer *
recent_buffers(IndexMemory *memory)
{
	return reinterpret_cast<Buffer *>(memory->arrays);
}

uint8 *
verified_bits(IndexMemory *memory)
{
	return memory->arrays + memory->n_recent * sizeof(Buffer);
}

uint32
page_checksum(Page page)
{
	constexpr Size start = kTagOffset + sizeof(uint32);

	return static_cast<uint32>(XXH3_64bits(page + start, BLCKSZ - start));
}

/// Return the memory of this index life, or null.
IndexMemory *
known_memory(Relation index, const IndexUuid &uuid)
{
	IndexMemory *known = static_cast<IndexMemory *>(index->rd_amcache);

	return known != nullptr && uuid_equal(known->uuid, uuid) ? known : nullptr;
}

/// Return the memory of this index life with room for n_blocks bits; null if the allocation fails.
IndexMemory *
grown_memory(Relation index, const IndexUuid &uuid, uint32 n_blocks)
{
	IndexMemory *known = known_memory(index, uuid);
	IndexMemory *fresh;
	uint32 n_recent;

	if (known != nullptr && n_blocks <= known->n_blocks)
		return known;
	n_blocks = Max(n_blocks, RelationGetNumberOfBlocks(index));
	n_recent = n_blocks <= static_cast<uint32>(NBuffers / 2) ? n_blocks : 0;
	fresh = static_cast<IndexMemory *>(MemoryContextAllocExtended(index->rd_indexcxt,
		offsetof(IndexMemory, arrays) + n_recent * sizeof(Buffer) + (static_cast<Size>(n_blocks) + 7) / 8,
		MCXT_ALLOC_ZERO | MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE));
	if (fresh == nullptr)
		return nullptr;
	if (known != nullptr)
		memcpy(fresh, known, offsetof(IndexMemory, arrays));
	fresh->uuid = uuid;
	fresh->n_blocks = n_blocks;
	fresh->n_recent = n_recent;
	if (known != nullptr)
	{
		memcpy(recent_buffers(fresh), recent_buffers(known), Min(known->n_recent, n_recent) * sizeof(Buffer));
		memcpy(verified_bits(fresh), verified_bits(known), (static_cast<Size>(known->n_blocks) + 7) / 8);
	}
	if (index->rd_amcache != nullptr)
		pfree(index->rd_amcache);
	index->rd_amcache = fresh;
	return fresh;
}

bool
already_verified(Relation index, const IndexUuid &uuid, BlockNumber block)
{
	IndexMemory *known = known_memory(index, uuid);

	return known != nullptr && block < known->n_blocks && (verified_bits(known)[block >> 3] & (1 << (block & 7))) != 0;
}

void
note_verified(Relation index, const IndexUuid &uuid, BlockNumber block)
{
	IndexMemory *known = grown_memory(index, uuid, block + 1);

	if (known != nullptr)
		verified_bits(known)[block >> 3] |= static_cast<uint8>(1 << (block & 7));
}

/// Remember the buffer where a block is. Reading it may have dropped the memory with the relation cache entry.
void
note_place(Relation index, const IndexUuid &uuid, BlockNumber block, Buffer buffer)
{
	IndexMemory *known = known_memory(index, uuid);

	if (known != nullptr && block < known->n_recent)
		recent_buffers(known)[block] = buffer;
}

/// Pin a block, directly in the buffer where it was last found if it is still there. This saves the look-up in the
/// buffer table, whose cache misses cost a scan as much as its arithmetic. Such a pin does not count as a use for
/// buffer eviction, so one read in 16, spread over the blocks, uses the buffer table.
Buffer
read_block(Relation index, const IndexUuid &uuid, BlockNumber block, BufferAccessStrategy strategy)
{
	IndexMemory *known = known_memory(index, uuid);
	Buffer *recent = known != nullptr && block < known->n_recent && !RelationUsesLocalBuffers(index)
		? &recent_buffers(known)[block]
		: nullptr;
	Buffer buffer;

	if (recent == nullptr || strategy != nullptr)
		return ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	if (*recent != InvalidBuffer && (++known->n_reads * UINT32_C(2654435769)) >> kFullLookupShift != 0 &&
		ReadRecentBuffer(pg::file_of(index), MAIN_FORKNUM, block, *recent))
	{
		pgstat_count_buffer_read(index);
		pgstat_count_buffer_hit(index);
		return *recent;
	}
	buffer = ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_NORMAL, nullptr);
	note_place(index, uuid, block, buffer);
	return buffer;
}

bool
tag_matches(const PageTag *tag, const PageExpectation &expect)
{
	return tag->magic == kPageMagic && tag->role == expect.role && tag->stream == expect.stream &&
		tag->owner == expect.owner && tag->position == expect.position && uuid_equal(tag->uuid, expect.uuid);
}

void
fault_of_read(Relation index, BlockNumber block)
{
	if (VG_FAULT("page_read"))
		page_corrupted(index, block, "A fault point says so.");
}

/// The second half of page_read, once the page is pinned and locked. was_read: it may have come from disk just now.
Buffer
accept_page(Relation index, BlockNumber block, Buffer buffer, const PageExpectation &expect, ChecksumPolicy policy,
	bool was_read, bool *foreign)
{
	const Page page = BufferGetPage(buffer);
	const bool check = was_read ||
		(policy == ChecksumPolicy::kFirstRead
				? !already_verified(index, expect.uuid, block)
				: !page_known_good(index, expect.uuid, buffer, pgBufferUsage.shared_blks_read));

	if (unlikely(!tag_matches(page_tag(page), expect)))
	{
		const bool is_new = PageIsNew(page);
		const bool intact = !is_new && page_tag(page)->magic == kPageMagic && page_checksum_ok(page);

		UnlockReleaseBuffer(buffer);
		if (!intact)
			page_corrupted(index, block, is_new ? "The page was never written." : "The page is damaged.");
		if (foreign == nullptr)
			page_recycled(index, block);
		*foreign = true;
		return InvalidBuffer;
	}
	if (check)
	{
		if (unlikely(!page_checksum_ok(page)))
		{
			UnlockReleaseBuffer(buffer);
			page_corrupted(index, block, "The checksum of the page does not match its contents.");
		}
		if (policy == ChecksumPolicy::kFirstRead)
			note_verified(index, expect.uuid, block);
		else
			page_note_sealed(index, expect.uuid, buffer);
	}
	return buffer;
}

} // namespace

void
page_init(Page page, const IndexUuid &uuid, PageRole role, StreamKind stream, uint32 owner, uint32 position)
{
	PageHeader header = reinterpret_cast<PageHeader>(page);
	PageTag *tag;

	memset(page, 0, BLCKSZ);
	PageInit(page, BLCKSZ, 0);
	header->pd_lower = BLCKSZ; // no hole: generic WAL and full-page images keep every byte
	header->pd_upper = BLCKSZ;
	tag = page_tag(page);
	tag->role = role;
	tag->stream = stream;
	tag->owner = owner;
	tag->position = position;
	tag->used = 0;
	tag->magic = kPageMagic;
	tag->uuid = uuid;
}

void
page_seal(Page page)
{
#ifdef VECTORGPU_MEMCHECK
	// No uninitialized memory may go to disk.
	(void) VALGRIND_CHECK_MEM_IS_DEFINED(page + kTagOffset + sizeof(uint32), BLCKSZ - kTagOffset - sizeof(uint32));
#endif
	page_tag(page)->checksum = page_checksum(page);
}

bool
page_checksum_ok(Page page)
{
	return page_tag(page)->checksum == page_checksum(page);
}

void
page_corrupted(Relation index, BlockNumber block, const char *what)
{
	ereport(ERROR,
		(errcode(ERRCODE_INDEX_CORRUPTED),
			errmsg("index \"%s\" is corrupted at block %u", RelationGetRelationName(index), block),
			errdetail("%s", what), errhint("Rebuild it with REINDEX INDEX.")));
	pg_unreachable();
}

void
page_recycled(Relation index, BlockNumber block)
{
	// A primary never recycles a page that a running transaction may still read. A page that is still foreign after the
	// metapage was read again was written wrongly, so running the query again would not help.
	if (!RecoveryInProgress())
		page_corrupted(index, block, "This page, or one that it refers to, belongs to something else.");
	ereport(ERROR,
		(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			errmsg("index \"%s\" was reorganized while it was being read", RelationGetRelationName(index)),
			errdetail("Block %u has been put to another use.", block), errhint("Run the query again.")));
	pg_unreachable();
}

Buffer
page_read(Relation index, BlockNumber block, const PageExpectation &expect, int lock_mode, ChecksumPolicy policy,
	BufferAccessStrategy strategy, bool *foreign)
{
	const int64 reads_before = pgBufferUsage.shared_blks_read;
	Buffer buffer;

	fault_of_read(index, block);
	buffer = read_block(index, expect.uuid, block, strategy);
	LockBuffer(buffer, lock_mode);
	return accept_page(index, block, buffer, expect, policy, pgBufferUsage.shared_blks_read != reads_before, foreign);
}

Buffer
page_take(Relation index, BlockNumber block, Buffer buffer, const PageExpectation &expect, int lock_mode,
	ChecksumPolicy policy, BufferAccessStrategy strategy, bool *foreign)
{
	fault_of_read(index, block);
	if (strategy == nullptr && !RelationUsesLocalBuffers(index))
		note_place(index, expect.uuid, block, buffer);
	LockBuffer(buffer, lock_mode);
	return accept_page(index, block, buffer, expect, policy, true, foreign);
}

const char *
page_whereabouts(Relation index, const IndexUuid &uuid, BlockNumber block)
{
	IndexMemory *known = known_memory(index, uuid);
	Buffer recent;
	const char *page;

	if (known == nullptr || block >= known->n_recent)
		return nullptr;
	recent = recent_buffers(known)[block];
	if (recent <= 0) // none, or local
		return nullptr;
	__builtin_prefetch(GetBufferDescriptor(recent - 1), 1);
	page = static_cast<const char *>(BufferGetBlock(recent));
	__builtin_prefetch(page); // header and tag
	return page;
}

bool
page_known_good(Relation index, const IndexUuid &uuid, Buffer buffer, int64 reads_before)
{
	const BlockNumber block = BufferGetBlockNumber(buffer);
	const IndexMemory *known = known_memory(index, uuid);
	const ComparedPage *compared;

	if (known == nullptr || pgBufferUsage.shared_blks_read != reads_before)
		return false;
	compared = &known->compared[block % kComparedPages];
	return compared->block == block + 1 && compared->checksum == page_tag(BufferGetPage(buffer))->checksum;
}

void
page_note_sealed(Relation index, const IndexUuid &uuid, Buffer buffer)
{
	const BlockNumber block = BufferGetBlockNumber(buffer);
	IndexMemory *known = grown_memory(index, uuid, block + 1);

	if (known != nullptr)
		known->compared[block % kComparedPages] = {block + 1, page_tag(BufferGetPage(buffer))->checksum};
}

uint64
list_end_hint(Relation index, const IndexUuid &uuid, PageRole role)
{
	const IndexMemory *known = known_memory(index, uuid);

	return known != nullptr ? known->end_hints[role == PageRole::kAlias] : 0;
}

void
set_list_end_hint(Relation index, const IndexUuid &uuid, PageRole role, uint64 end)
{
	IndexMemory *known = grown_memory(index, uuid, 1);

	if (known != nullptr)
		known->end_hints[role == PageRole::kAlias] = end;
}

void
ensure_blocks(Relation index, BlockNumber n_blocks)
{
	if (RelationGetNumberOfBlocks(index) >= n_blocks)
		return;

	LockRelationForExtension(index, ExclusiveLock);
	for (BlockNumber have = RelationGetNumberOfBlocks(index); have < n_blocks;)
	{
		const BlockNumber n = Min(n_blocks - have, kExtendedBlocks);

		pg::write_zero_blocks(index, have, n);
		have += n;
		CHECK_FOR_INTERRUPTS();
	}
	UnlockRelationForExtension(index, ExclusiveLock);
}

} // namespace vectorgpu::am
