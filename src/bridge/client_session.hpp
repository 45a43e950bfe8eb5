// This process's one session with the worker: made when first needed, kept, made anew when the worker is another.
// Whatever goes wrong is a false and a counted reason; errors are raised for interrupts only. No lock is needed, and
// none may be held by the caller: buffer pins, content locks, LWLocks. PG dialect.
#pragma once

#include "bridge/shared_state.hpp"
#include "wire/client.hpp"
#include "wire/status_messages.hpp"

namespace vectorgpu::bridge
{

/// What this process is to the worker. To be called before the session is made; a backend otherwise.
void session_set_role(wire::Role role);

/// Whether the next session is to have as much room for requests as a loader's. One that is open and has other room is
/// closed.
void session_set_room(bool large);

/// True if requests can be made now. Makes the session if the worker is there; starts a supervisor if there is none.
/// Waits a tenth of a second at most. On false the reason has been counted, if `note` is set.
bool session_ready(bool note);

/// Sends a request and waits for its reply, interruptibly: until it comes, the worker is gone, or has given no sign of
/// life for vectorgpu.worker_timeout. True if there is a reply, whatever its status is; *header and `body` then hold
/// it. On false *reason says why, and nothing has been counted.
bool session_request(wire::RequestType type, const wire::CopyKey *key, const wire::Part *parts, size_t n_parts,
	wire::ReplyHeader *header, void *body, size_t body_capacity, Fallback *reason);

/// The two halves of session_request, for a caller that has something else to do while the worker works. The parts may
/// be changed when session_submit returns. Whatever happens in between, the next session_ready puts the session in
/// order.
bool session_submit(
	wire::RequestType type, const wire::CopyKey *key, const wire::Part *parts, size_t n_parts, Fallback *reason);
bool session_receive(wire::ReplyHeader *header, void *body, size_t body_capacity, Fallback *reason);

/// Looks for the reply of a client for a moment, if that has been worth it lately for any of this process's. True: it
/// is there.
bool session_spin(wire::Client *client);

constexpr uint32 kCopiesPerReply = 1024; // room for; the worker's reply area is smaller

/// The worker's copies from the first-th on, into copies [kCopiesPerReply]. Returns how many; 0: no more, or no answer.
uint32 session_inventory(uint32 first, wire::CopyInfo *copies);

/// Bytes of a request's body, in all parts. 0 without a session.
size_t session_body_capacity();

/// The last request's sequence number (for NEXT).
uint64 session_sequence();

/// The engine of the worker that this session is with.
wire::EngineKind session_engine();

/// To be called by whoever begins a build with BUILD: a session has one, and an earlier one is forgotten. Returns its
/// number in this process.
uint64 session_new_build();

/// The number of the last build that was begun.
uint64 session_build();

/// Ends the session; the next session_ready makes another. Ends a lease as well.
void session_close();

/// The reason that a reply's status stands for.
Fallback fallback_of(wire::ReplyStatus status);

} // namespace vectorgpu::bridge
