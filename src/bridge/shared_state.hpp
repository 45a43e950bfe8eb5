// The server processes' shared state of the worker: the cluster epoch, the running processes, counts of fallbacks. The
// first process that needs it creates it, with or without shared_preload_libraries; it is smaller than 1 KB, so that it
// fits into the server's spare shared memory. Everything but the epoch is atomic; there is no lock. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "port/atomics.h"
}

namespace vectorgpu::bridge
{

/// Reasons for answering a scan from the pages although the worker was wanted. Indexes of SharedState::fallbacks.
enum class Fallback : uint32
{
	kNotRunning = 0,  // no worker process, or not ready yet
	kSilent = 1,      // no sign of life within vectorgpu.worker_timeout
	kUnreachable = 2, // no connection: refused, full, other version, no descriptors
	kGone = 3,        // died or closed the connection while it had the request
	kSlotBusy = 4,    // the worker still works on an abandoned request
	kLoading = 5,     // no copy that is new enough yet; one is being loaded
	kTooLarge = 6,    // over the worker's memory
	kRefused = 7,     // the worker answered invalid, unsupported or internal error
	kOutOfMemory = 8,
	kWrongAnswer = 9,      // the reply was invalid
	kRequestTooLarge = 10, // a query or a row larger than a request
	kCount = 11,
};

/// Return a short name: the key in the view's column fallback_reasons. docs/troubleshooting.md explains each.
const char *fallback_name(Fallback reason);

/// Return the reason as a sentence, for messages, valid as long as the process or the current memory context.
const char *fallback_text(Fallback reason);

/// The known reason why the supervisor has no worker: waiting cannot help.
enum class Obstacle : uint32
{
	kNone = 0,
	kOff = 1,       // vectorgpu.worker is off in the server's configuration
	kNoProgram = 2, // the executable could not be started
	kNoSlot = 3,    // no background worker slot for the supervisor
};

constexpr int kLoaderSlots = 2; // indexes loaded in the background at a time

/// A requested or running background load. `order` 0: free.
struct LoaderSlot
{
	pg_atomic_uint64 order; // database << 32 | index
	pg_atomic_uint64 since; // pg::monotonic_ms of the order
	pg_atomic_uint32 pid;   // of the loader, once it runs
};

constexpr int kBreakers = 2; // breaker.hpp
constexpr int kNoNans = 16;  // indexes that scans have found to have no row whose distance is NaN

/// The state of the breaker of one of the worker's threads.
struct Breaker
{
	pg_atomic_uint64 until;  // pg::monotonic_ms: no scan uses the thread before this; then one may try. 0: closed
	pg_atomic_uint64 opened; // pg::monotonic_ms of the last time; 0: never
	pg_atomic_uint32 pauses; // consecutive pauses, each twice as long as the last
};

struct SharedState
{
	uint64 epoch;                          // random, drawn when the shared memory was created
	pg_atomic_uint32 supervisor_pid;       // 0: none
	pg_atomic_uint32 worker_pid;           // 0: none
	pg_atomic_uint32 worker_ready;         // 1: it has greeted the supervisor
	pg_atomic_uint32 worker_on_gpu;        // 1: it computes on a GPU; of the last one that was ready
	pg_atomic_uint32 worker_silent;        // 1: it does not answer the supervisor
	pg_atomic_uint32 obstacle;             // an Obstacle
	pg_atomic_uint32 timeout_ms;           // the server's vectorgpu.worker_timeout; 0: no supervisor has run yet
	pg_atomic_uint32 n_spinning;           // processes that poll for kLongSpinUs
	pg_atomic_uint32 n_connecting;         // processes that wait for the worker's greeting
	pg_atomic_uint64 generation;           // worker processes started
	pg_atomic_uint64 n_deaths;             // worker processes that ended by themselves
	pg_atomic_uint64 supervisor_asked;     // pg::monotonic_ms of the last request for a supervisor
	pg_atomic_uint64 logged;               // pg::monotonic_ms of the last line about a fallback
	pg_atomic_uint64 n_answered;           // batches of rows that came from the worker
	pg_atomic_uint64 n_shipped_rows;       // delta rows that scans sent to the worker
	pg_atomic_uint64 n_inline_loads;       // copies that scans loaded
	pg_atomic_uint64 n_background_loads;   // copies that loaders loaded
	pg_atomic_uint64 n_background_updates; // copies that loaders updated
	pg_atomic_uint64 fallbacks[static_cast<int>(Fallback::kCount)];
	LoaderSlot loaders[kLoaderSlots];
	Breaker breakers[kBreakers];
	pg_atomic_uint64
		no_nan[kNoNans]; // hashes of segments without a row whose distance is NaN (am/scan/nan_rows.hpp); 0: none
};

static_assert(sizeof(SharedState) <= 1024);

/// Return the state; attach to it on the first call in a process. Null in a standalone server or if there is no shared
/// memory left.
SharedState *shared_state();

/// Record why there is no worker, or kNone.
inline void
set_obstacle(SharedState *state, Obstacle obstacle)
{
	pg_atomic_write_u32(&state->obstacle, static_cast<uint32>(obstacle));
}

/// Return true if there is a worker that scans use. For the planner: this may change at any moment.
bool worker_answers_scans();

/// The same of a worker with a GPU.
bool worker_on_gpu();

/// Count a fallback; log one line a minute for reasons that an administrator should know. detail: a sentence, or null.
void note_fallback(Fallback reason, const char *detail);

/// Only the log line of note_fallback, for callers that count themselves.
void log_fallback(Fallback reason, const char *detail);

/// Return the number of fallbacks that this process has counted, and the reason of the last one.
uint64 own_fallbacks();
Fallback last_fallback();

} // namespace vectorgpu::bridge
