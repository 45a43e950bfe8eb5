// The supervisor: a small background worker that starts the worker process, restarts it when it dies, checks that it
// answers, drops copies of indexes that are gone, and kills and reaps the worker before it ends itself. PG dialect.
#pragma once

#include "bridge/shared_state.hpp"

namespace vectorgpu::bridge
{

/// Register the supervisor with the server. Called once, from _PG_init; does nothing unless the module is being
/// preloaded.
void supervisor_init();

/// The supervisor's main loop; never returns.
[[noreturn]] void supervisor_run();

/// Request a supervisor if there is none. For scans: cheap, never raises, never waits.
void supervisor_request(SharedState *state);

} // namespace vectorgpu::bridge
