// A client's side of the protocol: connect, submit, wait, take the reply. One Client holds one session; it belongs to
// one thread. Called from PostgreSQL backends, whose frames an error can leave by longjmp: plain functions over a plain
// struct, no exceptions, no allocation, no destructors; nothing here blocks but client_connect and client_wait, which
// take a deadline. The owner calls client_close in the end (twice does no harm).
//
// The usual course:
//   client_init; client_connect (or client_connect_start and client_connect_continue around one's own wait)
//   client_submit -> client_spin -> client_sleep -> while client_poll says pending: client_wait_begin, sleep on
//   `wakeup` and `socket`, client_wait_end -> client_take_reply
// A client that gives up calls client_abandon; the slot is usable again when client_poll says idle.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/messages.hpp"
#include "wire/slot.hpp"

namespace vectorgpu::wire
{

enum class ClientResult : uint8_t
{
	kOk = 0,
	kInProgress = 1,  // connecting: wait for the socket and continue
	kUnavailable = 2, // nobody listens, or not now
	kTimeout = 3,
	kSkew = 4,      // other version of the protocol, or other epoch
	kFull = 5,      // the worker has no room for another session
	kProtocol = 6,  // the peer sent what it must not; the session must be closed
	kForeign = 7,   // the peer belongs to another user
	kSystem = 8,    // a system call failed: Client::error_number
	kNotReady = 9,  // no reply yet; or the earlier request is still with the worker
	kTooLarge = 10, // the request does not fit the request area
	kGone = 11,     // the worker has closed the connection
};

enum class ClientPhase : uint8_t
{
	kClosed = 0,
	kConnecting = 1,
	kGreeting = 2, // HELLO sent
	kOpen = 3,
};

enum class ClientState : uint8_t
{
	kIdle = 0,
	kPending = 1,
	kReplied = 2,
	kBroken = 3, // not open, or the slot holds what it must not
};

struct Client
{
	int socket; // readable: the worker is gone (or, while connecting, has answered)
	int doorbell;
	int wakeup; // readable: there may be a reply
	ClientPhase phase;
	bool pending;     // a request is with the worker
	bool abandoned;   // ... and nobody wants its reply
	bool sleep_fails; // client_sleep does not sleep here (the system lets nobody use a futex)
	Role role;
	int error_number; // errno of kSystem
	SlotHeader *slot; // mapped, `slot_bytes`
	size_t slot_bytes;
	uint32_t request_area_bytes;
	uint32_t reply_area_bytes;
	uint64_t epoch;
	uint64_t session;
	RequestType type;      // of the last request
	uint64_t sequence;     // of the last request
	uint64_t submitted_ns; // CLOCK_MONOTONIC
	uint32_t worker_pid;
	EngineKind engine;
};

/// A piece of a request's body, gathered by client_submit.
struct Part
{
	const void *data;
	size_t bytes;
};

void client_init(Client *client);

/// Connects and shakes hands within `timeout_ms`, blocking in poll. The socket's path is relative to the current
/// folder, which must be the data directory.
ClientResult client_connect(Client *client, uint64_t epoch, Role role, int timeout_ms);

/// The same in steps that do not block: start, and on kInProgress wait until the socket is readable (writable while
/// `phase` is kConnecting), then continue. Any other result than kOk and kInProgress has closed the client.
ClientResult client_connect_start(Client *client, uint64_t epoch, Role role);
ClientResult client_connect_continue(Client *client);

/// Bytes that the parts of one request may have together.
size_t client_body_capacity(const Client *client);

/// Writes the request and hands it to the worker. kNotReady: an earlier one is still there (see client_poll).
ClientResult client_submit(Client *client, RequestType type, const CopyKey *key, const Part *parts, size_t n_parts);

/// Looks at the slot; costs a few loads. An abandoned request whose time has come turns to kIdle here.
ClientState client_poll(Client *client);

/// Looks until the state is not pending or the time is over. With longest_yield_ns it lets others run after
/// kYieldAfterNs, again and again, and says how long the longest of their turns was: the time may then be over for
/// longer than asked for.
ClientState client_spin(Client *client, uint32_t microseconds, uint64_t *longest_yield_ns = nullptr);

/// The part of client_spin that keeps the processor in any case.
constexpr uint64_t kYieldAfterNs = 2000;

/// Sleeps on the slot's state until it changes, a signal's handler has run, or the time is over; then looks at it.
/// Cheaper than the wake-up descriptor, but sees neither other descriptors nor that the worker is gone: for short times
/// only. Not to be called again once `sleep_fails` is set.
ClientState client_sleep(Client *client, uint32_t timeout_us);

/// Before sleeping on `wakeup`: true if there is no reply yet, and the worker will then write `wakeup`; false: do not
/// sleep.
bool client_wait_begin(Client *client);

/// After sleeping, also if client_wait_begin said false: drains `wakeup`.
void client_wait_end(Client *client);

/// Sleeps until there is a reply, the worker is gone, or the time is over. For programs that have no latch.
ClientState client_wait(Client *client, int timeout_ms);

/// True if the worker has not closed the connection.
bool client_alive(Client *client);

/// Nanoseconds since the worker last gave a sign of life on the pending request (or since it was submitted).
uint64_t client_silence_ns(const Client *client);

/// Gives the pending request up: the worker is told, its reply will be thrown away.
void client_abandon(Client *client);

/// Copies the reply out and gives the slot free. *header is checked (see parse_reply) and is all there is to see of a
/// reply whose status is not kOk. body: [body_capacity] bytes, of which header->body_bytes are written.
/// kNotReady: no reply yet. kTooLarge: it does not fit; it stays. kProtocol: the bytes are wrong, close the client.
ClientResult client_take_reply(Client *client, ReplyHeader *header, void *body, size_t body_capacity);

void client_close(Client *client);

/// A few words for a log line, lower case, no full stop.
const char *client_result_text(ClientResult result);

uint64_t monotonic_ns();

} // namespace vectorgpu::wire
