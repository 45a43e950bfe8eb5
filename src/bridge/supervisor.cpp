// See supervisor.hpp. It holds no database connection, services interrupts quickly (DROP DATABASE waits for every
// process), and exits only with status 0 or 1, since any other would restart the server.
#include "bridge/supervisor.hpp"

#include "bridge/breaker.hpp"
#include "bridge/client_session.hpp"
#include "bridge/settings.hpp"
#include "bridge/sweep.hpp"
#include "bridge/worker_process.hpp"
#include "common/cores.hpp"
#include "pg/clock.hpp"
#include "pg/fault.hpp"
#include "pg/shared_memory.hpp"
#include "wire/address.hpp"

#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstring>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C"
{
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procsignal.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/wait_event.h"
}

namespace vectorgpu::bridge
{

namespace
{

constexpr int kRestartSeconds = 5;        // of the supervisor itself
constexpr uint64 kAskPauseMs = 10 * 1000; // between two requests for a supervisor
constexpr uint64 kNsPerMs = 1000 * 1000;
constexpr uint64 kGreetPauseMs = 20;
constexpr uint64 kPingPauseMs = 1000;
constexpr uint64 kHintPauseMs = 100; // from a commit that removes a file to the end of the file
constexpr uint32 kHintSweeps = 3;    // after pauses that double: removal takes longer on a busy machine
constexpr uint64 kLongestSleepMs = 60 * 1000;
constexpr uint64 kLongLifeMs = 30 * 1000; // a worker that lived this long did not die early
constexpr uint64 kSilenceLimit = 30;      // timeouts without an answer, then the worker is killed
constexpr uint32 kQuietDeaths = 5;        // consecutive early deaths that are logged each
constexpr size_t kDeviceBytes = 256;      // longest value of vectorgpu.device

bool preloaded = false; // registered at the server's start

/// The supervisor's state. Static, for the exit callback.
struct Supervisor
{
	SharedState *state;
	WorkerProcess process;
	uint64 ready_ns; // 0: it has not greeted yet
	uint64 next_start_ns;
	uint64 next_greet_ns;
	uint64 next_ping_ns;
	uint64 next_sweep_ns;
	uint64 next_hint_sweep_ns; // 0: no hint lately
	uint32 hint_sweeps;
	uint64 silent_since_ns; // 0: it answers
	bool skew_logged;       // of the running worker: it is one of another release
	uint32 early_deaths;    // in a row
	int threads;            // settings of the running worker, as the members below
	int memory_mb;
	int max_sessions;
	int gpu_memory_mb;
	char device[kDeviceBytes];
	char program[MAXPGPATH];
};

Supervisor supervisor;

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

bool
process_exists(uint32 pid)
{
	return pid != 0 && (kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM);
}

void
set_obstacle(SharedState *state, Obstacle obstacle)
{
	pg_atomic_write_u32(&state->obstacle, static_cast<uint32>(obstacle));
}

/// Runs at every exit short of a crash.
void
on_supervisor_exit(int code, Datum argument)
{
	SharedState *state = supervisor.state;

	pg_atomic_write_u32(&state->worker_ready, 0);
	worker_process_kill(&supervisor.process);
	pg_atomic_write_u32(&state->worker_pid, 0);
	pg_atomic_write_u32(&state->supervisor_pid, 0);
	set_obstacle(state, Obstacle::kNone);
}

/// SIGQUIT: the server has crashed or stops immediately. As core's handler, but kill and reap the worker first: a
/// postmaster that is process 1 would inherit it and take its death for that of a backend. Async-signal-safe calls
/// only.
void
on_crash_exit(SIGNAL_ARGS)
{
	worker_process_kill(&supervisor.process);
	_exit(2);
}

/// Create the directory of the sockets, or empty it: a server has one supervisor, so a socket there is a leftover.
void
prepare_folder()
{
	DIR *folder;
	struct dirent *entry;
	char path[MAXPGPATH];

	if (mkdir(wire::kSocketFolder, 0700) != 0 && errno != EEXIST)
		ereport(
			ERROR, (errcode_for_file_access(), errmsg("could not create directory \"%s\": %m", wire::kSocketFolder)));
	(void) chmod(wire::kSocketFolder, 0700);
	folder = AllocateDir(wire::kSocketFolder);
	while ((entry = ReadDir(folder, wire::kSocketFolder)) != nullptr)
	{
		if (!wire::is_socket_name(entry->d_name))
			continue;
		snprintf(path, sizeof(path), "%s/%s", wire::kSocketFolder, entry->d_name);
		(void) unlink(path);
	}
	FreeDir(folder);
}

/// A worker that has lived long is restarted at once: a fault of the GPU has ended with it.
uint64
restart_delay_ms()
{
	const uint64 longest = static_cast<uint64>(settings.worker_restart_delay_max) * 1000;

	return supervisor.early_deaths == 0 ? 0 : Min(UINT64CONST(1000) << Min(supervisor.early_deaths - 1, 10U), longest);
}

/// After a failed start or a worker's death: set the time of the next start. One log line for each of the first few
/// failures, then one for each try, which are a minute apart by then.
void
plan_restart(uint64 now)
{
	const bool early = supervisor.ready_ns == 0 || now - supervisor.ready_ns < kLongLifeMs * kNsPerMs;

	supervisor.early_deaths = early ? supervisor.early_deaths + 1 : 0;
	supervisor.next_start_ns = now + restart_delay_ms() * kNsPerMs;
	if (supervisor.early_deaths == kQuietDeaths)
		ereport(LOG,
			(errmsg("vectorgpu worker ended early %u times in a row", supervisor.early_deaths),
				errdetail("It is started again after longer and longer pauses, up to %d seconds.",
					settings.worker_restart_delay_max)));
}

/// Set path [size] to the worker's executable: the setting's; else, beside the module, that of the package with CUDA if
/// it is there (packaging/README.md), or the one that was installed with the module.
void
find_worker(char *path, size_t size)
{
	if (settings.worker_program != nullptr && settings.worker_program[0] != '\0')
	{
		strlcpy(path, settings.worker_program, size);
		return;
	}
	snprintf(path, size, "%s/vectorgpu_worker_cuda", pkglib_path);
	if (access(path, X_OK) != 0)
		snprintf(path, size, "%s/vectorgpu_worker", pkglib_path);
}

void
start_worker(uint64 now)
{
	char path[MAXPGPATH];
	char epoch[24];
	char threads[16];
	char memory[24];
	char sessions[16];
	char parent[16];
	char name[] = "vectorgpu_worker";
	char option_directory[] = "--data-directory";
	char directory[] = ".";
	char option_epoch[] = "--epoch";
	char option_threads[] = "--threads";
	char option_memory[] = "--memory-budget";
	char option_sessions[] = "--max-sessions";
	char option_parent[] = "--parent-pid";
	char option_device[] = "--device";
	char option_gpu_memory[] = "--gpu-memory";
	char gpu_memory[24];
	const unsigned n_cores = count_cores();
	char *argv[] = {name, option_directory, directory, option_epoch, epoch, option_threads, threads, option_memory,
		memory, option_sessions, sessions, option_parent, parent, option_device, supervisor.device, option_gpu_memory,
		gpu_memory, nullptr, nullptr, nullptr};

	supervisor.threads = settings.worker_threads;
	supervisor.memory_mb = settings.worker_memory_mb;
	supervisor.max_sessions = settings.worker_max_sessions;
	supervisor.gpu_memory_mb = settings.gpu_memory_mb;
	strlcpy(supervisor.device, settings.device, sizeof(supervisor.device));
	find_worker(path, sizeof(path));
	strlcpy(supervisor.program, settings.worker_program, sizeof(supervisor.program));
	snprintf(epoch, sizeof(epoch), "%" PRIx64, static_cast<uint64_t>(supervisor.state->epoch));
	snprintf(threads, sizeof(threads), "%d",
		settings.worker_threads > 0 ? settings.worker_threads : static_cast<int>(Min(n_cores, 1024U)));
	snprintf(memory, sizeof(memory), "%" PRIu64, static_cast<uint64_t>(settings.worker_memory_mb) << 20);
	snprintf(gpu_memory, sizeof(gpu_memory), "%" PRIu64, static_cast<uint64_t>(settings.gpu_memory_mb) << 20);
	// Add the supervisor's own session and a loader's.
	snprintf(sessions, sizeof(sessions), "%d", settings.worker_max_sessions + 2);
	snprintf(parent, sizeof(parent), "%d", MyProcPid);

	supervisor.ready_ns = 0;
	if (access(path, X_OK) != 0 || !worker_process_start(&supervisor.process, path, argv))
	{
		set_obstacle(supervisor.state, Obstacle::kNoProgram);
		plan_restart(now);
		ereport(WARNING,
			(errmsg("could not start the vectorgpu worker \"%s\": %m", path),
				errdetail("Scans are answered from the pages of the indexes."),
				errhint("Build it with CMake and \"make install\", or set vectorgpu.worker to off.")));
		return;
	}
	set_obstacle(supervisor.state, Obstacle::kNone);
	pg_atomic_write_u32(&supervisor.state->worker_silent, 0);
	breaker_reset(supervisor.state);
	pg_atomic_write_u32(&supervisor.state->worker_pid, static_cast<uint32>(supervisor.process.pid));
	pg_atomic_fetch_add_u64(&supervisor.state->generation, 1);
	supervisor.next_greet_ns = now;
	supervisor.silent_since_ns = 0;
	supervisor.skew_logged = false;
}

void
forget_worker()
{
	pg_atomic_write_u32(&supervisor.state->worker_ready, 0);
	pg_atomic_write_u32(&supervisor.state->worker_pid, 0);
	pg_atomic_write_u32(&supervisor.state->worker_silent, 0);
	session_close();
}

/// Kill the worker; it is started again at once.
void
stop_worker(const char *why)
{
	ereport(LOG, (errmsg("stopping the vectorgpu worker (PID %d): %s", static_cast<int>(supervisor.process.pid), why)));
	forget_worker();
	worker_process_kill(&supervisor.process);
	worker_process_close(&supervisor.process);
	supervisor.next_start_ns = wire::monotonic_ns();
	supervisor.silent_since_ns = 0;
}

/// Check whether the worker has ended.
void
notice_death(uint64 now)
{
	const int pid = static_cast<int>(supervisor.process.pid);
	int status;

	if (!worker_process_reap(&supervisor.process, &status))
		return;
	forget_worker();
	pg_atomic_fetch_add_u64(&supervisor.state->n_deaths, 1);
	if (WIFSIGNALED(status))
		ereport(LOG, (errmsg("vectorgpu worker (PID %d) ended by signal %d", pid, WTERMSIG(status))));
	else
		ereport(LOG, (errmsg("vectorgpu worker (PID %d) ended with status %d", pid, WEXITSTATUS(status))));
	plan_restart(now);
}

uint64
sweep_pause_ns()
{
	return static_cast<uint64>(settings.worker_sweep_interval) * 1000 * kNsPerMs;
}

/// Try to connect, until the worker has greeted. Only then do scans use it.
void
greet(uint64 now)
{
	if (!session_ready(false))
	{
		supervisor.next_greet_ns = now + kGreetPauseMs * kNsPerMs;
		if (session_skewed() && !supervisor.skew_logged)
		{
			supervisor.skew_logged = true;
			ereport(LOG,
				(errmsg(
					 "vectorgpu worker (PID %d) does not match the server", static_cast<int>(supervisor.process.pid)),
					errdetail("It speaks another version of the protocol, or is for another start of the server. Scans "
							  "are answered from the pages of the indexes."),
					errhint("After an upgrade restart the server.")));
		}
		return;
	}
	pg_atomic_write_u32(&supervisor.state->worker_on_gpu, session_engine() == wire::EngineKind::kCuda ? 1 : 0);
	pg_atomic_write_u32(&supervisor.state->worker_ready, 1);
	supervisor.ready_ns = now;
	supervisor.next_ping_ns = now + kPingPauseMs * kNsPerMs;
	supervisor.next_sweep_ns = now + sweep_pause_ns();
}

/// Ping the worker. Scans skip a silent one, and in the end it is killed.
void
ping(uint64 now)
{
	wire::ReplyHeader header;
	Fallback reason;
	const bool answered = session_ready(false) &&
		session_request(wire::RequestType::kPing, nullptr, nullptr, 0, &header, nullptr, 0, &reason);

	supervisor.next_ping_ns = now + kPingPauseMs * kNsPerMs;
	pg_atomic_write_u32(&supervisor.state->worker_silent, answered ? 0 : 1);
	if (answered)
		supervisor.silent_since_ns = 0;
	else if (supervisor.silent_since_ns == 0)
	{
		supervisor.silent_since_ns = now;
		ereport(LOG,
			(errmsg("vectorgpu worker (PID %d) does not answer", static_cast<int>(supervisor.process.pid)),
				errdetail("Scans are answered from the pages of the indexes until it does.")));
	}
	else if (now - supervisor.silent_since_ns >
		kSilenceLimit * static_cast<uint64>(settings.worker_timeout_ms) * kNsPerMs)
		stop_worker("it has not answered for too long");
}

/// Sweep, if it is time or files were removed.
void
sweep(uint64 now)
{
	if (supervisor.next_hint_sweep_ns != 0 && now >= supervisor.next_hint_sweep_ns)
	{
		sweep_copies();
		supervisor.hint_sweeps++;
		supervisor.next_hint_sweep_ns =
			supervisor.hint_sweeps < kHintSweeps ? now + (kHintPauseMs << supervisor.hint_sweeps) * kNsPerMs : 0;
	}
	if (now >= supervisor.next_sweep_ns)
	{
		sweep_copies();
		supervisor.next_sweep_ns = now + sweep_pause_ns();
	}
}

bool
settings_changed()
{
	return supervisor.threads != settings.worker_threads || supervisor.memory_mb != settings.worker_memory_mb ||
		supervisor.max_sessions != settings.worker_max_sessions || supervisor.gpu_memory_mb != settings.gpu_memory_mb ||
		strcmp(supervisor.device, settings.device) != 0 || strcmp(supervisor.program, settings.worker_program) != 0;
}

/// Do everything that is due. Returns the time of the next task.
uint64
step(uint64 now)
{
	uint64 due = now + kLongestSleepMs * kNsPerMs;

	if (supervisor.process.pid != 0)
	{
		if (!worker_process_read_output(&supervisor.process))
			due = now + kGreetPauseMs * kNsPerMs; // its end of the pipe is closed: it can be reaped soon
		notice_death(now);
	}
	if (supervisor.process.pid != 0 && !settings.worker)
		stop_worker("vectorgpu.worker is off");
	if (supervisor.process.pid != 0 && settings_changed())
		stop_worker("its settings have changed");
	if (supervisor.process.pid == 0)
	{
		if (!settings.worker)
		{
			set_obstacle(supervisor.state, Obstacle::kOff);
			return due;
		}
		// The obstacle may be gone with the old setting.
		if (pg_atomic_read_u32(&supervisor.state->obstacle) == static_cast<uint32>(Obstacle::kOff))
			set_obstacle(supervisor.state, Obstacle::kNone);
		// Failures with other settings are no reason to wait.
		if (settings_changed())
		{
			supervisor.early_deaths = 0;
			supervisor.next_start_ns = now;
		}
		if (now < supervisor.next_start_ns)
			return Min(due, supervisor.next_start_ns);
		start_worker(now);
		return supervisor.process.pid != 0 ? now : Min(due, supervisor.next_start_ns);
	}
	if (pg_atomic_read_u32(&supervisor.state->worker_ready) == 0)
	{
		if (now >= supervisor.next_greet_ns)
			greet(now);
		return Min(due, supervisor.next_greet_ns);
	}
	if (now >= supervisor.next_ping_ns)
		ping(now);
	due = Min(due, supervisor.next_ping_ns);
	if (supervisor.process.pid == 0 || supervisor.silent_since_ns != 0)
		return due;
	sweep(now);
	due = Min(due, supervisor.next_sweep_ns);
	return supervisor.next_hint_sweep_ns != 0 ? Min(due, supervisor.next_hint_sweep_ns) : due;
}

/// Publish the timeout for the breakers, which use the server's setting, not a session's.
void
tell_timeout()
{
	pg_atomic_write_u32(&supervisor.state->timeout_ms, static_cast<uint32>(settings.worker_timeout_ms));
}

void
sleep_until(uint64 due_ns)
{
	const uint64 now = wire::monotonic_ns();
	const long timeout_ms = due_ns <= now ? 0 : static_cast<long>((due_ns - now) / kNsPerMs + 1);
	int wanted = WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH;

	if (supervisor.process.output_fd >= 0)
		wanted |= WL_SOCKET_READABLE;
	// A set latch is the hint of a commit that has removed files (drop_hint.cpp), or a signal; an extra sweep does no
	// harm.
	if ((WaitLatchOrSocket(MyLatch, wanted, supervisor.process.output_fd, timeout_ms, PG_WAIT_EXTENSION) &
			WL_LATCH_SET) != 0)
	{
		supervisor.hint_sweeps = 0;
		supervisor.next_hint_sweep_ns = wire::monotonic_ns() + kHintPauseMs * kNsPerMs;
	}
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
		tell_timeout();
		supervisor.next_sweep_ns = Min(supervisor.next_sweep_ns, wire::monotonic_ns() + sweep_pause_ns());
		supervisor.next_start_ns =
			Min(supervisor.next_start_ns, wire::monotonic_ns()); // a missing program may have been installed
	}
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

void
supervisor_run()
{
	SharedState *state = shared_state();
	MemoryContext context;
	uint32 other = 0;

	if (state == nullptr)
		proc_exit(0);
	if (!pg_atomic_compare_exchange_u32(&state->supervisor_pid, &other, static_cast<uint32>(MyProcPid)))
	{
		// Two were requested at the same time: one suffices. The number of a dead one cannot be here: see
		// on_supervisor_exit.
		if (process_exists(other))
			proc_exit(0);
		pg_atomic_write_u32(&state->supervisor_pid, static_cast<uint32>(MyProcPid));
	}
	supervisor.state = state;
	tell_timeout();
	worker_process_init(&supervisor.process);
	before_shmem_exit(on_supervisor_exit, 0);
	pqsignal(SIGQUIT, on_crash_exit);
	session_set_role(wire::Role::kSupervisor);
	prepare_folder();
	context = AllocSetContextCreate(TopMemoryContext, "vectorgpu supervisor", ALLOCSET_SMALL_SIZES);
	for (;;)
	{
		uint64 due;

		MemoryContextReset(context);
		MemoryContextSwitchTo(context);
		CHECK_FOR_INTERRUPTS();
		due = step(wire::monotonic_ns());
		sleep_until(due);
	}
}

} // namespace vectorgpu::bridge

extern "C" PGDLLEXPORT void vectorgpu_supervisor_main(Datum argument);

void
vectorgpu_supervisor_main(Datum argument)
{
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(nullptr, nullptr, 0);
	vectorgpu::bridge::supervisor_run();
}
