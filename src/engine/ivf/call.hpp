// The calling convention of every long operation of this folder: who provides memory, threads and a way to stop.
// Functions allocate nothing and throw nothing: each has a function that returns the bytes of work memory it needs, and
// the caller provides them (aligned to 64 bytes by the function itself). No frame of theirs holds an object with a
// destructor, so that with one thread the progress callback may leave by longjmp: a backend passes one that does
// CHECK_FOR_INTERRUPTS. With more threads it must return.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/status.hpp"

namespace vectorgpu::engine::ivf
{

/// A Status without a destructor. message: a constant, worded as PostgreSQL's primary messages are; null if ok.
struct [[nodiscard]] Outcome
{
	StatusCode code = StatusCode::kOk;
	const char *message = nullptr;

	bool is_ok() const { return code == StatusCode::kOk; }
};

/// Called in the caller's thread several times a second. done, total: in units of the operation (its own count of
/// scores, say), for a progress report only. Return false to stop: the operation returns kCancelled and its output is
/// undefined.
using ProgressFn = bool (*)(void *context, uint64_t done, uint64_t total);

/// Run task(argument, 0) in this thread and, if other threads are free, task(argument, i) for 0 < i < n_tasks in them,
/// each at most once; return when all that began have ended. Tasks take their share of the work from a common counter.
using ParallelFn = void (*)(void *context, size_t n_tasks, void (*task)(void *argument, size_t index), void *argument);

/// Threads and progress, which the caller provides beside memory. The default: one thread, no stop.
struct Call
{
	ProgressFn progress = nullptr;
	void *progress_context = nullptr;
	size_t n_threads = 1; // more than 1 only with `parallel`, never in a backend
	ParallelFn parallel = nullptr;
	void *parallel_context = nullptr;
};

} // namespace vectorgpu::engine::ivf
