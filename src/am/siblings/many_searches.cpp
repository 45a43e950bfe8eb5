// See many_searches.hpp.
#include "am/siblings/many_searches.hpp"

#include "am/feed/copy_feed.hpp"
#include "am/method/index_access.hpp"
#include "bridge/breaker.hpp"
#include "bridge/client_session.hpp"
#include "bridge/index_fallbacks.hpp"
#include "pg/fault.hpp"

extern "C"
{
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

/// The searches of one request: first to end - 1.
struct Piece
{
	uint64 first;
	uint64 end;

	bool empty() const { return first == end; }
};

/// Make the next request, of searches from number `first` on, as many as have room. One that cannot be made is left to
/// a scan.
Piece
fill_request(ManySearches *searches, uint64 first, uint64 n)
{
	Piece piece;

	bridge::many_reset(searches->many);
	while (first < n && !searches->add(first))
		first++;
	piece = {first, Min(first + 1, n)};
	while (piece.end < n && searches->add(piece.end))
		piece.end++;
	return piece;
}

/// Take the answers of a request. False: they can be none; see *reason. *stale: the first one whose copy was outdated
/// or missing.
bool
take_answers(ManySearches *searches, const Piece &piece, uint64 *stale, bridge::Fallback *reason)
{
	(void) VG_FAULT("many_take");
	if (bridge::many_outdated(searches->many))
	{
		*stale = Min(*stale, piece.first);
		return true;
	}
	if (!searches->begin_answers())
		return true;
	*reason = bridge::Fallback::kWrongAnswer;
	for (uint64 i = piece.first; i < piece.end; i++)
	{
		wire::ReplyHeader header;
		const void *rows;

		CHECK_FOR_INTERRUPTS();
		if (!bridge::many_next(searches->many, &header, &rows))
			return false;
		if (header.status == wire::ReplyStatus::kBehind || header.status == wire::ReplyStatus::kAbsent)
			*stale = Min(*stale, i);
		else if (header.status == wire::ReplyStatus::kOk && !searches->take(i, header, rows))
			return false;
	}
	return true;
}

/// Make the searches, request by request, as many at a time as the worker takes. While it makes them, the answers that
/// have come are taken, and the next request is made. False: see *reason.
bool
search_all(ManySearches *searches, uint64 first, uint64 n, uint64 *stale, bridge::Fallback *reason)
{
	Piece sent[wire::kMostUnanswered]; // by the number of the request
	uint64 n_sent = 0;
	uint64 n_answered = 0;
	Piece next = fill_request(searches, first, n);
	Piece come = {n, n}; // its answers are to be taken

	while (!next.empty() || n_answered < n_sent)
	{
		const bool is_sent = bridge::many_send(searches->many, next.end < n, reason);
		bridge::Fallback ignored;
		bool right;
		bool answered;

		if (!next.empty())
			sent[n_sent++ % lengthof(sent)] = next;
		right = come.empty() || take_answers(searches, come, stale, is_sent ? reason : &ignored);
		if (!is_sent)
			return false;
		next = fill_request(searches, right && *stale == n ? next.end : n, n);
		// Whatever was taken, the session is free again only when this reply has come.
		if (!bridge::many_receive(searches->many, &answered, right ? reason : &ignored) || !right)
			return false;
		come = answered ? sent[n_answered++ % lengthof(sent)] : Piece{n, n};
	}
	return come.empty() || take_answers(searches, come, stale, reason);
}

} // namespace

ScanState *
many_state(Relation index, Relation heap, Snapshot snapshot)
{
	ScanState *state = static_cast<ScanState *>(palloc0(sizeof(ScanState)));

	state->heap = heap;
	state->snapshot = snapshot;
	state->context = state->batch_context = CurrentMemoryContext;
	state->counters = static_cast<ScanCounters *>(palloc0(sizeof(ScanCounters)));
	scan_read_version(index, snapshot, state);
	state->am = access_method(index, &state->meta);
	state->shape = shape_of_meta(&state->meta);
	state->phase = ScanPhase::kScored;
	return state;
}

bool
ManySearches::put(const wire::SearchRequest &search, const void *probes, const void *program, const char *query)
{
	const wire::Part parts[] = {{&search, sizeof(search)}, {probes, search.n_probes * sizeof(wire::SegmentProbes)},
		{program, search.program_bytes}, {query, meta_vector_bytes(&state->meta)}};

	return bridge::many_add(many, &key, parts, lengthof(parts), search.k);
}

bool
many_open(ManySearches *searches)
{
	if (!bridge::session_ready(false) || !bridge::breaker_admits(wire::RequestType::kSearchMany))
		return false;
	searches->many = bridge::many_begin();
	copy_key(searches->index, &searches->state->meta, &searches->key);
	return true;
}

uint64
many_search(ManySearches *searches, uint64 first, uint64 n, const char *detail, bool *failed)
{
	uint64 stale = n;
	bridge::Fallback reason;

	*failed = !search_all(searches, first, n, &stale, &reason);
	if (!*failed)
		return stale;
	bridge::note_fallback(reason, detail);
	bridge::count_index_fallback(RelationGetRelid(searches->index), reason);
	return n;
}

} // namespace vectorgpu::am
