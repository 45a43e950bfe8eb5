// See server.hpp.
#include "wire/server.hpp"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "wire/address.hpp"

namespace vectorgpu::wire
{
namespace
{

constexpr int kBacklog = 128;
constexpr long kLockRetryNs = 20 * 1000 * 1000;

Status
system_error(const char *what, StatusCode code = StatusCode::kUnavailable)
{
	return Status::error(code, std::string(what) + ": " + strerror(errno));
}

void
close_descriptor(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/// Remove sockets of dead workers: the holder of the directory's lock is the only live one.
void
remove_stale_sockets(int folder)
{
	const int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = copy < 0 ? nullptr : fdopendir(copy);

	if (entries == nullptr)
	{
		if (copy >= 0)
			close(copy);
		return;
	}
	while (const dirent *entry = readdir(entries))
		if (is_socket_name(entry->d_name))
			unlinkat(folder, entry->d_name, 0);
	closedir(entries);
}

} // namespace

Status
open_folder(int *folder)
{
	struct stat status = {};

	if (mkdir(kSocketFolder, 0700) != 0 && errno != EEXIST)
		return system_error("could not make the socket folder");

	const int fd = open(kSocketFolder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return system_error("could not open the socket folder");
	if (fstat(fd, &status) != 0 || status.st_uid != geteuid() || (status.st_mode & 077) != 0)
	{
		close(fd);
		return Status::error(
			StatusCode::kUnavailable, "the socket folder belongs to another user, or others may enter it");
	}
	*folder = fd;
	return Status::ok();
}

Status
lock_folder(int folder, int timeout_ms)
{
	const timespec pause = {0, kLockRetryNs};

	for (long waited_ns = 0;; waited_ns += kLockRetryNs)
	{
		if (flock(folder, LOCK_EX | LOCK_NB) == 0)
			return Status::ok();
		if (errno != EWOULDBLOCK && errno != EINTR)
			return system_error("could not lock the socket folder");
		if (waited_ns / 1000000 >= timeout_ms)
			return Status::error(StatusCode::kUnavailable, "another worker serves this data directory");
		nanosleep(&pause, nullptr);
	}
}

Status
listen_at(int folder, uint64_t epoch, int *listening)
{
	sockaddr_un address{};
	char path[kSocketPathBytes];

	remove_stale_sockets(folder);
	format_socket_path(epoch, path);
	address.sun_family = AF_UNIX;
	memcpy(address.sun_path, path, sizeof(path));

	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return system_error("could not make a socket");

	const mode_t before = umask(0177); // 0600: connecting needs the right to write
	const int bound = bind(fd, reinterpret_cast<const sockaddr *>(&address), sizeof(address));

	umask(before);
	if (bound != 0 || listen(fd, kBacklog) != 0)
	{
		const Status status = system_error("could not listen on the socket");

		close(fd);
		return status;
	}
	*listening = fd;
	return Status::ok();
}

int
accept_peer(int listening)
{
	const int fd = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
	ucred peer{};
	socklen_t length = sizeof(peer);

	if (fd < 0)
		return -1;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || length != sizeof(peer) || peer.uid != geteuid())
	{
		close(fd);
		return -2;
	}
	return fd;
}

Status
make_slot(uint32_t request_area_bytes, uint32_t reply_area_bytes, SlotMemory *slot)
{
	const size_t bytes = slot_bytes(request_area_bytes, reply_area_bytes);
	SlotMemory made;
	int error_number = 0;

	made.request_area_bytes = request_area_bytes;
	made.reply_area_bytes = reply_area_bytes;
	made.memory = memfd_create("vectorgpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (made.memory >= 0)
	{
		// Allocate now: after ftruncate alone, the first write would raise SIGBUS if memory runs out.
		do
			error_number = posix_fallocate(made.memory, 0, static_cast<off_t>(bytes));
		while (error_number == EINTR);
		if (error_number == 0 && fcntl(made.memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		{
			void *address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, made.memory, 0);

			if (address != MAP_FAILED)
				made.header = static_cast<SlotHeader *>(address);
		}
		if (error_number != 0)
			errno = error_number;
	}
	if (made.header != nullptr)
	{
		made.doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		made.wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	}
	if (made.doorbell < 0 || made.wakeup < 0)
	{
		const Status status = system_error("could not make a slot", StatusCode::kOutOfMemory);

		free_slot(&made);
		return status;
	}
	*slot = made;
	return Status::ok();
}

void
free_slot(SlotMemory *slot)
{
	if (slot->header != nullptr)
		munmap(slot->header, slot_bytes(slot->request_area_bytes, slot->reply_area_bytes));
	slot->header = nullptr;
	close_descriptor(&slot->memory);
	close_descriptor(&slot->doorbell);
	close_descriptor(&slot->wakeup);
}

HelloResult
receive_hello(int socket, Hello *hello)
{
	uint8_t bytes[sizeof(Hello) + 1];
	iovec part = {bytes, sizeof(bytes)};
	msghdr message{};

	message.msg_iov = &part;
	message.msg_iovlen = 1; // no room for descriptors: the kernel closes any that are sent

	const ssize_t n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? HelloResult::kNothing : HelloResult::kGone;
	if (n == 0)
		return HelloResult::kGone;
	if (n != sizeof(Hello))
		return HelloResult::kMalformed;
	memcpy(hello, bytes, sizeof(Hello));

	const uint16_t role = static_cast<uint16_t>(hello->role);

	if (hello->magic != kMagic || role < static_cast<uint16_t>(Role::kBackend) ||
		role > static_cast<uint16_t>(Role::kBuilder) || hello->zero0 != 0 || hello->zero1 != 0)
		return HelloResult::kMalformed;
	return HelloResult::kHello;
}

bool
send_welcome(int socket, const Welcome &welcome, const SlotMemory *slot)
{
	iovec part = {const_cast<Welcome *>(&welcome), sizeof(welcome)};
	alignas(cmsghdr) uint8_t control[CMSG_SPACE(3 * sizeof(int))] = {};
	msghdr message{};

	message.msg_iov = &part;
	message.msg_iovlen = 1;
	if (slot != nullptr)
	{
		const int fds[3] = {slot->memory, slot->doorbell, slot->wakeup};

		message.msg_control = control;
		message.msg_controllen = sizeof(control);

		cmsghdr *rights = CMSG_FIRSTHDR(&message);

		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(sizeof(fds));
		memcpy(CMSG_DATA(rights), fds, sizeof(fds));
	}
	return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(welcome);
}

} // namespace vectorgpu::wire
