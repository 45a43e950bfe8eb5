// For SQL functions that are about the worker itself, and so cannot do without it. PG dialect.
#pragma once

#include "bridge/shared_state.hpp"

namespace vectorgpu::bridge
{

/// Returns when requests can be made; waits for a worker that is starting. Raises 08006 after some seconds.
void require_session();

/// The same for who can do without, at a price: false after most_ms, or at once where an administrator would have to do something first.
bool await_session(int most_ms);

/// The same for the build of an index with so many rows, of which the process does so many in a millisecond: a worker that is only
/// starting is waited for, once a build (*has_waited), for up to half of what the build takes without it, at least for its timeout; none
/// that is silent or busy, and none for a small build. On false the reason has been counted.
bool session_for_build(uint64 n_rows, uint64 rows_per_ms, bool *has_waited);

/// Raises the error for a request that was not answered, or not well: 08006, 53200, 57014 or XX000.
[[noreturn]] void raise_fallback(Fallback reason);

} // namespace vectorgpu::bridge
