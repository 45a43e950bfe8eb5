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

constexpr uint64 kNoneStale = PG_UINT64_MAX;

/// Make the next request, of searches from number `first` on, as many as have room. One that cannot be made is left to
/// a scan.
ManyRequest
fill_request(ManySearches *searches, uint64 first, uint64 n)
{
	ManyRequest request;

	bridge::many_reset(searches->many);
	while (first < n && !searches->add(first))
		first++;
	request = {searches, first, Min(first + 1, n)};
	while (request.end < n && searches->add(request.end))
		request.end++;
	return request;
}

/// Take the answers of a request. False: they can be none; see *reason.
bool
take_answers(const ManyRequest &request, bridge::Fallback *reason)
{
	ManySearches *searches = request.of;

	(void) VG_FAULT("many_take");
	if (bridge::many_outdated(searches->many))
	{
		searches->stale = Min(searches->stale, request.first);
		return true;
	}
	if (!searches->begin_answers())
		return true;
	*reason = bridge::Fallback::kWrongAnswer;
	for (uint64 i = request.first; i < request.end; i++)
	{
		wire::ReplyHeader header;
		const void *rows;

		CHECK_FOR_INTERRUPTS();
		if (!bridge::many_next(searches->many, &header, &rows))
			return false;
		if (header.status == wire::ReplyStatus::kBehind || header.status == wire::ReplyStatus::kAbsent)
			searches->stale = Min(searches->stale, i);
		else if (header.status == wire::ReplyStatus::kOk && !searches->take(i, header, rows))
			return false;
	}
	return true;
}

/// True if answers of the searches are missing; null: of any.
bool
is_missing(const ManyLine *line, const ManySearches *searches)
{
	for (uint64 i = line->n_answered; i < line->n_sent; i++)
		if (searches == nullptr || line->sent[i % lengthof(line->sent)].of == searches)
			return true;
	return false;
}

/// Make the searches first to n - 1, request by request, as many at a time as the worker takes. While it makes them,
/// the answers that have come are taken, and the next request is made. Unless `leave`, the missing answers are waited
/// for. searches: null: only wait for all that are missing. False: see *reason.
bool
search_all(ManyLine *line, ManySearches *searches, uint64 first, uint64 n, bool leave, bridge::Fallback *reason)
{
	ManyRequest next = {};
	ManyRequest come = {}; // its answers are to be taken

	if (first < n)
		next = fill_request(searches, first, n);
	while (!next.empty() || (!leave && is_missing(line, searches)))
	{
		bridge::Fallback ignored;
		bool is_sent;
		bool right;
		bool answered;

		if (next.empty())
			bridge::many_reset(line->many);
		is_sent = bridge::many_send(line->many, !next.empty() && (next.end < n || leave), reason);
		if (!next.empty())
			line->sent[line->n_sent++ % lengthof(line->sent)] = next;
		right = come.empty() || take_answers(come, is_sent ? reason : &ignored);
		if (!is_sent)
			return false;
		if (!next.empty())
			next = fill_request(searches, right && searches->stale == kNoneStale ? next.end : n, n);
		// Whatever was taken, the session is free again only when this reply has come.
		if (!bridge::many_receive(line->many, &answered, right ? reason : &ignored) || !right)
			return false;
		come = answered ? line->sent[line->n_answered++ % lengthof(line->sent)] : ManyRequest{};
	}
	return come.empty() || take_answers(come, reason);
}

/// Count a failure, which ends the line.
void
fail(ManyLine *line, const ManySearches *searches, bridge::Fallback reason, const char *detail)
{
	line->failed = true;
	line->n_answered = line->n_sent;
	bridge::note_fallback(reason, detail);
	bridge::count_index_fallback(RelationGetRelid(searches->index), reason);
}

/// The same as search_all, with failures counted.
void
search_or_fail(ManyLine *line, ManySearches *searches, uint64 first, uint64 n, bool leave, const char *detail)
{
	bridge::Fallback reason;
	const ManySearches *any = searches;

	if (any == nullptr && is_missing(line, nullptr))
		any = line->sent[line->n_answered % lengthof(line->sent)].of;
	if (!line->failed && any != nullptr && !search_all(line, searches, first, n, leave, &reason))
		fail(line, any, reason, detail);
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
many_open(ManySearches *searches, ManyLine *line, MemoryContext context)
{
	if (line->failed || !bridge::session_ready(false) || !bridge::breaker_admits(wire::RequestType::kSearchMany))
		return false;
	if (line->many != nullptr && !bridge::many_same_session(line->many))
	{
		if (is_missing(line, nullptr))
		{
			fail(line, searches, bridge::Fallback::kGone, nullptr);
			return false;
		}
		many_close(line);
	}
	if (line->many == nullptr)
	{
		MemoryContext old;

		line->context = AllocSetContextCreate(context, "vectorgpu requests", ALLOCSET_DEFAULT_SIZES);
		old = MemoryContextSwitchTo(line->context);
		line->many = bridge::many_begin();
		MemoryContextSwitchTo(old);
	}
	searches->many = line->many;
	searches->stale = kNoneStale;
	copy_key(searches->index, &searches->state->meta, &searches->key);
	return true;
}

void
many_close(ManyLine *line)
{
	if (line->context != nullptr)
		MemoryContextDelete(line->context);
	line->context = nullptr;
	line->many = nullptr;
	line->n_answered = line->n_sent;
}

void
many_start(ManyLine *line, ManySearches *searches, uint64 n, const char *detail)
{
	search_or_fail(line, searches, 0, n, true, detail);
}

void
many_await(ManyLine *line, ManySearches *searches, const char *detail)
{
	search_or_fail(line, searches, 0, 0, false, detail);
}

void
many_await_all(ManyLine *line, const char *detail)
{
	search_or_fail(line, nullptr, 0, 0, false, detail);
}

bool
many_open(ManySearches *searches)
{
	ManyLine line = {};

	return many_open(searches, &line, CurrentMemoryContext);
}

uint64
many_search(ManySearches *searches, uint64 first, uint64 n, const char *detail, bool *failed)
{
	ManyLine line = {};

	line.many = searches->many;
	searches->stale = kNoneStale;
	search_or_fail(&line, searches, first, n, false, detail);
	*failed = line.failed;
	return Min(searches->stale, n);
}

} // namespace vectorgpu::am
