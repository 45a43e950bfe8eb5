// See give_way.hpp.
#include "am/maintain/give_way.hpp"

#include "pg/clock.hpp"

extern "C"
{
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kGiveWayMs = 200; // between two looks

} // namespace

bool
other_session_waits(Relation heap, uint64 *last_look)
{
	const uint64 now = pg::monotonic_ms();
	LOCKTAG database;

	if (now - *last_look < kGiveWayMs)
		return false;
	*last_look = now;
	if (LockHasWaitersRelation(heap, ShareUpdateExclusiveLock))
		return true;
	// DROP DATABASE holds this lock while it waits, for at most five seconds, for the database's sessions to end.
	SET_LOCKTAG_OBJECT(database, InvalidOid, DatabaseRelationId, MyDatabaseId, 0);
	if (LockAcquire(&database, AccessShareLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return true;
	LockRelease(&database, AccessShareLock, false);
	return false;
}

} // namespace vectorgpu::am
