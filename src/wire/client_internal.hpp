// Shared by the files of the client.
#pragma once

#include <cstdint>

#include <poll.h>

#include "wire/client.hpp"

namespace vectorgpu::wire
{

inline SlotState
slot_state(const Client *client)
{
	return static_cast<SlotState>(client->slot->state.load(std::memory_order_acquire));
}

/// Close *fd if it is open.
void close_descriptor(int *fd);

/// poll() until the deadline (CLOCK_MONOTONIC), across interrupts. Returns as poll does.
int poll_descriptors(pollfd *fds, nfds_t n, uint64_t deadline_ns);

/// The deadline after this timeout; a negative one counts as 0.
uint64_t deadline_after(int timeout_ms);

} // namespace vectorgpu::wire
