// The few bytes that all server processes share about the worker: the cluster epoch, who runs, why scans fell back.
// Made by the first process that asks, with or without shared_preload_libraries; below 1 KB, so that the server's spare
// shared memory has room for it. Everything but the epoch is atomic; there is no lock. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "port/atomics.h"
}

namespace vectorgpu::bridge
{

/// Why a scan was answered from the pages although the worker was wanted. Indexes of SharedState::fallbacks.
enum class Fallback : uint32
{
	kNotRunning = 0,  // no worker process, or not ready yet
	kSilent = 1,      // no sign of life within vectorgpu.worker_timeout
	kUnreachable = 2, // no connection: refused, full, other version, no descriptors
	kGone = 3,        // died or closed the connection while it had the request
	kSlotBusy = 4,    // still working on a request that was given up
	kLoading = 5,     // no copy that is new enough yet; one is being brought
	kTooLarge = 6,    // over the worker's memory
	kRefused = 7,     // the worker said invalid, unsupported or internal error
	kOutOfMemory = 8,
	kWrongAnswer = 9,      // the reply did not hold what it must
	kRequestTooLarge = 10, // a query, or a row, that is larger than a request
	kCount = 11,
};

/// A short name: the key of the view's column fallback_reasons. docs/troubleshooting.md explains each.
const char *fallback_name(Fallback reason);

/// The same as a sentence, for messages. The text lives as long as the process or the current memory context.
const char *fallback_text(Fallback reason);

/// What keeps the supervisor from having a worker, where it knows: waiting would be in vain.
enum class Obstacle : uint32
{
	kNone = 0,
	kOff = 1,       // vectorgpu.worker is off in the server's configuration
	kNoProgram = 2, // the executable could not be started
	kNoSlot = 3,    // no background worker slot for the supervisor
};

constexpr int kLoaderSlots = 2; // indexes that are loaded in the background at a time

/// A background load that is wanted or under way. `order` 0: free.
struct LoaderSlot
{
	pg_atomic_uint64 order; // database << 32 | index
	pg_atomic_uint64 since; // pg::monotonic_ms of the order
	pg_atomic_uint32 pid;   // of the loader, once it runs
};

constexpr int kBreakers = 2; // breaker.hpp
constexpr int kNoNans = 16;  // indexes that scans remember to have no row without a number for a distance

/// Whether scans turn to one of the worker's threads.
struct Breaker
{
	pg_atomic_uint64 until;  // pg::monotonic_ms: nobody does before; then one may try. 0: closed, all do
	pg_atomic_uint64 opened; // pg::monotonic_ms of the last time; 0: never
	pg_atomic_uint32 pauses; // in a row, each twice as long as the one before
};

struct SharedState
{
	uint64 epoch;                          // random; of this life of the shared memory
	pg_atomic_uint32 supervisor_pid;       // 0: none
	pg_atomic_uint32 worker_pid;           // 0: none
	pg_atomic_uint32 worker_ready;         // 1: it has greeted the supervisor
	pg_atomic_uint32 worker_on_gpu;        // 1: it computes on a GPU; of the last one that was ready
	pg_atomic_uint32 worker_silent;        // 1: it does not answer the supervisor
	pg_atomic_uint32 obstacle;             // an Obstacle
	pg_atomic_uint32 timeout_ms;           // the server's own vectorgpu.worker_timeout; 0: no supervisor has been there
	pg_atomic_uint32 n_spinning;           // processes that look for a reply for long
	pg_atomic_uint32 n_connecting;         // processes that wait for the worker's greeting
	pg_atomic_uint32 n_lanes;              // further sessions of all processes (search_lanes.hpp)
	pg_atomic_uint64 generation;           // worker processes started
	pg_atomic_uint64 n_deaths;             // worker processes that ended by themselves
	pg_atomic_uint64 supervisor_asked;     // pg::monotonic_ms of the last request for a supervisor
	pg_atomic_uint64 logged;               // pg::monotonic_ms of the last line about a fallback
	pg_atomic_uint64 n_answered;           // batches of rows that came from the worker
	pg_atomic_uint64 n_shipped_rows;       // delta rows that scans brought to the worker
	pg_atomic_uint64 n_inline_loads;       // copies that scans brought to the worker
	pg_atomic_uint64 n_background_loads;   // copies that loaders brought to it
	pg_atomic_uint64 n_background_updates; // copies that loaders brought up to date
	pg_atomic_uint64 fallbacks[static_cast<int>(Fallback::kCount)];
	LoaderSlot loaders[kLoaderSlots];
	Breaker breakers[kBreakers];
	pg_atomic_uint64
		no_nan[kNoNans]; // hashes of segments without a row whose distance is NaN (am/scan/nan_rows.hpp); 0: none
};

static_assert(sizeof(SharedState) <= 1024);

/// Attaches on the first call in a process. Null if there is none: a standalone server, or no shared memory left.
SharedState *shared_state();

/// True if there is a worker that computes on a GPU, and scans turn to it. For the planner: it may be another a moment
/// later.
bool worker_on_gpu();

/// Counts a fallback; logs one line a minute for reasons that an administrator should know of. `detail` may be null; it
/// is a sentence.
void note_fallback(Fallback reason, const char *detail);

/// The log's part of it alone: whoever asked counts what it did without the worker.
void log_fallback(Fallback reason, const char *detail);

/// The fallbacks that this process has counted, and the reason of the last one: how a scan learns of its own.
uint64 own_fallbacks();
Fallback last_fallback();

} // namespace vectorgpu::bridge
