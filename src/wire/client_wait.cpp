// Waiting for a reply: by polling the slot, by sleeping on its state, or by sleeping on the descriptors. See
// client.hpp.
#include <cerrno>

#include <sched.h>
#include <unistd.h>

#include "wire/client_internal.hpp"

namespace vectorgpu::wire
{
namespace
{

/// Announce that the client is about to sleep. The fence pairs with the worker's between storing the state and reading
/// client_waits: if the client's next load does not see the new state, the worker sees this store.
void
set_waits(Client *client, ClientWaits waits)
{
	client->slot->client_waits.store(static_cast<uint32_t>(waits), std::memory_order_relaxed);
	full_fence();
}

} // namespace

int
poll_descriptors(pollfd *fds, nfds_t n, uint64_t deadline_ns)
{
	for (;;)
	{
		const uint64_t now = monotonic_ns();
		const uint64_t left_ms = now >= deadline_ns ? 0 : (deadline_ns - now + 999999) / 1000000;
		const int ready = poll(fds, n, static_cast<int>(left_ms < 1000000 ? left_ms : 1000000));

		if (ready != 0 && !(ready < 0 && errno == EINTR))
			return ready;
		if (ready == 0 && monotonic_ns() >= deadline_ns)
			return 0;
	}
}

uint64_t
deadline_after(int timeout_ms)
{
	return monotonic_ns() + static_cast<uint64_t>(timeout_ms < 0 ? 0 : timeout_ms) * 1000000;
}

ClientState
client_spin(Client *client, uint32_t microseconds, uint64_t *longest_yield_ns)
{
	ClientState state = client_poll(client);

	if (longest_yield_ns != nullptr)
		*longest_yield_ns = 0;
	if (state != ClientState::kPending || microseconds == 0)
		return state;

	const uint64_t started = monotonic_ns();
	const uint64_t until = started + static_cast<uint64_t>(microseconds) * 1000;
	uint64_t now = started;

	do
	{
		for (int i = 0; i < 32 && state == ClientState::kPending; i++)
		{
#if defined(__x86_64__)
			__builtin_ia32_pause();
#endif
			state = client_poll(client);
		}
		if (state == ClientState::kPending && longest_yield_ns != nullptr && now - started >= kYieldAfterNs)
		{
			const uint64_t before = monotonic_ns();

			sched_yield();
			now = monotonic_ns();
			if (now - before > *longest_yield_ns)
				*longest_yield_ns = now - before;
			state = client_poll(client);
		}
		else
			now = monotonic_ns();
	} while (state == ClientState::kPending && now < until);
	return state;
}

ClientState
client_sleep(Client *client, uint32_t timeout_us)
{
	const ClientState state = client_poll(client);

	if (state != ClientState::kPending)
		return state;
	set_waits(client, ClientWaits::kState);

	const SlotState seen = slot_state(client);

	if (seen == SlotState::kSubmitted || seen == SlotState::kTaken)
		client->sleep_fails = !sleep_on_state(client->slot, seen, timeout_us);
	client->slot->client_waits.store(static_cast<uint32_t>(ClientWaits::kNot), std::memory_order_relaxed);
	return client_poll(client);
}

bool
client_wait_begin(Client *client)
{
	if (client_poll(client) != ClientState::kPending)
		return false;
	set_waits(client, ClientWaits::kDescriptor);
	return client_poll(client) == ClientState::kPending;
}

void
client_wait_end(Client *client)
{
	uint64_t count = 0;

	if (client->phase != ClientPhase::kOpen)
		return;
	client->slot->client_waits.store(0, std::memory_order_relaxed);
	while (read(client->wakeup, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

ClientState
client_wait(Client *client, int timeout_ms)
{
	const uint64_t deadline_ns = deadline_after(timeout_ms);

	for (;;)
	{
		if (client_wait_begin(client))
		{
			pollfd fds[2] = {{client->wakeup, POLLIN, 0}, {client->socket, POLLIN, 0}};
			const int n = poll_descriptors(fds, 2, deadline_ns);

			client_wait_end(client);
			if (n > 0 && fds[1].revents != 0 && client_poll(client) == ClientState::kPending)
				return ClientState::kBroken;
		}
		else if (client->phase == ClientPhase::kOpen)
			client->slot->client_waits.store(0, std::memory_order_relaxed);

		const ClientState state = client_poll(client);

		if (state != ClientState::kPending || monotonic_ns() >= deadline_ns)
			return state;
	}
}

} // namespace vectorgpu::wire
