// Search by signatures: the rows of all segments with the most matches are candidates, their exact distances are
// offered. A search begins with a few candidates for each row wanted and takes four times as many in each further
// round; an exact one looks at every row. PG dialect; holds one content lock at a time.
#include "am/gpumatch/gpumatch.hpp"

#include "am/method/dead_rows.hpp"
#include "am/scan/row_lookup.hpp"

#include <algorithm>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kLeastCandidates = 400;
constexpr uint64 kCandidatesPerRow = 16;
constexpr uint32 kMostRounds = 16; // keeps shifts small
constexpr uint64 kRowsPerRead = 1024;

/// Offers a row by its number in the segment. *n_scored: SegmentSearch::n_compared or n_rescored.
bool
offer_row(const SegmentSearch *search, const MatchSearch *query, uint64 number, RowId row, ValueBuffer *value,
	uint64 *n_scored)
{
	engine::match::Parts parts;
	double distance;

	if (!kMatchValues.read_value(search->index, search->meta, search->segment, number, value, search->strategy))
		return false;
	if (!engine::match::open_parts(value->data + sizeof(uint32), stored_bytes(value->data) - sizeof(uint32), &parts))
		elog(ERROR, "row (%u,%u) has no stored value", row_id_block(row), row_id_offset(row));
	distance = match_exact_distance(query, search->meta->metric, parts);
	++*n_scored;
	search_offer(search, &distance, &row, 1);
	return true;
}

bool
offer_all(const SegmentSearch *search, const MatchSearch *query, ValueBuffer *value)
{
	RowId *rows = static_cast<RowId *>(palloc(kRowsPerRead * sizeof(RowId)));
	uint8 dead[kRowsPerRead / 8] = {};

	for (uint64 first = 0; first < search->segment->n_rows; first += kRowsPerRead)
	{
		const uint64 n = Min(kRowsPerRead, search->segment->n_rows - first);

		if (!stream_read(search->index, search->meta, search->segment, StreamKind::kRowIds, first * sizeof(RowId),
				n * sizeof(RowId), rows, search->strategy) ||
			(search_drops_rows(search) && !search_read_dead(search, first, n, dead)))
			return false;
		for (uint64 i = 0; i < n; i++)
		{
			CHECK_FOR_INTERRUPTS();
			if ((dead[i / 8] & (1 << i % 8)) == 0 &&
				!offer_row(search, query, first + i, rows[i], value, search->n_compared))
				return false;
		}
	}
	return true;
}

/// The candidates of a batch's round: ApproximateSearch::am_state.
struct Candidates
{
	uint64 wanted;  // number of candidates asked for
	uint32 segment; // with conditions on key columns: the id of theirs; else 0
	RowId *rows;    // [n] ascending
	uint64 n;
};

/// Counts all segments, or with conditions on key columns only the one that is searched, whose passing rows are known.
/// False if a page was foreign.
bool
count_candidates(const SegmentSearch *search, const MatchSearch *query, uint64 wanted, Candidates *candidates)
{
	const Size n_bytes = engine::topk_buffer_bytes(wanted);
	engine::Neighbor *buffer = static_cast<engine::Neighbor *>(palloc_extended(n_bytes, MCXT_ALLOC_HUGE));
	engine::TopK topk;

	engine::topk_init(&topk, wanted, buffer, n_bytes / sizeof(engine::Neighbor), nullptr);
	for (uint32 i = 0; i < search->meta->n_segments; i++)
	{
		SegmentSearch one = *search;

		if (search->passing == nullptr)
			one.segment = &search->meta->segments[i];
		else if (search->meta->segments[i].id != search->segment->id)
			continue;
		if (one.segment->n_rows > 0 && !match_count_segment(&one, query, &topk))
			return false;
		*search->n_compared += one.segment->n_rows;
	}
	candidates->n = engine::topk_finish(&topk);
	candidates->rows = static_cast<RowId *>(
		MemoryContextAllocHuge(search->approximate->am_context, Max(candidates->n, UINT64CONST(1)) * sizeof(RowId)));
	for (uint64 i = 0; i < candidates->n; i++)
		candidates->rows[i] = buffer[i].row;
	std::sort(candidates->rows, candidates->rows + candidates->n);
	candidates->wanted = wanted;
	pfree(buffer);
	return true;
}

/// The round's candidates, counted when its first segment, or this one, is searched. Null if a page was foreign.
const Candidates *
round_candidates(const SegmentSearch *search, const MatchSearch *query, uint64 wanted)
{
	const uint32 segment = search->passing != nullptr ? search->segment->id : 0;
	Candidates *candidates = static_cast<Candidates *>(*search->approximate->am_state);

	if (candidates != nullptr && candidates->rows != nullptr && candidates->wanted == wanted &&
		candidates->segment == segment)
		return candidates;
	if (candidates == nullptr)
		*search->approximate->am_state = candidates =
			static_cast<Candidates *>(MemoryContextAllocZero(search->approximate->am_context, sizeof(Candidates)));
	if (candidates->rows != nullptr)
		pfree(candidates->rows);
	candidates->rows = nullptr;
	candidates->segment = segment;
	return count_candidates(search, query, wanted, candidates) ? candidates : nullptr;
}

} // namespace

uint64
match_n_candidates(const MetaData *meta, uint32 round, uint64 wanted)
{
	const uint64 least = Max(kLeastCandidates, wanted * kCandidatesPerRow);
	uint64 n_rows = 0;

	for (uint32 i = 0; i < meta->n_segments; i++)
		n_rows += meta->segments[i].n_rows;
	return round > kMostRounds || least << (2 * round) >= n_rows ? 0 : least << (2 * round);
}

bool
match_search_signatures(const SegmentSearch *search, const MatchSearch *query)
{
	uint64 wanted = search->approximate->exact ? 0
											   : match_n_candidates(search->meta, search->approximate->round,
													 search->approximate->n_before + search->approximate->wanted);
	ValueBuffer value = {nullptr, 0};
	const RowId *rows = search->approximate->candidates;
	uint64 n = search->approximate->n_candidates;
	uint64 *numbers;

	// Where no more rows pass, all of them are candidates.
	if (search->passing != nullptr && wanted >= search->segment->n_rows - search->segment->n_dead)
		wanted = 0;
	if (wanted == 0)
		return offer_all(search, query, &value);
	if (rows == nullptr)
	{
		const Candidates *candidates = round_candidates(search, query, wanted);

		if (candidates == nullptr)
			return false;
		rows = candidates->rows;
		n = candidates->n;
	}
	*search->approximate->coverage = Min(*search->approximate->coverage, Coverage::kPart);
	numbers = static_cast<uint64 *>(palloc_extended(Max(n, UINT64CONST(1)) * sizeof(uint64), MCXT_ALLOC_HUGE));
	if (!find_rows(search->index, search->meta, search->segment, rows, n, numbers, search->strategy))
		return false;
	for (uint64 i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (numbers[i] == kNoRowNumber)
			continue;
		++*search->n_named;
		if (!offer_row(search, query, numbers[i], rows[i], &value, search->n_rescored))
			return false;
	}
	pfree(numbers);
	return true;
}

} // namespace vectorgpu::am
