// See shared_memory.hpp.
#include "pg/shared_memory.hpp"

#include "pg/fault.hpp"

extern "C"
{
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
}

namespace vectorgpu::pg
{

namespace
{

Size reserved = 0;
shmem_request_hook_type next_request_hook = nullptr;

void
request_reserved()
{
	if (next_request_hook != nullptr)
		next_request_hook();
	RequestAddinShmemSpace(reserved);
}

void *
attach(const char *name, Size size, void (*fill)(void *piece))
{
	bool found;
	void *piece;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	(void) VG_FAULT("bridge_shmem");
	piece = ShmemInitStruct(name, size, &found);
	if (!found)
		fill(piece);
	LWLockRelease(AddinShmemInitLock);
	return piece;
}

} // namespace

void *
shared_piece(const char *name, Size size, void (*fill)(void *piece))
{
	const MemoryContext context = CurrentMemoryContext;
	void *volatile piece = nullptr;

	if (!IsUnderPostmaster)
		return nullptr;
	// This fails only if other extensions have used up the shared memory, which must not fail a query.
	PG_TRY();
	{
		piece = attach(name, size, fill);
	}
	PG_CATCH();
	{
		// An error resets the hold-off count that LWLockRelease counts down.
		HOLD_INTERRUPTS();
		if (LWLockHeldByMe(AddinShmemInitLock))
			LWLockRelease(AddinShmemInitLock);
		else
			RESUME_INTERRUPTS();
		MemoryContextSwitchTo(context);
		FlushErrorState();
	}
	PG_END_TRY();
	return piece;
}

bool
reserve_shared_memory(Size size)
{
	if (!process_shared_preload_libraries_in_progress)
		return false;
	if (reserved == 0)
	{
		next_request_hook = shmem_request_hook;
		shmem_request_hook = request_reserved;
	}
	reserved = add_size(reserved, MAXALIGN(size));
	return true;
}

} // namespace vectorgpu::pg
