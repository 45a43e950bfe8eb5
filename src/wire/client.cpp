// See client.hpp. Everything that may come from the peer is checked: its user, the greeting, the size and the seals of
// the memory, the length of a reply.
#include "wire/client.hpp"

#include <cerrno>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "wire/address.hpp"
#include "wire/codec.hpp"

namespace vectorgpu::wire
{
namespace
{

constexpr int kDescriptors = 3; // slot memory, doorbell, wake-up

uint8_t *
request_area(const Client *client)
{
	return reinterpret_cast<uint8_t *>(client->slot) + kSlotHeaderBytes;
}

const uint8_t *
reply_area(const Client *client)
{
	return request_area(client) + client->request_area_bytes;
}

SlotState
slot_state(const Client *client)
{
	return static_cast<SlotState>(client->slot->state.load(std::memory_order_acquire));
}

void
close_descriptor(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/// Closes everything and passes the result on; errno is kept for the caller's message.
ClientResult
fail(Client *client, ClientResult result)
{
	const int error_number = errno;

	client_close(client);
	client->error_number = error_number;
	return result;
}

void
signal_descriptor(int fd)
{
	const uint64_t one = 1;

	// EAGAIN means that the counter is full: then it is readable, which is all that is wanted.
	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/// Rings the doorbell unless the worker looks at the slot by itself. The fence pairs with the worker's in
/// Dispatcher::stop_polling: either it sees what was stored before, or this load sees that it has stopped polling.
void
ring(Client *client)
{
	full_fence();
	if (client->slot->worker_polls.load(std::memory_order_relaxed) == 0)
		signal_descriptor(client->doorbell);
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

/// Takes the descriptors of a message; closes them all unless there are just three.
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

/// Maps the slot; the seals make sure that no access can ever lie behind the end of the file (SIGBUS).
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

/// Looks at WELCOME and opens the session. fds are closed or taken over.
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
	// The descriptors are shared with the worker, and so are these flags: reading and writing here must never block.
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

int
poll_descriptors(pollfd *fds, nfds_t n, uint64_t deadline_ns)
{
	for (;;)
	{
		const uint64_t now = monotonic_ns();
		const uint64_t left_ms = now >= deadline_ns ? 0 : (deadline_ns - now + 999999) / 1000000;
		const int ready = poll(fds, n, static_cast<int>(left_ms < 1000000 ? left_ms : 1000000));

		if (ready != 0 && !(ready < 0 && errno == EINTR))
			return ready;
		if (ready == 0 && monotonic_ns() >= deadline_ns)
			return 0;
	}
}

uint64_t
deadline_after(int timeout_ms)
{
	return monotonic_ns() + static_cast<uint64_t>(timeout_ms < 0 ? 0 : timeout_ms) * 1000000;
}

/// Says that the client is about to sleep. The fence pairs with the worker's between storing the state and looking at
/// client_waits: if the next look here does not see the state, the worker sees this.
void
set_waits(Client *client, ClientWaits waits)
{
	client->slot->client_waits.store(static_cast<uint32_t>(waits), std::memory_order_relaxed);
	full_fence();
}

/// The reply of a request that was given up has come: the slot is free.
void
forget_reply(Client *client)
{
	client->slot->cancel.store(0, std::memory_order_relaxed);
	client->slot->state.store(static_cast<uint32_t>(SlotState::kIdle), std::memory_order_release);
	client->pending = false;
	client->abandoned = false;
}

} // namespace

uint64_t
monotonic_ns()
{
	timespec now{};

	clock_gettime(CLOCK_MONOTONIC, &now);
	return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

void
client_init(Client *client)
{
	*client = Client{};
	client->socket = client->doorbell = client->wakeup = -1;
}

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

size_t
client_body_capacity(const Client *client)
{
	return client->phase == ClientPhase::kOpen ? client->request_area_bytes - sizeof(RequestHeader) : 0;
}

ClientResult
client_submit(Client *client, RequestType type, const CopyKey *key, const Part *parts, size_t n_parts)
{
	RequestHeader header{};
	const size_t capacity = client_body_capacity(client);
	size_t body_bytes = 0;

	if (client->phase != ClientPhase::kOpen)
		return ClientResult::kGone;
	if (client_poll(client) != ClientState::kIdle)
		return ClientResult::kNotReady;
	for (size_t i = 0; i < n_parts; i++)
	{
		if (parts[i].bytes > capacity - body_bytes)
			return ClientResult::kTooLarge;
		body_bytes += parts[i].bytes;
	}
	client->sequence++;
	client->type = type;
	header.type = type;
	header.body_bytes = static_cast<uint32_t>(body_bytes);
	header.sequence = client->sequence;
	if (key != nullptr)
		header.key = *key;

	uint8_t *to = request_area(client);

	memcpy(to, &header, sizeof(header));
	to += sizeof(header);
	for (size_t i = 0; i < n_parts; i++)
	{
		if (parts[i].bytes > 0)
			memcpy(to, parts[i].data, parts[i].bytes);
		to += parts[i].bytes;
	}

	SlotHeader *slot = client->slot;

	client->submitted_ns = monotonic_ns();
	client->pending = true;
	client->abandoned = false;
	slot->cancel.store(0, std::memory_order_relaxed);
	slot->client_waits.store(0, std::memory_order_relaxed);
	slot->request_length.store(static_cast<uint32_t>(sizeof(header) + body_bytes), std::memory_order_relaxed);
	slot->request_sequence.store(client->sequence, std::memory_order_relaxed);
	slot->state.store(static_cast<uint32_t>(SlotState::kSubmitted), std::memory_order_release);
	ring(client);
	return ClientResult::kOk;
}

ClientState
client_poll(Client *client)
{
	if (client->phase != ClientPhase::kOpen)
		return ClientState::kBroken;
	if (!client->pending)
		return ClientState::kIdle;
	switch (slot_state(client))
	{
		case SlotState::kSubmitted:
		case SlotState::kTaken:
			return ClientState::kPending;
		case SlotState::kReplied:
			if (client->slot->reply_sequence.load(std::memory_order_relaxed) != client->sequence)
				return ClientState::kBroken;
			if (!client->abandoned)
				return ClientState::kReplied;
			forget_reply(client);
			return ClientState::kIdle;
		case SlotState::kIdle:
			break;
	}
	return ClientState::kBroken;
}

ClientState
client_spin(Client *client, uint32_t microseconds, uint64_t *longest_yield_ns)
{
	ClientState state = client_poll(client);

	if (longest_yield_ns != nullptr)
		*longest_yield_ns = 0;
	if (state != ClientState::kPending || microseconds == 0)
		return state;

	const uint64_t started = monotonic_ns();
	const uint64_t until = started + static_cast<uint64_t>(microseconds) * 1000;
	uint64_t now = started;

	do
	{
		for (int i = 0; i < 32 && state == ClientState::kPending; i++)
		{
#if defined(__x86_64__)
			__builtin_ia32_pause();
#endif
			state = client_poll(client);
		}
		if (state == ClientState::kPending && longest_yield_ns != nullptr && now - started >= kYieldAfterNs)
		{
			const uint64_t before = monotonic_ns();

			sched_yield();
			now = monotonic_ns();
			if (now - before > *longest_yield_ns)
				*longest_yield_ns = now - before;
			state = client_poll(client);
		}
		else
			now = monotonic_ns();
	} while (state == ClientState::kPending && now < until);
	return state;
}

ClientState
client_sleep(Client *client, uint32_t timeout_us)
{
	const ClientState state = client_poll(client);

	if (state != ClientState::kPending)
		return state;
	set_waits(client, ClientWaits::kState);

	const SlotState seen = slot_state(client);

	if (seen == SlotState::kSubmitted || seen == SlotState::kTaken)
		client->sleep_fails = !sleep_on_state(client->slot, seen, timeout_us);
	client->slot->client_waits.store(static_cast<uint32_t>(ClientWaits::kNot), std::memory_order_relaxed);
	return client_poll(client);
}

bool
client_wait_begin(Client *client)
{
	if (client_poll(client) != ClientState::kPending)
		return false;
	set_waits(client, ClientWaits::kDescriptor);
	return client_poll(client) == ClientState::kPending;
}

void
client_wait_end(Client *client)
{
	uint64_t count = 0;

	if (client->phase != ClientPhase::kOpen)
		return;
	client->slot->client_waits.store(0, std::memory_order_relaxed);
	while (read(client->wakeup, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

ClientState
client_wait(Client *client, int timeout_ms)
{
	const uint64_t deadline_ns = deadline_after(timeout_ms);

	for (;;)
	{
		if (client_wait_begin(client))
		{
			pollfd fds[2] = {{client->wakeup, POLLIN, 0}, {client->socket, POLLIN, 0}};
			const int n = poll_descriptors(fds, 2, deadline_ns);

			client_wait_end(client);
			if (n > 0 && fds[1].revents != 0 && client_poll(client) == ClientState::kPending)
				return ClientState::kBroken;
		}
		else if (client->phase == ClientPhase::kOpen)
			client->slot->client_waits.store(0, std::memory_order_relaxed);

		const ClientState state = client_poll(client);

		if (state != ClientState::kPending || monotonic_ns() >= deadline_ns)
			return state;
	}
}

bool
client_alive(Client *client)
{
	uint8_t byte = 0;

	if (client->phase != ClientPhase::kOpen)
		return false;

	// Nothing is ever sent after WELCOME: anything but "nothing there" means that the session is over.
	const ssize_t n = recv(client->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

uint64_t
client_silence_ns(const Client *client)
{
	if (client->phase != ClientPhase::kOpen || !client->pending)
		return 0;

	const uint64_t heartbeat_ns = client->slot->heartbeat_ns.load(std::memory_order_relaxed);
	const uint64_t now = monotonic_ns();
	uint64_t last = client->submitted_ns;

	if (heartbeat_ns > last && heartbeat_ns <= now)
		last = heartbeat_ns;
	return now - last;
}

void
client_abandon(Client *client)
{
	if (client->phase != ClientPhase::kOpen || !client->pending || client->abandoned)
		return;
	client->abandoned = true;
	client->slot->cancel.store(client->sequence, std::memory_order_release);
	if (client_poll(client) == ClientState::kPending)
		ring(client);
}

ClientResult
client_take_reply(Client *client, ReplyHeader *header, void *body, size_t body_capacity)
{
	switch (client_poll(client))
	{
		case ClientState::kReplied:
			break;
		case ClientState::kBroken:
			return ClientResult::kProtocol;
		default:
			return ClientResult::kNotReady;
	}

	const size_t length = client->slot->reply_length.load(std::memory_order_relaxed);

	if (length > client->reply_area_bytes ||
		parse_reply(reply_area(client), length, client->type, client->sequence, header) != ParseResult::kOk)
		return ClientResult::kProtocol;
	if (header->body_bytes > body_capacity)
		return ClientResult::kTooLarge;
	if (header->body_bytes > 0)
		memcpy(body, reply_area(client) + sizeof(ReplyHeader), header->body_bytes);
	forget_reply(client);
	return ClientResult::kOk;
}

void
client_close(Client *client)
{
	if (client->slot != nullptr)
		munmap(client->slot, client->slot_bytes);
	client->slot = nullptr;
	client->slot_bytes = 0;
	close_descriptor(&client->socket);
	close_descriptor(&client->doorbell);
	close_descriptor(&client->wakeup);
	client->phase = ClientPhase::kClosed;
	client->pending = client->abandoned = false;
	client->sequence = 0;
}

const char *
client_result_text(ClientResult result)
{
	switch (result)
	{
		case ClientResult::kOk:
			return "ok";
		case ClientResult::kInProgress:
			return "connecting";
		case ClientResult::kUnavailable:
			return "no worker is listening";
		case ClientResult::kTimeout:
			return "the worker did not answer in time";
		case ClientResult::kSkew:
			return "the worker has another protocol version or epoch";
		case ClientResult::kFull:
			return "the worker has no room for another session";
		case ClientResult::kProtocol:
			return "the worker broke the protocol";
		case ClientResult::kForeign:
			return "the socket belongs to another user";
		case ClientResult::kSystem:
			return "a system call failed";
		case ClientResult::kNotReady:
			return "no reply yet";
		case ClientResult::kTooLarge:
			return "too large for the slot";
		case ClientResult::kGone:
			return "the worker has closed the connection";
	}
	return "unknown";
}

} // namespace vectorgpu::wire
