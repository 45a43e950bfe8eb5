// See drop_hint.hpp. Which files go is known before the commit; that they do, only with it: until then it can be rolled
// back, and others may read the copy. The supervisor's latch is the whole message, since to look at the files costs no
// more than to be told which.
//
// A session that has used nothing of the extension loads it when it opens the index to drop it, which is early enough:
// an object access hook would come too late then.
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

bool removes_files = false; // this transaction, when it commits

/// True if there is a supervisor, and files of others than temporary relations go with the commit.
bool
will_remove_files()
{
	SharedState *state = shared_state();
	RelFileNode *files;
	int n_files;

	if (state == nullptr || pg_atomic_read_u32(&state->supervisor_pid) == 0)
		return false;
	n_files = smgrGetPendingDeletes(true, &files);
	if (n_files > 0)
		pfree(files);
	return n_files > 0;
}

/// Nothing here can fail, nor wait for more than the lock of the process table: the transaction has committed.
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
