// See worker_command.hpp.
#include "bridge/worker_command.hpp"

#include "bridge/settings.hpp"
#include "common/cores.hpp"
#include "wire/address.hpp"

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include <sys/stat.h>
#include <unistd.h>

extern "C"
{
#include "miscadmin.h"
#include "storage/fd.h"
}

namespace vectorgpu::bridge
{

namespace
{

/// Set path [size] to the worker's executable: the setting's; else, beside the module, that of the package with CUDA if
/// it is there (packaging/README.md), or the one that was installed with the module.
void
find_worker(char *path, size_t size)
{
	if (settings.worker_program != nullptr && settings.worker_program[0] != '\0')
	{
		strlcpy(path, settings.worker_program, size);
		return;
	}
	snprintf(path, size, "%s/vectorgpu_worker_cuda", pkglib_path);
	if (access(path, X_OK) != 0)
		snprintf(path, size, "%s/vectorgpu_worker", pkglib_path);
}

} // namespace

void
prepare_socket_folder()
{
	DIR *folder;
	struct dirent *entry;
	char path[MAXPGPATH];

	if (mkdir(wire::kSocketFolder, 0700) != 0 && errno != EEXIST)
		ereport(
			ERROR, (errcode_for_file_access(), errmsg("could not create directory \"%s\": %m", wire::kSocketFolder)));
	(void) chmod(wire::kSocketFolder, 0700);
	folder = AllocateDir(wire::kSocketFolder);
	while ((entry = ReadDir(folder, wire::kSocketFolder)) != nullptr)
	{
		if (!wire::is_socket_name(entry->d_name))
			continue;
		snprintf(path, sizeof(path), "%s/%s", wire::kSocketFolder, entry->d_name);
		(void) unlink(path);
	}
	FreeDir(folder);
}

bool
worker_command_start(WorkerCommand *command, WorkerProcess *process, uint64 epoch_number, char *path, size_t size)
{
	char epoch[24];
	char threads[16];
	char memory[24];
	char sessions[16];
	char parent[16];
	char name[] = "vectorgpu_worker";
	char option_directory[] = "--data-directory";
	char directory[] = ".";
	char option_epoch[] = "--epoch";
	char option_threads[] = "--threads";
	char option_memory[] = "--memory-budget";
	char option_sessions[] = "--max-sessions";
	char option_parent[] = "--parent-pid";
	char option_device[] = "--device";
	char option_gpu_memory[] = "--gpu-memory";
	char gpu_memory[24];
	const unsigned n_cores = count_cores();
	char *argv[] = {name, option_directory, directory, option_epoch, epoch, option_threads, threads, option_memory,
		memory, option_sessions, sessions, option_parent, parent, option_device, command->device, option_gpu_memory,
		gpu_memory, nullptr, nullptr, nullptr};

	command->threads = settings.worker_threads;
	command->memory_mb = settings.worker_memory_mb;
	command->max_sessions = settings.worker_max_sessions;
	command->gpu_memory_mb = settings.gpu_memory_mb;
	strlcpy(command->device, settings.device, sizeof(command->device));
	find_worker(path, size);
	strlcpy(command->program, settings.worker_program, sizeof(command->program));
	snprintf(epoch, sizeof(epoch), "%" PRIx64, static_cast<uint64_t>(epoch_number));
	snprintf(threads, sizeof(threads), "%d",
		settings.worker_threads > 0 ? settings.worker_threads : static_cast<int>(Min(n_cores, 1024U)));
	snprintf(memory, sizeof(memory), "%" PRIu64, static_cast<uint64_t>(settings.worker_memory_mb) << 20);
	snprintf(gpu_memory, sizeof(gpu_memory), "%" PRIu64, static_cast<uint64_t>(settings.gpu_memory_mb) << 20);
	// Add the supervisor's own session and a loader's.
	snprintf(sessions, sizeof(sessions), "%d", settings.worker_max_sessions + 2);
	snprintf(parent, sizeof(parent), "%d", MyProcPid);
	return access(path, X_OK) == 0 && worker_process_start(process, path, argv);
}

bool
worker_command_changed(const WorkerCommand *command)
{
	return command->threads != settings.worker_threads || command->memory_mb != settings.worker_memory_mb ||
		command->max_sessions != settings.worker_max_sessions || command->gpu_memory_mb != settings.gpu_memory_mb ||
		strcmp(command->device, settings.device) != 0 || strcmp(command->program, settings.worker_program) != 0;
}

} // namespace vectorgpu::bridge
