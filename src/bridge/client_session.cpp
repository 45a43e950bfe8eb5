// The session: connecting with pauses after failures, sending, waiting. See client_session.hpp.
#include "bridge/client_session.hpp"

#include "bridge/breaker.hpp"
#include "bridge/settings.hpp"
#include "bridge/supervisor.hpp"
#include "pg/fault.hpp"
#include "wire/spin_gate.hpp"

extern "C"
{
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"
}

namespace vectorgpu::bridge
{

namespace
{

constexpr int kConnectWaitMs = 100;     // for the greeting at least,
constexpr int kConnectShare = 20;       // a twentieth of worker_timeout, which is longer on a busy machine,
constexpr int kMostConnectWaitMs = 500; // and at most
constexpr int kConnectWaitEachMs = 20;  // more for each process that connects at the same time: all take their turn
constexpr uint32 kAckWaitUs = 1000;
constexpr int kLoaderPatienceMs = 400; // without a sign of life
constexpr uint64 kFirstPauseMs = 100;
constexpr uint64 kLongestPauseMs = 5000;
constexpr uint64 kNsPerMs = 1000 * 1000;
constexpr uint64 kNsPerUs = 1000;
constexpr uint64 kStateSleepNs = 20 * kNsPerMs; // of each wait, before it turns to the latch and the descriptors
constexpr uint64 kLongYieldNs = 500 * kNsPerUs; // others that sleep now and then are done with their turn before that
constexpr uint64 kGiveUpFactor = 30;            // timeouts after which a silent session is closed
constexpr int kDescriptors = 3;                 // of a session: socket, doorbell, wake-up

struct Session
{
	bool initialized;
	bool holds_fds; // kDescriptors external descriptors are reserved
	wire::Role role;
	bool large_room; // greets as a loader does, and is as patient as its own role
	wire::Client client;
	WaitEventSet *events;
	int socket_event;  // position in events
	uint64 generation; // of the worker that the session is with
	uint64 retry_at_ns;
	uint64 pause_ms;
	uint64 failed_generation;
};

Session session;
uint32 last_batch; // of the last reply that had one
uint64 last_build; // see session_new_build

void
init_once()
{
	if (session.initialized)
		return;
	wire::client_init(&session.client);
	if (static_cast<int>(session.role) == 0)
		session.role = wire::Role::kBackend;
	session.initialized = true;
}

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

/// Notes a failure, so that the next attempts wait: each query would pay for the attempt otherwise.
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

void
make_event_set()
{
	session.events = CreateWaitEventSet(TopMemoryContext, 4);
	AddWaitEventToSet(session.events, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, nullptr);
	AddWaitEventToSet(session.events, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, nullptr, nullptr);
	AddWaitEventToSet(session.events, WL_SOCKET_READABLE, session.client.wakeup, nullptr, nullptr);
	session.socket_event =
		AddWaitEventToSet(session.events, WL_SOCKET_READABLE, session.client.socket, nullptr, nullptr);
}

/// How long to wait for the greeting: longer the more processes do so now, but no longer than for an answer. A loader
/// holds locks that a DROP may be waiting for.
uint64
connect_limit_ns(SharedState *state)
{
	const int alone_ms = session.role == wire::Role::kLoader
		? kConnectWaitMs
		: Max(kConnectWaitMs, Min(settings.worker_timeout_ms / kConnectShare, kMostConnectWaitMs));
	const uint64 limit_ms = alone_ms + uint64{kConnectWaitEachMs} * (pg_atomic_read_u32(&state->n_connecting) - 1);

	return Min(limit_ms, static_cast<uint64>(Max(settings.worker_timeout_ms, kConnectWaitMs))) * kNsPerMs;
}

/// Waits for the greeting until connect_limit_ns. kInProgress: it is still outstanding, and stays so.
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

/// The same, and the others know that this process waits, however that ends.
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
		result = VG_FAULT("bridge_connect") ? wire::ClientResult::kUnavailable
											: wire::client_connect_start(&session.client, state->epoch,
												  session.large_room ? wire::Role::kLoader : session.role);
		result = wait_for_welcome(state, result);
	}
	else
		result = wire::client_connect_continue(&session.client);

	if (result == wire::ClientResult::kOk)
	{
		make_event_set();
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

/// An open session that can take a request now. Closes it if it cannot be used any more.
bool
slot_is_free(SharedState *state, Fallback *reason)
{
	wire::ClientState client_state = wire::client_poll(&session.client);
	uint64 silence_ns = 0;
	uint64 limit_ns = 0;

	switch (client_state)
	{
		case wire::ClientState::kIdle:
			return true;
		case wire::ClientState::kReplied:
			// Left over by an error between reply and taking it.
			wire::client_abandon(&session.client);
			client_state = wire::client_poll(&session.client);
			if (client_state == wire::ClientState::kPending) // replied, and has it again
				client_state = wire::ClientState::kBroken;
			break;
		case wire::ClientState::kPending:
			if (!wire::client_alive(&session.client))
			{
				*reason = Fallback::kGone;
				session_close();
				pause_after_failure(state);
				return false;
			}
			// The answer of a cancelled request has to come before the slot can be used: wait the moment it takes.
			wire::client_abandon(&session.client);
			silence_ns = wire::client_silence_ns(&session.client);
			limit_ns = static_cast<uint64>(settings.worker_timeout_ms) * kNsPerMs;
			if (silence_ns < limit_ns)
				client_state = wire::client_spin(&session.client, kAckWaitUs);
			break;
		case wire::ClientState::kBroken:
			break;
	}
	switch (client_state)
	{
		case wire::ClientState::kIdle:
			return true;
		case wire::ClientState::kPending:
			*reason = silence_ns < limit_ns ? Fallback::kSlotBusy : Fallback::kSilent;
			if (silence_ns < kGiveUpFactor * limit_ns)
				return false;
			break;
		case wire::ClientState::kReplied: // not once it is abandoned
		case wire::ClientState::kBroken:
			*reason = Fallback::kWrongAnswer;
			break;
	}
	session_close();
	pause_after_failure(state);
	return false;
}

/// The first, short part of a wait: sleeps on the slot alone, which takes half the system calls. Signal handlers end
/// the sleep; what only sets the latch, and a worker that dies, is noticed when the time is over. The latch is left as
/// it is.
void
sleep_on_slot(uint64 left_ns)
{
	pgstat_report_wait_start(PG_WAIT_EXTENSION);
	(void) wire::client_sleep(&session.client, static_cast<uint32>(left_ns / kNsPerUs + 1));
	pgstat_report_wait_end();
}

/// Sleeps until something happens or the worker has been silent for too long. *gone: its end of the socket is closed.
void
sleep_for_reply(uint64 limit_ns, bool *gone)
{
	WaitEvent occurred[4];
	const uint64 silence_ns = wire::client_silence_ns(&session.client);
	const long timeout_ms = silence_ns >= limit_ns ? 0 : static_cast<long>((limit_ns - silence_ns) / kNsPerMs + 1);
	int n;

	if (!wire::client_wait_begin(&session.client))
		return;
	n = WaitEventSetWait(session.events, timeout_ms, occurred, lengthof(occurred), PG_WAIT_EXTENSION);
	wire::client_wait_end(&session.client);
	for (int i = 0; i < n; i++)
	{
		if ((occurred[i].events & WL_LATCH_SET) != 0)
			ResetLatch(MyLatch);
		if (occurred[i].pos == session.socket_event)
			*gone = true;
	}
}

/// Waits until the reply is there. False: see *reason; the request is then abandoned or the session closed.
bool
wait_for_reply(Fallback *reason)
{
	// A loader holds locks that a DROP may be waiting for.
	const uint64 limit_ms = session.role == wire::Role::kLoader ? Min(kLoaderPatienceMs, settings.worker_timeout_ms)
																: settings.worker_timeout_ms;
	const uint64 limit_ns = limit_ms * kNsPerMs;
	const uint64 started_ns = wire::monotonic_ns();
	bool gone = false;

	for (;;)
	{
		const wire::ClientState state = wire::client_poll(&session.client);
		uint64 silence_ns;
		uint64 waited_ns;

		if (state == wire::ClientState::kReplied)
			return true;
		if (state == wire::ClientState::kBroken || gone)
		{
			*reason = gone ? Fallback::kGone : Fallback::kWrongAnswer;
			return false;
		}
		silence_ns = wire::client_silence_ns(&session.client);
		if (silence_ns >= limit_ns)
		{
			*reason = Fallback::kSilent;
			breaker_note_silence(session.client.type, silence_ns / kNsPerMs);
			wire::client_abandon(&session.client);
			return false;
		}
		CHECK_FOR_INTERRUPTS();
		(void) VG_FAULT("bridge_wait");
		waited_ns = wire::monotonic_ns() - started_ns;
		if (waited_ns < kStateSleepNs && !session.client.sleep_fails)
			sleep_on_slot(Min(kStateSleepNs - waited_ns, limit_ns));
		else
			sleep_for_reply(limit_ns, &gone);
	}
}

/// As wait_for_reply; an interrupt tells the worker that nobody waits any more.
bool
wait_guarded(Fallback *reason)
{
	volatile bool done = false;

	if (session_spin(&session.client))
		return true;
	PG_TRY();
	{
		done = wait_for_reply(reason);
	}
	PG_CATCH();
	{
		wire::client_abandon(&session.client);
		PG_RE_THROW();
	}
	PG_END_TRY();
	return done;
}

bool
fail_session(Fallback reason, Fallback *out)
{
	SharedState *state = shared_state();

	session_close();
	if (state != nullptr)
		pause_after_failure(state);
	*out = reason;
	return false;
}

} // namespace

void
session_set_role(wire::Role role)
{
	session.role = role;
}

void
session_set_room(bool large)
{
	if (session.large_room != large && session.initialized && session.role != wire::Role::kLoader)
		session_close();
	session.large_room = large;
}

bool
session_ready(bool note)
{
	SharedState *state = shared_state();
	Fallback reason = Fallback::kGone;

	if (state == nullptr)
		return false;
	init_once();
	if (session.client.phase != wire::ClientPhase::kClosed &&
		session.generation != pg_atomic_read_u64(&state->generation))
		session_close(); // with a worker that is no more
	if (session.client.phase == wire::ClientPhase::kOpen)
	{
		const bool is_free = slot_is_free(state, &reason);
		const bool silent = session.role != wire::Role::kSupervisor && pg_atomic_read_u32(&state->worker_silent) != 0;

		if (is_free && !silent)
			return true;
		if (is_free)
			reason = Fallback::kSilent;
		if (note)
			note_fallback(reason, nullptr);
		return false;
	}
	// The supervisor is the first to connect: it is what makes the worker ready.
	if (session.role != wire::Role::kSupervisor)
	{
		if (pg_atomic_read_u32(&state->worker_ready) == 0)
		{
			supervisor_request(state);
			if (note)
				note_fallback(Fallback::kNotRunning, nullptr);
			return false;
		}
		if (pg_atomic_read_u32(&state->worker_silent) != 0)
		{
			if (note)
				note_fallback(Fallback::kSilent, nullptr);
			return false;
		}
	}
	if (session.client.phase == wire::ClientPhase::kClosed &&
		session.failed_generation == pg_atomic_read_u64(&state->generation) &&
		wire::monotonic_ns() < session.retry_at_ns)
	{
		if (note)
			note_fallback(Fallback::kUnreachable, nullptr);
		return false;
	}
	return connect_session(state, note);
}

// Where there is more to do than there are cores, whoever looks lets others run meanwhile: that saves going to sleep
// and being woken. Among processes that do not sleep by themselves such a turn lasts too long: then looking keeps the
// processor.
bool
session_spin(wire::Client *client)
{
	static wire::SpinGate gate;
	static wire::SpinGate yield_gate;
	uint64 longest_yield_ns = 0;
	bool may_yield;
	const uint32 most_long = most_long_spins(client->engine == wire::EngineKind::kCuda, last_batch);
	SharedState *shared = most_long > 0 ? shared_state() : nullptr;
	uint32 most_us = spin_us();
	bool replied;

	if (most_us == 0 || !wire::spin_gate_enter(&gate))
		return wire::client_poll(client) == wire::ClientState::kReplied;
	// A process that is killed while it is counted takes the server and this memory with it.
	if (shared != nullptr && pg_atomic_fetch_add_u32(&shared->n_spinning, 1) < most_long)
		most_us = kLongSpinUs;
	may_yield = wire::spin_gate_enter(&yield_gate);
	replied =
		wire::client_spin(client, most_us, may_yield ? &longest_yield_ns : nullptr) == wire::ClientState::kReplied;
	if (may_yield)
		wire::spin_gate_note(&yield_gate, longest_yield_ns < kLongYieldNs);
	if (shared != nullptr)
		pg_atomic_fetch_sub_u32(&shared->n_spinning, 1);
	wire::spin_gate_note(&gate, replied);
	return replied;
}

bool
session_submit(
	wire::RequestType type, const wire::CopyKey *key, const wire::Part *parts, size_t n_parts, Fallback *reason)
{
	wire::ClientResult result;

	if (VG_FAULT("bridge_send"))
		return fail_session(Fallback::kGone, reason);
	result = wire::client_submit(&session.client, type, key, parts, n_parts);
	if (result == wire::ClientResult::kOk)
		return true;
	if (result == wire::ClientResult::kTooLarge || result == wire::ClientResult::kNotReady)
	{
		*reason = result == wire::ClientResult::kTooLarge ? Fallback::kRequestTooLarge : Fallback::kSlotBusy;
		return false;
	}
	return fail_session(Fallback::kGone, reason);
}

bool
session_receive(wire::ReplyHeader *header, void *body, size_t body_capacity, Fallback *reason)
{
	if (!wait_guarded(reason))
		return *reason == Fallback::kSilent ? false : fail_session(*reason, reason);
	if (VG_FAULT("bridge_receive"))
		return fail_session(Fallback::kWrongAnswer, reason);
	if (wire::client_take_reply(&session.client, header, body, body_capacity) != wire::ClientResult::kOk)
		return fail_session(Fallback::kWrongAnswer, reason);
	breaker_note_reply(session.client.type, header->status);
	if (header->batch_size > 0)
		last_batch = header->batch_size;
	return true;
}

bool
session_request(wire::RequestType type, const wire::CopyKey *key, const wire::Part *parts, size_t n_parts,
	wire::ReplyHeader *header, void *body, size_t body_capacity, Fallback *reason)
{
	return session_submit(type, key, parts, n_parts, reason) && session_receive(header, body, body_capacity, reason);
}

uint32
session_inventory(uint32 first, wire::CopyInfo *copies)
{
	const wire::InventoryRequest request = {first, 0};
	const wire::Part part = {&request, sizeof(request)};
	wire::ReplyHeader header;
	Fallback reason;

	CHECK_FOR_INTERRUPTS();
	if (!session_ready(false) ||
		!session_request(wire::RequestType::kInventory, nullptr, &part, 1, &header, copies,
			sizeof(wire::CopyInfo) * kCopiesPerReply, &reason) ||
		header.status != wire::ReplyStatus::kOk)
		return 0;
	return header.n_items;
}

size_t
session_body_capacity()
{
	return session.initialized ? wire::client_body_capacity(&session.client) : 0;
}

uint64
session_sequence()
{
	return session.client.sequence;
}

uint64
session_new_build()
{
	return ++last_build;
}

uint64
session_build()
{
	return last_build;
}

wire::EngineKind
session_engine()
{
	return session.client.engine;
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

Fallback
fallback_of(wire::ReplyStatus status)
{
	switch (status)
	{
		case wire::ReplyStatus::kAbsent:
		case wire::ReplyStatus::kBehind:
		case wire::ReplyStatus::kBusy:
			return Fallback::kLoading;
		case wire::ReplyStatus::kRefused:
			return Fallback::kTooLarge;
		case wire::ReplyStatus::kCancelled:
			return Fallback::kSlotBusy;
		case wire::ReplyStatus::kOutOfMemory:
			return Fallback::kOutOfMemory;
		case wire::ReplyStatus::kOk:
		case wire::ReplyStatus::kInvalid:
		case wire::ReplyStatus::kUnsupported:
		case wire::ReplyStatus::kInternal:
			break;
	}
	return Fallback::kRefused;
}

} // namespace vectorgpu::bridge
