// The supervisor: a small background worker that starts the worker process, kills and reaps it when it ends itself,
// starts it anew when it dies, watches that it answers, and drops copies of indexes that are gone. PG dialect.
#pragma once

#include "bridge/shared_state.hpp"

namespace vectorgpu::bridge
{

/// Registers the supervisor with the server. Called once, from _PG_init; does nothing unless the module is being
/// preloaded.
void supervisor_init();

/// The supervisor's main loop; never returns.
[[noreturn]] void supervisor_run();

/// Asks for a supervisor if there is none. For scans: cheap, never raises, never waits.
void supervisor_request(SharedState *state);

} // namespace vectorgpu::bridge
