// Writing replies into slots. Any of the worker's threads, for a session whose request it has; nothing here fails or
// allocates. After a call the session is the dispatcher's again and must not be touched.
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
};

/// The body must fit the reply area.
void send_reply(Session *session, wire::ReplyStatus status, const ReplyBody &body, const BatchInfo &batch,
	Counters *counters);

/// A reply without a body.
void send_status(Session *session, wire::ReplyStatus status, Counters *counters);

/// The next part of session->kept, as much as fits; forgets it with the last part.
void send_kept(Session *session, const BatchInfo &batch, Counters *counters);

/// Forgets results that wait for NEXT. Only while the session's request is one's own.
void forget_kept(Session *session, Counters *counters);

} // namespace vectorgpu::worker
