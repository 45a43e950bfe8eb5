// See drop_hint.hpp. What is dropped is known from OAT_DROP, but counts when the transaction has committed: until then it
// can be rolled back, and others may read the copy. The supervisor's latch is the whole message, since to look at the files
// costs no more than to be told which.
#include "bridge/drop_hint.hpp"

#include "bridge/shared_state.hpp"

extern "C"
{
#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database_d.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/syscache.h"
}

namespace vectorgpu::bridge
{

namespace
{

object_access_hook_type previous_hook = nullptr;
bool (*is_our_access_method)(Oid) = nullptr;
bool dropped = false; // something that may have a copy, in this transaction

/// True for what a copy may be of: a database, or one of our indexes that is not temporary.
bool
may_have_copy(Oid class_id, Oid object_id)
{
	HeapTuple tuple;
	bool may = false;

	if (class_id == DatabaseRelationId)
		return true;
	if (class_id != RelationRelationId)
		return false;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(object_id));
	if (HeapTupleIsValid(tuple))
	{
		const Form_pg_class form = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));

		may = form->relkind == RELKIND_INDEX && form->relpersistence != RELPERSISTENCE_TEMP &&
			  is_our_access_method(form->relam);
		ReleaseSysCache(tuple);
	}
	return may;
}

void
object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	SharedState *state;

	if (previous_hook != nullptr)
		previous_hook(access, class_id, object_id, sub_id, arg);
	if (access != OAT_DROP || sub_id != 0 || dropped)
		return;
	// Attaches here and not at commit, where nothing may fail.
	state = shared_state();
	if (state != nullptr && pg_atomic_read_u32(&state->supervisor_pid) != 0)
		dropped = may_have_copy(class_id, object_id);
}

/// Wakes the supervisor. Nothing here can fail, nor wait for more than the lock of the process table.
void
wake_supervisor()
{
	const uint32 pid = pg_atomic_read_u32(&shared_state()->supervisor_pid);
	PGPROC *process = pid != 0 ? BackendPidGetProc(static_cast<int>(pid)) : nullptr;

	if (process != nullptr)
		SetLatch(&process->procLatch);
}

void
transaction_ends(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT && dropped)
		wake_supervisor();
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		dropped = false;
}

} // namespace

void
drop_hint_install(bool (*is_ours)(Oid access_method))
{
	is_our_access_method = is_ours;
	previous_hook = object_access_hook;
	object_access_hook = object_access;
	RegisterXactCallback(transaction_ends, nullptr);
}

} // namespace vectorgpu::bridge
