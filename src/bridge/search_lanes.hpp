// Further sessions of this process with the worker, for a caller that has many searches to ask and wants the worker to
// have many of them at a time: a session has one request under way, so a lane is a session. Others need sessions too: a
// caller has a quarter of vectorgpu.worker_max_sessions at most, and all callers together half. Whatever goes wrong is
// a false with a reason, which nobody has counted yet, and the lane is of no more use; errors are raised for interrupts
// only. No lock, pin or content lock may be held by the caller. PG dialect.
#pragma once

#include "bridge/shared_state.hpp"
#include "wire/client.hpp"

namespace vectorgpu::bridge
{

constexpr uint32 kMostLanes = 64;

struct SearchLanes;

/// Room for lanes, of which none is open. They are closed with the context, whatever happens, or by lanes_close.
SearchLanes *lanes_make(MemoryContext context);

/// Opens at most `wanted` lanes to the worker that session_ready has found; none is open yet. False, and none is open,
/// if it would be fewer than `least`.
bool lanes_open(SearchLanes *lanes, uint32 wanted, uint32 least);
uint32 lanes_count(const SearchLanes *lanes);
void lanes_close(SearchLanes *lanes);

/// Sends a request on a lane that has none under way. Parts may be changed when it returns.
bool lane_submit(SearchLanes *lanes, uint32 lane, wire::RequestType type, const wire::CopyKey *key,
	const wire::Part *parts, size_t n_parts, Fallback *reason);

/// Waits for its reply, interruptibly, as session_receive does.
bool lane_receive(
	SearchLanes *lanes, uint32 lane, wire::ReplyHeader *header, void *body, size_t body_capacity, Fallback *reason);

/// One request without a body, on a session that is there for nothing else; what is open is closed. For cleaning up
/// after an error: it allocates nothing and raises nothing, and ends after some `limit_ms`. True if the worker has done
/// it.
bool lanes_ask_last(SearchLanes *lanes, wire::RequestType type, const wire::CopyKey *key, int limit_ms);

} // namespace vectorgpu::bridge
