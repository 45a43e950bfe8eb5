// See breaker.hpp.
#include "bridge/breaker.hpp"

#include "bridge/settings.hpp"
#include "pg/clock.hpp"

namespace vectorgpu::bridge
{

namespace
{

// In units of the server's vectorgpu.worker_timeout.
constexpr uint32 kMostPauses =
	4; // pauses that double: 1, 2, 4, 8 timeouts. So at worst one scan of the server waits a ninth of the time
constexpr uint64 kTrying = 2;          // time of the scan that tries; its request may take one
constexpr uint64 kForgottenAfter = 16; // without a timed-out request: the next pause is one timeout again

constexpr int kSearches = 0;
constexpr int kLoads = 1;
constexpr int kNone = -1;

uint64 trying_until[kBreakers]; // the value that this process has set Breaker::until to in order to try

static_assert(kBreakers == 2 && kForgottenAfter > (1U << (kMostPauses - 1)) + kTrying);

/// One breaker for each thread of the worker that answers scans.
int
breaker_of(wire::RequestType type)
{
	switch (type)
	{
		case wire::RequestType::kSearch:
		case wire::RequestType::kSearchMany:
		case wire::RequestType::kNext:
			return kSearches;
		case wire::RequestType::kCreate:
		case wire::RequestType::kLoadRows:
		case wire::RequestType::kLoadStructure:
		case wire::RequestType::kSeal:
		case wire::RequestType::kAppend:
		case wire::RequestType::kTombstones:
		case wire::RequestType::kDrop:
		case wire::RequestType::kChecksum:
			return kLoads;
		default: // DESCRIBE, MANIFEST, and requests that no scan makes
			return kNone;
	}
}

uint64
timeout_ms(SharedState *state)
{
	const uint32 of_server = pg_atomic_read_u32(&state->timeout_ms);

	return of_server != 0 ? of_server : static_cast<uint64>(settings.worker_timeout_ms);
}

} // namespace

bool
breaker_admits(wire::RequestType type)
{
	SharedState *state = shared_state();
	const int which = breaker_of(type);
	Breaker *breaker;
	uint64 until;
	uint64 now;

	if (state == nullptr || which == kNone)
		return true;
	breaker = &state->breakers[which];
	until = pg_atomic_read_u64(&breaker->until);
	if (until == 0)
		return true;
	now = pg::monotonic_ms();
	if (now < until || !pg_atomic_compare_exchange_u64(&breaker->until, &until, now + kTrying * timeout_ms(state)))
		return false;
	trying_until[which] = now + kTrying * timeout_ms(state);
	return true;
}

void
breaker_note_silence(wire::RequestType type, uint64 silence_ms)
{
	SharedState *state = shared_state();
	const int which = breaker_of(type);
	Breaker *breaker;
	uint64 now;
	uint64 until;
	uint64 opened;
	uint32 pauses;

	if (state == nullptr || which == kNone || silence_ms < timeout_ms(state))
		return;
	breaker = &state->breakers[which];
	now = pg::monotonic_ms();
	until = pg_atomic_read_u64(&breaker->until);
	if (now < until && until != trying_until[which])
		return; // another process has opened it, or tries
	opened = pg_atomic_read_u64(&breaker->opened);
	pauses = opened != 0 && now < opened + kForgottenAfter * timeout_ms(state)
		? Min(pg_atomic_read_u32(&breaker->pauses) + 1, kMostPauses)
		: 1;
	if (!pg_atomic_compare_exchange_u64(&breaker->until, &until, now + (timeout_ms(state) << (pauses - 1))))
		return;
	pg_atomic_write_u64(&breaker->opened, now);
	pg_atomic_write_u32(&breaker->pauses, pauses);
}

void
breaker_note_reply(wire::RequestType type, wire::ReplyStatus status)
{
	SharedState *state = shared_state();
	const int which = breaker_of(type);
	uint64 until;

	if (state == nullptr || which == kNone)
		return;
	until = pg_atomic_read_u64(&state->breakers[which].until);
	if (until == 0)
		return;
	// The dispatcher, not the searching thread, answers that there is no copy of this version: then the next scan may
	// try.
	if (which == kLoads || (status != wire::ReplyStatus::kAbsent && status != wire::ReplyStatus::kBehind))
		(void) pg_atomic_compare_exchange_u64(&state->breakers[which].until, &until, 0);
	else if (until == trying_until[which])
		(void) pg_atomic_compare_exchange_u64(&state->breakers[which].until, &until, pg::monotonic_ms());
}

void
breaker_reset(SharedState *state)
{
	for (Breaker &breaker : state->breakers)
	{
		pg_atomic_write_u64(&breaker.until, 0);
		pg_atomic_write_u64(&breaker.opened, 0);
		pg_atomic_write_u32(&breaker.pauses, 0);
	}
}

} // namespace vectorgpu::bridge
