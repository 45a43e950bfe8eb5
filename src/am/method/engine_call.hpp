// Long calls of the engine in a backend: interrupts, progress, giving way, and errors for their outcomes. PG dialect.
#pragma once

#include "pg/postgres.hpp"

#include "engine/ivf/call.hpp"

namespace vectorgpu::am
{

/// The checks that a long operation of the engine makes now and then.
struct Watch
{
	bool (*give_way)(void *); // true: somebody waits, stop soon; or null
	void *give_way_state;
	bool report; // to pg_stat_progress_create_index
};

/// Call it now and then. Looks at interrupts (an error leaves by longjmp: the engine has only this thread and nothing
/// to free) and reports `done` of `total`. False: give way.
bool watch_goes_on(const Watch *watch, uint64_t done, uint64_t total);

/// The engine's Call that does so; `watch` must outlive it.
engine::ivf::Call watched_call(const Watch *watch);

/// Raises the error that an outcome stands for, "could not <what>: …"; false if the operation was stopped to give way.
bool check_engine_outcome(const engine::ivf::Outcome &outcome, const char *what);

} // namespace vectorgpu::am
