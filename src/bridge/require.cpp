// See require.hpp.
#include "bridge/require.hpp"

#include "bridge/client_session.hpp"
#include "bridge/settings.hpp"
#include "wire/address.hpp"

extern "C"
{
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/wait_event.h"
}

namespace vectorgpu::bridge
{

namespace
{

constexpr int kLeastWaitMs = 30 * 1000; // a busy machine is slow to start a worker
constexpr int kMostTimeoutMs =
	60 * 1000; // with a long timeout, as for a GPU that many share, the worker may also start slowly
constexpr int kStepMs = 20;
constexpr uint64 kRowsWorthWaiting = 20000; // of a build
constexpr uint64 kMostWaitMs = 10000;
constexpr uint64 kBytesWorthRoom = 8 * 1024 * 1024; // of a build: the large areas are allocated, which takes a few ms

/// Raise an error that tells the administrator what to do, if waiting cannot help.
[[noreturn]] void
raise_obstacle(Obstacle obstacle)
{
	switch (obstacle)
	{
		case Obstacle::kOff:
			ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE), errmsg("the vectorgpu worker is switched off"),
					errdetail("vectorgpu.worker is off in the server's configuration."),
					errhint("Set it to on in postgresql.conf and reload the configuration.")));
			break;
		case Obstacle::kNoProgram:
			ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE), errmsg("the vectorgpu worker cannot be started"),
					errdetail("Its executable is missing or is not one."),
					errhint(
						"The server log names the file. Install it, or set vectorgpu.worker_program to where it is.")));
			break;
		case Obstacle::kNoSlot:
			ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE), errmsg("the vectorgpu worker cannot be started"),
					errdetail("No background worker slot is free for its supervisor."),
					errhint("Raise max_worker_processes, and restart the server.")));
			break;
		case Obstacle::kNone:
			break;
	}
	pg_unreachable();
}

/// Return true if a worker is wanted and has not greeted the supervisor yet.
bool
worker_is_starting()
{
	SharedState *state = shared_state();

	return state != nullptr && pg_atomic_read_u32(&state->worker_ready) == 0 &&
		pg_atomic_read_u32(&state->obstacle) == static_cast<uint32>(Obstacle::kNone);
}

} // namespace

void
require_session()
{
	SharedState *state = shared_state();

	for (int waited_ms = 0; !session_ready(false); waited_ms += kStepMs)
	{
		Obstacle obstacle;

		if (state == nullptr)
			raise_fallback(Fallback::kNotRunning);
		obstacle = static_cast<Obstacle>(pg_atomic_read_u32(&state->obstacle));
		if (obstacle != Obstacle::kNone)
			raise_obstacle(obstacle);
		// Do not wait longer for a worker that runs, but has no room for a session, for example.
		if (waited_ms >=
			(worker_is_starting() ? Max(kLeastWaitMs, Min(settings.worker_timeout_ms, kMostTimeoutMs)) : kLeastWaitMs))
			raise_fallback(pg_atomic_read_u32(&state->worker_silent) != 0 ? Fallback::kSilent
					: worker_is_starting()                                ? Fallback::kNotRunning
																		  : Fallback::kUnreachable);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, kStepMs, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

void
require_reply(wire::RequestType type, const wire::CopyKey *key, const wire::Part *parts, size_t n_parts,
	wire::ReplyHeader *header, void *body, size_t body_capacity)
{
	Fallback reason;

	require_session();
	if (session_request(type, key, parts, n_parts, header, body, body_capacity, &reason))
		return;
	if (reason == Fallback::kGone)
	{
		require_session();
		if (session_request(type, key, parts, n_parts, header, body, body_capacity, &reason))
			return;
	}
	raise_fallback(reason);
}

namespace
{

/// Wait for a greeting that is late, up to the timeout: large areas take the worker some ms, and a build without it
/// takes longer. Do not wait for anything else.
bool
await_greeting()
{
	for (int waited_ms = 0; session_is_connecting() && waited_ms < settings.worker_timeout_ms; waited_ms += kStepMs)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, kStepMs, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (session_ready(false))
			return true;
	}
	return false;
}

} // namespace

bool
session_for_build(uint64 n_rows, uint64 n_bytes, uint64 rows_per_ms, bool *has_waited)
{
	const bool waits = !*has_waited && IsUnderPostmaster && n_rows >= kRowsWorthWaiting && worker_is_starting();
	const int wait_ms = waits ? Max(Min(settings.worker_timeout_ms, kMostTimeoutMs),
									static_cast<int>(Min(n_rows / rows_per_ms / 2, kMostWaitMs)))
							  : 0;
	volatile bool ready = false;

	*has_waited = true;
	if (n_bytes >= kBytesWorthRoom)
		session_set_room(Room::kBuild);
	PG_TRY();
	{
		ready = await_session(wait_ms) || await_greeting() || session_ready(true);
	}
	PG_CATCH();
	{
		session_end_build();
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (!ready)
		session_end_build(); // else later searches of this process would greet as a builder
	return ready;
}

void
session_end_build()
{
	session_set_room(Room::kSmall);
}

bool
await_session(int most_ms)
{
	SharedState *state = shared_state();

	for (int waited_ms = 0; !session_ready(false); waited_ms += kStepMs)
	{
		if (state == nullptr || waited_ms >= most_ms ||
			pg_atomic_read_u32(&state->obstacle) != static_cast<uint32>(Obstacle::kNone))
			return false;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, kStepMs, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

void
raise_fallback(Fallback reason)
{
	SharedState *state = shared_state();
	char path[wire::kSocketPathBytes] = "none";

	if (state != nullptr)
		wire::format_socket_path(state->epoch, path);
	switch (reason)
	{
		case Fallback::kTooLarge:
			ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES), errmsg("the vectorgpu worker has no room for this index"),
					errdetail("%s", fallback_text(reason)), errhint("Raise vectorgpu.worker_memory.")));
			break;
		case Fallback::kRequestTooLarge:
			ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("too large for a request to the vectorgpu worker"),
					errdetail("%s", fallback_text(reason))));
			break;
		case Fallback::kOutOfMemory:
			ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY), errmsg("the vectorgpu worker is out of memory"),
					errdetail("%s", fallback_text(reason)),
					errhint("Lower vectorgpu.worker_memory, or drop copies with vectorgpu_evict().")));
			break;
		case Fallback::kLoading:
			ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE), errmsg("another session is loading this index"),
					errdetail("One session at a time brings an index to the vectorgpu worker."),
					errhint("Try again when it has finished.")));
			break;
		case Fallback::kRefused:
		case Fallback::kWrongAnswer:
			ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION), errmsg("the vectorgpu worker did not do what it was asked to"),
					errdetail("%s", fallback_text(reason)),
					errhint("Worker and module may be of different builds: install both anew, then restart the worker "
							"by ending it.")));
			break;
		case Fallback::kNotRunning:
		case Fallback::kSilent:
		case Fallback::kUnreachable:
		case Fallback::kGone:
		case Fallback::kSlotBusy:
		case Fallback::kCount:
			break;
	}
	ereport(ERROR,
		(errcode(ERRCODE_CONNECTION_FAILURE), errmsg("could not reach the vectorgpu worker"),
			errdetail("%s Its socket is \"%s\" under the data directory.", fallback_text(reason), path),
			errhint("The view vectorgpu_worker tells whether it runs; the server log tells why it does not.")));
	pg_unreachable();
}

} // namespace vectorgpu::bridge
