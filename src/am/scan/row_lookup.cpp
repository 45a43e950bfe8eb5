// See row_lookup.hpp.
#include "am/scan/row_lookup.hpp"

#include <algorithm>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kPageRows = kPayloadBytes / sizeof(RowId);
constexpr int kGuesses = 4; // by interpolation; then by bisection, whatever the row ids are

/// The row ids of a segment, a page at a time.
struct Finder
{
	Relation index;
	const MetaData *meta;
	const SegmentEntry *segment;
	BufferAccessStrategy strategy;
	uint64 page; // that is held, if n > 0
	uint64 n;
	RowId rows[kPageRows];
};

bool
hold_page(Finder *finder, uint64 page)
{
	if (finder->n > 0 && finder->page == page)
		return true;
	finder->page = page;
	finder->n = Min(kPageRows, finder->segment->n_rows - page * kPageRows);
	return stream_read(finder->index, finder->meta, finder->segment, StreamKind::kRowIds,
		page * kPageRows * sizeof(RowId), finder->n * sizeof(RowId), finder->rows, finder->strategy);
}

/// The page between pages [low, high), which hold rows from low_row up to high_row, where a row would be.
uint64
guess(uint64 low, uint64 high, RowId low_row, RowId high_row, RowId row)
{
	const double share = high_row > low_row && row > low_row
		? static_cast<double>(row - low_row) / static_cast<double>(high_row - low_row)
		: 0.0;

	return Min(low + static_cast<uint64>(share * static_cast<double>(high - low)), high - 1);
}

/// low, low_row: no page before `low` can have the row; kept for the next one. last: the segment's last row id.
bool
find_row(Finder *finder, uint64 *low, RowId *low_row, RowId last, RowId row, uint64 *number)
{
	uint64 high = (finder->segment->n_rows + kPageRows - 1) / kPageRows;
	RowId high_row = last;

	*number = kNoRowNumber;
	for (int i = 0; *low < high; i++)
	{
		const uint64 page = i == 0 && finder->n > 0 && finder->page >= *low ? finder->page
			: i <= kGuesses                                                 ? guess(*low, high, *low_row, high_row, row)
																			: *low + (high - *low) / 2;

		if (!hold_page(finder, page))
			return false;
		if (row < finder->rows[0])
		{
			high = page;
			high_row = finder->rows[0];
		}
		else if (row > finder->rows[finder->n - 1])
		{
			*low = page + 1;
			*low_row = finder->rows[finder->n - 1];
		}
		else
		{
			const RowId *found = std::lower_bound(finder->rows, finder->rows + finder->n, row);

			*low = page;
			*low_row = finder->rows[0];
			if (*found == row)
				*number = page * kPageRows + static_cast<uint64>(found - finder->rows);
			return true;
		}
	}
	return true;
}

} // namespace

bool
find_rows(Relation index, const MetaData *meta, const SegmentEntry *segment, const RowId *rows, uint64 n,
	uint64 *numbers, BufferAccessStrategy strategy)
{
	Finder *finder;
	uint64 low = 0;
	RowId low_row = 0;
	RowId last;
	bool good = true;

	std::fill(numbers, numbers + n, kNoRowNumber);
	if (n == 0 || segment->n_rows == 0)
		return true;
	finder = static_cast<Finder *>(palloc(sizeof(Finder)));
	*finder = {.index = index, .meta = meta, .segment = segment, .strategy = strategy};
	good = stream_read(index, meta, segment, StreamKind::kRowIds, (segment->n_rows - 1) * sizeof(RowId), sizeof(last),
		&last, strategy);
	for (uint64 i = 0; good && i < n && rows[i] <= last; i++)
	{
		uint8 dead = 0;

		CHECK_FOR_INTERRUPTS();
		good = find_row(finder, &low, &low_row, last, rows[i], &numbers[i]);
		if (good && numbers[i] != kNoRowNumber && segment->n_dead > 0)
			good = stream_read(index, meta, segment, StreamKind::kTombstones, numbers[i] / 8, 1, &dead, strategy);
		if ((dead & (1 << numbers[i] % 8)) != 0)
			numbers[i] = kNoRowNumber;
	}
	pfree(finder);
	return good;
}

} // namespace vectorgpu::am
