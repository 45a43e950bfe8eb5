// See peek.hpp.
#include "am/functions/peek.hpp"

#include "am/method/index_access.hpp"
#include "pg/fault.hpp"
#include "pg/privilege.hpp"
#include "storage/metapage.hpp"

extern "C"
{
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "funcapi.h"
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

Datum
peek_row(FunctionCallInfo fcinfo, int n_columns, void (*fill)(Relation index, void *state))
{
	const Oid index_oid = PG_GETARG_OID(0);
	const Oid heap = IndexGetRelation(index_oid, true);
	PeekedRow row = {{}, {true, true}};
	TupleDesc descriptor;
	Relation index;

	if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE || descriptor->natts != n_columns)
		ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH), errmsg("unexpected result type of a vectorgpu function"),
				errhint("Run ALTER EXTENSION vectorgpu UPDATE.")));
	if (OidIsValid(heap) && pg::may_read_table(heap) && peek_open(index_oid, &index) && index != nullptr)
	{
		if (is_vectorgpu_index(index) && peek_has_pages(index))
			(void) peek_pages(index, fill, &row);
		relation_close(index, AccessShareLock);
	}
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), row.values, row.nulls));
}

} // namespace vectorgpu::am
