// See scan_aliases.hpp, and "Shared entries" in src/storage/README.md.
//
// VACUUM gives a row that shares an entry one of its own, then says so in the metapage (alias_first), and only then
// removes the entry. So a batch that was found while alias_first stayed the same has all entries that the scan's
// aliases name. Otherwise the batch is dropped and found again.
#include "am/scan/scan_aliases.hpp"

#include "am/alias/alias_map.hpp"
#include "am/scan/scan_source.hpp"
#include "pg/fault.hpp"

#include <algorithm>

extern "C"
{
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kRowsPerOffer = 1024;
constexpr uint64 kMostHeld = 4096; // with more rows at one distance their order is given up

/// Zeros, the scores of rows that are in row id order only.
const double kNoScores[kRowsPerOffer] = {};

bool
same_score(double a, double b)
{
	return !engine::neighbor_less({a, 0}, {b, 0}) && !engine::neighbor_less({b, 0}, {a, 0});
}

/// Grow an array of the scan to n elements, of which n_kept are kept.
template <class T>
void
reserve(const ScanState *state, T **array, uint64 *capacity, uint64 n_kept, uint64 n)
{
	T *grown;

	if (n <= *capacity)
		return;
	n = Max(n, 2 * *capacity);
	grown = static_cast<T *>(MemoryContextAllocHuge(state->context, n * sizeof(T)));
	std::copy(*array, *array + n_kept, grown);
	if (*array != nullptr)
		pfree(*array);
	*array = grown;
	*capacity = n;
}

/// Back to the first entry at the score of the last one found. Its rows come again, by other entries than before.
void
rewind_to_ties(ScanState *state)
{
	ScanAliases *aliases = &state->aliases;

	// Before the rows whose distance is NaN the place is no entry's.
	if (state->phase != ScanPhase::kScored || !state->place.has_last || state->place.last.row == PG_UINT64_MAX)
		return;
	if (aliases->skipped != nullptr)
		pfree(aliases->skipped);
	aliases->skipped = nullptr;
	aliases->n_skipped = 0;
	aliases->n_held = 0;
	if (aliases->n_tied > 0 && same_score(state->place.last.score, aliases->tied_score))
	{
		aliases->skipped =
			static_cast<RowId *>(MemoryContextAllocHuge(state->context, aliases->n_tied * sizeof(RowId)));
		aliases->n_skipped = aliases->n_tied;
		aliases->skipped_score = aliases->tied_score;
		std::copy(aliases->tied, aliases->tied + aliases->n_tied, aliases->skipped);
		std::sort(aliases->skipped, aliases->skipped + aliases->n_skipped);
	}
	state->place.last.row = 0; // before every row id
}

/// False: another index has not found the row, as it may have found one that shares its entry.
bool
scan_may_return(const ScanState *state, RowId row)
{
	return state->filter == nullptr || state->filter->rows == nullptr || row_set_has(state->filter->rows, row);
}

bool
is_skipped(const ScanState *state, const engine::Neighbor &row)
{
	const ScanAliases *aliases = &state->aliases;

	return aliases->n_skipped > 0 && same_score(row.score, aliases->skipped_score) &&
		std::binary_search(aliases->skipped, aliases->skipped + aliases->n_skipped, row.row);
}

void
put(ScanState *state, const engine::Neighbor &row)
{
	ScanRows *out = &state->out;

	if (is_skipped(state, row) || !scan_may_return(state, row.row) ||
		(state->rounds.relaxed && state->returned.n > 0 &&
			std::binary_search(state->returned.rows, state->returned.rows + state->returned.n, row.row)))
		return;
	reserve(state, &out->own, &out->capacity, out->n, out->n + 1);
	out->own[out->n++] = row;
}

/// True if the batch has the entry of this row.
bool
batch_has(const ScanState *state, const engine::Neighbor &row)
{
	const engine::Neighbor *end = state->batch.rows + state->batch.n_rows;
	const engine::Neighbor *found =
		std::lower_bound(static_cast<const engine::Neighbor *>(state->batch.rows), end, row, engine::neighbor_less);

	return found < end && found->row == row.row;
}

/// True if an entry returns its own row. A row that shares another entry has one of its own too where a VACUUM that
/// makes these has not finished, or was interrupted: then the other entry returns the row. Only a relaxed scan, which
/// may not find the other one soon, returns the row by whichever comes first.
bool
returns_itself(const ScanState *state, const RowMap *map, const engine::Neighbor &entry)
{
	uint64 key;

	if (map == nullptr || !map_find(map, entry.row, &key))
		return true;
	return state->rounds.relaxed && !state->rounds.exhaustive && state->am->approximate != nullptr &&
		!batch_has(state, {entry.score, key});
}

/// The batch's entries, each with the rows that share it.
void
put_scored(ScanState *state, const RowMap *map)
{
	for (uint64 i = 0; i < state->batch.n_rows; i++)
	{
		const engine::Neighbor entry = state->batch.rows[i];

		for (const MappedRow *alias = map != nullptr ? map_newest(map, entry.row) : nullptr; alias != nullptr;
			alias = map_older(map, alias))
			put(state, {entry.score, alias->row});
		if (returns_itself(state, map, entry))
			put(state, entry);
	}
}

/// In the order of row ids aliases and entries were offered alike, a copy twice.
void
put_once(ScanState *state)
{
	for (uint64 i = 0; i < state->batch.n_rows; i++)
		if (i == 0 || state->batch.rows[i].row != state->batch.rows[i - 1].row)
			put(state, state->batch.rows[i]);
}

/// True if the scan returns rows in their order.
bool
keeps_order(const ScanState *state)
{
	return state->am->approximate == nullptr || !state->rounds.relaxed || state->rounds.exhaustive;
}

/// Sorts the rows of the batch, and holds back those that rows of the next one may precede.
void
sort_and_hold(ScanState *state)
{
	ScanAliases *aliases = &state->aliases;
	ScanRows *out = &state->out;
	uint64 n = out->n;

	std::sort(out->own, out->own + out->n, engine::neighbor_less);
	if (!state->batch.full || !scan_has_aliases(state) || !keeps_order(state))
		return;
	const double last =
		state->batch.n_rows > 0 ? state->batch.rows[state->batch.n_rows - 1].score : state->place.last.score;

	while (n > 0 && same_score(out->own[n - 1].score, last))
		n--;
	if (out->n - n > kMostHeld || (state->bounds.bounded && scan_is_behind_bound(state, last)))
		return;
	reserve(state, &aliases->held, &aliases->held_capacity, 0, out->n - n);
	std::copy(out->own + n, out->own + out->n, aliases->held);
	aliases->n_held = out->n - n;
	out->n = n;
}

/// Sets state->out for the batch. False: VACUUM has resolved aliases since the scan read them.
bool
find_rows_of_batch(Relation index, ScanState *state)
{
	const bool scored = state->phase == ScanPhase::kScored;
	const RowMap *map = nullptr;

	state->out.n = state->out.next = 0;
	state->out.rows = state->batch.rows;
	if (!scan_has_aliases(state) && !(scored && state->aliases.were))
	{
		state->out.n = state->batch.n_rows;
		return true;
	}
	(void) VG_FAULT("scan_aliases");
	if (scan_has_aliases(state))
	{
		if (meta_alias_first(index) != state->aliases.first)
			return false;
		map = alias_map(index, &state->meta, state->aliases.end);
		if (map == nullptr)
			return false;
	}
	if (scored)
	{
		for (uint64 i = 0; i < state->aliases.n_held; i++)
			put(state, state->aliases.held[i]);
		state->aliases.n_held = 0;
		put_scored(state, map);
		sort_and_hold(state);
	}
	else
		put_once(state);
	state->out.rows = state->out.own;
	return true;
}

} // namespace

void
scan_read_aliases(Relation index, ScanState *state, bool *foreign)
{
	const uint64 end = alias_end(index, &state->meta, foreign);

	if (*foreign)
		return;
	if (state->phase == ScanPhase::kStart)
		state->aliases.were = end > state->meta.alias_first;
	else if (state->aliases.were && state->aliases.first != state->meta.alias_first)
		rewind_to_ties(state);
	// Without aliases at the scan's start, later ones are of rows that its snapshot does not see.
	state->aliases.first = state->meta.alias_first;
	state->aliases.end = state->aliases.were ? end : state->meta.alias_first;
	*foreign = !scan_find_entries(index, state);
}

bool
scan_find_entries(Relation index, ScanState *state)
{
	KeyFilter *filter = state->filter;
	const MappedRow *aliases;
	const RowMap *map;
	MemoryContext old;
	RowId *keys;
	uint64 n_aliases;
	uint64 n = 0;

	if (filter == nullptr || filter->rows == nullptr)
		return true;
	if (filter->entries.rows != filter->rows->rows) // found for a version before
		pfree(const_cast<RowId *>(filter->entries.rows));
	filter->entries = *filter->rows;
	if (state->aliases.end <= state->aliases.first)
		return true;
	map = alias_map(index, &state->meta, state->aliases.end);
	if (map == nullptr)
		return false;
	aliases = map_entries(map, &n_aliases);
	old = MemoryContextSwitchTo(state->context);
	keys = static_cast<RowId *>(palloc_extended(Max(n_aliases, UINT64CONST(1)) * sizeof(RowId), MCXT_ALLOC_HUGE));
	if (filter->rows->n_blocks == 0 && filter->rows->n_rows < n_aliases)
	{
		for (uint64 i = 0; i < filter->rows->n_rows; i++)
			n += map_find(map, filter->rows->rows[i], &keys[n]);
	}
	else
	{
		for (uint64 i = 0; i < n_aliases; i++)
			if (row_set_has(filter->rows, aliases[i].row))
				keys[n++] = aliases[i].value;
	}
	filter->entries = row_set_with(filter->rows, keys, n);
	pfree(keys);
	MemoryContextSwitchTo(old);
	return true;
}

bool
scan_has_aliases(const ScanState *state)
{
	return state->aliases.end > state->aliases.first &&
		(state->phase == ScanPhase::kScored || state->phase == ScanPhase::kAll);
}

bool
offer_aliases(Relation index, const ScanState *state, engine::TopK *topk)
{
	const RowMap *map = alias_map(index, &state->meta, state->aliases.end);
	const MappedRow *entries;
	RowId rows[kRowsPerOffer];
	uint64 n;

	if (map == nullptr)
		return false;
	entries = map_entries(map, &n);
	for (uint64 first = 0; first < n; first += kRowsPerOffer)
	{
		const uint64 part = Min(kRowsPerOffer, n - first);

		for (uint64 i = 0; i < part; i++)
			rows[i] = entries[first + i].row;
		engine::topk_push(topk, kNoScores, rows, part, nullptr, 0);
	}
	return true;
}

void
scan_next_rows(Relation index, Snapshot snapshot, ScanState *state)
{
	const uint64 size = state->batch.size;
	const ScanPlan plan = state->plan;
	const LeftOutRows left_out = state->left_out;
	const uint32 round = state->rounds.round;
	const bool exhaustive = state->rounds.exhaustive;

	for (int n_foreign = 0;;)
	{
		// The rows of the last entry are held.
		if (state->phase == ScanPhase::kScored && scan_has_aliases(state))
			state->batch.size = size + 1;
		scan_next_batch(index, snapshot, state);
		if (find_rows_of_batch(index, state))
			return;
		CHECK_FOR_INTERRUPTS();
		// A page of the aliases was foreign, and VACUUM has not resolved them.
		if (meta_alias_first(index) == state->aliases.first && ++n_foreign >= kPageTries)
			page_recycled(index, 0);
		state->batch.size = size;
		state->plan = plan;
		state->left_out = left_out;
		state->rounds.round = round;
		state->rounds.exhaustive = exhaustive;
		state->bounds.skips_segments = false;
		scan_read_version(index, snapshot, state);
	}
}

void
scan_note_tied(ScanState *state)
{
	ScanAliases *aliases = &state->aliases;
	const double score = state->batch.rows[state->batch.n_rows - 1].score;

	if (!aliases->were || state->phase != ScanPhase::kScored)
		return;
	if (aliases->n_tied > 0 && !same_score(aliases->tied_score, score))
		aliases->n_tied = 0;
	aliases->tied_score = score;
	for (uint64 i = 0; i < state->out.n; i++)
	{
		if (!same_score(state->out.rows[i].score, score))
			continue;
		reserve(state, &aliases->tied, &aliases->tied_capacity, aliases->n_tied, aliases->n_tied + 1);
		aliases->tied[aliases->n_tied++] = state->out.rows[i].row;
	}
}

} // namespace vectorgpu::am
