// A circuit breaker between scans and a slow worker. A worker slower than vectorgpu.worker_timeout would cost each scan
// that time. So the first request that times out opens the breaker for all processes: scans skip the worker, and one of
// them at a time tries again, after pauses that double. There is one breaker for searches and one for loads, which are
// two threads of the worker: one may be stuck while the other is not. State: shared_state.hpp, atomics, no lock; a
// process that dies leaves nothing to undo. PG dialect.
#pragma once

#include "bridge/shared_state.hpp"
#include "wire/messages.hpp"

namespace vectorgpu::bridge
{

/// Return true if a scan may make requests of this type and its group now (kSearch: a search; kCreate: a load). The
/// scan that tries has two timeouts for it. True for types without a breaker.
bool breaker_admits(wire::RequestType type);

/// Record that a request was given up after this long without a sign of life. It is ignored if the session's timeout is
/// shorter than the server's vectorgpu.worker_timeout.
void breaker_note_silence(wire::RequestType type, uint64 silence_ms);

/// Record a reply: close the breaker if the searching or loading thread has made it.
void breaker_note_reply(wire::RequestType type, wire::ReplyStatus status);

/// Close the breakers for a new worker.
void breaker_reset(SharedState *state);

} // namespace vectorgpu::bridge
