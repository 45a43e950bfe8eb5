// For SQL functions that are about the worker itself, and so cannot do without it. PG dialect.
#pragma once

#include "bridge/shared_state.hpp"
#include "wire/client.hpp"

namespace vectorgpu::bridge
{

/// Returns when requests can be made; waits for a worker that is starting. Raises 08006 after half a minute, or, where
/// it is still starting and vectorgpu.worker_timeout is longer, after so long, but a minute at most.
void require_session();

/// session_request with a worker that is waited for in the same way. Where the one that the session was with has ended
/// meanwhile, the next one is asked, once: for requests that may be made twice. Returns when there is a reply, whatever
/// its status is; raises what raise_fallback does otherwise.
void require_reply(wire::RequestType type, const wire::CopyKey *key, const wire::Part *parts, size_t n_parts,
	wire::ReplyHeader *header, void *body, size_t body_capacity);

/// As require_session for who can do without, at a price: false after most_ms, or at once where an administrator would
/// have to do something first.
bool await_session(int most_ms);

/// The same for the build of an index with so many rows, of which the process does so many in a millisecond: a worker
/// that is only starting is waited for, once a build (*has_waited), for up to half of what the build takes without it,
/// at least for its timeout; none that is silent or busy, and none for a small build. On false the reason has been
/// counted.
bool session_for_build(uint64 n_rows, uint64 rows_per_ms, bool *has_waited);

/// Raises the error for a request that was not answered, or not well: 08006, 53200, 57014 or XX000.
[[noreturn]] void raise_fallback(Fallback reason);

} // namespace vectorgpu::bridge
