// The k-NN graph by the worker, many searches in one request (bridge/search_many.hpp). Each search equals the first
// request of a scan with LIMIT k + 1 (k, for rows of another table); of an exact index it asks for more rows. If such a
// scan would have to continue (rows that the snapshot does not see, too few rows, an outdated copy), the row is left to
// a scan. So the answers are the same. PG dialect.
#include "am/functions/knn_worker.hpp"

#include "am/alias/alias_map.hpp"
#include "am/feed/copy_feed.hpp"
#include "am/functions/knn_pages.hpp"
#include "am/method/am_interface.hpp"
#include "am/method/row_value.hpp"
#include "am/scan/scan_aliases.hpp"
#include "am/scan/worker_scan.hpp"
#include "bridge/breaker.hpp"
#include "bridge/client_session.hpp"
#include "bridge/index_fallbacks.hpp"
#include "bridge/search_many.hpp"
#include "engine/distance/distance.hpp"

#include <cstring>

extern "C"
{
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint32 kLeastSources = 2; // a scan makes one search
constexpr uint64 kMostRows = 4000;  // of one search: must fit one reply
constexpr uint64 kMoreRows = 16;    // instead of some that the snapshot does not see

/// One batch of searches.
struct Batch
{
	const IndexAccess *access;
	KnnWalk *walk;
	ScanState *state; // shared by all searches; the query changes
	bridge::SearchMany *many;
	wire::CopyKey key;
	uint32 k;
	char *query;            // buffer for one query
	engine::Neighbor *rows; // [state->batch.size] buffer for one answer
	IndexFetchTableData *fetch;
	TupleTableSlot *slot;
	const RowMap *aliases; // of the request's answers; null: no rows share entries
};

/// Make the state of a scan of the index, for searches of its first round.
ScanState *
make_state(const IndexAccess *access, Snapshot snapshot, uint64 n_rows)
{
	ScanState *state = static_cast<ScanState *>(palloc0(sizeof(ScanState)));

	state->heap = access->heap;
	state->snapshot = snapshot;
	state->context = CurrentMemoryContext;
	state->batch_context = CurrentMemoryContext;
	state->counters = static_cast<ScanCounters *>(palloc0(sizeof(ScanCounters)));
	scan_read_version(access->index, snapshot, state);
	state->am = access_method(access->index, &state->meta);
	state->shape = shape_of_meta(&state->meta);
	state->phase = ScanPhase::kScored;
	state->batch.size = n_rows;
	if (state->am->approximate == nullptr) // in an exact order, more rows are the same rows first
		state->batch.size = Min(n_rows + n_rows / 2 + kMoreRows, kMostRows);
	return state;
}

/// Add the source's search to the request. False: it has no room, or a page was foreign.
bool
add(Batch *batch, const KnnSource *source)
{
	const Size n_bytes = vector_bytes(batch->state->shape.element, batch->state->shape.dim);
	RowValue value = row_value_for_query(batch->state->shape.element, batch->state->shape.dim, source->value);
	wire::SearchRequest search;
	wire::SegmentProbes probes[kMaxSegments];
	uint32 n_probes;

	memcpy(batch->query, value.vector, n_bytes);
	row_value_close(&value);
	batch->state->query = batch->query;
	if (!worker_search_request(
			batch->access->index, batch->state, batch->state->batch.size, &search, probes, &n_probes))
		return false;

	const wire::Part parts[] = {
		{&search, sizeof(search)}, {probes, n_probes * sizeof(wire::SegmentProbes)}, {batch->query, n_bytes}};

	return bridge::many_add(batch->many, &batch->key, parts, lengthof(parts), batch->state->batch.size);
}

/// Find out which rows share the entries of the answers that have come. False: a VACUUM has given some of them entries
/// of their own since the searches began, so that the answers may lack these.
bool
know_aliases(Batch *batch)
{
	const ScanState *state = batch->state;

	batch->aliases = nullptr;
	if (!scan_has_aliases(state))
		return true;
	if (meta_alias_first(batch->access->index) != state->aliases.first)
		return false;
	batch->aliases = alias_map(batch->access->index, &state->meta, state->aliases.end);
	return batch->aliases != nullptr;
}

/// True if rows share one of the entries, or an entry is of a row that shares another: a scan resolves them.
bool
any_aliases(const Batch *batch, uint64 n_rows)
{
	uint64 key;

	for (uint64 i = 0; batch->aliases != nullptr && i < n_rows; i++)
		if (map_newest(batch->aliases, batch->rows[i].row) != nullptr ||
			map_find(batch->aliases, batch->rows[i].row, &key))
			return true;
	return false;
}

/// Write the edges to the rows that the snapshot sees. Returns false if a scan would have to search further.
bool
take_rows(Batch *batch, const KnnSource *source, uint64 n_rows, bool all, KnnEdge *edges, uint32 *n_edges)
{
	const bool exact = batch->state->am->approximate == nullptr;
	uint32 n = 0;
	bool fetched = false;

	for (uint64 i = 0; i < n_rows && n < batch->k; i++)
	{
		const engine::Neighbor *row = &batch->rows[i];
		RowId target = row->row;

		if (!knn_sees(batch->walk, batch->access->heap, batch->state->snapshot, target))
		{
			ItemPointerData tid;
			bool call_again = false;
			bool all_dead = false;

			ItemPointerSet(&tid, row_id_block(row->row), row_id_offset(row->row));
			fetched = true;
			if (!table_index_fetch_tuple(
					batch->fetch, &tid, batch->state->snapshot, batch->slot, &call_again, &all_dead))
				continue;
			target = knn_row_of(&batch->slot->tts_tid);
		}
		if (target == source->row && !batch->walk->other_table)
			continue;
		edges[n] = {source->row, target, n + 1, engine::finish_score(batch->state->shape.metric, row->score)};
		n++;
	}
	if (fetched)
	{
		// Hold no pins while waiting for the worker.
		ExecClearTuple(batch->slot);
		table_index_fetch_reset(batch->fetch);
	}
	*n_edges = n;
	return all ? n == batch->k || n_rows < batch->state->batch.size
			   : n == batch->k && (exact || n_rows == batch->state->batch.size);
}

/// Take the next answer. False: it is none. *stale: the copy is outdated or missing; a scan will update it.
bool
take(Batch *batch, const KnnSource *source, KnnEdge *edges, uint32 *count, bool *answered, bool *stale)
{
	wire::ReplyHeader header;
	const void *rows;

	if (!bridge::many_next(batch->many, &header, &rows))
		return false;
	if (header.status != wire::ReplyStatus::kOk)
	{
		*stale = true;
		return true;
	}
	if (header.n_items > batch->state->batch.size)
		return false;
	memcpy(batch->rows, rows, header.n_items * sizeof(engine::Neighbor));
	if (!worker_rows_valid(batch->state, batch->rows, header.n_items, batch->state->batch.size))
		return false;
	*answered = !any_aliases(batch, header.n_items) &&
		take_rows(batch, source, header.n_items, header.coverage == wire::Coverage::kAll, edges, count);
	pg_atomic_fetch_add_u64(&bridge::shared_state()->n_answered, *answered ? 1 : 0);
	return true;
}

/// Search for the sources that have room in one request, and return their number; at least one. *stale: the first one
/// for which the copy was outdated or missing, if any. 0: the worker has not answered, *reason.
uint32
ask_some(Batch *batch, const KnnSource *sources, uint32 n_sources, KnnEdge *edges, uint32 *counts, bool *answered,
	uint32 *stale, bridge::Fallback *reason)
{
	uint32 n = 0;

	bridge::many_reset(batch->many);
	while (n < n_sources && add(batch, &sources[n]))
		n++;
	if (n == 0) // a scan asks
		return 1;
	if (!bridge::many_ask(batch->many, reason))
		return 0;
	if (!know_aliases(batch))
		return n; // scans ask
	*reason = bridge::Fallback::kWrongAnswer;
	for (uint32 i = 0; i < n; i++)
	{
		bool refused = false;

		CHECK_FOR_INTERRUPTS();
		if (!take(batch, &sources[i], edges + uint64{i} * batch->k, &counts[i], &answered[i], &refused))
			return 0;
		if (refused)
			*stale = Min(*stale, i);
	}
	return n;
}

/// Search for all sources, up to *end, the first one for which the copy was outdated or missing. Returns false, with
/// *reason, if the worker does not answer.
bool
ask_all(Batch *batch, const KnnSource *sources, uint32 n_sources, KnnEdge *edges, uint32 *counts, bool *answered,
	uint32 *end, bridge::Fallback *reason)
{
	for (uint32 i = 0; i < n_sources && *end == n_sources;)
	{
		uint32 stale = n_sources;
		const uint32 n = ask_some(
			batch, sources + i, n_sources - i, edges + uint64{i} * batch->k, counts + i, answered + i, &stale, reason);

		if (n == 0)
			return false;
		*end = Min(*end, i + stale);
		i += n;
	}
	return true;
}

} // namespace

uint32
knn_ask_worker(const IndexAccess *access, Snapshot snapshot, KnnWalk *walk, const KnnSource *sources, uint32 n_sources,
	uint32 k, KnnEdge *edges, uint32 *counts, bool *answered)
{
	Batch batch = {};
	bridge::Fallback reason;
	uint32 end = n_sources;

	if (n_sources < kLeastSources || walk->without_worker || knn_rows_to_ask(walk, k) > kMostRows)
		return end;
	batch.access = access;
	batch.walk = walk;
	batch.state = make_state(access, snapshot, knn_rows_to_ask(walk, k));
	if (!worker_finds_entries(access->index, batch.state) || !bridge::session_ready(false) ||
		!bridge::breaker_admits(wire::RequestType::kSearchMany))
		return end;
	batch.many = bridge::many_begin();
	copy_key(access->index, &batch.state->meta, &batch.key);
	batch.k = k;
	batch.query = static_cast<char *>(palloc(vector_bytes(batch.state->shape.element, batch.state->shape.dim)));
	batch.rows = static_cast<engine::Neighbor *>(palloc(batch.state->batch.size * sizeof(engine::Neighbor)));
	batch.fetch = table_index_fetch_begin(access->heap);
	batch.slot = table_slot_create(access->heap, nullptr);
	if (!ask_all(&batch, sources, n_sources, edges, counts, answered, &end, &reason))
	{
		bridge::note_fallback(reason, "The neighbors of many rows are searched for one row at a time.");
		bridge::count_index_fallback(RelationGetRelid(access->index), reason);
		walk->without_worker = true;
		end = n_sources;
	}
	ExecDropSingleTupleTableSlot(batch.slot);
	table_index_fetch_end(batch.fetch);
	return end;
}

} // namespace vectorgpu::am
