// A session's requests and replies. See client.hpp. The length of a reply and its header are checked.
#include "wire/client.hpp"

#include <cerrno>
#include <cstring>
#include <ctime>

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/client_internal.hpp"
#include "wire/codec.hpp"

namespace vectorgpu::wire
{
namespace
{

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

void
signal_descriptor(int fd)
{
	const uint64_t one = 1;

	// EAGAIN means that the counter is full: the descriptor is readable then, which is enough.
	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/// Ring the doorbell unless the worker polls the slot. The fence pairs with the worker's in Dispatcher::stop_polling:
/// either the worker sees the stores before it, or this load sees that the worker has stopped polling.
void
ring(Client *client)
{
	full_fence();
	if (client->slot->worker_polls.load(std::memory_order_relaxed) == 0)
		signal_descriptor(client->doorbell);
}

/// Discard the reply: the slot is free.
void
forget_reply(Client *client)
{
	client->slot->cancel.store(0, std::memory_order_relaxed);
	client->slot->state.store(static_cast<uint32_t>(SlotState::kIdle), std::memory_order_release);
	client->pending = false;
	client->abandoned = false;
}

} // namespace

void
close_descriptor(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

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

size_t
client_body_capacity(const Client *client)
{
	return client->phase == ClientPhase::kOpen ? client->request_area_bytes - sizeof(RequestHeader) : 0;
}

uint8_t *
client_body(const Client *client)
{
	return client->phase == ClientPhase::kOpen ? request_area(client) + sizeof(RequestHeader) : nullptr;
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
		if (parts[i].bytes > 0 && parts[i].data != nullptr)
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

bool
client_alive(Client *client)
{
	uint8_t byte = 0;

	if (client->phase != ClientPhase::kOpen)
		return false;

	// The worker sends nothing after WELCOME: any result but "no data" means that the session is over.
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
