// See search_many.hpp.
#include "bridge/search_many.hpp"

#include "pg/fault.hpp"
#include "wire/codec.hpp"

#include <cstring>

namespace vectorgpu::bridge
{

struct SearchMany
{
	uint32 n;
	uint8 *request; // [request_bytes] of [request_capacity]: whole SEARCH requests, without their sequence numbers
	size_t request_bytes;
	size_t request_capacity;
	size_t reply_bytes; // at most, of those
	size_t reply_capacity;
	uint64 unanswered[wire::kMostUnanswered]; // the sequences of requests that were sent, by number
	uint64 n_sent;                            // requests with searches
	uint64 n_answered;                        // of those
	bool follows;                             // the last one that was sent said so
	uint64 session;                           // session_number() of all of them
	uint64 sent;                              // the sequence of the last one, with searches or without
	bool is_under_way;                        // its reply has not been received
	MemoryContextCallback on_reset;
	uint8 *reply;    // [reply_capacity]
	uint64 replied;  // the sequence of the request whose answers it has
	bool outdated;   // no search of that request has an answer, since the copy lacks something or is missing
	const uint8 *at; // [left] the answers that were not taken
	size_t left;
};

namespace
{

/// The worker makes batches of this number by default: of more searches the rest would be a batch of its own.
constexpr uint32 kMostTogether = 256;

static_assert(kMostTogether <= wire::kMostSearchesTogether);

/// Write the sequence number of the whole into each of the requests.
void
number_requests(SearchMany *many, uint64 sequence)
{
	for (size_t at = 0; at < many->request_bytes;)
	{
		wire::RequestHeader header;

		memcpy(&header, many->request + at, sizeof(header));
		header.sequence = sequence;
		memcpy(many->request + at, &header, sizeof(header));
		at += sizeof(header) + header.body_bytes;
	}
}

/// True if the worker has answers for these requests, or will: it gives them up for another request, and with the
/// session.
bool
is_expected(const SearchMany *many)
{
	return many_unanswered(many) > 0 && many_same_session(many) && session_sequence() == many->sent;
}

/// Also called while an error is cleaned up.
void
give_up(void *arg)
{
	SearchMany *many = static_cast<SearchMany *>(arg);

	if (is_expected(many))
		session_give_up_searches(many->is_under_way);
	many->n_answered = many->n_sent;
}

} // namespace

SearchMany *
many_begin()
{
	SearchMany *many = static_cast<SearchMany *>(palloc0(sizeof(SearchMany)));
	const size_t room = session_body_capacity();

	many->request_capacity = room - Min(room, sizeof(wire::SearchManyRequest));
	many->reply_capacity = session_reply_capacity();
	many->request = static_cast<uint8 *>(palloc(many->request_capacity + 1));
	many->reply = static_cast<uint8 *>(palloc(many->reply_capacity + 1));
	many->session = session_number();
	many->on_reset.func = give_up;
	many->on_reset.arg = many;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &many->on_reset);
	return many;
}

bool
many_same_session(const SearchMany *many)
{
	return session_number() == many->session;
}

void
many_reset(SearchMany *many)
{
	many->n = 0;
	many->request_bytes = many->reply_bytes = 0;
}

bool
many_add(SearchMany *many, const wire::CopyKey *key, const wire::Part *parts, size_t n_parts, uint64 k)
{
	const size_t reply_left = many->reply_capacity - many->reply_bytes;
	wire::RequestHeader header = {};
	size_t body_bytes = 0;
	uint8 *to = many->request + many->request_bytes;

	for (size_t i = 0; i < n_parts; i++)
		body_bytes += parts[i].bytes;
	if (many->n == kMostTogether || reply_left < sizeof(wire::ReplyHeader) ||
		k > (reply_left - sizeof(wire::ReplyHeader)) / sizeof(wire::WireNeighbor) ||
		sizeof(header) + body_bytes > many->request_capacity - many->request_bytes)
		return false;
	header.type = wire::RequestType::kSearch;
	header.body_bytes = static_cast<uint32>(body_bytes);
	header.key = *key;
	memcpy(to, &header, sizeof(header));
	to += sizeof(header);
	for (size_t i = 0; i < n_parts; i++)
	{
		if (parts[i].bytes > 0)
			memcpy(to, parts[i].data, parts[i].bytes);
		to += parts[i].bytes;
	}
	many->request_bytes += sizeof(header) + body_bytes;
	many->reply_bytes += sizeof(wire::ReplyHeader) + k * sizeof(wire::WireNeighbor);
	many->n++;
	return true;
}

uint32
many_count(const SearchMany *many)
{
	return many->n;
}

bool
many_send(SearchMany *many, bool follows, Fallback *reason)
{
	const uint64 sequence = session_sequence() + 1;
	const uint32 continues = many_unanswered(many) > 0 ? wire::kManyContinues : 0;
	wire::SearchManyRequest request = {many->n, continues};
	const wire::Part parts[] = {{&request, sizeof(request)}, {many->request, many->request_bytes}};

	if (many_unanswered(many) > 0 && !is_expected(many))
	{
		many->n_answered = many->n_sent;
		*reason = many_same_session(many) ? Fallback::kSlotBusy : Fallback::kGone;
		return false;
	}
	if (many->n > 0)
		many->unanswered[many->n_sent++ % lengthof(many->unanswered)] = sequence;
	many->follows = follows && many_unanswered(many) < lengthof(many->unanswered);
	if (many->follows)
		request.flags |= wire::kManyFollows;
	number_requests(many, sequence);
	if (!session_submit(wire::RequestType::kSearchMany, nullptr, parts, lengthof(parts), reason))
	{
		many->n_answered = many->n_sent;
		return false;
	}
	many->session = session_number();
	many->sent = sequence;
	many->is_under_way = true;
	return true;
}

bool
many_receive(SearchMany *many, bool *answered, Fallback *reason)
{
	wire::ReplyHeader header;

	many->left = 0;
	many->outdated = false;
	*answered = true;
	if (!session_receive(&header, many->reply, many->reply_capacity, reason))
	{
		many->n_answered = many->n_sent;
		return false;
	}
	many->is_under_way = false;
	if (is_receipt(wire::RequestType::kSearchMany, &header))
	{
		*answered = false;
		*reason = Fallback::kWrongAnswer;
		return many->follows;
	}
	many->replied = many->unanswered[many->n_answered++ % lengthof(many->unanswered)];
	many->outdated = header.status == wire::ReplyStatus::kBehind || header.status == wire::ReplyStatus::kAbsent;
	if (many->outdated)
		return true;
	if (header.status != wire::ReplyStatus::kOk)
	{
		*reason = fallback_of(header.status);
		return false;
	}
	if (VG_FAULT("many_receive"))
		many->reply[0] = static_cast<uint8>(~many->reply[0]);
	many->at = many->reply;
	many->left = header.body_bytes;
	return true;
}

bool
many_outdated(const SearchMany *many)
{
	return many->outdated;
}

uint32
many_unanswered(const SearchMany *many)
{
	return static_cast<uint32>(many->n_sent - many->n_answered);
}

bool
many_ask(SearchMany *many, Fallback *reason)
{
	bool answered;

	return many_send(many, false, reason) && many_receive(many, &answered, reason);
}

bool
many_next(SearchMany *many, wire::ReplyHeader *header, const void **rows)
{
	const uint8 *items = nullptr;

	if (many->left == 0 ||
		wire::parse_next_found(&many->at, &many->left, many->replied, header, &items) != wire::ParseResult::kOk)
		return false;
	*rows = items;
	return true;
}

} // namespace vectorgpu::bridge
