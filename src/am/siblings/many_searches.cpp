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

/// Make the searches, request by request. While the worker makes those of one, the next request is made, and the
/// answers to the one before are taken. False: see *reason.
bool
search_all(ManySearches *searches, uint64 first, uint64 n, uint64 *stale, bridge::Fallback *reason)
{
	Piece next = fill_request(searches, first, n);
	bool sent = next.empty() || bridge::many_send(searches->many, reason);

	while (sent && !next.empty())
	{
		const Piece piece = next;
		bridge::Fallback ignored;
		bool right;

		next = *stale == n ? fill_request(searches, piece.end, n) : Piece{n, n};
		if (!bridge::many_receive(searches->many, reason))
			return false;
		sent = next.empty() || bridge::many_send(searches->many, reason);
		right = take_answers(searches, piece, stale, sent ? reason : &ignored);
		if (!right && sent && !next.empty()) // the session is free again when that reply has come
			(void) bridge::many_receive(searches->many, &ignored);
		if (!right)
			return false;
	}
	return sent;
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
