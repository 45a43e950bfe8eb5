// See worker_ask.hpp. Every row id of an answer is checked before it is used.
#include "am/scan/worker_ask.hpp"

#include "am/feed/copy_feed.hpp"
#include "am/feed/delta_rows.hpp"
#include "am/scan/known_copy.hpp"
#include "am/scan/rounds.hpp"
#include "am/siblings/scan_ahead.hpp"
#include "bridge/breaker.hpp"
#include "bridge/client_session.hpp"
#include "bridge/index_fallbacks.hpp"
#include "bridge/shared_state.hpp"
#include "pg/fault.hpp"
#include "wire/codec.hpp"

#include <cstring>

extern "C"
{
#include "access/htup_details.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr int kTries = 3; // a search, and again after the copy was brought up to date, and once more for a race

static_assert(sizeof(wire::WireNeighbor) == sizeof(engine::Neighbor) &&
	offsetof(wire::WireNeighbor, score) == offsetof(engine::Neighbor, score) &&
	offsetof(wire::WireNeighbor, row) == offsetof(engine::Neighbor, row));

/// True if the heap has the block. The cached length decides without a system call: a table shrinks under an exclusive
/// lock only, and its truncation makes every process forget the length.
bool
has_block(Relation heap, BlockNumber block)
{
	const BlockNumber known = RelationGetSmgr(heap)->smgr_cached_nblocks[MAIN_FORKNUM];

	return (known != InvalidBlockNumber && block < known) || block < RelationGetNumberOfBlocks(heap);
}

uint8
filter_way_of(wire::FilterWay way)
{
	switch (way)
	{
		case wire::FilterWay::kNone:
			break;
		case wire::FilterWay::kList:
			return kFilterList;
		case wire::FilterWay::kMask:
			return kFilterMask;
		case wire::FilterWay::kLists:
			return kFilterLists;
		case wire::FilterWay::kGraph:
			return kFilterGraph;
	}
	return 0;
}

void
count_reply(const ScanState *state, const wire::ReplyHeader *header)
{
	ScanCounters *counters = state->counters;

	counters->engine = bridge::session_engine();
	counters->engine_ns += header->engine_ns;
	// The engine counts for all searches of its batch. A pass that finishes a search by candidates counts them itself.
	if (header->batch_size > 1 && !gives_candidates(state))
		counters->n_rescored_together += header->n_rescored;
	else if (!gives_candidates(state))
	{
		counters->n_candidates += header->n_rescored;
		counters->n_rescored += header->n_rescored;
	}
	counters->largest_engine_batch = Max(counters->largest_engine_batch, header->batch_size);
	if (state->filter != nullptr)
	{
		counters->n_passing = header->n_passing;
		counters->filter_ways |= filter_way_of(header->filter_way);
		counters->n_filters_found += header->filter_found;
	}
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

/// Sends one SEARCH with all its NEXTs. True if the worker has answered: *status. kOk: ask has the rows.
bool
search_once(
	Relation index, const wire::CopyKey *key, KnownCopy *known, ScanState *state, Ask *ask, wire::ReplyStatus *status)
{
	const wire::CopyVersion version = {
		state->meta.manifest_generation, state->delta_end, state->meta.tombstone_generation};
	wire::SearchRequest search = {};
	wire::NextRequest next = {};
	const Size key_bytes = copy_key_bytes(state->am->worker_structure, &state->meta);
	const Size row_bytes = sizeof(uint64) + meta_vector_bytes(&state->meta) + key_bytes;
	Size program_bytes;
	const uint8 *program = conditions_to_send(index, state, &program_bytes);
	Size query_bytes;
	const void *query = query_to_send(state, &query_bytes);
	char *rows = nullptr;
	const uint64 n_ahead = rows_ahead(index, known, state, &rows);
	wire::SegmentProbes chosen[kMaxSegments];
	const wire::SegmentProbes *probes = ask->probes != nullptr ? ask->probes : chosen;
	uint32 n_probes = ask->n_probes;
	const bool readable = ask->probes != nullptr || choose_probes(index, state, chosen, &n_probes);
	const wire::Part parts[] = {{&search, sizeof(search)}, {probes, n_probes * sizeof(wire::SegmentProbes)},
		{program, program_bytes}, {rows, n_ahead * row_bytes}, {query, query_bytes}};
	const wire::Part next_part = {&next, sizeof(next)};
	wire::ReplyHeader header;
	bridge::Fallback reason;
	bool sent;

	ask->n_rows = 0;
	static_assert(kMaxSegments <= wire::kMaxSegmentsPerCopy);
	if (!readable) // a standby replayed a merge: the pass over the pages reads the manifest again
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
	search.program_bytes = static_cast<uint32>(program_bytes);
	search.given = state->filter != nullptr && state->filter->rows != nullptr ? 1 : 0;
	search.key_bytes = n_ahead > 0 ? static_cast<uint32>(key_bytes) : 0;
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
				known->version.delta_end = 0; // the copy has changed: ask for its state
			return true;
		}
		if (!rows_valid(state, ask, header.n_items))
		{
			distrust_copy(key, known);
			return false;
		}
		ask->n_rows += header.n_items;
		take_reply_header(state, &header, ask);
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

/// An answer that was asked for before. False: there is none for this search.
bool
answered_ahead(ScanState *state, Ask *ask)
{
	wire::ReplyHeader header;

	if (state->first_answer == nullptr || !ahead_take(state, ask, &header))
		return false;
	count_reply(state, &header);
	ask->coverage = coverage_of(header.coverage);
	state->counters->n_ahead++;
	pg_atomic_fetch_add_u64(&bridge::shared_state()->n_answered, 1);
	return true;
}

} // namespace

const void *
query_to_send(const ScanState *state, Size *n_bytes)
{
	if (state->shape.element == ElementType::kSet)
		return state->am->worker_structure->query(state->query, n_bytes);
	*n_bytes = meta_vector_bytes(&state->meta);
	return state->query;
}

const uint8 *
conditions_to_send(Relation index, const ScanState *state, Size *n_bytes)
{
	*n_bytes = 0;
	if (state->filter == nullptr)
		return nullptr;
	if (state->filter->rows != nullptr)
		return given_rows_bytes(index, state, n_bytes); // bypass_of has found them
	*n_bytes = state->filter->conditions.n_bytes;
	return state->filter->conditions.bytes;
}

bool
finds_candidates(const ScanState *state)
{
	const WorkerStructure *structure = state->am->worker_structure;

	return structure != nullptr && structure->finds_candidates != nullptr && structure->finds_candidates(&state->meta);
}

bool
gives_candidates(const ScanState *state)
{
	return state->am->approximate != nullptr && state->am->worker_structure != nullptr &&
		(state->am->worker_structure->n_candidates != nullptr || finds_candidates(state));
}

void
take_reply_header(const ScanState *state, const wire::ReplyHeader *header, Ask *ask)
{
	count_reply(state, header);
	ask->coverage = coverage_of(header->coverage);
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
		RoundLook look = {};

		if (segment->n_rows == 0)
			continue;
		probes[*n] = {segment->id, 0, 0, 0};
		if (!structure->probes(index, &state->meta, segment, state->rounds.round, scan_ranks_wanted(state),
				scan_ranks_before(state), state->query, state->strategy, &probes[*n], &look))
			return false;
		all = all && look.whole;
		note_width(&state->counters->pass_width, look.width);
		note_missed_target(&state->counters->missed, look.missed);
		++*n;
	}
	if (all)
		*n = 0;
	return true;
}

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

bool
ask_worker(Relation index, ScanState *state, Ask *ask)
{
	wire::CopyKey key;
	KnownCopy *known;

	if (answered_ahead(state, ask))
		return true;
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
		if (status == wire::ReplyStatus::kBehind && given_rows_outdated(index, state))
			break;
		if (i + 1 < kTries && !bring_copy(index, state, status, known))
			return false;
	}
	// Others evicted the copy, or merged, each time that it had just been brought up to date; or once, if the scan
	// names its rows.
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

} // namespace vectorgpu::am
