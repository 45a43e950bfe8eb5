// Connecting a client: socket, greeting, mapping the slot. See client.hpp. Everything that comes from the peer is
// checked: its user, the greeting, the size and the seals of the memory.
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "wire/address.hpp"
#include "wire/client_internal.hpp"

namespace vectorgpu::wire
{
namespace
{

constexpr int kDescriptors = 3; // slot memory, doorbell, wake-up

/// Close the client and return `result`; errno is kept for the caller's message.
ClientResult
fail(Client *client, ClientResult result)
{
	const int error_number = errno;

	client_close(client);
	client->error_number = error_number;
	return result;
}

bool
peer_is_own_user(int socket)
{
	ucred peer{};
	socklen_t length = sizeof(peer);

	return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && length == sizeof(peer) &&
		peer.uid == geteuid();
}

ClientResult
send_hello(Client *client)
{
	Hello hello{};

	if (!peer_is_own_user(client->socket))
		return fail(client, ClientResult::kForeign);
	hello.magic = kMagic;
	hello.version = kProtocolVersion;
	hello.role = client->role;
	hello.epoch = client->epoch;
	hello.pid = static_cast<uint32_t>(getpid());
	if (send(client->socket, &hello, sizeof(hello), MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(hello))
		return fail(client, errno == EPIPE || errno == ECONNRESET ? ClientResult::kUnavailable : ClientResult::kSystem);
	client->phase = ClientPhase::kGreeting;
	return ClientResult::kInProgress;
}

/// Take the descriptors out of a message; close them all unless there are exactly three.
bool
take_descriptors(msghdr *message, int (&fds)[kDescriptors])
{
	bool good = (message->msg_flags & (MSG_CTRUNC | MSG_TRUNC)) == 0;
	int n = 0;

	for (cmsghdr *part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part))
	{
		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(int) <= part->cmsg_len; at += sizeof(int))
		{
			int fd = -1;

			memcpy(&fd, reinterpret_cast<const uint8_t *>(part) + at, sizeof(fd));
			if (n < kDescriptors)
				fds[n++] = fd;
			else
			{
				close(fd);
				good = false;
			}
		}
	}
	if (good && n == kDescriptors)
		return true;
	for (int i = 0; i < n; i++)
		close_descriptor(&fds[i]);
	return false;
}

/// Map the slot. The seals guarantee that no access can lie beyond the end of the file (SIGBUS).
bool
map_slot(Client *client, int memory)
{
	struct stat status = {};
	const int seals = fcntl(memory, F_GET_SEALS);
	const size_t bytes = slot_bytes(client->request_area_bytes, client->reply_area_bytes);

	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(memory, &status) != 0 ||
		static_cast<uint64_t>(status.st_size) < bytes)
	{
		errno = EBADMSG;
		return false;
	}

	void *address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memory, 0);

	if (address == MAP_FAILED)
		return false;
	client->slot = static_cast<SlotHeader *>(address);
	client->slot_bytes = bytes;
	return true;
}

bool
area_bytes_good(uint32_t bytes)
{
	return bytes >= kMinAreaBytes && bytes <= kMaxAreaBytes && bytes % 64 == 0;
}

/// Check WELCOME and open the session. Descriptors that the session takes over are set to -1 in fds.
ClientResult
open_session(Client *client, const Welcome &welcome, bool have_fds, int (&fds)[kDescriptors])
{
	if (welcome.magic != kMagic)
		return ClientResult::kProtocol;
	if (welcome.version != kProtocolVersion || welcome.status == WelcomeStatus::kOtherVersion ||
		welcome.status == WelcomeStatus::kOtherEpoch)
		return ClientResult::kSkew;
	if (welcome.status == WelcomeStatus::kFull)
		return ClientResult::kFull;
	if (welcome.status != WelcomeStatus::kWelcome || !have_fds || welcome.epoch != client->epoch ||
		!area_bytes_good(welcome.request_area_bytes) || !area_bytes_good(welcome.reply_area_bytes))
		return ClientResult::kProtocol;
	client->session = welcome.session;
	client->worker_pid = welcome.worker_pid;
	client->engine = welcome.engine;
	client->request_area_bytes = welcome.request_area_bytes;
	client->reply_area_bytes = welcome.reply_area_bytes;
	if (!map_slot(client, fds[0]))
		return errno == EBADMSG ? ClientResult::kProtocol : ClientResult::kSystem;
	client->doorbell = fds[1];
	client->wakeup = fds[2];
	fds[1] = fds[2] = -1;
	// The worker shares the descriptors and could change these flags: reading and writing here must never block.
	if (fcntl(client->doorbell, F_SETFL, O_NONBLOCK) != 0 || fcntl(client->wakeup, F_SETFL, O_NONBLOCK) != 0)
		return ClientResult::kSystem;
	client->phase = ClientPhase::kOpen;
	return ClientResult::kOk;
}

ClientResult
receive_welcome(Client *client)
{
	Welcome welcome{};
	alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int) * (kDescriptors + 5))];
	iovec part = {&welcome, sizeof(welcome)};
	msghdr message{};
	int fds[kDescriptors] = {-1, -1, -1};

	message.msg_iov = &part;
	message.msg_iovlen = 1;
	message.msg_control = control;
	message.msg_controllen = sizeof(control);

	const ssize_t n = recvmsg(client->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return ClientResult::kInProgress;
	if (n < 0)
		return fail(client, errno == ECONNRESET ? ClientResult::kUnavailable : ClientResult::kSystem);

	const bool have_fds = take_descriptors(&message, fds);
	ClientResult result = n == 0 ? ClientResult::kUnavailable : ClientResult::kProtocol;

	if (n == sizeof(welcome))
		result = open_session(client, welcome, have_fds, fds);
	for (int &fd : fds)
		close_descriptor(&fd);
	return result == ClientResult::kOk ? result : fail(client, result);
}

} // namespace

ClientResult
client_connect_start(Client *client, uint64_t epoch, Role role)
{
	sockaddr_un address{};
	char path[kSocketPathBytes];

	client_close(client);
	client->epoch = epoch;
	client->role = role;
	format_socket_path(epoch, path);
	address.sun_family = AF_UNIX;
	static_assert(sizeof(path) <= sizeof(address.sun_path));
	memcpy(address.sun_path, path, sizeof(path));
	client->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (client->socket < 0)
		return fail(client, ClientResult::kSystem);
	if (connect(client->socket, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0)
		return send_hello(client);
	if (errno == EINPROGRESS || errno == EINTR)
	{
		client->phase = ClientPhase::kConnecting;
		return ClientResult::kInProgress;
	}
	// EAGAIN: the queue of connections is full.
	return fail(client,
		errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN || errno == EACCES ? ClientResult::kUnavailable
																					   : ClientResult::kSystem);
}

ClientResult
client_connect_continue(Client *client)
{
	if (client->phase == ClientPhase::kOpen)
		return ClientResult::kOk;
	if (client->phase == ClientPhase::kGreeting)
		return receive_welcome(client);
	if (client->phase != ClientPhase::kConnecting)
		return ClientResult::kUnavailable;

	pollfd writable = {client->socket, POLLOUT, 0};
	int error_number = 0;
	socklen_t length = sizeof(error_number);

	if (poll(&writable, 1, 0) <= 0)
		return ClientResult::kInProgress;
	if (getsockopt(client->socket, SOL_SOCKET, SO_ERROR, &error_number, &length) != 0 || error_number != 0)
	{
		errno = error_number;
		return fail(client, ClientResult::kUnavailable);
	}
	return send_hello(client);
}

ClientResult
client_connect(Client *client, uint64_t epoch, Role role, int timeout_ms)
{
	const uint64_t deadline_ns = deadline_after(timeout_ms);
	ClientResult result = client_connect_start(client, epoch, role);

	while (result == ClientResult::kInProgress)
	{
		const bool connecting = client->phase == ClientPhase::kConnecting;
		pollfd ready = {client->socket, static_cast<short>(connecting ? POLLOUT : POLLIN), 0};
		const int n = poll_descriptors(&ready, 1, deadline_ns);

		if (n <= 0)
			return fail(client, n == 0 ? ClientResult::kTimeout : ClientResult::kSystem);
		result = client_connect_continue(client);
	}
	return result;
}

} // namespace vectorgpu::wire
