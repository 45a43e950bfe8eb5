// For SQL functions about the worker itself, which need it. PG dialect.
#pragma once

#include "bridge/shared_state.hpp"
#include "wire/client.hpp"

namespace vectorgpu::bridge
{

/// Return when requests can be made; wait for a worker that is starting. Raises 08006 after half a minute, or, while
/// the worker is still starting, after vectorgpu.worker_timeout if that is longer, at most a minute.
void require_session();

/// Call require_session and session_request. If the worker ends meanwhile, repeat the request once with the next
/// worker: for requests that may be made twice. Return when there is a reply, with any status; else raise
/// raise_fallback's error.
void require_reply(wire::RequestType type, const wire::CopyKey *key, const wire::Part *parts, size_t n_parts,
	wire::ReplyHeader *header, void *body, size_t body_capacity);

/// As require_session for callers that can manage without the worker: false after most_ms, or at once if an
/// administrator would have to act first.
bool await_session(int most_ms);

/// The same for an index build of n_rows rows, of which this process handles rows_per_ms. Wait for a worker that is
/// starting, once in a build (*has_waited), for up to half of the build's time without it, at least for the timeout. Do
/// not wait for a silent or busy worker, or for a small build. On false the reason has been counted. n_bytes: what the
/// worker will be sent; many bytes get a session with large areas, until session_end_build, or until this returns false
/// or raises an error.
bool session_for_build(uint64 n_rows, uint64 n_bytes, uint64 rows_per_ms, bool *has_waited);

/// Go back to small areas, which closes a session with larger ones, and its build.
void session_end_build();

/// Raise the error for a request without an answer or with a bad one: 08006, 53200, 57014 or XX000.
[[noreturn]] void raise_fallback(Fallback reason);

} // namespace vectorgpu::bridge
