// See scan_ahead.hpp, and README.md, "Reading ahead".
#include "am/siblings/scan_ahead.hpp"

#include "am/ahead/ahead_table.hpp"
#include "am/feed/copy_feed.hpp"
#include "am/method/index_access.hpp"
#include "am/scan/batch_plan.hpp"
#include "am/scan/known_copy.hpp"
#include "am/scan/scan_aliases.hpp"
#include "am/scan/scan_settings.hpp"
#include "am/scan/scan_source.hpp"
#include "am/scan/worker_candidates.hpp"
#include "am/scan/worker_scan.hpp"
#include "bridge/breaker.hpp"
#include "bridge/search_many.hpp"
#include "bridge/settings.hpp"
#include "pg/merge_siblings.hpp"

#include <cstring>

namespace vectorgpu::am
{

namespace
{

/// A scan whose first search is part of the request.
struct Asked
{
	IndexScanDesc scan;
	wire::CopyKey key;
	uint64 k;
};

struct Asking
{
	MemoryContext executor;   // for what starting a scan allocates
	bridge::SearchMany *many; // null: no session yet
	Asked *scans;             // [n]
	uint32 n;
};

ScanState *
state_of(IndexScanDesc scan)
{
	return static_cast<ScanState *>(scan->opaque);
}

/// The rows that the first request of a scan asks for, whose batch is planned, and its probes. 0: it asks for none, or
/// a page was foreign, so that it reads the manifest again.
uint64
rows_and_probes(Relation index, const ScanState *state, CandidatesWish *wish)
{
	if (!gives_candidates(state))
		return choose_probes(index, state, wish->probes, &wish->n_probes) ? Min(state->batch.size, wire::kMaxSearchK)
																		  : 0;
	if (!candidates_wanted(index, state, wish) || wish->bypass != Bypass::kNone)
		return 0;
	return wish->by_probes || choose_probes(index, state, wish->probes, &wish->n_probes) ? wish->n : 0;
}

/// Add a search to the request. False: it has no room.
bool
add_search(Asking *asking, IndexScanDesc scan, uint64 k, const CandidatesWish *wish)
{
	const ScanState *state = state_of(scan);
	Asked *asked = &asking->scans[asking->n];
	wire::SearchRequest search;
	Size program_bytes;
	const uint8 *program = conditions_to_send(scan->indexRelation, state, &program_bytes);
	Size query_bytes;
	const void *query = query_to_send(state, &query_bytes);
	const wire::Part parts[] = {{&search, sizeof(search)}, {wish->probes, wish->n_probes * sizeof(wire::SegmentProbes)},
		{program, program_bytes}, {query, query_bytes}};

	asked->scan = scan;
	asked->k = k;
	copy_key(scan->indexRelation, &state->meta, &asked->key);
	fill_search(state, k, wish->n_probes, &search);
	search.program_bytes = static_cast<uint32>(program_bytes);
	search.given = state->filter != nullptr && state->filter->rows != nullptr ? 1 : 0;
	if (!bridge::many_add(asking->many, &asked->key, parts, lengthof(parts), k))
		return false;
	asking->n++;
	return true;
}

/// Add the first search of a scan to the request. False: it has no room. The scan's plan is as before.
bool
add_first(Asking *asking, IndexScanDesc scan)
{
	ScanState *state = state_of(scan);
	const ScanPlan plan = plan_first_batch(scan);
	CandidatesWish wish = {};
	bool fits = true;
	uint64 k;

	k = rows_and_probes(scan->indexRelation, state, &wish);
	if (k > 0)
		fits = add_search(asking, scan, k, &wish);
	forget_first_batch(scan, plan);
	return fits;
}

/// Start the scans and fill the request with their first searches. They need not be asked for again before their next
/// start.
void
collect(List *siblings, Asking *asking)
{
	ListCell *cell;

	foreach (cell, siblings)
	{
		const MemoryContext own = MemoryContextSwitchTo(asking->executor);
		const IndexScanDesc scan = pg::start_ordered_scan(static_cast<PlanState *>(lfirst(cell)));

		if (!state_of(scan)->ahead_done)
			scan_start(scan);
		MemoryContextSwitchTo(own);
		if (state_of(scan)->ahead_done)
			continue;
		if (!asks_worker_first(scan))
		{
			state_of(scan)->ahead_done = true;
			continue;
		}
		if (asking->many == nullptr)
		{
			if (!bridge::session_ready(false))
				return;
			asking->many = bridge::many_begin();
		}
		if (!add_first(asking, scan))
			return;
		state_of(scan)->ahead_done = true;
	}
}

/// Keep the answer with its scan, if it has one. False: its rows cannot be, and the session is closed.
bool
keep(const Asked *asked, const wire::ReplyHeader *header, const void *rows)
{
	ScanState *state = state_of(asked->scan);
	KnownCopy *known = known_copy(&asked->key);
	const Size n_bytes = header->n_items * sizeof(engine::Neighbor);
	SiblingAnswer *answer;
	Ask ask = {};

	if (header->status != wire::ReplyStatus::kOk)
		return true; // the scan asks, and does what that needs
	answer = static_cast<SiblingAnswer *>(MemoryContextAlloc(state->context, sizeof(SiblingAnswer)));
	*answer = {asked->k, state->rounds.round, nullptr, *header};
	answer->rows = static_cast<engine::Neighbor *>(MemoryContextAlloc(state->context, n_bytes + 1));
	memcpy(answer->rows, rows, n_bytes);
	ask.k = asked->k;
	ask.rows = answer->rows;
	if (!rows_valid(state, &ask, header->n_items))
	{
		distrust_copy(&asked->key, known);
		return false;
	}
	known->version = {state->meta.manifest_generation, state->delta_end, state->meta.tombstone_generation};
	known->no_feed_until_ns = 0;
	state->first_answer = answer;
	return true;
}

} // namespace

bool
asks_worker_first(IndexScanDesc scan)
{
	const ScanState *state = state_of(scan);

	return state->phase == ScanPhase::kScored && state->batch.size == 0 && !state->bounds.nan_only &&
		bypass_of(scan->indexRelation, state) == Bypass::kNone;
}

ScanPlan
plan_first_batch(IndexScanDesc scan)
{
	ScanState *state = state_of(scan);
	const ScanPlan before = state->plan;

	state->batch.size = batch_plan_rows(scan, state);
	if (scan_has_aliases(state))
		state->batch.size++;
	state->batch.size = scan_batch_rows(state, state->batch.size);
	return before;
}

void
forget_first_batch(IndexScanDesc scan, const ScanPlan &before)
{
	state_of(scan)->plan = before;
	state_of(scan)->batch.size = 0;
}

void
ahead_ask_siblings(IndexScanDesc scan)
{
	const MemoryContext old = CurrentMemoryContext;
	Asking asking = {CurrentMemoryContext, nullptr, nullptr, 0};
	bridge::Fallback reason;
	List *siblings;

	state_of(scan)->ahead_done = true;
	if (!scan_reads_ahead() || !IsUnderPostmaster || !bridge::worker_answers_scans() ||
		ahead_has_answers(state_of(scan)))
		return;
	MemoryContextSwitchTo(state_of(scan)->batch_context);
	siblings = pg::merge_siblings(scan, is_vectorgpu_index, static_cast<int>(wire::kMostSearchesTogether));
	if (list_length(siblings) > 1)
	{
		state_of(scan)->ahead_done = false; // collect() sets it
		asking.scans = static_cast<Asked *>(palloc(sizeof(Asked) * list_length(siblings)));
		collect(siblings, &asking);
		state_of(scan)->ahead_done = true;
	}
	if (asking.n > 1 && bridge::breaker_admits(wire::RequestType::kSearchMany) &&
		bridge::many_ask(asking.many, &reason))
	{
		wire::ReplyHeader header;
		const void *rows;

		for (uint32 i = 0; i < asking.n && bridge::many_next(asking.many, &header, &rows); i++)
			if (!keep(&asking.scans[i], &header, rows))
				break;
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(state_of(scan)->batch_context);
}

bool
ahead_take(ScanState *state, Ask *ask, wire::ReplyHeader *header)
{
	const SiblingAnswer *answer = state->first_answer;

	state->first_answer = nullptr;
	if (answer == nullptr || ask->k != answer->k || ask->after != nullptr || state->rounds.round != answer->round ||
		state->place.n_before > 0 || ask->capacity < answer->header.n_items)
		return false;
	memcpy(ask->rows, answer->rows, answer->header.n_items * sizeof(engine::Neighbor));
	ask->n_rows = answer->header.n_items;
	*header = answer->header;
	return true;
}

} // namespace vectorgpu::am
