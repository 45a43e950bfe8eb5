// From candidates to rows: canonical distances from the full vectors, or from the table; from halves first, if these
// are kept. See ivf_search.hpp. PG dialect; holds one content lock at a time.
#include "am/gpuivf/ivf_search.hpp"

#include "am/scan/row_lookup.hpp"
#include "storage/stream.hpp"
#include "am/method/dead_rows.hpp"
#include "engine/distance/distance.hpp"
#include "engine/ivf/halves.hpp"

#include <algorithm>
#include <cmath>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kRowsPerRead = 1024;

/// Rows whose canonical distances are unknown.
struct Survivors
{
	uint64 n;
	uint64 *places;
	RowId *rows;
	double *scores; // from kVectors: canonical, or by halves a lower bound of the canonical ones
};

void *
allocate(Size n_bytes)
{
	return MemoryContextAllocHuge(CurrentMemoryContext, Max(n_bytes, 1));
}

/// Row ids of the places [n], without dead rows. False if a page was foreign.
bool
rows_of_places(const SegmentSearch *search, const uint64 *places, uint64 n, Survivors *rows)
{
	const SegmentEntry *segment = search->segment;
	uint32 *numbers = static_cast<uint32 *>(allocate(n * sizeof(uint32)));
	uint64 *items = static_cast<uint64 *>(allocate(n * sizeof(uint64)));
	uint8 *dead = static_cast<uint8 *>(allocate(n));
	uint64 kept = 0;

	rows->places = static_cast<uint64 *>(allocate(n * sizeof(uint64)));
	rows->rows = static_cast<RowId *>(allocate(n * sizeof(RowId)));
	rows->scores = static_cast<double *>(allocate(n * sizeof(double)));
	if (!stream_gather(
			search->index, search->meta, segment, kListRowStream, sizeof(uint32), places, n, numbers, search->strategy))
		return false;
	for (uint64 i = 0; i < n; i++)
	{
		if (numbers[i] >= segment->n_rows)
			page_corrupted(search->index, segment->streams[static_cast<int>(kListRowStream)].start_block,
				"A list has a row that the segment does not have.");
	}
	if (segment->n_dead > 0 && !search_gather_dead(search, numbers, n, items, dead))
		return false;
	for (uint64 i = 0; i < n; i++)
	{
		if (segment->n_dead > 0 && dead[i] != 0)
			continue;
		rows->places[kept] = places[i];
		items[kept++] = numbers[i];
	}
	rows->n = kept;
	if (!stream_gather(search->index, search->meta, segment, StreamKind::kRowIds, sizeof(RowId), items, kept,
			rows->rows, search->strategy))
		return false;
	pfree(numbers);
	pfree(items);
	pfree(dead);
	return true;
}

/// Scores from kVectors as they are. False if a page was foreign.
bool
score_vectors(const SegmentSearch *search, const IvfLayout *layout, Survivors *rows)
{
	const MetaData *meta = search->meta;
	const bool widened = layout->kept != meta->element;
	const engine::DistanceSpec spec = {meta->metric, meta->element, meta->dim};
	char *vector = static_cast<char *>(palloc(layout->kept_bytes));
	float *floats = static_cast<float *>(palloc(meta->dim * sizeof(float)));

	for (uint64 i = 0; i < rows->n; i++)
	{
		if (i % kRowsPerRead == 0)
			CHECK_FOR_INTERRUPTS();
		if (!stream_read(search->index, meta, search->segment, StreamKind::kVectors,
				rows->places[i] * layout->kept_bytes, layout->kept_bytes, vector, search->strategy))
			return false;
		if (widened)
			engine::widen_halves(vector, meta->dim, floats);
		engine::compute_scores(spec, search->query, widened ? static_cast<void *>(floats) : vector,
			vector_bytes(meta->element, meta->dim), 1, &rows->scores[i], 0);
		if (widened)
			rows->scores[i] = engine::ivf::least_score_of_halves(
				meta->metric, static_cast<const float *>(search->query), floats, meta->dim, rows->scores[i]);
	}
	pfree(vector);
	pfree(floats);
	return true;
}

/// Reads the rows from the table, without those that the snapshot does not see.
void
score_from_table(const SegmentSearch *search, Survivors *rows)
{
	TableReader reader;

	table_reader_begin(&reader, search);
	table_reader_score(&reader, rows->rows, rows->scores, &rows->n);
	table_reader_end(&reader);
}

/// A row by its least possible score.
struct Bounded
{
	double low;
	RowId row;
};

/// The score of the k-th best row; NaN counts as the worst.
double
kth_score(const double *scores, uint64 n, uint64 k, double *memory)
{
	for (uint64 i = 0; i < n; i++)
		memory[i] = std::isnan(scores[i]) ? HUGE_VAL : scores[i];
	std::nth_element(memory, memory + (k - 1), memory + n);
	return memory[k - 1];
}

/// Reads from the table the rows that their bounds require: the most promising first, then all that may still be among
/// the wanted ones. So halves decide which rows are read, but never the result: where they are too coarse to tell rows
/// apart, all rows are read.
void
score_by_bounds(const SegmentSearch *search, Survivors *rows)
{
	const uint64 wanted = Max(search->approximate->wanted + search->approximate->n_before, UINT64CONST(1));
	const uint64 n = rows->n;
	Bounded *order = static_cast<Bounded *>(allocate(n * sizeof(Bounded)));
	double *memory = static_cast<double *>(allocate(n * sizeof(double)));
	uint64 n_read = 0; // of the order,
	uint64 n_seen = 0; // that the snapshot sees, now at the begin of `rows`
	TableReader reader;

	for (uint64 i = 0; i < n; i++)
		order[i] = {std::isnan(rows->scores[i]) ? -HUGE_VAL : rows->scores[i], rows->rows[i]};
	std::sort(order, order + n,
		[](const Bounded &a, const Bounded &b) { return a.low < b.low || (a.low == b.low && a.row < b.row); });
	table_reader_begin(&reader, search);
	while (n_read < n)
	{
		uint64 end = n_read;
		uint64 part;

		if (n_seen < wanted)
			end += Min(n - n_read, Max(wanted - n_seen, n_read));
		else
		{
			const double worst = kth_score(rows->scores, n_seen, wanted, memory);

			while (end < n && order[end].low <= worst)
				end++;
		}
		if (end == n_read)
			break;
		part = end - n_read;
		for (uint64 i = 0; i < part; i++)
			rows->rows[n_seen + i] = order[n_read + i].row;
		std::sort(rows->rows + n_seen, rows->rows + n_seen + part);
		table_reader_score(&reader, rows->rows + n_seen, rows->scores + n_seen, &part);
		n_seen += part;
		n_read = end;
	}
	table_reader_end(&reader);
	rows->n = n_seen;
	pfree(order);
	pfree(memory);
}

/// The worker's candidates that the segment has, and that are not dead. Others are rows of the delta or of another
/// segment, which a merge has put into a segment of the copy. False if a page was foreign.
bool
rows_of_found(const SegmentSearch *search, const IvfLayout *layout, Survivors *rows)
{
	const uint64 n = search->approximate->n_candidates;
	uint64 *numbers = static_cast<uint64 *>(allocate(n * sizeof(uint64)));
	uint32 *places = static_cast<uint32 *>(allocate(n * sizeof(uint32)));
	uint64 kept = 0;

	if (!find_rows(search->index, search->meta, search->segment, search->approximate->candidates, n, numbers,
			search->strategy))
		return false;
	rows->places = static_cast<uint64 *>(allocate(n * sizeof(uint64)));
	rows->rows = static_cast<RowId *>(allocate(n * sizeof(RowId)));
	rows->scores = static_cast<double *>(allocate(n * sizeof(double)));
	for (uint64 i = 0; i < n; i++)
		if (numbers[i] != kNoRowNumber)
		{
			numbers[kept] = numbers[i];
			rows->rows[kept++] = search->approximate->candidates[i];
		}
	rows->n = kept;
	if (layout->refine != IvfRefine::kNone)
	{
		if (!stream_gather(search->index, search->meta, search->segment, kPlaceStream, sizeof(uint32), numbers, kept,
				places, search->strategy))
			return false;
		for (uint64 i = 0; i < kept; i++)
		{
			if (places[i] >= search->segment->n_rows)
				page_corrupted(search->index, search->segment->streams[static_cast<int>(kPlaceStream)].start_block,
					"A row has a place that the segment does not have.");
			rows->places[i] = places[i];
		}
	}
	pfree(numbers);
	pfree(places);
	return true;
}

/// Offers the rows with their canonical distances, and frees them. False if a page was foreign.
bool
judge(const SegmentSearch *search, const IvfLayout *layout, Survivors *rows)
{
	*search->n_named += rows->n;
	if (layout->refine != IvfRefine::kNone && !score_vectors(search, layout, rows))
		return false;
	if (layout->refine == IvfRefine::kFp16)
		score_by_bounds(search, rows);
	else if (!refines_in_full(layout))
		score_from_table(search, rows);
	*search->n_rescored += rows->n;
	search_offer(search, rows->scores, rows->rows, rows->n);
	pfree(rows->places);
	pfree(rows->rows);
	pfree(rows->scores);
	return true;
}

} // namespace

bool
ivf_refine(const SegmentSearch *search, const IvfLayout *layout, const uint64 *places, uint64 n)
{
	Survivors rows;

	return rows_of_places(search, places, n, &rows) && judge(search, layout, &rows);
}

bool
ivf_refine_found(const SegmentSearch *search, const IvfLayout *layout)
{
	Survivors rows;

	return rows_of_found(search, layout, &rows) && judge(search, layout, &rows);
}

bool
ivf_search_table(const SegmentSearch *search)
{
	const SegmentEntry *segment = search->segment;
	RowId *rows = static_cast<RowId *>(palloc(kRowsPerRead * sizeof(RowId)));
	double *scores = static_cast<double *>(palloc(kRowsPerRead * sizeof(double)));
	uint8 *dead = static_cast<uint8 *>(palloc(kRowsPerRead / 8));
	TableReader reader;
	bool intact = true;

	table_reader_begin(&reader, search);
	for (uint64 first = 0; intact && first < segment->n_rows; first += kRowsPerRead)
	{
		const uint64 part = Min(kRowsPerRead, segment->n_rows - first);
		uint64 n = 0;

		intact = stream_read(search->index, search->meta, segment, StreamKind::kRowIds, first * sizeof(RowId),
					 part * sizeof(RowId), rows, search->strategy) &&
			(segment->n_dead == 0 || search_read_dead(search, first, part, dead));
		for (uint64 i = 0; intact && i < part; i++)
			if (segment->n_dead == 0 || (dead[i / 8] & (1 << (i % 8))) == 0)
				rows[n++] = rows[i];
		table_reader_score(&reader, rows, scores, &n);
		*search->n_compared += n;
		search_offer(search, scores, rows, n);
	}
	table_reader_end(&reader);
	pfree(rows);
	pfree(scores);
	pfree(dead);
	return intact;
}

} // namespace vectorgpu::am
