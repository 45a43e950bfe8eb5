// See ahead_table.hpp.
#include "am/ahead/ahead_table.hpp"

#include "am/scan/scan_aliases.hpp"
#include "am/siblings/scan_ahead.hpp"

#include <bit>
#include <cstring>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kPlacesPerAnswer = 2;
constexpr uint64 kMoreRows = 16;
constexpr uint64 kMostTimes = 4; // the rows that are asked for
constexpr uint64 kHitsBeforePages = 64;
constexpr uint64 kMostPrefetched = 16; // rows of an answer

/// The rows to ask for ahead. An exact order is the same however it is cut, and the number that a scan asks for drifts
/// with the share of dead rows (batch_plan.cpp). So half as many more are asked for there, or as many as before. known:
/// the request that was noted last in this place; null: none.
uint64
rows_to_ask(const ScanState *state, uint64 k, const AheadRequest *known)
{
	if (state->am->approximate != nullptr)
		return k;
	if (known != nullptr && known->k >= k && known->k <= kMostTimes * (k + kMoreRows))
		return known->k;
	return Min(k + k / 2 + kMoreRows, kMostAheadRows);
}

/// A hash of a key, whose bytes are a multiple of 8: four chains of words, so that the processor works on all of them.
uint64
hash_of(const char *key, Size n_bytes)
{
	constexpr uint64 kFactor = UINT64CONST(0x9E3779B97F4A7C15);
	uint64 chains[4] = {1, 2, 3, 4};
	uint64 hash = n_bytes;

	for (Size i = 0; i < n_bytes / sizeof(uint64); i++)
	{
		uint64 word;

		memcpy(&word, key + i * sizeof(word), sizeof(word));
		chains[i % 4] = std::rotl((chains[i % 4] ^ word) * kFactor, 29);
	}
	for (const uint64 chain : chains)
		hash = std::rotl((hash ^ chain) * kFactor, 31);
	return hash * kFactor >> 32 ^ hash;
}

/// The place that has the key, or the free one that it would take.
AheadAnswer *
find(const AheadTable *table, const char *key, Size n_bytes, uint64 hash)
{
	for (uint64 i = hash & (table->n_places - 1);; i = (i + 1) & (table->n_places - 1))
	{
		AheadAnswer *answer = &table->answers[i];

		if (answer->key == nullptr ||
			(answer->hash == hash && answer->n_key_bytes == n_bytes && memcmp(answer->key, key, n_bytes) == 0))
			return answer;
	}
}

/// True if the answers in the table are right for a scan of this version: nothing was merged or removed since, and no
/// row that shares an entry has got one of its own.
bool
is_current(const AheadTable *table, const ScanState *state)
{
	return table->version != nullptr && table->version->snapshot == state->snapshot &&
		table->command == state->snapshot->curcid &&
		table->version->meta.manifest_generation == state->meta.manifest_generation &&
		table->version->aliases.first == state->aliases.first &&
		table->version->meta.tombstone_generation == state->meta.tombstone_generation;
}

/// True if such a request of a scan can be made for other queries.
bool
may_be_ahead(const ScanState *state, uint64 k)
{
	return state->rounds.round == 0 && state->am->values == nullptr && k <= kMostAheadRows &&
		(state->filter == nullptr || state->filter->rows == nullptr);
}

/// True but for the conditions, which the next row may have others of.
bool
same_request(const AheadRequest *request, const ScanState *state, uint64 k)
{
	return request->k == k && request->state.plan.step_begin == state->plan.step_begin &&
		request->state.plan.exact == state->plan.exact && request->state.plan.by_rank == state->plan.by_rank &&
		request->state.plan.from_first == state->plan.from_first &&
		(state->am->approximate == nullptr || request->state.batch.size == state->batch.size);
}

void
keep_program(AheadTable *table, AheadRequest *request, const uint8 *program, Size n_bytes)
{
	if (request->n_program_bytes == n_bytes && (n_bytes == 0 || memcmp(request->program, program, n_bytes) == 0))
		return;
	if (request->program != nullptr)
		pfree(request->program);
	request->program = nullptr;
	request->n_program_bytes = n_bytes;
	if (n_bytes > 0)
	{
		request->program = static_cast<uint8 *>(MemoryContextAlloc(table->context, n_bytes));
		memcpy(request->program, program, n_bytes);
	}
}

/// Note the request number `at` of the scan.
void
note(AheadTable *table, uint32 at, const ScanState *state, uint64 k, const uint8 *program, Size n_bytes)
{
	AheadRequest *request = table->requests[at];

	if (at >= table->n_requests || !same_request(request, state, k))
	{
		if (request == nullptr)
			request = static_cast<AheadRequest *>(MemoryContextAllocZero(table->context, sizeof(AheadRequest)));
		table->requests[at] = request;
		request->state = *state;
		request->state.counters = table->counters;
		request->state.rounds.am_state = nullptr;
		request->state.query = nullptr;
		request->state.filter = nullptr;
		request->state.strategy = nullptr;
		request->state.sample = nullptr;
		request->state.ahead = nullptr;
		request->state.first_answer = nullptr;
		request->k = k;
		request->n_uses = 0;
		table->n_requests = Max(table->n_requests, at + 1);
	}
	keep_program(table, request, program, n_bytes);
	request->n_uses++;
}

/// Ask for the memory of the k rows that the next scans will fetch: of the next answer's rows themselves, of the one
/// behind that what leads to them.
void
prefetch_after(const AheadTable *table, const AheadAnswer *answer, uint64 k)
{
	for (uint64 number = answer->number + 1; number < Min(answer->number + 3, table->n_answers); number++)
	{
		const AheadAnswer *next = table->wanted[number];

		for (uint64 i = 0; i < Min(Min(next->header.n_items, k), kMostPrefetched) && next->answered; i++)
			if (number == answer->number + 1)
				recent_pages_prefetch_row(table->pages, next->rows[i].row);
			else
				recent_pages_prefetch_page(table->pages, next->rows[i].row);
	}
}

} // namespace

AheadTable *
ahead_make()
{
	AheadTable *table = static_cast<AheadTable *>(palloc0(sizeof(AheadTable)));

	table->context = CurrentMemoryContext;
	table->counters = static_cast<ScanCounters *>(palloc0(sizeof(ScanCounters)));
	table->answer_context =
		AllocSetContextCreate(CurrentMemoryContext, "vectorgpu answers ahead", ALLOCSET_DEFAULT_SIZES);
	return table;
}

void
ahead_set(IndexScanDesc scan, AheadTable *table)
{
	static_cast<ScanState *>(scan->opaque)->ahead = table;
}

AheadTable *
ahead_of(IndexScanDesc scan)
{
	return static_cast<const ScanState *>(scan->opaque)->ahead;
}

char *
ahead_key(Relation index, const ScanState *state, uint64 k, const uint8 *program, Size n_program_bytes,
	wire::SearchRequest *search, wire::SegmentProbes *probes, Size *n_bytes)
{
	const Size query_bytes = MAXALIGN(meta_vector_bytes(&state->meta));
	uint32 n_probes;
	char *key;
	char *at;

	if (!choose_probes(index, state, probes, &n_probes))
		return nullptr;
	fill_search(state, k, n_probes, search);
	search->program_bytes = static_cast<uint32>(n_program_bytes);
	*n_bytes = query_bytes + sizeof(*search) + n_probes * sizeof(*probes) + n_program_bytes;
	key = static_cast<char *>(palloc0(*n_bytes));
	memcpy(key, state->query, meta_vector_bytes(&state->meta));
	at = key + query_bytes;
	memcpy(at, search, sizeof(*search));
	memset(at + offsetof(wire::SearchRequest, version), 0, sizeof(search->version));
	at += sizeof(*search);
	memcpy(at, probes, n_probes * sizeof(*probes));
	if (n_program_bytes > 0)
		memcpy(at + n_probes * sizeof(*probes), program, n_program_bytes);
	return key;
}

bool
ahead_has_answers(const ScanState *state)
{
	return state->ahead != nullptr && state->ahead->n_places > 0;
}

void
ahead_foresee(IndexScanDesc scan, AheadTable *table)
{
	ScanState *state = static_cast<ScanState *>(scan->opaque);
	const KeyProgram *conditions;

	scan_start(scan);
	if (table->n_requests > 0 || !asks_worker_first(scan))
		return;

	const ScanPlan before = plan_first_batch(scan);

	conditions = state->filter != nullptr ? &state->filter->conditions : nullptr;
	if (may_be_ahead(state, state->batch.size))
		note(table, 0, state, rows_to_ask(state, state->batch.size, nullptr),
			conditions != nullptr ? conditions->bytes : nullptr, conditions != nullptr ? conditions->n_bytes : 0);
	forget_first_batch(scan, before);
}

bool
ahead_answer(Relation index, ScanState *state, Ask *ask)
{
	AheadTable *table = state->ahead;
	wire::SearchRequest search;
	wire::SegmentProbes probes[kMaxSegments];
	const uint8 *program = state->filter != nullptr ? state->filter->conditions.bytes : nullptr;
	const Size n_program_bytes = state->filter != nullptr ? state->filter->conditions.n_bytes : 0;
	const AheadAnswer *answer = nullptr;
	Size n_key_bytes;
	char *key;
	uint64 k;

	if (table == nullptr || ask->after != nullptr || !may_be_ahead(state, ask->k))
		return false;
	if (state->place.n_before == 0)
	{
		table->n_made = 0;
		table->n_scans++;
	}
	k = rows_to_ask(state, ask->k, table->n_made < table->n_requests ? table->requests[table->n_made] : nullptr);
	if (table->n_places > 0 && is_current(table, state))
	{
		key = ahead_key(index, state, k, program, n_program_bytes, &search, probes, &n_key_bytes);
		if (key != nullptr)
		{
			answer = find(table, key, n_key_bytes, hash_of(key, n_key_bytes));
			pfree(key);
		}
	}
	if (table->n_made < kMostAheadRequests)
		note(table, table->n_made++, state, k, program, n_program_bytes);
	if (answer == nullptr || !answer->answered)
		return false;
	ask->n_rows = Min(answer->header.n_items, ask->k);
	memcpy(ask->rows, answer->rows, ask->n_rows * sizeof(engine::Neighbor));
	take_reply_header(state, &answer->header, ask);
	table->n_hits++;
	if (table->pages == nullptr && table->n_hits == kHitsBeforePages && state->heap != nullptr)
		table->pages = recent_pages_make(table->context, state->heap, table->page_bytes);
	if (table->pages != nullptr)
		prefetch_after(table, answer, ask->k);
	return true;
}

void
ahead_hold_page(AheadTable *table, IndexScanDesc scan, RowId row)
{
	if (table->pages != nullptr)
		recent_pages_hold(table->pages, scan, row);
}

void
ahead_reserve(AheadTable *table, uint64 n)
{
	MemoryContextReset(table->answer_context);
	table->n_places = 1;
	while (table->n_places < n * kPlacesPerAnswer)
		table->n_places *= 2;
	table->answers = static_cast<AheadAnswer *>(MemoryContextAllocExtended(
		table->answer_context, table->n_places * sizeof(AheadAnswer), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO));
	table->n_answers = 0;
}

AheadAnswer *
ahead_insert(AheadTable *table, const char *key, Size n_bytes)
{
	const uint64 hash = hash_of(key, n_bytes);
	AheadAnswer *answer = find(table, key, n_bytes, hash);

	if (answer->key != nullptr)
		return nullptr;
	*answer = {.key = key, .n_key_bytes = n_bytes, .hash = hash};
	table->n_answers++;
	return answer;
}

} // namespace vectorgpu::am
