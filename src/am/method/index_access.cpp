// Opening an index for the SQL functions and the maintenance worker. See index_access.hpp.
#include "am/method/index_access.hpp"

#include "am/method/callbacks.hpp"

extern "C"
{
#include "access/amapi.h"
#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/syscache.h"
}

namespace vectorgpu::am
{

namespace
{

[[noreturn]] void
no_such_index(Oid index_oid)
{
	ereport(ERROR,
		(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("index with OID %u does not exist", index_oid),
			errhint("The view vectorgpu_indexes lists the indexes that you can name.")));
	pg_unreachable();
}

/// The table of an index, from the catalogs, before any lock. Raises an error for anything that is not an index.
Oid
table_of(Oid index_oid)
{
	const char relkind = get_rel_relkind(index_oid);
	Oid heap_oid;

	if (relkind == '\0')
		no_such_index(index_oid);
	if (relkind == RELKIND_PARTITIONED_INDEX)
		ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("index \"%s\" is partitioned", get_rel_name(index_oid)),
				errdetail("A partitioned index has no contents of its own."),
				errhint("Call the function for the index of each partition.")));
	if (relkind != RELKIND_INDEX)
		ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("\"%s\" is not an index", get_rel_name(index_oid)),
				errhint("Pass the name of an index, as the view vectorgpu_indexes lists them.")));
	heap_oid = IndexGetRelation(index_oid, true);
	if (!OidIsValid(heap_oid))
		no_such_index(index_oid);
	return heap_oid;
}

void
check_right(Oid heap_oid, IndexRight right)
{
	if (right == IndexRight::kMaintain)
	{
		// As VACUUM does.
		if (!pg::owns_table(heap_oid, GetUserId()) && !pg::owns_database(MyDatabaseId, GetUserId()))
			aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(heap_oid));
		return;
	}
	if (superuser() || (right == IndexRight::kRead && has_privs_of_role(GetUserId(), ROLE_PG_STAT_SCAN_TABLES)))
		return;
	if (pg_class_aclcheck(heap_oid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, get_rel_name(heap_oid));
	if (check_enable_rls(heap_oid, InvalidOid, true) == RLS_ENABLED)
		ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("permission denied for index contents of table \"%s\"", get_rel_name(heap_oid)),
				errdetail("Row-level security is active for you on this table, and an index holds all of its rows."),
				right == IndexRight::kContents
					? errhint("Ask the owner of the table.")
					: errhint("Ask the owner of the table, or a member of pg_stat_scan_tables.")));
}

void
check_kind(Relation index)
{
	if (!is_vectorgpu_index(index))
		ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				errmsg("index \"%s\" is not a vectorgpu index", RelationGetRelationName(index)),
				errdetail("Its access method is %s.", get_am_name(index->rd_rel->relam)),
				errhint("The view vectorgpu_indexes lists the indexes that you can name.")));
	if (RELATION_IS_OTHER_TEMP(index))
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("cannot access temporary indexes of other sessions"),
				errdetail("Index \"%s\" is on a temporary table of another session.", RelationGetRelationName(index)),
				errhint("Call the function in that session.")));
	if (RecoveryInProgress() && index->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("cannot access temporary or unlogged relations during recovery"),
				errdetail("Index \"%s\" is not replicated.", RelationGetRelationName(index)),
				errhint("Call the function on the primary server.")));
}

bool
is_usable(Relation index)
{
	return index->rd_index->indisvalid && index->rd_index->indisready && index->rd_index->indislive;
}

void
become_owner(IndexAccess *access)
{
	GetUserIdAndSecContext(&access->saved_user, &access->saved_context);
	index_access_enter(access);
	access->guc_nest_level = NewGUCNestLevel();
}

} // namespace

bool
is_vectorgpu_index(Relation index)
{
	return index->rd_indam != nullptr && index->rd_indam->ambulkdelete == shared_bulkdelete;
}

bool
is_vectorgpu_method(Oid access_method)
{
	return GetIndexAmRoutineByAmId(access_method, false)->ambulkdelete == shared_bulkdelete;
}

void
index_access_open(IndexAccess *access, Oid index_oid, LOCKMODE heap_lock, LOCKMODE index_lock, IndexRight right)
{
	const Oid heap_oid = table_of(index_oid);

	// Before the lock, so that a user without rights cannot hold up others; and again under it.
	check_right(heap_oid, right);
	access->heap_lock = heap_lock;
	access->index_lock = index_lock;
	access->heap = try_relation_open(heap_oid, heap_lock);
	access->index = access->heap != nullptr ? try_relation_open(index_oid, index_lock) : nullptr;
	if (access->index == nullptr || access->index->rd_rel->relkind != RELKIND_INDEX ||
		access->index->rd_index->indrelid != heap_oid)
		no_such_index(index_oid);
	check_right(heap_oid, right);
	check_kind(access->index);
	if (!is_usable(access->index))
		ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("index \"%s\" is not valid", RelationGetRelationName(access->index)),
				errdetail("A concurrent build of it failed or is not finished."),
				errhint("Rebuild it with REINDEX INDEX, or drop it.")));
	become_owner(access);
}

bool
index_access_try_open(IndexAccess *access, Oid index_oid, LOCKMODE heap_lock, LOCKMODE index_lock)
{
	const Oid heap_oid = IndexGetRelation(index_oid, true);

	if (!OidIsValid(heap_oid) || !ConditionalLockRelationOid(heap_oid, heap_lock))
		return false;
	access->heap_lock = heap_lock;
	access->index_lock = index_lock;
	access->heap = try_relation_open(heap_oid, NoLock);
	if (access->heap == nullptr)
	{
		UnlockRelationOid(heap_oid, heap_lock);
		return false;
	}
	access->index = nullptr;
	if (ConditionalLockRelationOid(index_oid, index_lock))
	{
		access->index = try_relation_open(index_oid, NoLock);
		if (access->index == nullptr)
			UnlockRelationOid(index_oid, index_lock);
	}
	if (access->index != nullptr && access->index->rd_rel->relkind == RELKIND_INDEX &&
		access->index->rd_index->indrelid == heap_oid && is_vectorgpu_index(access->index) &&
		is_usable(access->index) && !RELATION_IS_OTHER_TEMP(access->index))
	{
		become_owner(access);
		return true;
	}
	if (access->index != nullptr)
		relation_close(access->index, index_lock);
	relation_close(access->heap, heap_lock);
	return false;
}

void
index_access_enter(const IndexAccess *access)
{
	SetUserIdAndSecContext(access->heap->rd_rel->relowner, access->saved_context | SECURITY_RESTRICTED_OPERATION);
}

void
index_access_leave(const IndexAccess *access)
{
	SetUserIdAndSecContext(access->saved_user, access->saved_context);
}

void
index_access_close(IndexAccess *access)
{
	AtEOXact_GUC(false, access->guc_nest_level);
	index_access_leave(access);
	relation_close(access->index, access->index_lock);
	relation_close(access->heap, access->heap_lock);
}

} // namespace vectorgpu::am
