// Further sessions of this process with the worker, for a caller that sends many searches at a time. A session has one
// request at a time, so each lane is a session. A caller gets at most a quarter of vectorgpu.worker_max_sessions, all
// callers together half. A failure is a false with a reason, not yet counted, and the lane is unusable; errors are
// raised for interrupts only. The caller must hold no lock, pin or content lock. PG dialect.
#pragma once

#include "bridge/shared_state.hpp"
#include "wire/client.hpp"

namespace vectorgpu::bridge
{

constexpr uint32 kMostLanes = 64;

struct SearchLanes;

/// Allocate lanes; none is open. The memory context closes them when it is reset, or lanes_close does.
SearchLanes *lanes_make(MemoryContext context);

/// Open at most `wanted` lanes to session_ready's worker. No lane may be open. False, with none open, if there would be
/// fewer than `least`.
bool lanes_open(SearchLanes *lanes, uint32 wanted, uint32 least);
uint32 lanes_count(const SearchLanes *lanes);
void lanes_close(SearchLanes *lanes);

/// Send a request on an idle lane. Parts may be changed when it returns.
bool lane_submit(SearchLanes *lanes, uint32 lane, wire::RequestType type, const wire::CopyKey *key,
	const wire::Part *parts, size_t n_parts, Fallback *reason);

/// Wait for its reply, interruptibly, as session_receive does.
bool lane_receive(
	SearchLanes *lanes, uint32 lane, wire::ReplyHeader *header, void *body, size_t body_capacity, Fallback *reason);

/// Close the lanes and send one request without a body on a new session. For cleaning up after an error: allocates and
/// raises nothing, ends after about `limit_ms`. True if the worker has executed it.
bool lanes_ask_last(SearchLanes *lanes, wire::RequestType type, const wire::CopyKey *key, int limit_ms);

} // namespace vectorgpu::bridge
