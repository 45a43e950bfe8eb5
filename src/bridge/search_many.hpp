// Several searches of the worker in one request with one reply (SEARCH_MANY), by this process's session. Add searches
// as long as there is room, ask, then take the answers in the same order. A failure is a false and a reason, as of
// client_session.hpp. The caller must hold no buffer pin, content lock or LWLock when it asks. PG dialect.
#pragma once

#include "bridge/client_session.hpp"

namespace vectorgpu::bridge
{

struct SearchMany;

/// Begin, in the current memory context. The session must be ready. When the context is reset, also by an error, the
/// worker is told to give up the searches that it has not answered.
SearchMany *many_begin();

/// True if the session is the one that these requests were begun with.
bool many_same_session(const SearchMany *many);

/// Forget all searches, to begin the next request. Those that were sent, and answers, stay.
void many_reset(SearchMany *many);

/// Add a SEARCH: its body in parts, as for session_request, without rows of the delta; k: of its SearchRequest. False:
/// request or reply have no room for it; what was added before stays.
bool many_add(SearchMany *many, const wire::CopyKey *key, const wire::Part *parts, size_t n_parts, uint64 k);

uint32 many_count(const SearchMany *many);

/// Send the request. Its reply must be received before another one is sent; meanwhile the next request may be made.
/// follows: another request will be sent in any case, so that the worker may leave the answers for that one's reply.
/// Without searches, the request only fetches answers. The caller may do anything before it sends the next one, but
/// other requests of this process make the worker give up what it has not answered: this fails then, too.
/// False: none of the searches will have an answer; *reason says why. Nothing was counted.
bool many_send(SearchMany *many, bool follows, Fallback *reason);

/// Wait for the reply, interruptibly, as session_receive does. *answered: it has the answers to the first request that
/// had none yet, and they take the place of those before. False: as of many_send.
bool many_receive(SearchMany *many, bool *answered, Fallback *reason);

/// Return the number of requests that were sent and have no answers yet.
uint32 many_unanswered(const SearchMany *many);

/// True if the copy is outdated or missing for all searches of the reply, which has no answers then.
bool many_outdated(const SearchMany *many);

/// Send the request and wait for its answers.
bool many_ask(SearchMany *many, Fallback *reason);

/// Take the next answer, with any status. *rows: its wire::WireNeighbor [header->n_items], not aligned. False: the
/// reply has no more, or its bytes are wrong.
bool many_next(SearchMany *many, wire::ReplyHeader *header, const void **rows);

} // namespace vectorgpu::bridge
