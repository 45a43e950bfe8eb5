// Opening and closing the session, with pauses after failures. See session_parts.hpp.
#include "bridge/session_parts.hpp"

#include "bridge/settings.hpp"
#include "pg/fault.hpp"

extern "C"
{
#include "storage/fd.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"
}

namespace vectorgpu::bridge
{

namespace
{

constexpr int kConnectWaitMs = 100;     // for the greeting: at least this,
constexpr int kConnectShare = 20;       // or this part of worker_timeout, which is longer on a busy machine,
constexpr int kMostConnectWaitMs = 500; // but at most this
constexpr int kConnectWaitEachMs =
	20; // more for each process that connects at the same time, since the worker greets one at a time
constexpr uint64 kFirstPauseMs = 100;
constexpr uint64 kLongestPauseMs = 5000;
constexpr int kDescriptors = 3; // of a session: socket, doorbell, wake-up

void
release_fds()
{
	if (!session.holds_fds)
		return;
	for (int i = 0; i < kDescriptors; i++)
		ReleaseExternalFD();
	session.holds_fds = false;
}

bool
acquire_fds()
{
	if (session.holds_fds)
		return true;
	if (VG_FAULT("bridge_descriptors"))
		return false;
	for (int i = 0; i < kDescriptors; i++)
	{
		if (AcquireExternalFD())
			continue;
		while (i-- > 0)
			ReleaseExternalFD();
		return false;
	}
	session.holds_fds = true;
	return true;
}

void
make_event_set()
{
	session.events = pg::new_wait_event_set(4);
	AddWaitEventToSet(session.events, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, nullptr);
	AddWaitEventToSet(session.events, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, nullptr, nullptr);
	AddWaitEventToSet(session.events, WL_SOCKET_READABLE, session.client.wakeup, nullptr, nullptr);
	session.socket_event =
		AddWaitEventToSet(session.events, WL_SOCKET_READABLE, session.client.socket, nullptr, nullptr);
}

/// Return the time to wait for the greeting: longer the more processes wait for theirs, at most as long as for an
/// answer, and shorter for a loader, which holds locks that a DROP may wait for.
uint64
connect_limit_ns(SharedState *state)
{
	const int alone_ms = session.role == wire::Role::kLoader
		? kConnectWaitMs
		: Max(kConnectWaitMs, Min(settings.worker_timeout_ms / kConnectShare, kMostConnectWaitMs));
	const uint64 limit_ms = alone_ms + uint64{kConnectWaitEachMs} * (pg_atomic_read_u32(&state->n_connecting) - 1);

	return Min(limit_ms, static_cast<uint64>(Max(settings.worker_timeout_ms, kConnectWaitMs))) * kNsPerMs;
}

/// Wait for the greeting until connect_limit_ns. kInProgress: it has not come yet.
wire::ClientResult
wait_counted(SharedState *state, wire::ClientResult result)
{
	const uint64 started = wire::monotonic_ns();

	while (result == wire::ClientResult::kInProgress)
	{
		const uint64 now = wire::monotonic_ns();
		const uint64 until = started + connect_limit_ns(state);
		const int wanted =
			session.client.phase == wire::ClientPhase::kConnecting ? WL_SOCKET_WRITEABLE : WL_SOCKET_READABLE;
		int events;

		if (now >= until)
			break;
		events = WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH | wanted,
			session.client.socket, static_cast<long>((until - now) / kNsPerMs + 1), PG_WAIT_EXTENSION);
		if ((events & WL_LATCH_SET) != 0)
		{
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
		}
		result = wire::client_connect_continue(&session.client);
	}
	return result;
}

void
uncount_connecting([[maybe_unused]] int code, Datum state)
{
	pg_atomic_fetch_sub_u32(&reinterpret_cast<SharedState *>(DatumGetPointer(state))->n_connecting, 1);
}

/// Call wait_counted and count this process in n_connecting meanwhile, also if an error ends the wait.
wire::ClientResult
wait_for_welcome(SharedState *state, wire::ClientResult begun)
{
	volatile wire::ClientResult result = begun;

	if (begun != wire::ClientResult::kInProgress)
		return begun;
	pg_atomic_fetch_add_u32(&state->n_connecting, 1);
	PG_ENSURE_ERROR_CLEANUP(uncount_connecting, PointerGetDatum(state));
	{
		result = wait_counted(state, begun);
	}
	PG_END_ENSURE_ERROR_CLEANUP(uncount_connecting, PointerGetDatum(state));
	uncount_connecting(0, PointerGetDatum(state));
	return result;
}

const char *
failure_detail(wire::ClientResult result)
{
	if (result != wire::ClientResult::kSystem)
		return psprintf("The reason is: %s.", wire::client_result_text(result));
	errno = session.client.error_number;
	return psprintf("The reason is: %s: %m.", wire::client_result_text(result));
}

/// Return the role by which the worker chooses the areas.
wire::Role
role_of_greeting()
{
	switch (session.room)
	{
		case Room::kLoad:
			return wire::Role::kLoader;
		case Room::kBuild:
			return wire::Role::kBuilder;
		default:
			return session.role;
	}
}

} // namespace

void
pause_after_failure(SharedState *state)
{
	const uint64 generation = pg_atomic_read_u64(&state->generation);

	if (session.failed_generation != generation || session.pause_ms == 0)
		session.pause_ms = kFirstPauseMs;
	else
		session.pause_ms = Min(session.pause_ms * 2, kLongestPauseMs);
	session.failed_generation = generation;
	session.retry_at_ns = wire::monotonic_ns() + session.pause_ms * kNsPerMs;
}

bool
connect_session(SharedState *state, bool note)
{
	const bool fresh = session.client.phase == wire::ClientPhase::kClosed;
	wire::ClientResult result;

	if (fresh && !acquire_fds())
	{
		pause_after_failure(state);
		if (note)
			note_fallback(Fallback::kUnreachable, "No file descriptors are left.");
		return false;
	}
	if (fresh)
	{
		session.generation = pg_atomic_read_u64(&state->generation);
		result = VG_FAULT("bridge_connect")
			? wire::ClientResult::kUnavailable
			: wire::client_connect_start(&session.client, state->epoch, role_of_greeting());
		result = wait_for_welcome(state, result);
	}
	else
		result = wire::client_connect_continue(&session.client);

	session.skewed = result == wire::ClientResult::kSkew;
	if (result == wire::ClientResult::kOk)
	{
		make_event_set();
		session.number++;
		session.pause_ms = 0;
		return true;
	}
	if (result == wire::ClientResult::kInProgress)
	{
		if (note)
			note_fallback(Fallback::kSilent, "It has not greeted yet.");
		return false;
	}
	session_close();
	pause_after_failure(state);
	if (note)
		note_fallback(Fallback::kUnreachable, failure_detail(result));
	return false;
}

void
session_close()
{
	if (!session.initialized)
		return;
	if (session.events != nullptr)
	{
		FreeWaitEventSet(session.events);
		session.events = nullptr;
	}
	wire::client_close(&session.client);
	release_fds();
}

} // namespace vectorgpu::bridge
