// See peek.hpp.
#include "am/functions/peek.hpp"

#include "pg/fault.hpp"
#include "storage/metapage.hpp"

extern "C"
{
#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "storage/lmgr.h"
#include "utils/resowner.h"
}

namespace vectorgpu::am
{

bool
peek_open(Oid index_oid, Relation *index)
{
	if (!ConditionalLockRelationOid(index_oid, AccessShareLock))
		return false;
	*index = try_relation_open(index_oid, NoLock);
	if (*index == nullptr)
		UnlockRelationOid(index_oid, AccessShareLock);
	return true;
}

bool
peek_has_pages(Relation index)
{
	return RELKIND_HAS_STORAGE(index->rd_rel->relkind) && !RELATION_IS_OTHER_TEMP(index) &&
		(!RecoveryInProgress() || index->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT);
}

bool
peek_metapage(Relation index, uint32 *version)
{
	Buffer buffer;
	Page page;
	const MetaData *meta;
	bool intact = false;

	*version = 0;
	if (RelationGetNumberOfBlocks(index) == 0)
		return false;
	(void) VG_FAULT("stats_peek");
	buffer = ReadBufferExtended(index, MAIN_FORKNUM, 0, RBM_NORMAL, nullptr);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	meta = reinterpret_cast<const MetaData *>(page_payload(page));
	if (!PageIsNew(page) && page_tag(page)->magic == kPageMagic && page_tag(page)->role == PageRole::kMeta &&
		meta->magic == kMetaMagic && page_checksum_ok(page))
	{
		*version = meta->version;
		intact = meta_version_known(meta->version) && meta->complete == 1;
	}
	UnlockReleaseBuffer(buffer);
	return intact;
}

bool
peek_pages(Relation index, void (*read)(Relation index, void *state), void *state)
{
	const MemoryContext context = CurrentMemoryContext;
	const ResourceOwner owner = CurrentResourceOwner;
	volatile bool intact = true;

	BeginInternalSubTransaction(nullptr);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		read(index, state);
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (error->sqlerrcode != ERRCODE_INDEX_CORRUPTED && error->sqlerrcode != ERRCODE_DATA_CORRUPTED)
			ReThrowError(error);
		FreeErrorData(error);
		intact = false;
	}
	PG_END_TRY();
	return intact;
}

} // namespace vectorgpu::am
