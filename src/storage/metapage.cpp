// Reading and changing the metapage. See metapage.hpp.
#include "storage/metapage.hpp"

#include "pg/fault.hpp"

#include <cstring>

extern "C"
{
#include "access/xlog.h"
#include "common/pg_prng.h"
#include "executor/instrument.h"
#include "port.h"
#include "utils/snapmgr.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr BlockNumber kMetaBlock = 0;

/// Lock block 0 and check it. The metapage's own uuid cannot be checked, since there is nothing to compare it with.
Buffer
lock_metapage(Relation index, int lock_mode)
{
	const int64 reads_before = pgBufferUsage.shared_blks_read;
	Buffer buffer;
	Page page;
	const PageTag *tag;
	const MetaData *meta;

	if (VG_FAULT("meta_read"))
		page_corrupted(index, kMetaBlock, "A fault point says so.");
	buffer = ReadBufferExtended(index, MAIN_FORKNUM, kMetaBlock, RBM_NORMAL, nullptr);
	LockBuffer(buffer, lock_mode);
	page = BufferGetPage(buffer);
	tag = page_tag(page);
	meta = reinterpret_cast<const MetaData *>(page_payload(page));
	if (unlikely(PageIsNew(page)))
		page_corrupted(index, kMetaBlock, "The metapage was never written.");
	if (unlikely(tag->magic != kPageMagic || tag->role != PageRole::kMeta || meta->magic != kMetaMagic))
		page_corrupted(index, kMetaBlock, "The metapage is damaged.");
	if (!page_known_good(index, tag->uuid, buffer, reads_before))
	{
		if (unlikely(!page_checksum_ok(page)))
			page_corrupted(index, kMetaBlock, "The checksum of the page does not match its contents.");
		page_note_sealed(index, tag->uuid, buffer);
	}
	// Every format version keeps tag and checksum unchanged, so that another version is distinguished from a damaged
	// byte.
	if (unlikely(!meta_version_known(meta->version)))
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("index \"%s\" has format version %u, this release reads versions %u to %u",
					RelationGetRelationName(index), meta->version, kPlainVersion, kFormatVersion),
				meta->version > kFormatVersion
					? errhint("A newer release wrote it: connect again if that release is installed, install it, or "
							  "rebuild the index with REINDEX INDEX.")
					: errhint("Rebuild it with REINDEX INDEX.")));
	if (unlikely(meta->complete != 1 || meta->n_segments > kMaxSegments || meta->n_chunks > kMaxChunks ||
			meta->n_free > kMaxFreeExtents || meta->n_alias_chunks > kMaxAliasChunks ||
			(meta->keys.n_columns > 0) != (meta->version == kFormatVersion) || !key_layout_valid(&meta->keys) ||
			!uuid_equal(meta->uuid, tag->uuid)))
		page_corrupted(index, kMetaBlock, "The metapage contradicts itself.");
	return buffer;
}

} // namespace

void
meta_read(Relation index, Snapshot snapshot, MetaData *meta)
{
	Buffer buffer = lock_metapage(index, BUFFER_LOCK_SHARE);
	Page page = BufferGetPage(buffer);

	if (snapshot != nullptr)
		pg::check_snapshot_age(snapshot, index, page);
	memcpy(meta, page_payload(page), sizeof(MetaData));
	UnlockReleaseBuffer(buffer);
}

uint64
meta_alias_first(Relation index)
{
	Buffer buffer = lock_metapage(index, BUFFER_LOCK_SHARE);
	const uint64 first = reinterpret_cast<const MetaData *>(page_payload(BufferGetPage(buffer)))->alias_first;

	UnlockReleaseBuffer(buffer);
	return first;
}

void
meta_init(MetaData *meta, AmId am, ElementType element, Metric metric, uint32 dim, const KeyLayout *keys)
{
	memset(meta, 0, sizeof(MetaData));
	meta->magic = kMetaMagic;
	meta->version = kPlainVersion;
	meta->am = am;
	meta->element = element;
	meta->metric = metric;
	meta->dim = dim;
	if (keys != nullptr && keys->n_columns > 0)
	{
		meta->version = kFormatVersion;
		meta->keys = *keys;
	}
	if (!pg_strong_random(&meta->uuid, sizeof(meta->uuid)))
		ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate a random index identifier"),
				errhint("The system's source of random numbers failed; try again.")));
	meta->high_water = 1;
	meta->next_segment_id = 1;
	meta->next_chunk_id = 1;
	meta->complete = 1;
}

void
meta_form_page(const MetaData *meta, Page page)
{
	page_init(page, meta->uuid, PageRole::kMeta, StreamKind::kVectors, 0, 0);
	memcpy(page_payload(page), meta, sizeof(MetaData));
	page_tag(page)->used = sizeof(MetaData);
	page_seal(page);
}

void
meta_update_begin(MetaUpdate *update, Relation index)
{
	update->index = index;
	update->buffer = lock_metapage(index, BUFFER_LOCK_EXCLUSIVE);
	update->xlog = GenericXLogStart(index);
	update->page = GenericXLogRegisterBuffer(update->xlog, update->buffer, 0);
	update->meta = reinterpret_cast<MetaData *>(page_payload(update->page));
}

void
meta_update_finish(MetaUpdate *update)
{
	(void) VG_FAULT("meta_publish");
	page_seal(update->page);
	GenericXLogFinish(update->xlog);
	UnlockReleaseBuffer(update->buffer);
	update->buffer = InvalidBuffer;
}

void
meta_update_abort(MetaUpdate *update)
{
	GenericXLogAbort(update->xlog);
	UnlockReleaseBuffer(update->buffer);
	update->buffer = InvalidBuffer;
}

} // namespace vectorgpu::am
