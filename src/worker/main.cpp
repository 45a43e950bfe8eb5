// vectorgpu_worker: the program that the supervisor starts. Sets up the process, then serves until its parent is gone.
// Exit codes: 0 the parent is gone, 1 it could not start, 2 wrong arguments, 3 the GPU is lost to this process.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/worker_fault.hpp"
#include "worker/log.hpp"
#include "worker/options.hpp"
#include "worker/worker.hpp"

using namespace vectorgpu;

namespace
{

constexpr int kLockTimeoutMs = 5000; // for an earlier worker of the same data directory to end
constexpr int kOomScore = 500;       // higher than that of the server's processes
constexpr int kMostOomScore = 1000;  // Linux's maximum

/// Reset the signals that were inherited from the server.
void
reset_signals()
{
	sigset_t none;

	for (int signal = 1; signal < NSIG; signal++)
		std::signal(signal, SIG_DFL); // fails for SIGKILL and SIGSTOP, which cannot be changed anyway
	std::signal(SIGPIPE, SIG_IGN);    // a closed log must not kill the worker
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// Close inherited descriptors: an open file of a dropped table would keep its space.
void
close_inherited(int keep)
{
	DIR *folder = opendir("/proc/self/fd");

	if (folder == nullptr)
	{
		for (int fd = 3; fd < 65536; fd++)
			if (fd != keep)
				close(fd);
		return;
	}
	while (const dirent *entry = readdir(folder))
	{
		const int fd = atoi(entry->d_name);

		if (fd > 2 && fd != keep && fd != dirfd(folder))
			close(fd);
	}
	closedir(folder);
}

/// If memory runs out, the kernel shall kill this cache before the server.
void
prefer_in_out_of_memory()
{
	const int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	char text[16] = "";

	if (fd < 0)
		return;
	if (pread(fd, text, sizeof(text) - 1, 0) > 0)
	{
		// The score may be inherited from a server that itself has a raised one, as in some containers.
		const int bytes =
			snprintf(text, sizeof(text), "%d", std::min(std::max(atoi(text), 0) + kOomScore, kMostOomScore));
		[[maybe_unused]] const ssize_t written = pwrite(fd, text, static_cast<size_t>(bytes), 0);
	}
	close(fd);
}

/// Ask the kernel to kill this process when the parent dies. False if it is gone already.
bool
follow_parent(const worker::Options &options)
{
	if (options.parent_pid == 0)
		return true;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	return getppid() == options.parent_pid;
}

} // namespace

int
main(int argc, char **argv)
{
	worker::Options options;
	Status status = worker::parse_options(argc, argv, &options);

	if (!status.is_ok())
	{
		worker::log_line("%s", status.message.c_str());
		return 2;
	}
	reset_signals();
	if (!follow_parent(options))
		return 0;
	close_inherited(options.parent_fd);
	if (options.parent_fd >= 0)
		fcntl(options.parent_fd, F_SETFD, FD_CLOEXEC);
	prefer_in_out_of_memory();
	umask(077);
#ifdef VECTORGPU_FAULTS
	if (!worker::fault_setup(getenv("VECTORGPU_WORKER_FAULT")))
	{
		worker::log_line("VECTORGPU_WORKER_FAULT is not name:nth:action");
		return 2;
	}
#endif
	if (chdir(options.data_directory.c_str()) != 0)
	{
		worker::log_line("could not enter the data directory: %s", strerror(errno));
		return 1;
	}

	auto engine = worker::make_engine(options);

	if (engine == nullptr)
	{
		worker::log_line("could not make the engine \"%s\"", options.engine.c_str());
		return 1;
	}

	// The GPU's memory is added to the host's budget.
	options.memory_budget_bytes += engine->stats().budget_bytes;

	const std::string description = engine->description();
	worker::Worker served(options, std::move(engine));

	status = served.listen(kLockTimeoutMs);
	if (!status.is_ok())
	{
		worker::log_line("%s", status.message.c_str());
		return 1;
	}
	worker::log_line("ready, engine %s, %u threads", description.c_str(), options.n_threads);
	served.run();
	worker::log_line("the parent is gone");

	// Skip the destructors: the next worker would wait while gigabytes are freed.
	_exit(0);
}
