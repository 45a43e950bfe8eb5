// This process's one session with the worker: opened when first needed, kept, and opened again with a new worker. A
// failure is a false and a reason; errors are raised for interrupts only. The caller must hold no buffer pin, content
// lock or LWLock. PG dialect.
#pragma once

#include "bridge/shared_state.hpp"
#include "wire/client.hpp"
#include "wire/status_messages.hpp"

namespace vectorgpu::bridge
{

/// Set this process's role, before the session is opened. Default: a backend.
void session_set_role(wire::Role role);

/// Areas of a session: as a backend's, a loader's, or those of a builder, which hold thousands of rows.
enum class Room : uint8
{
	kSmall = 0,
	kLoad,
	kBuild,
};

/// Set the areas of the next session. Closes an open session with others.
void session_set_room(Room room);

/// Return true if requests can be made now. Opens the session if the worker is there; requests a supervisor if there is
/// none. With `note`, a false has been counted with its reason. Waits for the worker's greeting: see README.md,
/// "Session".
bool session_ready(bool note);

/// Send a request and wait, interruptibly, until its reply comes, the worker is gone, or it has given no sign of life
/// for vectorgpu.worker_timeout. True if there is a reply, with any status; it is in *header and `body`. On false
/// *reason is set, and not counted.
bool session_request(wire::RequestType type, const wire::CopyKey *key, const wire::Part *parts, size_t n_parts,
	wire::ReplyHeader *header, void *body, size_t body_capacity, Fallback *reason);

/// The two halves of session_request, for a caller with other work meanwhile. The parts may be changed when
/// session_submit returns. After an error in between, the next session_ready restores the session.
bool session_submit(
	wire::RequestType type, const wire::CopyKey *key, const wire::Part *parts, size_t n_parts, Fallback *reason);
bool session_receive(wire::ReplyHeader *header, void *body, size_t body_capacity, Fallback *reason);

/// Return true while the worker's greeting has not come: session_ready may soon return true.
bool session_is_connecting();

/// Poll for the reply of a client for a moment, if polling has succeeded lately in this process. True: the reply is
/// there.
bool session_spin(wire::Client *client);

constexpr uint32 kCopiesPerReply = 1024; // more than fit into the worker's reply area

/// Read the worker's copies, from position `first` on, into copies [kCopiesPerReply]. Returns their number; 0: no more,
/// or no answer.
uint32 session_inventory(uint32 first, wire::CopyInfo *copies);

/// Return the maximum bytes of a request's body. 0 without a session.
size_t session_body_capacity();

/// Return wire::client_body, or null without a session.
uint8 *session_body();

/// Return the maximum bytes of a reply's body. 0 without a session.
size_t session_reply_capacity();

/// Return the last request's sequence number (for NEXT).
uint64 session_sequence();

/// Return the number of sessions that this process has opened.
uint64 session_number();

/// Give up the searches of the SEARCH_MANY under way, or of those before, whose answers the worker keeps for a later
/// one: that one is sent and abandoned. Raises nothing, so that it may be called after an error.
void session_give_up_searches(bool is_under_way);

/// Return true if the last attempt to connect found a worker of another release, or of another start of the server.
bool session_skewed();

/// Return the engine of the worker at the other end.
wire::EngineKind session_engine();

/// Call this when beginning a build: a session has one, and the worker forgets an earlier one. Returns the build's
/// number in this process.
uint64 session_new_build();

/// Return the number of the last build begun.
uint64 session_build();

/// End the session, and with it its lease and its build. The next session_ready opens another.
void session_close();

/// Return true if the reply says only that the worker has the searches of a SEARCH_MANY.
bool is_receipt(wire::RequestType type, const wire::ReplyHeader *header);

/// Return the reason for a reply's status.
Fallback fallback_of(wire::ReplyStatus status);

} // namespace vectorgpu::bridge
