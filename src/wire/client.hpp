// A client's side of the protocol: connect, submit, wait, take the reply. One Client is one session, used by one
// thread. PostgreSQL backends call it, and an error can leave their frames by longjmp: so these are plain functions
// over a plain struct, without exceptions, allocation or destructors. Only client_connect and client_wait block; they
// take a deadline. The owner calls client_close in the end; a second call does no harm.
//
// The usual course:
//   client_init; client_connect (or client_connect_start and client_connect_continue around the caller's own wait)
//   client_submit -> client_spin -> client_sleep -> while client_poll returns kPending: client_wait_begin, sleep on
//   `wakeup` and `socket`, client_wait_end -> client_take_reply
// A client that gives up calls client_abandon; it can submit again when client_poll returns kIdle.
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
	kUnavailable = 2, // no worker listens, or its queue is full
	kTimeout = 3,
	kSkew = 4,      // other version of the protocol, or other epoch
	kFull = 5,      // the worker has no room for another session
	kProtocol = 6,  // the peer broke the protocol; close the session
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
	kBroken = 3, // not open, or the slot has an invalid state
};

struct Client
{
	int socket; // readable: the worker is gone (or, while connecting, has answered)
	int doorbell;
	int wakeup; // readable: there may be a reply
	ClientPhase phase;
	bool pending;     // a request is with the worker
	bool abandoned;   // its reply is no longer wanted
	bool sleep_fails; // the system forbids futexes: do not call client_sleep
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

/// A piece of a request's body, gathered by client_submit. Without data: bytes that lie there already (client_body).
struct Part
{
	const void *data;
	size_t bytes;
};

void client_init(Client *client);

/// Connect and shake hands within `timeout_ms`, blocking in poll. The current directory must be the data directory.
ClientResult client_connect(Client *client, uint64_t epoch, Role role, int timeout_ms);

/// The same in steps that do not block. On kInProgress wait until the socket is readable (writable while `phase` is
/// kConnecting), then continue. Results other than kOk and kInProgress have closed the client.
ClientResult client_connect_start(Client *client, uint64_t epoch, Role role);
ClientResult client_connect_continue(Client *client);

/// Return the maximum bytes of a request's parts together.
size_t client_body_capacity(const Client *client);

/// Return where the body of a request lies, or null without a session. Bytes behind those of the request that is with
/// the worker may be written for a later one.
uint8_t *client_body(const Client *client);

/// Write the request and hand it to the worker. kNotReady: an earlier one is still there (see client_poll).
ClientResult client_submit(Client *client, RequestType type, const CopyKey *key, const Part *parts, size_t n_parts);

/// Return the slot's state, at the cost of a few loads. An abandoned request that was answered becomes kIdle here.
ClientState client_poll(Client *client);

/// Poll until the state is not kPending or the time is over. With longest_yield_ns it yields the processor again and
/// again after kYieldAfterNs and returns the duration of the longest yield; it may then take longer than the limit.
ClientState client_spin(Client *client, uint32_t microseconds, uint64_t *longest_yield_ns = nullptr);

/// The time for which client_spin does not yield.
constexpr uint64_t kYieldAfterNs = 2000;

/// Sleep on the slot's state until it changes, a signal handler has run, or the time is over; then return it. Cheaper
/// than the wake-up descriptor, but sees neither other descriptors nor the worker's death: for short times only. Do not
/// call it once `sleep_fails` is set.
ClientState client_sleep(Client *client, uint32_t timeout_us);

/// Call this before sleeping on `wakeup`. True: there is no reply yet, and the worker will write `wakeup`. False: do
/// not sleep.
bool client_wait_begin(Client *client);

/// Drain `wakeup` after sleeping, and after client_wait_begin returned false.
void client_wait_end(Client *client);

/// Sleep until there is a reply, the worker is gone, or the time is over. For programs without a latch.
ClientState client_wait(Client *client, int timeout_ms);

/// Return true if the worker has not closed the connection.
bool client_alive(Client *client);

/// Return the nanoseconds since the last heartbeat of the pending request, or since it was submitted.
uint64_t client_silence_ns(const Client *client);

/// Give up the pending request: tell the worker, and discard the reply when it comes.
void client_abandon(Client *client);

/// Copy the reply out and free the slot. *header is checked (see parse_reply); a reply whose status is not kOk has no
/// body. body: [body_capacity] bytes; the first header->body_bytes are written.
/// kNotReady: no reply yet. kTooLarge: it does not fit; it stays. kProtocol: the bytes are wrong, close the client.
ClientResult client_take_reply(Client *client, ReplyHeader *header, void *body, size_t body_capacity);

void client_close(Client *client);

/// Return a few words for a log line, lower case, no full stop.
const char *client_result_text(ClientResult result);

uint64_t monotonic_ns();

} // namespace vectorgpu::wire
