// See worker_process.hpp. Between fork and exec only async-signal-safe calls are made.
#include "bridge/worker_process.hpp"

#include "pg/clock.hpp"
#include "pg/fault.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C"
{
#include "storage/fd.h"
}

namespace vectorgpu::bridge
{

namespace
{

constexpr int kLifeFd = 3; // in the child
constexpr uint32 kLinesPerSecond = 20;
constexpr int kKillWaits = 4000; // of 1 ms: a process that holds a device can take long to die

void
close_fd(int *fd)
{
	if (*fd < 0)
		return;
	close(*fd);
	ReleaseExternalFD();
	*fd = -1;
}

void
write_error(const char *what, const char *path)
{
	char text[256];
	const int n = snprintf(text, sizeof(text), "%s \"%.160s\": error %d\n", what, path, errno);

	if (n > 0 && write(STDERR_FILENO, text, static_cast<size_t>(n)) < 0)
		_exit(126);
}

/// In the child: become the worker.
[[noreturn]] void
become_worker(const char *path, char **argv, pid_t parent, int output_fd, int life_fd)
{
	sigset_t none;
	int null_fd;

	// A stop of the server signals process groups: the worker leaves the supervisor's.
	(void) setsid();
	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(125);
	for (int signal_number = 1; signal_number < NSIG; signal_number++)
		(void) signal(signal_number, SIG_DFL);
	sigemptyset(&none);
	(void) sigprocmask(SIG_SETMASK, &none, nullptr);

	// Move the descriptors above 3 first, so that no dup2 below overwrites one that a later call needs.
	output_fd = fcntl(output_fd, F_DUPFD, kLifeFd + 1);
	life_fd = fcntl(life_fd, F_DUPFD, kLifeFd + 1);
	null_fd = open("/dev/null", O_RDONLY);
	if (output_fd < 0 || life_fd < 0 || null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
		dup2(output_fd, STDOUT_FILENO) < 0 || dup2(output_fd, STDERR_FILENO) < 0 || dup2(life_fd, kLifeFd) < 0)
		_exit(124);
	if (syscall(SYS_close_range, kLifeFd + 1, ~0U, 0) != 0)
		for (int fd = kLifeFd + 1; fd < 65536; fd++)
			close(fd);
	execv(path, argv);
	write_error("could not execute", path);
	_exit(127);
}

/// Create a pipe whose ends close on exec, counted as external descriptors; this process's end is non-blocking.
bool
make_pipe(int (&fds)[2], bool ours_is_read)
{
	fds[0] = fds[1] = -1;
	if (VG_FAULT("worker_pipe"))
	{
		errno = EMFILE;
		return false;
	}
	if (!AcquireExternalFD())
		return false;
	if (pipe2(fds, O_CLOEXEC) != 0)
	{
		ReleaseExternalFD();
		return false;
	}
	(void) fcntl(fds[ours_is_read ? 0 : 1], F_SETFL, O_NONBLOCK);
	return true;
}

void
log_line(WorkerProcess *process)
{
	const uint64 second = pg::monotonic_ms() / 1000;

	process->line[process->line_bytes] = '\0';
	process->line_bytes = 0;
	if (second != process->second)
	{
		if (process->lines_dropped > 0)
			ereport(LOG, (errmsg("vectorgpu worker: %u more lines", process->lines_dropped)));
		process->second = second;
		process->lines_this_second = 0;
		process->lines_dropped = 0;
	}
	if (process->lines_this_second >= kLinesPerSecond)
	{
		process->lines_dropped++;
		return;
	}
	process->lines_this_second++;
	ereport(LOG, (errmsg("%s", process->line)));
}

void
take_output(WorkerProcess *process, const char *bytes, ssize_t n)
{
	for (ssize_t i = 0; i < n; i++)
	{
		const char c = bytes[i];

		if (c == '\n' || process->line_bytes == kOutputLineBytes - 1)
			log_line(process);
		if (c != '\n')
			process->line[process->line_bytes++] = c >= ' ' && c <= '~' ? c : '?';
	}
}

} // namespace

void
worker_process_init(WorkerProcess *process)
{
	memset(process, 0, sizeof(*process));
	process->output_fd = process->life_fd = -1;
}

bool
worker_process_start(WorkerProcess *process, const char *path, char **argv)
{
	const pid_t parent = getpid();
	static char life_fd_text[] = "3";
	static char life_fd_name[] = "--parent-fd";
	int output[2];
	int life[2];
	int n = 0;
	pid_t child;

	static_assert(kLifeFd == 3);
	while (argv[n] != nullptr)
		n++;
	argv[n++] = life_fd_name;
	argv[n++] = life_fd_text;
	argv[n] = nullptr;

	if (!make_pipe(output, true))
		return false;
	if (!make_pipe(life, false))
	{
		close(output[1]);
		close_fd(&output[0]);
		return false;
	}
	// The worker must never wait for this process to read.
	(void) fcntl(output[1], F_SETFL, O_NONBLOCK);

	child = VG_FAULT("worker_fork") ? -1 : fork();
	if (child == 0)
		become_worker(path, argv, parent, output[1], life[0]);
	const int saved_errno = errno;

	close(output[1]);
	close(life[0]);
	if (child < 0)
	{
		close_fd(&output[0]);
		close_fd(&life[1]);
		errno = saved_errno;
		return false;
	}
	worker_process_init(process);
	process->pid = child;
	process->output_fd = output[0];
	process->life_fd = life[1];
	return true;
}

bool
worker_process_read_output(WorkerProcess *process)
{
	char bytes[4096];

	while (process->output_fd >= 0)
	{
		const ssize_t n = read(process->output_fd, bytes, sizeof(bytes));

		if (n > 0)
		{
			take_output(process, bytes, n);
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return true;
		if (process->line_bytes > 0)
			log_line(process);
		return false;
	}
	return false;
}

bool
worker_process_reap(WorkerProcess *process, int *status)
{
	pid_t ended;

	do
		ended = waitpid(process->pid, status, WNOHANG);
	while (ended < 0 && errno == EINTR);
	if (ended == 0)
		return false;
	if (ended < 0)
		*status = 0;
	(void) worker_process_read_output(process);
	worker_process_close(process);
	process->pid = 0;
	return true;
}

void
worker_process_kill(WorkerProcess *process)
{
	const timespec pause = {0, 1000 * 1000};
	int status;

	if (process->pid == 0)
		return;
	(void) kill(process->pid, SIGKILL);
	for (int i = 0; i < kKillWaits; i++)
	{
		const pid_t ended = waitpid(process->pid, &status, WNOHANG);

		if (ended == process->pid || (ended < 0 && errno == ECHILD))
			break;
		(void) nanosleep(&pause, nullptr);
	}
	process->pid = 0;
}

void
worker_process_close(WorkerProcess *process)
{
	close_fd(&process->output_fd);
	close_fd(&process->life_fd);
}

} // namespace vectorgpu::bridge
