// Waiting for the reply: first by polling the slot, then asleep on the slot, then on the latch and the descriptors. See
// session_parts.hpp.
#include "bridge/session_parts.hpp"

#include "bridge/breaker.hpp"
#include "bridge/settings.hpp"
#include "pg/fault.hpp"
#include "wire/spin_gate.hpp"

extern "C"
{
#include "pgstat.h"
#include "utils/wait_event.h"
}

namespace vectorgpu::bridge
{

namespace
{

constexpr int kLoaderPatienceMs = 400;          // maximum silence
constexpr uint64 kStateSleepNs = 20 * kNsPerMs; // of each wait, before it sleeps on the latch and the descriptors
constexpr uint64 kLongYieldNs = 500 * kNsPerUs; // processes that sleep now and then give the processor back earlier

/// The first, short part of a wait: sleep on the slot alone, which takes half the system calls. Signal handlers end the
/// sleep; a latch set without a signal, and a worker's death, are noticed when the time is over. The latch is not
/// reset.
void
sleep_on_slot(uint64 left_ns)
{
	pgstat_report_wait_start(PG_WAIT_EXTENSION);
	(void) wire::client_sleep(&session.client, static_cast<uint32>(left_ns / kNsPerUs + 1));
	pgstat_report_wait_end();
}

/// Sleep until an event, or until the worker has been silent for too long. *gone: the worker's end of the socket is
/// closed.
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

/// Wait until the reply is there. False: see *reason; the request is abandoned if it is kSilent, else the session must
/// be closed.
bool
wait_for_reply(Fallback *reason)
{
	// A loader holds locks that a DROP may wait for.
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

} // namespace

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

// With more runnable processes than cores, polling yields to the others: this saves sleeping and being woken. If the
// others do not sleep by themselves, a yield lasts too long; then polling keeps the processor.
bool
session_spin(wire::Client *client)
{
	static wire::SpinGate gate;
	static wire::SpinGate yield_gate;
	uint64 longest_yield_ns = 0;
	bool may_yield;
	const bool has_gpu = client->engine == wire::EngineKind::kCuda;
	const uint32 most_long = most_long_spins(has_gpu, session.last_batch);
	SharedState *shared = most_long > 0 ? shared_state() : nullptr;
	uint32 most_us = spin_us();
	bool replied;

	if (most_us == 0 || !wire::spin_gate_enter(&gate))
		return wire::client_poll(client) == wire::ClientState::kReplied;
	// If a process is killed while it is counted, the server restarts and this memory is made anew.
	if (shared != nullptr && pg_atomic_fetch_add_u32(&shared->n_spinning, 1) < most_long)
		most_us = has_gpu ? long_spin_us(session.last_engine_us) : kLongSpinUs;
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

} // namespace vectorgpu::bridge
