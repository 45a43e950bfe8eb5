// Creates or finds the shared state. See shared_state.hpp.
#include "bridge/shared_state.hpp"

#include "bridge/settings.hpp"
#include "pg/clock.hpp"
#include "pg/shared_memory.hpp"

#include <cstring>
#include <initializer_list>

extern "C"
{
#include "utils/timestamp.h"
}

namespace vectorgpu::bridge
{

namespace
{

constexpr uint64 kLogPauseMs = 60 * 1000;

SharedState *attached = nullptr;
bool unavailable = false;
uint64 n_own_fallbacks = 0;
Fallback last_reason = Fallback::kNotRunning;

void
init_state(void *piece)
{
	SharedState *state = static_cast<SharedState *>(piece);

	memset(state, 0, sizeof(*state));
	if (!pg_strong_random(&state->epoch, sizeof(state->epoch)) || state->epoch == 0)
		state->epoch = static_cast<uint64>(GetCurrentTimestamp()) << 8 | static_cast<uint64>(MyProcPid & 0xFF) | 1;
	pg_atomic_init_u32(&state->supervisor_pid, 0);
	pg_atomic_init_u32(&state->worker_pid, 0);
	pg_atomic_init_u32(&state->worker_ready, 0);
	pg_atomic_init_u32(&state->worker_on_gpu, 0);
	pg_atomic_init_u32(&state->worker_silent, 0);
	pg_atomic_init_u32(&state->obstacle, static_cast<uint32>(Obstacle::kNone));
	pg_atomic_init_u32(&state->timeout_ms, 0);
	pg_atomic_init_u32(&state->n_spinning, 0);
	pg_atomic_init_u32(&state->n_connecting, 0);
	for (pg_atomic_uint64 *counter :
		{&state->generation, &state->n_deaths, &state->supervisor_asked, &state->logged, &state->n_answered,
			&state->n_shipped_rows, &state->n_inline_loads, &state->n_background_loads, &state->n_background_updates})
		pg_atomic_init_u64(counter, 0);
	for (pg_atomic_uint64 &counter : state->fallbacks)
		pg_atomic_init_u64(&counter, 0);
	for (pg_atomic_uint64 &hash : state->no_nan)
		pg_atomic_init_u64(&hash, 0);
	for (LoaderSlot &slot : state->loaders)
	{
		pg_atomic_init_u64(&slot.order, 0);
		pg_atomic_init_u64(&slot.since, 0);
		pg_atomic_init_u32(&slot.pid, 0);
	}
	for (Breaker &breaker : state->breakers)
	{
		pg_atomic_init_u64(&breaker.until, 0);
		pg_atomic_init_u64(&breaker.opened, 0);
		pg_atomic_init_u32(&breaker.pauses, 0);
	}
}

} // namespace

SharedState *
shared_state()
{
	if (attached != nullptr || unavailable || !IsUnderPostmaster)
		return attached;
	attached = static_cast<SharedState *>(pg::shared_piece("vectorgpu", sizeof(SharedState), init_state));
	if (attached == nullptr)
	{
		unavailable = true;
		ereport(LOG_SERVER_ONLY,
			(errmsg("no shared memory can be had for vectorgpu: scans are answered without its worker"),
				errhint("After an upgrade restart the server; else add \"vectorgpu\" to shared_preload_libraries.")));
	}
	return attached;
}

bool
worker_answers_scans()
{
	SharedState *state = settings.worker ? shared_state() : nullptr;

	return state != nullptr && pg_atomic_read_u32(&state->worker_ready) != 0 &&
		pg_atomic_read_u32(&state->worker_silent) == 0;
}

bool
worker_on_gpu()
{
	return worker_answers_scans() && pg_atomic_read_u32(&shared_state()->worker_on_gpu) != 0;
}

const char *
fallback_name(Fallback reason)
{
	static const char *const kNames[] = {"not_running", "silent", "unreachable", "gone", "slot_busy", "loading",
		"too_large", "refused", "out_of_memory", "wrong_answer", "request_too_large"};

	static_assert(sizeof(kNames) / sizeof(kNames[0]) == static_cast<size_t>(Fallback::kCount));
	return kNames[static_cast<int>(reason)];
}

const char *
fallback_text(Fallback reason)
{
	switch (reason)
	{
		case Fallback::kNotRunning:
			return "The worker does not run, or has not finished starting.";
		case Fallback::kSilent:
			return psprintf("The worker has given no sign of life for %d ms (vectorgpu.worker_timeout).",
				settings.worker_timeout_ms);
		case Fallback::kUnreachable:
			return "No connection to the worker could be made.";
		case Fallback::kGone:
			return "The worker ended, or closed the connection, while it had the request.";
		case Fallback::kSlotBusy:
			return "The worker has not yet let go of this session's last request, which was given up.";
		case Fallback::kLoading:
			return "The worker's copy of the index is not there or not new enough yet; it is being brought.";
		case Fallback::kTooLarge:
			return psprintf(
				"The worker's copies may take %d MB (vectorgpu.worker_memory), and there is no room for the index.",
				settings.worker_memory_mb);
		case Fallback::kRefused:
			return "The worker has refused the request.";
		case Fallback::kOutOfMemory:
			return "The worker, or its device, is out of memory.";
		case Fallback::kWrongAnswer:
			return "The worker's reply was not an answer to what it was asked.";
		case Fallback::kRequestTooLarge:
			return "The query, or a row, is larger than a request to the worker can be.";
		case Fallback::kCount:
			break;
	}
	return "";
}

uint64
own_fallbacks()
{
	return n_own_fallbacks;
}

Fallback
last_fallback()
{
	return last_reason;
}

void
log_fallback(Fallback reason, const char *detail)
{
	SharedState *state = shared_state();
	uint64 now;
	uint64 logged;

	if (state == nullptr)
		return;
	// Do not log a copy that is being loaded or a worker that is starting.
	if (reason == Fallback::kLoading || reason == Fallback::kSlotBusy ||
		(reason == Fallback::kNotRunning && pg_atomic_read_u64(&state->n_deaths) == 0 && detail == nullptr))
		return;
	logged = pg_atomic_read_u64(&state->logged);
	now = pg::monotonic_ms();
	if (logged != 0 && now < logged + kLogPauseMs)
		return;
	if (!pg_atomic_compare_exchange_u64(&state->logged, &logged, now))
		return;
	ereport(LOG_SERVER_ONLY,
		(errmsg("vectorgpu scans are answered without the worker"),
			detail != nullptr ? errdetail("%s %s", fallback_text(reason), detail)
							  : errdetail("%s", fallback_text(reason)),
			errhint("The view vectorgpu_worker counts the reasons; this line comes once a minute at most.")));
}

void
note_fallback(Fallback reason, const char *detail)
{
	SharedState *state = shared_state();

	n_own_fallbacks++;
	last_reason = reason;
	if (state == nullptr)
		return;
	pg_atomic_fetch_add_u64(&state->fallbacks[static_cast<int>(reason)], 1);
	log_fallback(reason, detail);
}

} // namespace vectorgpu::bridge
