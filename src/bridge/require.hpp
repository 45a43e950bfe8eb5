// For SQL functions that are about the worker itself, and so cannot do without it. PG dialect.
#pragma once

#include "bridge/shared_state.hpp"

namespace vectorgpu::bridge
{

/// Returns when requests can be made; waits for a worker that is starting. Raises 08006 after some seconds.
void require_session();

/// The same for who can do without, at a price: false after most_ms, or at once where an administrator would have to do something first.
bool await_session(int most_ms);

/// There is to be a worker, and it has not greeted the supervisor yet.
bool worker_is_starting();

/// Raises the error for a request that was not answered, or not well: 08006, 53200, 57014 or XX000.
[[noreturn]] void raise_fallback(Fallback reason);

} // namespace vectorgpu::bridge
