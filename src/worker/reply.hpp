// Writing replies into slots. Any thread, for a session whose request it works on; nothing fails or allocates. After a
// call the session belongs to the dispatcher again: the caller may use only its slot, to wake the client.
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
	uint64_t n_passing = 0;
	wire::FilterWay filter_way = wire::FilterWay::kNone;
	bool filter_found = false;
};

/// Return the wire's value of a coverage.
wire::Coverage wire_coverage(engine::Coverage coverage);

/// Note how the search has looked for rows that meet its conditions.
void note_filter(const Search &search, ReplyBody *body);

/// Return the header of a reply, without its lengths.
wire::ReplyHeader reply_header(
	uint64_t sequence, wire::ReplyStatus status, const ReplyBody &body, const BatchInfo &batch);

/// Write the reply and set the slot's state. The body must fit into the reply area. A full fence and wake_client must
/// follow.
void store_reply(
	Session *session, wire::ReplyStatus status, const ReplyBody &body, const BatchInfo &batch, Counters *counters);

/// Wake the client if it sleeps. There must be a full fence between the store of its reply and this call.
void wake_client(const wire::SlotMemory &slot);

/// Store the reply and wake the client.
void send_reply(
	Session *session, wire::ReplyStatus status, const ReplyBody &body, const BatchInfo &batch, Counters *counters);

/// A reply without a body.
void send_status(Session *session, wire::ReplyStatus status, Counters *counters);

/// Return the number of neighbours that fit into the reply area.
size_t neighbors_per_reply(const Session *session);

/// Store the next part of session->kept, as much as fits; discard session->kept with the last part.
void store_kept(Session *session, const BatchInfo &batch, Counters *counters);

/// Discard results that wait for NEXT. The caller works on the session's request.
void forget_kept(Session *session, Counters *counters);

} // namespace vectorgpu::worker
