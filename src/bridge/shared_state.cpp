// Makes or finds the shared state. See shared_state.hpp.
#include "bridge/shared_state.hpp"

#include "pg/fault.hpp"

#include <cstring>
#include <initializer_list>

extern "C"
{
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"
}

namespace vectorgpu::bridge
{

namespace
{

constexpr int kLogPauseMs = 60 * 1000;

SharedState *attached = nullptr;
bool unavailable = false;

void
init_state(SharedState *state)
{
	memset(state, 0, sizeof(*state));
	if (!pg_strong_random(&state->epoch, sizeof(state->epoch)) || state->epoch == 0)
		state->epoch = static_cast<uint64>(GetCurrentTimestamp()) << 8 | static_cast<uint64>(MyProcPid & 0xFF) | 1;
	pg_atomic_init_u32(&state->supervisor_pid, 0);
	pg_atomic_init_u32(&state->worker_pid, 0);
	pg_atomic_init_u32(&state->worker_ready, 0);
	pg_atomic_init_u32(&state->worker_silent, 0);
	for (pg_atomic_uint64 *counter : {&state->generation, &state->n_deaths, &state->supervisor_asked, &state->logged,
			 &state->n_answered, &state->n_shipped_rows, &state->n_inline_loads, &state->n_background_loads})
		pg_atomic_init_u64(counter, 0);
	for (pg_atomic_uint64 &counter : state->fallbacks)
		pg_atomic_init_u64(&counter, 0);
	for (LoaderSlot &slot : state->loaders)
	{
		pg_atomic_init_u64(&slot.order, 0);
		pg_atomic_init_u64(&slot.since, 0);
		pg_atomic_init_u32(&slot.pid, 0);
	}
}

void
attach()
{
	bool found;
	SharedState *state;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	(void) VG_FAULT("bridge_shmem");
	state = static_cast<SharedState *>(ShmemInitStruct("vectorgpu", sizeof(SharedState), &found));
	if (!found)
		init_state(state);
	LWLockRelease(AddinShmemInitLock);
	attached = state;
}

} // namespace

SharedState *
shared_state()
{
	const MemoryContext context = CurrentMemoryContext;
	volatile bool failed = false;

	if (attached != nullptr || unavailable || !IsUnderPostmaster)
		return attached;
	// Only shared memory that other extensions have used up makes this fail, and that must not fail a query.
	PG_TRY();
	{
		attach();
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
		failed = true;
	}
	PG_END_TRY();
	if (failed)
	{
		unavailable = true;
		ereport(
			LOG_SERVER_ONLY, (errmsg("no shared memory is left for vectorgpu: scans are answered without its worker"),
								 errhint("Add \"vectorgpu\" to shared_preload_libraries.")));
	}
	return attached;
}

const char *
fallback_name(Fallback reason)
{
	static const char *const kNames[] = {"not_running", "silent", "unreachable", "gone", "slot_busy", "loading",
		"too_large", "refused", "out_of_memory", "wrong_answer"};

	static_assert(sizeof(kNames) / sizeof(kNames[0]) == static_cast<size_t>(Fallback::kCount));
	return kNames[static_cast<int>(reason)];
}

void
note_fallback(Fallback reason, const char *detail)
{
	SharedState *state = shared_state();
	TimestampTz now;
	uint64 logged;

	if (state == nullptr)
		return;
	pg_atomic_fetch_add_u64(&state->fallbacks[static_cast<int>(reason)], 1);
	// A copy that is on its way, or a worker that is just starting, is nothing to tell of.
	if (reason == Fallback::kLoading || reason == Fallback::kSlotBusy ||
		(reason == Fallback::kNotRunning && pg_atomic_read_u64(&state->n_deaths) == 0 && detail == nullptr))
		return;
	logged = pg_atomic_read_u64(&state->logged);
	now = GetCurrentTimestamp();
	if (logged != 0 && !TimestampDifferenceExceeds(static_cast<TimestampTz>(logged), now, kLogPauseMs))
		return;
	if (!pg_atomic_compare_exchange_u64(&state->logged, &logged, static_cast<uint64>(now)))
		return;
	ereport(LOG_SERVER_ONLY,
		(errmsg("vectorgpu scans are answered without the worker: %s", fallback_name(reason)),
			detail != nullptr ? errdetail("%s", detail) : 0,
			errhint("The view vectorgpu_worker counts the reasons; this line comes once a minute at most.")));
}

} // namespace vectorgpu::bridge
