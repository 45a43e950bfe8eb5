// Long calls of the engine in a backend: interrupts, progress, giving way, and what becomes of their outcomes. PG
// dialect.
#pragma once

#include "pg/postgres.hpp"

#include "engine/ivf/call.hpp"

namespace vectorgpu::am
{

/// What a long operation of the engine does now and then.
struct Watch
{
	bool (*give_way)(void *); // true: somebody waits, stop soon; or null
	void *give_way_state;
	bool report; // to pg_stat_progress_create_index
};

/// To be called now and then: looks at interrupts (an error leaves by longjmp: the engine has no more than this thread
/// and nothing to free) and reports that `done` of `total` are done. False: give way.
bool watch_goes_on(const Watch *watch, uint64_t done, uint64_t total);

/// The engine's Call that does so; watch: alive as long as it.
engine::ivf::Call watched_call(const Watch *watch);

/// Raises the error that an outcome stands for, "could not <what>: …"; false if the operation was stopped to give way.
bool check_engine_outcome(const engine::ivf::Outcome &outcome, const char *what);

} // namespace vectorgpu::am
