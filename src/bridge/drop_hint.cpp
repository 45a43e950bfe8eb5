// See drop_hint.hpp. The files to remove are known before the commit, but the drop can be rolled back until then, and
// other sessions may read the copy. The message is a set latch of the supervisor and nothing more, since reading the
// files costs it as little as reading their names.
//
// A session that has not used the extension loads it when it opens the index to drop it. This is early enough for the
// callback; an object access hook would be too late.
#include "bridge/drop_hint.hpp"

#include "bridge/shared_state.hpp"

extern "C"
{
#include "access/xact.h"
#include "catalog/storage.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procarray.h"
}

namespace vectorgpu::bridge
{

namespace
{

bool removes_files = false; // by this transaction if it commits

/// Return true if there is a supervisor and the commit removes files of relations that are not temporary.
bool
will_remove_files()
{
	SharedState *state = shared_state();
	pg::RelationFile *files;
	int n_files;

	if (state == nullptr || pg_atomic_read_u32(&state->supervisor_pid) == 0)
		return false;
	n_files = smgrGetPendingDeletes(true, &files);
	if (n_files > 0)
		pfree(files);
	return n_files > 0;
}

/// The transaction has committed: this must not fail, and waits for nothing but the lock of the process table.
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
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			removes_files = will_remove_files();
			break;
		case XACT_EVENT_COMMIT:
			if (removes_files)
				wake_supervisor();
			removes_files = false;
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			removes_files = false;
			break;
		default:
			break;
	}
}

} // namespace

void
drop_hint_install()
{
	RegisterXactCallback(transaction_ends, nullptr);
}

} // namespace vectorgpu::bridge
