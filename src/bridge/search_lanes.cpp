// See search_lanes.hpp.
#include "bridge/search_lanes.hpp"

#include "bridge/client_session.hpp"
#include "bridge/settings.hpp"
#include "pg/fault.hpp"

extern "C"
{
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "utils/wait_event.h"
}

namespace vectorgpu::bridge
{

struct SearchLanes
{
	wire::Client clients[kMostLanes];
	uint32 n;         // open lanes
	uint32 n_counted; // in SharedState::n_lanes
	MemoryContextCallback on_reset;
};

namespace
{

constexpr int kDescriptors = 3;        // of a session
constexpr int kConnectMs = 100;        // the worker greets in less than 1 ms if it is not busy
constexpr uint32 kSleepUs = 20 * 1000; // then check for interrupts and whether the worker lives
constexpr uint64 kNsPerMs = 1000 * 1000;
constexpr uint32 kCallerShare = 4;       // a caller gets at most a quarter of the worker's sessions
constexpr uint32 kAllShare = 2;          // all callers together half
constexpr long kFullPauseUs = 10 * 1000; // pause until a closed session may have made room

uint32 own_counted; // this process's part of SharedState::n_lanes

bool
acquire_fds()
{
	for (int i = 0; i < kDescriptors; i++)
	{
		if (AcquireExternalFD())
			continue;
		while (i-- > 0)
			ReleaseExternalFD();
		return false;
	}
	return true;
}

void
release_fds()
{
	for (int i = 0; i < kDescriptors; i++)
		ReleaseExternalFD();
}

void
uncount(uint32 n)
{
	SharedState *state = shared_state();

	n = Min(n, own_counted); // at exit all have been subtracted already
	own_counted -= n;
	if (state != nullptr && n > 0)
		pg_atomic_fetch_sub_u32(&state->n_lanes, static_cast<int32>(n));
}

void
uncount_at_exit([[maybe_unused]] int code, [[maybe_unused]] Datum unused)
{
	uncount(own_counted);
}

/// Reserve at most `wanted` of all processes' lanes, or none if fewer than `least` are free. Returns their number.
uint32
count(SharedState *state, uint32 wanted, uint32 least)
{
	static bool registered;
	const uint32 sessions = static_cast<uint32>(settings.worker_max_sessions);
	const uint32 most = Min(kMostLanes, sessions / kCallerShare);
	uint32 taken = pg_atomic_read_u32(&state->n_lanes);
	uint32 n;

	if (!registered)
		before_shmem_exit(uncount_at_exit, static_cast<Datum>(0));
	registered = true;
	do
	{
		n = Min(Min(wanted, most), sessions / kAllShare - Min(sessions / kAllShare, taken));
		if (n < least)
			return 0;
	} while (!pg_atomic_compare_exchange_u32(&state->n_lanes, &taken, taken + n));
	own_counted += n;
	return n;
}

wire::ClientResult
connect_client(SharedState *state, wire::Client *client)
{
	wire::ClientResult result;

	if (!acquire_fds())
		return wire::ClientResult::kSystem;
	wire::client_init(client);
	result = wire::client_connect(client, state->epoch, wire::Role::kBackend, kConnectMs);
	if (result != wire::ClientResult::kOk)
	{
		wire::client_close(client);
		release_fds();
	}
	return result;
}

/// Wait until the reply is there. False: the worker is gone, has been silent for too long, or its reply is invalid.
bool
wait_for_reply(wire::Client *client, uint64 limit_ns, Fallback *reason)
{
	wire::ClientState state = session_spin(client) ? wire::ClientState::kReplied : wire::client_poll(client);

	*reason = Fallback::kGone;
	while (state == wire::ClientState::kPending)
	{
		CHECK_FOR_INTERRUPTS();
		if (wire::client_silence_ns(client) >= limit_ns)
		{
			*reason = Fallback::kSilent;
			return false;
		}
		pgstat_report_wait_start(PG_WAIT_EXTENSION);
		state = client->sleep_fails ? wire::client_wait(client, kSleepUs / 1000) : wire::client_sleep(client, kSleepUs);
		pgstat_report_wait_end();
		if (state == wire::ClientState::kPending && !wire::client_alive(client))
			return false;
	}
	if (state == wire::ClientState::kBroken && wire::client_alive(client))
		*reason = Fallback::kWrongAnswer; // the slot has an invalid state
	return state == wire::ClientState::kReplied;
}

void
close_on_reset(void *lanes)
{
	lanes_close(static_cast<SearchLanes *>(lanes));
}

} // namespace

SearchLanes *
lanes_make(MemoryContext context)
{
	SearchLanes *lanes = static_cast<SearchLanes *>(MemoryContextAllocZero(context, sizeof(SearchLanes)));

	lanes->on_reset.func = close_on_reset;
	lanes->on_reset.arg = lanes;
	MemoryContextRegisterResetCallback(context, &lanes->on_reset);
	return lanes;
}

bool
lanes_open(SearchLanes *lanes, uint32 wanted, uint32 least)
{
	SharedState *state = shared_state();

	if (state == nullptr)
		return false;
	lanes->n_counted = count(state, wanted, least);
	while (lanes->n < lanes->n_counted)
	{
		CHECK_FOR_INTERRUPTS(); // here no lane is half open
		if (connect_client(state, &lanes->clients[lanes->n]) != wire::ClientResult::kOk)
			break;
		lanes->n++;
	}
	if (lanes->n > 0 && lanes->n >= least)
		return true;
	lanes_close(lanes);
	return false;
}

uint32
lanes_count(const SearchLanes *lanes)
{
	return lanes->n;
}

void
lanes_close(SearchLanes *lanes)
{
	while (lanes->n > 0)
	{
		wire::client_close(&lanes->clients[--lanes->n]);
		release_fds();
	}
	uncount(lanes->n_counted);
	lanes->n_counted = 0;
}

bool
lane_submit(SearchLanes *lanes, uint32 lane, wire::RequestType type, const wire::CopyKey *key, const wire::Part *parts,
	size_t n_parts, Fallback *reason)
{
	const wire::ClientResult result = wire::client_submit(&lanes->clients[lane], type, key, parts, n_parts);

	*reason = result == wire::ClientResult::kTooLarge ? Fallback::kRequestTooLarge
		: result == wire::ClientResult::kNotReady     ? Fallback::kSlotBusy
													  : Fallback::kGone;
	return result == wire::ClientResult::kOk;
}

bool
lane_receive(
	SearchLanes *lanes, uint32 lane, wire::ReplyHeader *header, void *body, size_t body_capacity, Fallback *reason)
{
	wire::Client *client = &lanes->clients[lane];

	if (!wait_for_reply(client, static_cast<uint64>(settings.worker_timeout_ms) * kNsPerMs, reason))
		return false;
	*reason = Fallback::kWrongAnswer;
	return !VG_FAULT("lane_receive") &&
		wire::client_take_reply(client, header, body, body_capacity) == wire::ClientResult::kOk;
}

bool
lanes_ask_last(SearchLanes *lanes, wire::RequestType type, const wire::CopyKey *key, int limit_ms)
{
	SharedState *state = shared_state();
	const uint64 limit_ns = static_cast<uint64>(limit_ms) * kNsPerMs;
	const uint64 started_ns = wire::monotonic_ns();
	wire::ClientResult result;
	bool done = false;

	lanes_close(lanes);
	if (state == nullptr)
		return false;
	HOLD_INTERRUPTS();
	while ((result = connect_client(state, &lanes->clients[0])) == wire::ClientResult::kFull &&
		wire::monotonic_ns() - started_ns < limit_ns)
		pg_usleep(kFullPauseUs);
	if (result == wire::ClientResult::kOk)
	{
		wire::Client *client = &lanes->clients[0];
		wire::ReplyHeader header;
		Fallback reason;

		lanes->n = 1;
		done = lane_submit(lanes, 0, type, key, nullptr, 0, &reason) && wait_for_reply(client, limit_ns, &reason) &&
			wire::client_take_reply(client, &header, nullptr, 0) == wire::ClientResult::kOk;
		lanes_close(lanes);
	}
	RESUME_INTERRUPTS();
	return done;
}

} // namespace vectorgpu::bridge
