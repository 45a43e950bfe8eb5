// A circuit breaker between scans and a worker that is slow. One that needs longer than vectorgpu.worker_timeout would
// cost each scan so much; so the first request that was waited for in vain opens the breaker for all processes, scans
// pass the worker over, and one of them at a time tries again, after pauses that double. There is one for searches and
// one for loading, which are two threads of the worker: one may be stuck while the other is not. State:
// shared_state.hpp, atomics, no lock; nothing is to be undone where a process ends in the middle. PG dialect.
#pragma once

#include "bridge/shared_state.hpp"
#include "wire/messages.hpp"

namespace vectorgpu::bridge
{

/// Whether a scan may make requests of this type now, and all that they stand for (a search; a load, by kCreate). Where
/// it is the one that tries, it has two timeouts for that. True for types that no breaker is for.
bool breaker_admits(wire::RequestType type);

/// A request was given up after so long without a sign of life. Those of a session that is less patient than the
/// server's vectorgpu.worker_timeout say nothing about the worker, and count for nothing.
void breaker_note_silence(wire::RequestType type, uint64 silence_ms);

/// A reply has come: closes the breaker if the thread that searches, or loads, has made it.
void breaker_note_reply(wire::RequestType type, wire::ReplyStatus status);

/// Another worker: nothing is known of it.
void breaker_reset(SharedState *state);

} // namespace vectorgpu::bridge
