// Writing replies into slots. Any of the worker's threads, for a session whose request it has; nothing here fails or
// allocates. After a call the session is the dispatcher's again: only its slot may still be used, to wake the client.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/batcher.hpp"
#include "worker/counters.hpp"
#include "worker/session.hpp"

namespace vectorgpu::worker
{

/// A body in up to two pieces: a structure and an array.
struct ReplyBody
{
	const void *fixed = nullptr;
	size_t fixed_bytes = 0;
	const void *items = nullptr;
	size_t items_bytes = 0;
	uint32_t n_items = 0;
	bool more = false;
	wire::Coverage coverage = wire::Coverage::kAll;
};

/// What a search says that it has looked at, as replies say it.
wire::Coverage wire_coverage(engine::Coverage coverage);

/// Writes the reply and says in the slot that it is there. The body must fit the reply area. The client must be woken
/// after it: a full fence, then wake_client.
void store_reply(
	Session *session, wire::ReplyStatus status, const ReplyBody &body, const BatchInfo &batch, Counters *counters);

/// Wakes the client if it sleeps. A full fence lies between the store of its reply and this call.
void wake_client(const wire::SlotMemory &slot);

/// Stores the reply and wakes the client.
void send_reply(
	Session *session, wire::ReplyStatus status, const ReplyBody &body, const BatchInfo &batch, Counters *counters);

/// A reply without a body.
void send_status(Session *session, wire::ReplyStatus status, Counters *counters);

/// Neighbours that the reply area has room for.
size_t neighbors_per_reply(const Session *session);

/// Stores the next part of session->kept, as much as fits; forgets it with the last part.
void store_kept(Session *session, const BatchInfo &batch, Counters *counters);

/// Forgets results that wait for NEXT. Only while the session's request is one's own.
void forget_kept(Session *session, Counters *counters);

} // namespace vectorgpu::worker
