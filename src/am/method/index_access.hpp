// Opening an index for a SQL function: checks of kind, state and privilege, and the locks (table before index). PG
// dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "storage/lockdefs.h"
}

namespace vectorgpu::am
{

/// The right that the caller needs.
enum class IndexRight
{
	kRead,     // SELECT on the table and no row security for the caller; or superuser, pg_stat_scan_tables
	kContents, // SELECT on the table and no row security for the caller; or superuser: what is shown was computed from
			   // the rows' values
	kMaintain, // what VACUUM asks for: owner of the table or of the database
};

struct IndexAccess
{
	Relation heap;
	Relation index;
	LOCKMODE heap_lock;
	LOCKMODE index_lock;
	Oid saved_user; // while the table's owner is the current user
	int saved_context;
	int guc_nest_level;
};

/// True if the access method of the index is one of vectorgpu's.
bool is_vectorgpu_index(Relation index);

/// The same of an access method by its Oid.
bool is_vectorgpu_method(Oid access_method);

/// Opens table and index, checked, or raises 42704, 42809, 42501, 0A000 or 55000. From here to the close the table's
/// owner is the current user, restricted, so that functions in index expressions run with no other rights than his.
void index_access_open(IndexAccess *access, Oid index_oid, LOCKMODE heap_lock, LOCKMODE index_lock, IndexRight right);

/// The same for a background worker: never waits, raises no error for an unsuitable index; false if the index cannot be
/// used.
bool index_access_try_open(IndexAccess *access, Oid index_oid, LOCKMODE heap_lock, LOCKMODE index_lock);

/// Make the caller the current user for a while, and the owner again.
void index_access_leave(const IndexAccess *access);
void index_access_enter(const IndexAccess *access);

/// Releases the locks as well.
void index_access_close(IndexAccess *access);

} // namespace vectorgpu::am
