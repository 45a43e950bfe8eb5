// See supervisor.hpp: its registration, at the server's start or when a scan wants a worker.
#include "bridge/supervisor.hpp"

#include "pg/clock.hpp"
#include "pg/fault.hpp"
#include "pg/shared_memory.hpp"

#include <cstring>

extern "C"
{
#include "miscadmin.h"
#include "postmaster/bgworker.h"
}

namespace vectorgpu::bridge
{

namespace
{

constexpr int kRestartSeconds = 5;        // of the supervisor itself
constexpr uint64 kAskPauseMs = 10 * 1000; // between two requests for a supervisor

bool preloaded = false; // registered at the server's start

void
fill_registration(BackgroundWorker *worker)
{
	memset(worker, 0, sizeof(*worker));
	// A database connection (to no database) gives it a ProcSignal slot. Without one DROP DATABASE would not wait for
	// it, but it could not be terminated from SQL.
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker->bgw_start_time = BgWorkerStart_ConsistentState;
	worker->bgw_restart_time = kRestartSeconds;
	strlcpy(worker->bgw_name, "vectorgpu supervisor", BGW_MAXLEN);
	strlcpy(worker->bgw_type, "vectorgpu supervisor", BGW_MAXLEN);
	strlcpy(worker->bgw_library_name, "vectorgpu", BGW_MAXLEN);
	strlcpy(worker->bgw_function_name, "vectorgpu_supervisor_main", BGW_MAXLEN);
}

} // namespace

void
supervisor_init()
{
	BackgroundWorker worker;
	const void *last = pg::last_registered_worker();

	if (!process_shared_preload_libraries_in_progress)
		return;
	(void) pg::reserve_shared_memory(sizeof(SharedState));
	fill_registration(&worker);
	RegisterBackgroundWorker(&worker);
	// If no slot is left, this only logs a line. Scans then request one as without preloading, and report what is
	// missing.
	preloaded = pg::last_registered_worker() != last;
}

void
supervisor_request(SharedState *state)
{
	BackgroundWorker worker;
	const uint64 now = pg::monotonic_ms();
	uint64 asked = pg_atomic_read_u64(&state->supervisor_asked);

	if (preloaded || pg_atomic_read_u32(&state->supervisor_pid) != 0)
		return;
	if (asked != 0 && now < asked + kAskPauseMs)
		return;
	if (!pg_atomic_compare_exchange_u64(&state->supervisor_asked, &asked, now))
		return;
	fill_registration(&worker);
	if (VG_FAULT("supervisor_register") || !RegisterDynamicBackgroundWorker(&worker, nullptr))
	{
		set_obstacle(state, Obstacle::kNoSlot);
		log_fallback(Fallback::kNotRunning, "No background worker slot is free: see max_worker_processes.");
	}
	else
		set_obstacle(state, Obstacle::kNone);
}

} // namespace vectorgpu::bridge
