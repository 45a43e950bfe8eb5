// See ahead_search.hpp.
#include "am/ahead/ahead_search.hpp"

#include "am/feed/copy_feed.hpp"
#include "am/method/row_value.hpp"
#include "am/siblings/many_searches.hpp"
#include "am/scan/worker_scan.hpp"
#include "bridge/client_session.hpp"
#include "bridge/settings.hpp"
#include "pg/fault.hpp"

#include <cstring>

extern "C"
{
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

/// The searches of one call, in the order of AheadTable::wanted.
struct Searches : ManySearches
{
	AheadTable *table;

	bool add(uint64 number) override;
	bool take(uint64 number, const wire::ReplyHeader &header, const void *rows) override;
};

/// Forget requests that fewer than half of the scans have made since the last time.
void
drop_rare(AheadTable *table)
{
	while (table->n_requests > 0 && table->requests[table->n_requests - 1]->n_uses * 2 < table->n_scans)
		table->n_requests--;
	for (uint32 i = 0; i < table->n_requests; i++)
		table->requests[i]->n_uses = 0;
	table->n_scans = 0;
}

/// Bring the requests to the version of the table.
void
take_version(AheadTable *table)
{
	for (uint32 i = 0; i < table->n_requests; i++)
	{
		ScanState *state = &table->requests[i]->state;

		state->meta = table->version->meta;
		state->delta_end = table->version->delta_end;
		state->heap = table->version->heap;
		state->snapshot = table->version->snapshot;
	}
}

bool
Searches::add(uint64 number)
{
	const AheadAnswer *answer = table->wanted[number];
	const Size query_bytes = meta_vector_bytes(&state->meta);
	const char *at = answer->key + MAXALIGN(query_bytes);
	wire::SearchRequest search;

	memcpy(&search, at, sizeof(search));
	search.version = {state->meta.manifest_generation, state->delta_end, state->meta.tombstone_generation};
	at += sizeof(search);
	return put(search, at, at + search.n_probes * sizeof(wire::SegmentProbes), answer->key);
}

bool
Searches::take(uint64 number, const wire::ReplyHeader &header, const void *rows)
{
	AheadAnswer *answer = table->wanted[number];
	const Size n_bytes = header.n_items * sizeof(engine::Neighbor);

	answer->rows =
		static_cast<engine::Neighbor *>(MemoryContextAlloc(table->answer_context, n_bytes + sizeof(engine::Neighbor)));
	memcpy(answer->rows, rows, n_bytes);
	if (!worker_rows_valid(state, answer->rows, header.n_items, table->requests[answer->request]->k))
		return false;
	answer->header = header;
	answer->answered = true;
	pg_atomic_fetch_add_u64(&bridge::shared_state()->n_answered, 1);
	return true;
}

/// Make one search as a scan does, which brings the copy up to date. False: the worker did not answer.
bool
search_alone(Searches *searches, AheadAnswer *answer)
{
	AheadTable *table = searches->table;
	const AheadRequest *request = table->requests[answer->request];
	ScanState state = request->state;
	KeyFilter filter = {};
	Ask ask = {};

	state.query = answer->key;
	if (request->n_program_bytes > 0) // any one's do to bring the copy up to date
	{
		filter.conditions.bytes = request->program;
		filter.conditions.n_bytes = request->n_program_bytes;
		state.filter = &filter;
	}
	ask.k = ask.capacity = request->k;
	ask.rows = static_cast<engine::Neighbor *>(palloc(request->k * sizeof(engine::Neighbor)));
	return ask_worker(searches->index, &state, &ask);
}

} // namespace

bool
ahead_possible(Relation index)
{
	constexpr uint64 kBytesPerKb = 1024;
	ScanState *state = static_cast<ScanState *>(palloc0(sizeof(ScanState)));
	bool possible;

	meta_read(index, nullptr, &state->meta);
	state->am = access_method(index, &state->meta);
	possible = state->am->values == nullptr && worker_holds(state->am, &state->meta) && !gives_candidates(state) &&
		!RelationUsesLocalBuffers(index) &&
		copy_bytes(&state->meta, state->meta.delta_first_row) >=
			static_cast<uint64>(bridge::settings.worker_min_size_kb) * kBytesPerKb;
	pfree(state);
	return possible;
}

bool
ahead_begin(AheadTable *table, Relation index, Relation heap, Snapshot snapshot, uint64 n_queries)
{
	MemoryContext old;
	ScanState *state;

	table->n_places = table->n_answers = 0;
	drop_rare(table);
	if (table->n_requests == 0)
		return false;
	ahead_reserve(table, n_queries * table->n_requests);
	old = MemoryContextSwitchTo(table->answer_context);
	table->wanted = static_cast<AheadAnswer **>(
		palloc_extended(n_queries * table->n_requests * sizeof(AheadAnswer *), MCXT_ALLOC_HUGE));
	state = many_state(index, heap, snapshot);
	state->counters = table->counters;
	table->version = state;
	table->command = snapshot->curcid;
	take_version(table);
	MemoryContextSwitchTo(old);
	return state->am->values == nullptr && worker_finds_entries(index, state);
}

void
ahead_want(AheadTable *table, Relation index, Datum query, const KeyProgram *program)
{
	const ScanState *version = table->version;
	const MemoryContext old = MemoryContextSwitchTo(table->answer_context);
	RowValue value = row_value_open(version->shape.element, query);
	char *aligned = nullptr;

	if (value.dim == version->shape.dim)
	{
		aligned = static_cast<char *>(palloc(vector_bytes(version->shape.element, value.dim)));
		memcpy(aligned, value.vector, vector_bytes(version->shape.element, value.dim));
	}
	row_value_close(&value);
	for (uint32 i = 0; i < table->n_requests && aligned != nullptr; i++)
	{
		AheadRequest *request = table->requests[i];
		wire::SearchRequest search;
		wire::SegmentProbes probes[kMaxSegments];
		Size n_bytes;
		const bool own = program != nullptr && request->n_program_bytes > 0;
		char *key;
		AheadAnswer *answer;

		request->state.query = aligned;
		key = ahead_key(index, &request->state, request->k, own ? program->bytes : request->program,
			own ? program->n_bytes : request->n_program_bytes, &search, probes, &n_bytes);
		answer = key != nullptr ? ahead_insert(table, key, n_bytes) : nullptr;

		if (answer == nullptr)
			continue;
		answer->request = i;
		answer->number = table->n_answers - 1;
		table->wanted[answer->number] = answer;
	}
	if (aligned != nullptr)
		pfree(aligned);
	MemoryContextSwitchTo(old);
}

uint64
ahead_search(AheadTable *table, Relation index)
{
	constexpr char kDetail[] = "The searches of a join are made one at a time.";
	Searches searches = {};
	uint64 n = 0;
	uint64 stale;
	bool failed;

	(void) VG_FAULT("ahead_search");
	searches.index = index;
	searches.state = table->version;
	searches.table = table;
	if (table->n_answers == 0 || !many_open(&searches))
		return 0;
	stale = many_search(&searches, 0, table->n_answers, kDetail, &failed);
	if (stale < table->n_answers && search_alone(&searches, table->wanted[stale]) && bridge::session_ready(false))
		(void) many_search(&searches, stale, table->n_answers, kDetail, &failed);
	for (uint64 i = 0; i < table->n_answers; i++)
		n += table->wanted[i]->answered;
	table->n_searches += n;
	return n;
}

Size
ahead_bytes_per_query(const AheadTable *table)
{
	Size n = 0;

	for (uint32 i = 0; i < table->n_requests; i++)
	{
		const AheadRequest *request = table->requests[i];

		n += 4 * sizeof(AheadAnswer) + 2 * meta_vector_bytes(&request->state.meta) + sizeof(wire::SearchRequest) +
			request->state.meta.n_segments * sizeof(wire::SegmentProbes) + request->n_program_bytes +
			request->k * sizeof(engine::Neighbor);
	}
	return n;
}

} // namespace vectorgpu::am
