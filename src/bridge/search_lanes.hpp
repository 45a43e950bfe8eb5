// Further sessions of this process with the worker, for a caller that has many searches to ask and wants the worker to have many of them
// at a time: a session has one request under way, so a lane is a session. Whatever goes wrong is a false, and the lane is of no more use;
// errors are raised for interrupts only. No lock, pin or content lock may be held by the caller. PG dialect.
#pragma once

#include "wire/client.hpp"
#include "pg/postgres.hpp"

namespace vectorgpu::bridge
{

constexpr uint32 kMostLanes = 64;

struct SearchLanes;

/// At most `wanted` lanes to the worker that session_ready has found; null if not even two can be had. Closed with the context, whatever
/// happens, or by lanes_close.
SearchLanes *lanes_open(uint32 wanted, MemoryContext context);
uint32 lanes_count(const SearchLanes *lanes);
void lanes_close(SearchLanes *lanes);

/// Sends a request on a lane that has none under way. Parts may be changed when it returns.
bool lane_submit(
	SearchLanes *lanes, uint32 lane, wire::RequestType type, const wire::CopyKey *key, const wire::Part *parts, size_t n_parts);

/// Waits for its reply, interruptibly, as session_receive does.
bool lane_receive(SearchLanes *lanes, uint32 lane, wire::ReplyHeader *header, void *body, size_t body_capacity);

} // namespace vectorgpu::bridge
