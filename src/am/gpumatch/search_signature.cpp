// Search of one segment by signatures: the rows with the most matches are candidates, their exact distances are offered. A
// search begins with a few candidates for each row wanted and takes four times as many in each further round; an exact one
// looks at every row. PG dialect; holds one content lock at a time.
#include "am/gpumatch/gpumatch.hpp"

#include <algorithm>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kLeastCandidates = 400;
constexpr uint64 kCandidatesPerRow = 16;
constexpr uint64 kRowsPerRead = 1024;

/// Offers a row by its number in the segment.
bool
offer_row(const SegmentSearch *search, const MatchSearch *query, uint64 number, RowId row, ValueBuffer *value)
{
	engine::match::Parts parts;
	double distance;

	if (!kMatchValues.read_value(search->index, search->meta, search->segment, number, value, search->strategy))
		return false;
	if (!engine::match::open_parts(value->data + sizeof(uint32), stored_bytes(value->data) - sizeof(uint32), &parts))
		elog(ERROR, "row (%u,%u) has no stored value", row_id_block(row), row_id_offset(row));
	distance = match_exact_distance(query, search->meta->metric, parts);
	++*search->n_compared;
	search_offer(search, &distance, &row, 1);
	return true;
}

bool
offer_all(const SegmentSearch *search, const MatchSearch *query, ValueBuffer *value)
{
	RowId *rows = static_cast<RowId *>(palloc(kRowsPerRead * sizeof(RowId)));
	uint8 dead[kRowsPerRead / 8];

	for (uint64 first = 0; first < search->segment->n_rows; first += kRowsPerRead)
	{
		const uint64 n = Min(kRowsPerRead, search->segment->n_rows - first);

		if (!stream_read(search->index, search->meta, search->segment, StreamKind::kRowIds, first * sizeof(RowId),
				n * sizeof(RowId), rows, search->strategy) ||
			!stream_read(search->index, search->meta, search->segment, StreamKind::kTombstones, first / 8, (n + 7) / 8,
				dead, search->strategy))
			return false;
		for (uint64 i = 0; i < n; i++)
		{
			CHECK_FOR_INTERRUPTS();
			if ((dead[i / 8] & (1 << i % 8)) == 0 && !offer_row(search, query, first + i, rows[i], value))
				return false;
		}
	}
	return true;
}

} // namespace

bool
match_search_signatures(const SegmentSearch *search, const MatchSearch *query)
{
	const uint64 n_rows = search->segment->n_rows;
	const uint64 wanted = Max(kLeastCandidates, search->wanted * kCandidatesPerRow);
	ValueBuffer value = {nullptr, 0};
	engine::TopK candidates;
	engine::Neighbor *buffer;
	uint64 n;

	if (search->exact || search->round > 16 || wanted << (2 * search->round) >= n_rows)
		return offer_all(search, query, &value);

	n = wanted << (2 * search->round);
	buffer = static_cast<engine::Neighbor *>(palloc_extended(engine::topk_buffer_bytes(n), MCXT_ALLOC_HUGE));
	engine::topk_init(&candidates, n, buffer, engine::topk_buffer_bytes(n) / sizeof(engine::Neighbor), nullptr);
	if (!match_count_segment(search, query, &candidates, true))
		return false;
	n = engine::topk_finish(&candidates);
	*search->coverage = Min(*search->coverage, Coverage::kPart);
	std::sort(buffer, buffer + n,
		[](const engine::Neighbor &a, const engine::Neighbor &b) { return a.row < b.row; });
	for (uint64 i = 0; i < n; i++)
	{
		RowId row;

		CHECK_FOR_INTERRUPTS();
		if (!stream_read(search->index, search->meta, search->segment, StreamKind::kRowIds,
				buffer[i].row * sizeof(RowId), sizeof(row), &row, search->strategy) ||
			!offer_row(search, query, buffer[i].row, row, &value))
			return false;
	}
	pfree(buffer);
	return true;
}

} // namespace vectorgpu::am
