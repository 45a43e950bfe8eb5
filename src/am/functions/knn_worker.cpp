// The k-NN graph by the worker, many searches in one request (bridge/search_many.hpp). Each search equals the first
// request of a scan with LIMIT k + 1 (k, for rows of another table); of an exact index it asks for more rows. If such a
// scan would have to continue (rows that the snapshot does not see, too few rows, an outdated copy), the row is left to
// a scan. So the answers are the same. PG dialect.
#include "am/functions/knn_worker.hpp"

#include "am/alias/alias_map.hpp"
#include "am/functions/knn_pages.hpp"
#include "am/method/am_interface.hpp"
#include "am/method/row_value.hpp"
#include "am/siblings/many_searches.hpp"
#include "am/scan/scan_aliases.hpp"
#include "am/scan/worker_scan.hpp"
#include "bridge/shared_state.hpp"
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
constexpr uint64 kMoreRows = 4;     // instead of some that the snapshot does not see

/// In an exact order, more rows are the same rows first.
uint64
rows_to_ask(const ScanState *state, uint64 n_rows)
{
	return state->am->approximate != nullptr ? n_rows : Min(n_rows + n_rows / 2 + kMoreRows, kMostRows);
}

constexpr char kDetail[] = "The neighbors of many rows are searched for one row at a time.";

/// One batch of searches.
struct Batch : ManySearches
{
	uint32 n_sources;
	const IndexAccess *access;
	KnnWalk *walk;
	const KnnSource *sources;
	uint32 k;
	KnnEdge *edges;         // of source i at i * k
	uint32 *counts;         // [n_sources]
	bool *answered;         // [n_sources]
	char *query;            // buffer for one query that is not aligned
	engine::Neighbor *rows; // [state->batch.size] buffer for one answer
	IndexFetchTableData *fetch;
	TupleTableSlot *slot;
	const RowMap *aliases; // of the request's answers; null: no rows share entries

	bool add(uint64 number) override;
	bool begin_answers() override;
	bool take(uint64 number, const wire::ReplyHeader &header, const void *items) override;
};

/// False, too, if a page was foreign.
bool
Batch::add(uint64 number)
{
	RowValue value = row_value_for_query(state->shape.element, state->shape.dim, sources[number].value);
	wire::SearchRequest search;
	wire::SegmentProbes probes[kMaxSegments];
	uint32 n_probes;
	bool added;

	state->query = static_cast<const char *>(value.vector);
	if (reinterpret_cast<uintptr_t>(value.vector) % MAXIMUM_ALIGNOF != 0)
	{
		memcpy(query, value.vector, vector_bytes(state->shape.element, state->shape.dim));
		state->query = query;
	}
	added = worker_search_request(index, state, state->batch.size, &search, probes, &n_probes) &&
		put(search, probes, nullptr, state->query);
	row_value_close(&value);
	return added;
}

/// Find out which rows share the entries of the answers that have come. False: a VACUUM has given some of them entries
/// of their own since the searches began, so that the answers may lack these.
bool
Batch::begin_answers()
{
	aliases = nullptr;
	if (!scan_has_aliases(state))
		return true;
	if (meta_alias_first(index) != state->aliases.first)
		return false;
	aliases = alias_map(index, &state->meta, state->aliases.end);
	return aliases != nullptr;
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

bool
Batch::take(uint64 number, const wire::ReplyHeader &header, const void *items)
{
	if (header.n_items > state->batch.size)
		return false;
	memcpy(rows, items, header.n_items * sizeof(engine::Neighbor));
	if (!worker_rows_valid(state, rows, header.n_items, state->batch.size))
		return false;
	answered[number] = !any_aliases(this, header.n_items) &&
		take_rows(this, &sources[number], header.n_items, header.coverage == wire::Coverage::kAll, edges + number * k,
			&counts[number]);
	pg_atomic_fetch_add_u64(&bridge::shared_state()->n_answered, answered[number] ? 1 : 0);
	return true;
}

} // namespace

struct KnnAsked : Batch
{
};

KnnAsked *
knn_ask_worker(const IndexAccess *access, Snapshot snapshot, KnnWalk *walk, const KnnSource *sources, uint32 n_sources,
	uint32 k, KnnEdge *edges, uint32 *counts, bool *answered)
{
	KnnAsked *asked;

	if (n_sources < kLeastSources || knn_rows_to_ask(walk, k) > kMostRows)
		return nullptr;
	if (walk->requests == nullptr)
		walk->requests = static_cast<ManyLine *>(MemoryContextAllocZero(walk->context, sizeof(ManyLine)));
	if (walk->requests->failed)
		return nullptr;
	asked = new (palloc(sizeof(KnnAsked))) KnnAsked{};
	asked->index = access->index;
	asked->n_sources = n_sources;
	asked->access = access;
	asked->walk = walk;
	asked->sources = sources;
	asked->k = k;
	asked->edges = edges;
	asked->counts = counts;
	asked->answered = answered;
	asked->state = many_state(access->index, access->heap, snapshot);
	asked->state->batch.size = rows_to_ask(asked->state, knn_rows_to_ask(walk, k));
	if (!worker_finds_entries(access->index, asked->state) || !many_open(asked, walk->requests, walk->context))
		return nullptr;
	asked->query = static_cast<char *>(palloc(vector_bytes(asked->state->shape.element, asked->state->shape.dim)));
	asked->rows = static_cast<engine::Neighbor *>(palloc(asked->state->batch.size * sizeof(engine::Neighbor)));
	asked->fetch = table_index_fetch_begin(access->heap);
	asked->slot = table_slot_create(access->heap, nullptr);
	many_start(walk->requests, asked, n_sources, kDetail);
	return asked;
}

uint32
knn_end_asking(KnnAsked *asked)
{
	many_await(asked->walk->requests, asked, kDetail);
	ExecDropSingleTupleTableSlot(asked->slot);
	table_index_fetch_end(asked->fetch);
	return static_cast<uint32>(Min(asked->stale, uint64{asked->n_sources}));
}

void
knn_await_all(KnnWalk *walk)
{
	if (walk->requests != nullptr)
		many_await_all(walk->requests, kDetail);
}

void
knn_end_requests(KnnWalk *walk)
{
	if (walk->requests != nullptr)
		many_close(walk->requests);
}

} // namespace vectorgpu::am
