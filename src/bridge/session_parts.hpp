// Shared by client_session.cpp, session_connect.cpp and session_wait.cpp: this process's session. PG dialect.
#pragma once

#include "bridge/client_session.hpp"

extern "C"
{
#include "storage/latch.h"
}

namespace vectorgpu::bridge
{

constexpr uint64 kNsPerMs = 1000 * 1000;
constexpr uint64 kNsPerUs = 1000;

struct Session
{
	bool initialized;
	bool holds_fds; // external descriptors are reserved for socket, doorbell and wake-up
	wire::Role role;
	Room room; // greets as a loader or builder, which get larger areas; its patience follows `role`
	wire::Client client;
	WaitEventSet *events;
	int socket_event;  // position in events
	uint64 number;     // of sessions opened so far
	uint64 generation; // of the worker at the other end
	uint64 retry_at_ns;
	uint64 pause_ms;
	uint64 failed_generation;
	bool skewed;           // the last attempt to connect found a worker of another release
	uint32 last_batch;     // batch_size of the last reply that had one
	uint32 last_engine_us; // the engine's time for that batch
};

extern Session session;

/// Connect, or continue connecting, and wait for the greeting. False: see session_ready; with `note` the reason has
/// been counted.
bool connect_session(SharedState *state, bool note);

/// Delay the next attempt to connect, since each query would pay for a failing one: 100 ms, doubled by each further
/// failure up to 5 s.
void pause_after_failure(SharedState *state);

/// Wait until the reply is there. False: see *reason; the request has been abandoned, or the session must be closed. On
/// an interrupt the request is abandoned and the error raised.
bool wait_guarded(Fallback *reason);

} // namespace vectorgpu::bridge
