// See many_searches.hpp.
#include "am/siblings/many_searches.hpp"

#include "am/feed/copy_feed.hpp"
#include "am/method/index_access.hpp"
#include "bridge/breaker.hpp"
#include "bridge/client_session.hpp"
#include "bridge/index_fallbacks.hpp"

extern "C"
{
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

/// Make those from number `first` on that have room in one request. Returns the next number. False: the worker has not
/// answered. *stale: the first one whose copy was outdated or missing.
bool
search_some(ManySearches *searches, uint64 first, uint64 n, uint64 *next, uint64 *stale, bridge::Fallback *reason)
{
	bridge::many_reset(searches->many);
	*next = first;
	while (*next < n && searches->add(*next))
		(*next)++;
	if (*next == first) // a scan asks
	{
		(*next)++;
		return true;
	}
	if (!bridge::many_ask(searches->many, reason))
		return false;
	if (!searches->begin_answers())
		return true;
	*reason = bridge::Fallback::kWrongAnswer;
	for (uint64 i = first; i < *next; i++)
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

	*failed = false;
	for (uint64 at = first; at < n && stale == n;)
		if (!search_some(searches, at, n, &at, &stale, &reason))
		{
			bridge::note_fallback(reason, detail);
			bridge::count_index_fallback(RelationGetRelid(searches->index), reason);
			*failed = true;
			return n;
		}
	return stale;
}

} // namespace vectorgpu::am
