// Adding a chunk to the delta. See delta_chunk.hpp.
#include "storage/delta_chunk.hpp"

#include "storage/alias.hpp"
#include "storage/delta_map.hpp"
#include "storage/extent.hpp"
#include "pg/fault.hpp"

extern "C"
{
#include "access/xloginsert.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint32 kMinChunkBlocks = 8;

/// Format and log the pages of a new chunk, so that every page of a chunk in the metapage is valid.
void
format_chunk(Relation index, const ChunkList &list, uint32 chunk_id, BlockNumber start, uint32 n_blocks)
{
	ensure_blocks(index, start + n_blocks);
	for (uint32 i = 0; i < n_blocks; i++)
	{
		Buffer buffer;

		(void) VG_FAULT("chunk_format");
		buffer = ReadBufferExtended(index, MAIN_FORKNUM, start + i, RBM_ZERO_AND_LOCK, nullptr);
		START_CRIT_SECTION();
		page_init(BufferGetPage(buffer), list.uuid, list.role, StreamKind::kVectors, chunk_id, i);
		reinterpret_cast<PageHeader>(BufferGetPage(buffer))->pd_lower = kPayloadOffset; // WAL omits the zeros after it
		page_seal(BufferGetPage(buffer));
		MarkBufferDirty(buffer);
		if (RelationNeedsWAL(index))
			log_newpage_buffer(buffer, true);
		END_CRIT_SECTION();
		UnlockReleaseBuffer(buffer);
	}
}

/// Return the size of the next chunk in blocks, so that few chunks hold any number of rows: a quarter of the delta's
/// size, or all of the aliases', which are small.
uint32
next_chunk_blocks(const ChunkList &list)
{
	const uint32 one_row = static_cast<uint32>(stream_blocks(list.row_bytes));
	uint64 have = 0;

	for (uint32 i = 0; i < list.n_chunks; i++)
		have += list.chunks[i].n_blocks;
	if (list.role == PageRole::kDelta)
		have /= 4;
	return Max(Max(kMinChunkBlocks, one_row), static_cast<uint32>(Min(have, UINT64CONST(1) << 20)));
}

/// Enter a new chunk in the metapage.
void
list_chunk(MetaData *meta, PageRole role, const DeltaChunk &chunk)
{
	if (role == PageRole::kDelta)
	{
		meta->chunks[meta->n_chunks++] = chunk;
		return;
	}
	meta->version = Max(meta->version, kAliasVersion); // an older release would not find the aliases' rows
	meta->alias_chunks[meta->n_alias_chunks++] = chunk;
}

} // namespace

bool
delta_add_chunk(Relation index, Relation heap, PageRole role, uint64 room_end)
{
	MetaUpdate update;
	MetaData meta;
	ChunkList list;
	FreeExtent taken;
	uint32 chunk_id;

	LockPage(index, 0, ExclusiveLock);
	meta_read(index, nullptr, &meta);
	list = role == PageRole::kDelta ? delta_list(&meta) : alias_list(&meta);
	if (delta_room_end(list) != room_end)
	{
		UnlockPage(index, 0, ExclusiveLock);
		return true;
	}
	if (role == PageRole::kAlias && meta.n_alias_chunks == kMaxAliasChunks)
	{
		UnlockPage(index, 0, ExclusiveLock);
		return false;
	}
	if (role == PageRole::kDelta && meta.n_chunks == kMaxChunks)
		ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				errmsg("index \"%s\" has too many rows that are not merged", RelationGetRelationName(index)),
				errdetail("Its delta has reached the limit of %u chunks.", kMaxChunks),
				errhint("Run VACUUM on the table, or vectorgpu_merge on the index.")));

	// The metapage lists the blocks as pending until they are formatted, so that they can be reclaimed after a crash.
	meta_update_begin(&update, index);
	extent_give(update.meta, update.meta->pending[kPendingChunk].start_block,
		update.meta->pending[kPendingChunk].n_blocks, current_parking_xid());
	taken.n_blocks = next_chunk_blocks(list);
	taken.start_block = extent_take(&update, heap, taken.n_blocks);
	taken.parked_xid = 0;
	update.meta->pending[kPendingChunk] = taken;
	chunk_id = update.meta->next_chunk_id++;
	meta_update_finish(&update);

	format_chunk(index, list, chunk_id, taken.start_block, taken.n_blocks);

	meta_update_begin(&update, index);
	list_chunk(update.meta, role, {room_end, taken.start_block, taken.n_blocks, chunk_id, 0});
	update.meta->pending[kPendingChunk] = {};
	meta_update_finish(&update);
	UnlockPage(index, 0, ExclusiveLock);
	return true;
}

} // namespace vectorgpu::am
