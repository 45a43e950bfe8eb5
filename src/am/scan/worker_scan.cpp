// See worker_scan.hpp. The scan's version (what it has read from the pages after its snapshot was set) goes with the
// request: an answer is from a copy that has at least that. Every row id of an answer is checked before it is used.
#include "am/scan/worker_ask.hpp"

#include "am/feed/copy_feed.hpp"
#include "storage/delta.hpp"
#include "am/feed/loader.hpp"
#include "bridge/breaker.hpp"
#include "bridge/client_session.hpp"
#include "bridge/index_fallbacks.hpp"
#include "bridge/settings.hpp"
#include "bridge/shared_state.hpp"
#include "pg/fault.hpp"
#include "wire/codec.hpp"

#include <algorithm>
#include <cstring>

extern "C"
{
#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr int kKnownCopies = 16;
constexpr int kTries = 3; // a search, and again after the copy was brought up to date, and once more for a race
constexpr uint64 kNsPerMs = 1000 * 1000;
constexpr uint64 kRefusedPauseMs = 10 * 1000; // before an index that did not fit is offered again
constexpr uint64 kBusyPauseMs = 100;
constexpr uint64 kBytesPerKb = 1024;
constexpr Size kRowsAheadBytes = 64 * 1024; // of new rows that go along with a search; more of them go before it

/// What this process last saw of a copy. A hint: the worker checks.
struct KnownCopy
{
	wire::CopyKey key;
	wire::CopyVersion version; // it served a scan of this version
	uint64 no_feed_until_ns;
	bridge::Fallback no_feed_reason; // until then
	uint64 used;
};

KnownCopy known_copies[kKnownCopies];
uint64 known_clock = 0;

static_assert(sizeof(wire::WireNeighbor) == sizeof(engine::Neighbor) &&
	offsetof(wire::WireNeighbor, score) == offsetof(engine::Neighbor, score) &&
	offsetof(wire::WireNeighbor, row) == offsetof(engine::Neighbor, row));

KnownCopy *
known_copy(const wire::CopyKey *key)
{
	KnownCopy *oldest = &known_copies[0];

	for (KnownCopy &copy : known_copies)
	{
		if (memcmp(&copy.key, key, sizeof(*key)) == 0)
		{
			copy.used = ++known_clock;
			return &copy;
		}
		if (copy.used < oldest->used)
			oldest = &copy;
	}
	memset(oldest, 0, sizeof(*oldest));
	oldest->key = *key;
	oldest->used = ++known_clock;
	return oldest;
}

/// The rows that make a batch for certain: those returned before may be among them (vectorgpu.scan_order = relaxed).
uint64
rows_to_ask(const ScanState *state)
{
	return state->batch_size + state->n_returned;
}

/// True if the heap has the block. What its length was when the server last looked is enough to say so without a system
/// call: a table shrinks under an exclusive lock only, and its truncation makes every process forget the length.
bool
has_block(Relation heap, BlockNumber block)
{
	const BlockNumber known = RelationGetSmgr(heap)->smgr_cached_nblocks[MAIN_FORKNUM];

	return (known != InvalidBlockNumber && block < known) || block < RelationGetNumberOfBlocks(heap);
}

/// The heap TIDs of an answer must be possible: ascending behind the last one, inside the table, as many as asked for.
bool
rows_valid(const ScanState *state, const Ask *ask, uint64 n)
{
	const engine::Neighbor *rows = ask->rows;
	const uint64 first = ask->n_rows;
	const engine::Neighbor *after = first > 0 ? &rows[first - 1] : ask->after;
	uint32 last_block = 0;

	if (VG_FAULT("worker_rows") || n > ask->k - first)
		return false;
	if (!wire::neighbors_valid(reinterpret_cast<const wire::WireNeighbor *>(rows + first), n,
			reinterpret_cast<const wire::WireNeighbor *>(after)))
		return false;
	for (uint64 i = first; i < first + n; i++)
	{
		if (row_id_offset(rows[i].row) > MaxHeapTuplesPerPage)
			return false;
		last_block = Max(last_block, row_id_block(rows[i].row));
	}
	return n == 0 || state->heap == nullptr || has_block(state->heap, last_block);
}

/// A worker that answers nonsense is not asked again about this index until it is loaded anew.
void
distrust(const wire::CopyKey *key, KnownCopy *known)
{
	wire::ReplyHeader header;
	bridge::Fallback reason;

	bridge::note_fallback(bridge::Fallback::kWrongAnswer, "A reply had rows that cannot be. The copy is dropped.");
	known->no_feed_until_ns = wire::monotonic_ns() + kRefusedPauseMs * kNsPerMs;
	known->no_feed_reason = bridge::Fallback::kWrongAnswer;
	// Results that wait for NEXT are forgotten with the session.
	bridge::session_close();
	if (bridge::session_ready(false))
		(void) bridge::session_request(wire::RequestType::kDrop, key, nullptr, 0, &header, nullptr, 0, &reason);
}

void
count_reply(const ScanState *state, const wire::ReplyHeader *header)
{
	ScanCounters *counters = state->counters;

	counters->engine = bridge::session_engine();
	counters->engine_ns += header->engine_ns;
	// The engine counts for all searches of its batch. The pass that finishes a search by candidates counts these
	// itself.
	if (header->batch_size > 1 && !gives_candidates(state))
		counters->n_rescored_together += header->n_rescored;
	else if (!gives_candidates(state))
	{
		counters->n_candidates += header->n_rescored;
		counters->n_rescored += header->n_rescored;
	}
	counters->largest_engine_batch = Max(counters->largest_engine_batch, header->batch_size);
}

/// True if only rows were added to the delta since the copy last served this process, and few.
bool
only_rows_missing(const KnownCopy *known, const ScanState *state)
{
	const MetaData *meta = &state->meta;

	return known->version.delta_end >= meta->delta_first_row && known->version.delta_end > 0 &&
		known->version.delta_end < state->delta_end &&
		known->version.manifest_generation == meta->manifest_generation &&
		known->version.tombstone_generation == meta->tombstone_generation &&
		(state->delta_end - known->version.delta_end) * delta_row_bytes(meta) <=
		static_cast<uint64>(bridge::settings.ship_limit_kb) * kBytesPerKb;
}

/// The rows that the copy lacks, as far as this process knows, where they are few enough to go along with the search:
/// how many, and at *rows their headers and vectors (palloc'd). 0: none go.
uint64
rows_ahead(Relation index, const KnownCopy *known, const ScanState *state, char **rows)
{
	const Size row_bytes = sizeof(uint64) + meta_vector_bytes(&state->meta);
	const uint64 first = known->version.delta_end;
	uint64 n;
	char *buffer;

	if (!only_rows_missing(known, state))
		return 0;
	n = state->delta_end - first;
	if (n * row_bytes > kRowsAheadBytes)
		return 0;
	(void) VG_FAULT("rows_ahead");
	// NULL rows leave their place as it is: zeros are as good as anything there, and finite.
	buffer = static_cast<char *>(palloc0(n * row_bytes));
	if (!delta_read(index, &state->meta, first, n, reinterpret_cast<uint64 *>(buffer), buffer + n * sizeof(uint64),
			row_bytes - sizeof(uint64)))
		return 0; // pages were recycled: the search goes as if nothing were known
	*rows = buffer;
	return n;
}

void
count_shipped(uint64 n, ScanCounters *counters)
{
	counters->n_shipped += n;
	pg_atomic_fetch_add_u64(&bridge::shared_state()->n_shipped_rows, n);
}

Coverage
coverage_of(wire::Coverage coverage)
{
	switch (coverage)
	{
		case wire::Coverage::kPart:
			return Coverage::kPart;
		case wire::Coverage::kScored:
			return Coverage::kScored;
		case wire::Coverage::kAll:
			break;
	}
	return Coverage::kAll;
}

/// Takes out of the batch what was returned before, and what is too much then.
void
drop_returned(ScanState *state)
{
	uint64 kept = 0;

	for (uint64 i = 0; i < state->n_rows && kept < state->batch_size; i++)
		if (!std::binary_search(state->returned, state->returned + state->n_returned, state->rows[i].row))
			state->rows[kept++] = state->rows[i];
	state->n_rows = kept;
}

/// The query as it goes to the worker.
const void *
query_to_send(const ScanState *state, Size *n_bytes)
{
	if (state->shape.element == ElementType::kSet)
		return state->am->worker_structure->query(state->query, n_bytes);
	*n_bytes = meta_vector_bytes(&state->meta);
	return state->query;
}

/// A SEARCH from the first row on, with nothing that comes along.
void
fill_search(const ScanState *state, uint64 k, uint32 n_probes, wire::SearchRequest *search)
{
	memset(search, 0, sizeof(*search));
	search->version = {state->meta.manifest_generation, state->delta_end, state->meta.tombstone_generation};
	search->k = k;
	search->dim = state->shape.dim;
	search->element = state->shape.element;
	search->metric = copy_metric(state->am->worker_structure, &state->meta);
	search->recall_target = state->am->recall_target != nullptr ? static_cast<float>(*state->am->recall_target) : 1;
	search->n_probes = n_probes;
}

/// One SEARCH with all its NEXTs. True if the worker has answered at all: *status then says how. kOk: ask has the rows.
bool
search_once(
	Relation index, const wire::CopyKey *key, KnownCopy *known, ScanState *state, Ask *ask, wire::ReplyStatus *status)
{
	const wire::CopyVersion version = {
		state->meta.manifest_generation, state->delta_end, state->meta.tombstone_generation};
	wire::SearchRequest search = {};
	wire::NextRequest next = {};
	const Size vector_bytes = meta_vector_bytes(&state->meta);
	Size query_bytes;
	const void *query = query_to_send(state, &query_bytes);
	char *rows = nullptr;
	const uint64 n_ahead = rows_ahead(index, known, state, &rows);
	wire::SegmentProbes chosen[kMaxSegments];
	const wire::SegmentProbes *probes = ask->probes != nullptr ? ask->probes : chosen;
	uint32 n_probes = ask->n_probes;
	const bool readable = ask->probes != nullptr || choose_probes(index, state, chosen, &n_probes);
	const wire::Part parts[] = {{&search, sizeof(search)}, {probes, n_probes * sizeof(wire::SegmentProbes)},
		{rows, n_ahead * (sizeof(uint64) + vector_bytes)}, {query, query_bytes}};
	const wire::Part next_part = {&next, sizeof(next)};
	wire::ReplyHeader header;
	bridge::Fallback reason;
	bool sent;

	ask->n_rows = 0;
	static_assert(kMaxSegments <= wire::kMaxSegmentsPerCopy);
	if (!readable) // a standby replayed a merge: the pages' way finds out
	{
		bridge::note_fallback(bridge::Fallback::kLoading, nullptr);
		return false;
	}
	fill_search(state, ask->k, n_probes, &search);
	search.has_after = ask->after != nullptr ? 1 : 0;
	search.after_score = ask->after != nullptr ? ask->after->score : 0;
	search.after_row = ask->after != nullptr ? ask->after->row : 0;
	search.n_rows = static_cast<uint32>(n_ahead);
	search.rows_position = n_ahead > 0 ? known->version.delta_end : 0;
	sent = bridge::session_request(wire::RequestType::kSearch, key, parts, lengthof(parts), &header, ask->rows,
		ask->capacity * sizeof(engine::Neighbor), &reason);
	next.search_sequence = bridge::session_sequence();
	for (;;)
	{
		if (!sent)
		{
			bridge::note_fallback(reason, nullptr);
			return false;
		}
		*status = header.status;
		if (header.status != wire::ReplyStatus::kOk)
		{
			if (n_ahead > 0)
				known->version.delta_end = 0; // the copy is not what it was: ask
			return true;
		}
		if (!rows_valid(state, ask, header.n_items))
		{
			distrust(key, known);
			return false;
		}
		ask->n_rows += header.n_items;
		count_reply(state, &header);
		ask->coverage = coverage_of(header.coverage);
		if (header.more == 0)
			break;
		CHECK_FOR_INTERRUPTS();
		sent = bridge::session_request(wire::RequestType::kNext, key, &next_part, 1, &header, ask->rows + ask->n_rows,
			(ask->capacity - ask->n_rows) * sizeof(engine::Neighbor), &reason);
	}
	known->version = version;
	known->no_feed_until_ns = 0;
	if (n_ahead > 0)
		count_shipped(n_ahead, state->counters);
	pg_atomic_fetch_add_u64(&bridge::shared_state()->n_answered, 1);
	return true;
}

/// True if the same attempt would fail again for a while.
bool
is_lasting(bridge::Fallback reason)
{
	return reason == bridge::Fallback::kTooLarge || reason == bridge::Fallback::kRequestTooLarge ||
		reason == bridge::Fallback::kOutOfMemory || reason == bridge::Fallback::kRefused;
}

void
count_feed(const FeedOutcome *outcome, ScanCounters *counters)
{
	bridge::SharedState *shared = bridge::shared_state();

	count_shipped(outcome->delta_rows, counters);
	if (outcome->made)
		pg_atomic_fetch_add_u64(&shared->n_inline_loads, 1);
}

/// Brings the copy up to date, or has it brought. True if the search may be tried again.
bool
bring(Relation index, const ScanState *state, wire::ReplyStatus status, KnownCopy *known)
{
	const uint64 now = wire::monotonic_ns();
	const FeedLimits limits = {static_cast<uint64>(bridge::settings.inline_load_size_kb) * kBytesPerKb,
		static_cast<uint64>(bridge::settings.ship_limit_kb) * kBytesPerKb, 0};
	FeedOutcome outcome;

	if (now < known->no_feed_until_ns)
	{
		bridge::note_fallback(known->no_feed_reason, nullptr);
		return false;
	}
	if (!bridge::breaker_admits(wire::RequestType::kCreate))
	{
		bridge::note_fallback(bridge::Fallback::kSilent, nullptr);
		return false;
	}
	if (status == wire::ReplyStatus::kBehind && only_rows_missing(known, state))
	{
		if (feed_delta(index, &state->meta, known->version.delta_end, state->delta_end, &outcome))
		{
			count_feed(&outcome, state->counters);
			return true;
		}
		known->version.delta_end = 0; // it is not what it was: ask
		return bridge::session_ready(true);
	}
	PG_TRY();
	{
		feed_copy(index, &limits, &outcome);
	}
	PG_CATCH();
	{
		// A lease ends with the session only.
		bridge::session_close();
		PG_RE_THROW();
	}
	PG_END_TRY();
	switch (outcome.result)
	{
		case FeedResult::kDone:
			count_feed(&outcome, state->counters);
			return true;
		case FeedResult::kTooMuch:
			loader_request(index);
			break;
		case FeedResult::kBusy:
			known->no_feed_until_ns = now + kBusyPauseMs * kNsPerMs;
			known->no_feed_reason = bridge::Fallback::kLoading;
			break;
		case FeedResult::kMore:
		case FeedResult::kStale:
			bridge::session_close();
			break;
		case FeedResult::kFailed:
			known->no_feed_until_ns = now + (is_lasting(outcome.reason) ? kRefusedPauseMs : kBusyPauseMs) * kNsPerMs;
			known->no_feed_reason = is_lasting(outcome.reason) ? outcome.reason : bridge::Fallback::kLoading;
			bridge::session_close();
			break;
	}
	bridge::note_fallback(outcome.reason, nullptr);
	return false;
}

/// All rounds of a batch. False: as ask_worker; the scan goes on with the round that has failed.
bool
ask_rounds(Relation index, ScanState *state)
{
	Ask ask = {};

	do
	{
		CHECK_FOR_INTERRUPTS();
		ask.k = Min(rows_to_ask(state), wire::kMaxSearchK);
		ask.after = state->has_last && !state->from_first ? &state->last : nullptr;
		ask.rows = state->rows;
		ask.capacity = state->row_capacity;
		if (!ask_worker(index, state, &ask))
			return false;
		state->n_rows = ask.n_rows;
		state->next_row = 0;
		if (state->n_returned > 0)
			drop_returned(state);
		else
			state->batch_size = ask.k; // fewer rows than that mean the end
	} while (!scan_end_round(state, ask.coverage));
	return true;
}

/// For EXPLAIN: counts what the batch's last round finds up to the last row returned before it. The answer begins
/// behind that row, so that the round is asked once more, from the first row on. What that takes is not the scan's.
void
count_up_to_last(Relation index, ScanState *state)
{
	const ScanCounters counters = *state->counters;
	const uint64 k = Min(state->n_before + state->batch_size, wire::kMaxSearchK);
	engine::Neighbor *rows =
		static_cast<engine::Neighbor *>(palloc_extended(k * sizeof(engine::Neighbor), MCXT_ALLOC_HUGE));
	engine::Neighbor after;
	Ask ask = {};
	uint64 n = 0;

	ask.k = ask.capacity = k;
	ask.rows = rows;
	while (ask_worker(index, state, &ask))
	{
		uint64 i = 0;

		CHECK_FOR_INTERRUPTS();
		while (i < ask.n_rows && !engine::neighbor_less(state->last, rows[i]))
			i++;
		n += i;
		if (i < k)
			break;
		after = rows[k - 1];
		ask.after = &after;
	}
	*state->counters = counters;
	scan_note_up_to_last(state, n);
	pfree(rows);
}

} // namespace

bool
finds_candidates(const ScanState *state)
{
	const WorkerStructure *structure = state->am->worker_structure;

	return structure != nullptr && structure->finds_candidates != nullptr && structure->finds_candidates(&state->meta);
}

bool
gives_candidates(const ScanState *state)
{
	return state->am->approximate && state->am->worker_structure != nullptr &&
		(state->am->worker_structure->n_candidates != nullptr || finds_candidates(state));
}

Bypass
bypass_of(Relation index, const ScanState *state)
{
	if (!worker_holds(state->am, &state->meta))
		return Bypass::kAccessMethod;
	if (!bridge::settings.worker || !IsUnderPostmaster)
		return Bypass::kSettingOff;
	if (state->phase != ScanPhase::kScored)
		return Bypass::kNoOrder;
	if (state->n_returned > 0 && !gives_candidates(state) &&
		rows_to_ask(state) > Min(state->row_capacity, wire::kMaxSearchK))
		return Bypass::kReturned;
	// Pages of a temporary table are this process's alone, and its file number may be another's tomorrow.
	if (RelationUsesLocalBuffers(index))
		return Bypass::kTemporary;
	if (state->am->worker_structure != nullptr && state->am->worker_structure->takes != nullptr &&
		!state->am->worker_structure->takes(state->query))
		return Bypass::kLongQuery;
	return copy_bytes(&state->meta, state->delta_end) >=
			static_cast<uint64>(bridge::settings.worker_min_size_kb) * kBytesPerKb
		? Bypass::kNone
		: Bypass::kSmall;
}

bool
choose_probes(Relation index, const ScanState *state, wire::SegmentProbes *probes, uint32 *n)
{
	const WorkerStructure *structure = state->am->worker_structure;
	bool all = true;

	*n = 0;
	if (structure == nullptr || structure->probes == nullptr || scan_is_exact(state))
		return true;
	for (uint32 i = 0; i < state->meta.n_segments; i++)
	{
		const SegmentEntry *segment = &state->meta.segments[i];
		RoundLook look;

		if (segment->n_rows == 0)
			continue;
		probes[*n] = {segment->id, 0, 0, 0};
		if (!structure->probes(index, &state->meta, segment, state->round, scan_ranks_wanted(state),
				scan_ranks_before(state), state->query, state->strategy, &probes[*n], &look))
			return false;
		all = all && look.whole;
		note_width(&state->counters->pass_width, look.width);
		++*n;
	}
	if (all)
		*n = 0;
	return true;
}

bool
ask_worker(Relation index, ScanState *state, Ask *ask)
{
	wire::CopyKey key;
	KnownCopy *known;

	if (!bridge::session_ready(true))
		return false;
	if (!bridge::breaker_admits(wire::RequestType::kSearch))
	{
		bridge::note_fallback(bridge::Fallback::kSilent, nullptr);
		return false;
	}
	copy_key(index, &state->meta, &key);
	known = known_copy(&key);
	for (int i = 0; i < kTries; i++)
	{
		wire::ReplyStatus status;

		if (!search_once(index, &key, known, state, ask, &status))
			return false;
		if (status == wire::ReplyStatus::kOk)
			return true;
		if (status != wire::ReplyStatus::kAbsent && status != wire::ReplyStatus::kBehind)
		{
			bridge::note_fallback(bridge::fallback_of(status), nullptr);
			return false;
		}
		if (i + 1 < kTries && !bring(index, state, status, known))
			return false;
	}
	// Others evicted the copy, or merged, each time that it had just been brought up to date.
	bridge::note_fallback(bridge::Fallback::kLoading, nullptr);
	return false;
}

void
count_fallback(Relation index, ScanState *state, uint64 noted)
{
	bridge::Fallback reason = bridge::Fallback::kNotRunning; // without shared memory nothing is counted

	if (bridge::own_fallbacks() != noted)
	{
		reason = bridge::last_fallback();
		bridge::count_index_fallback(RelationGetRelid(index), reason);
	}
	state->counters->fallbacks[static_cast<int>(reason)]++;
}

bool
worker_search(Relation index, ScanState *state)
{
	const Bypass bypass = bypass_of(index, state);
	const uint64 noted = bridge::own_fallbacks();

	if (bypass == Bypass::kNone && gives_candidates(state))
		return false;
	if (bypass != Bypass::kNone)
	{
		state->counters->bypasses[static_cast<int>(bypass)]++;
		return false;
	}
	if (ask_rounds(index, state))
	{
		if (state->counts_left_out)
			count_up_to_last(index, state);
		return true;
	}
	count_fallback(index, state, noted);
	return false;
}

bool
worker_may_answer(Relation index, const ScanState *state)
{
	return !gives_candidates(state) && bypass_of(index, state) == Bypass::kNone;
}

bool
worker_search_request(Relation index, const ScanState *state, uint64 k, wire::SearchRequest *search,
	wire::SegmentProbes *probes, uint32 *n_probes)
{
	if (!choose_probes(index, state, probes, n_probes))
		return false;
	fill_search(state, k, *n_probes, search);
	return true;
}

bool
worker_rows_valid(const ScanState *state, engine::Neighbor *rows, uint64 n, uint64 k)
{
	Ask ask = {};

	ask.k = k;
	ask.rows = rows;
	return rows_valid(state, &ask, n);
}

} // namespace vectorgpu::am
