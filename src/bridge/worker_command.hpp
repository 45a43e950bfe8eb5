// The command that starts the worker: its executable, and its arguments from the settings. Used by the supervisor only.
// PG dialect.
#pragma once

#include "bridge/worker_process.hpp"

namespace vectorgpu::bridge
{

constexpr size_t kDeviceBytes = 256; // longest value of vectorgpu.device

/// The settings with which a worker was started.
struct WorkerCommand
{
	int threads;
	int memory_mb;
	int max_sessions;
	int gpu_memory_mb;
	char device[kDeviceBytes];
	char program[MAXPGPATH];
};

/// Create the directory of the sockets, or empty it: a server has one supervisor, so a socket there is a leftover.
void prepare_socket_folder();

/// Start a worker with the present settings, which *command remembers. path [size]: set to its executable. Returns
/// false, with errno set, if no process was started.
bool worker_command_start(WorkerCommand *command, WorkerProcess *process, uint64 epoch_number, char *path, size_t size);

/// Return true if a worker started now would have other settings.
bool worker_command_changed(const WorkerCommand *command);

} // namespace vectorgpu::bridge
