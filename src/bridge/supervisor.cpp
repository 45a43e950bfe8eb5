// See supervisor.hpp. It holds no database connection, services interrupts quickly (DROP DATABASE waits for every
// process), and exits only with status 0 or 1, since any other would restart the server.
#include "bridge/supervisor.hpp"

#include "bridge/breaker.hpp"
#include "bridge/client_session.hpp"
#include "bridge/settings.hpp"
#include "bridge/sweep.hpp"
#include "bridge/worker_command.hpp"
#include "wire/address.hpp"

#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

extern "C"
{
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
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

constexpr uint64 kNsPerMs = 1000 * 1000;
constexpr uint64 kGreetPauseMs = 20;
constexpr uint64 kPingPauseMs = 1000;
constexpr uint64 kHintPauseMs = 100; // from a commit that removes a file to the end of the file
constexpr uint32 kHintSweeps = 3;    // after pauses that double: removal takes longer on a busy machine
constexpr uint64 kLongestSleepMs = 60 * 1000;
constexpr uint64 kLongLifeMs = 30 * 1000; // a worker that lived this long did not die early
constexpr uint64 kSilenceLimit = 30;      // timeouts without an answer, then the worker is killed
constexpr uint32 kQuietDeaths = 5;        // consecutive early deaths that are logged each

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
	WorkerCommand command;  // of the running worker
};

Supervisor supervisor;

bool
process_exists(uint32 pid)
{
	return pid != 0 && (kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM);
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

void
start_worker(uint64 now)
{
	char path[MAXPGPATH];

	supervisor.ready_ns = 0;
	if (!worker_command_start(&supervisor.command, &supervisor.process, supervisor.state->epoch, path, sizeof(path)))
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
	if (supervisor.process.pid != 0 && worker_command_changed(&supervisor.command))
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
		if (worker_command_changed(&supervisor.command))
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
	prepare_socket_folder();
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
