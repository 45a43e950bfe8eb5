// The worker as a child process: start, death, output. Used by the supervisor only. PG dialect.
#pragma once

#include "pg/postgres.hpp"

#include <sys/types.h>

namespace vectorgpu::bridge
{

constexpr int kOutputLineBytes = 1024;

struct WorkerProcess
{
	pid_t pid;     // 0: none
	int output_fd; // its standard error; end of file: it is gone. -1: closed
	int life_fd;   // write end of a pipe to the worker: closed when this process dies. -1: closed
	uint32 line_bytes;
	uint32 lines_this_second;
	uint32 lines_dropped;
	uint64 second;
	char line[kOutputLineBytes];
};

void worker_process_init(WorkerProcess *process);

/// fork and exec `path` with argv; "--parent-fd N" is added, so argv needs two free places before its null. False with
/// errno set: no process was started.
bool worker_process_start(WorkerProcess *process, const char *path, char **argv);

/// Write the worker's output to the log. False at end of file.
bool worker_process_read_output(WorkerProcess *process);

/// Return true if the process has ended; it is then reaped, its descriptors are closed, and *status is its wait status.
bool worker_process_reap(WorkerProcess *process, int *status);

/// Send SIGKILL and wait for the end. Async-signal-safe; descriptors stay open.
void worker_process_kill(WorkerProcess *process);

/// Close the descriptors.
void worker_process_close(WorkerProcess *process);

} // namespace vectorgpu::bridge
