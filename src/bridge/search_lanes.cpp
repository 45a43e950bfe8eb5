// See search_lanes.hpp.
#include "bridge/search_lanes.hpp"

#include "bridge/settings.hpp"
#include "bridge/shared_state.hpp"
#include "pg/fault.hpp"

extern "C"
{
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "utils/wait_event.h"
}

namespace vectorgpu::bridge
{

struct SearchLanes
{
	wire::Client clients[kMostLanes];
	uint32 n; // open ones
	MemoryContextCallback on_reset;
};

namespace
{

constexpr int kDescriptors = 3;       // of a session
constexpr int kConnectMs = 100;       // the worker greets in less than one, if it has time at all
constexpr uint32 kSleepUs = 20 * 1000; // then it looks for interrupts, and whether the worker is still there
constexpr uint64 kNsPerMs = 1000 * 1000;

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
close_on_reset(void *lanes)
{
	lanes_close(static_cast<SearchLanes *>(lanes));
}

} // namespace

SearchLanes *
lanes_open(uint32 wanted, MemoryContext context)
{
	SharedState *state = shared_state();
	SearchLanes *lanes;

	if (state == nullptr)
		return nullptr;
	lanes = static_cast<SearchLanes *>(MemoryContextAllocZero(context, sizeof(SearchLanes)));
	lanes->on_reset.func = close_on_reset;
	lanes->on_reset.arg = lanes;
	MemoryContextRegisterResetCallback(context, &lanes->on_reset);
	while (lanes->n < Min(wanted, kMostLanes))
	{
		wire::Client *client = &lanes->clients[lanes->n];

		CHECK_FOR_INTERRUPTS(); // here nothing is half open
		if (!acquire_fds())
			break;
		wire::client_init(client);
		if (wire::client_connect(client, state->epoch, wire::Role::kBackend, kConnectMs) != wire::ClientResult::kOk)
		{
			wire::client_close(client);
			release_fds();
			break;
		}
		lanes->n++;
	}
	if (lanes->n >= 2)
		return lanes;
	lanes_close(lanes);
	return nullptr;
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
}

bool
lane_submit(
	SearchLanes *lanes, uint32 lane, wire::RequestType type, const wire::CopyKey *key, const wire::Part *parts, size_t n_parts)
{
	return wire::client_submit(&lanes->clients[lane], type, key, parts, n_parts) == wire::ClientResult::kOk;
}

bool
lane_receive(SearchLanes *lanes, uint32 lane, wire::ReplyHeader *header, void *body, size_t body_capacity)
{
	wire::Client *client = &lanes->clients[lane];
	const uint64 limit_ns = static_cast<uint64>(settings.worker_timeout_ms) * kNsPerMs;
	wire::ClientState state = wire::client_spin(client, spin_us());

	while (state == wire::ClientState::kPending)
	{
		CHECK_FOR_INTERRUPTS();
		if (wire::client_silence_ns(client) >= limit_ns)
			return false;
		pgstat_report_wait_start(PG_WAIT_EXTENSION);
		state = client->sleep_fails ? wire::client_wait(client, kSleepUs / 1000) : wire::client_sleep(client, kSleepUs);
		pgstat_report_wait_end();
		if (state == wire::ClientState::kPending && !wire::client_alive(client))
			return false;
	}
	return state == wire::ClientState::kReplied && !VG_FAULT("lane_receive") &&
		wire::client_take_reply(client, header, body, body_capacity) == wire::ClientResult::kOk;
}

} // namespace vectorgpu::bridge
