// See edit_distance.hpp. Myers' algorithm (Journal of the ACM 46(3), 1999) in the form of Hyyroe: columns of the table
// of distances are bit vectors of their vertical differences, 64 rows to a word. Rows are taken 64 at a time through
// the whole text; the horizontal differences of the last one are kept for the next 64. Only the columns are computed
// that a distance of at most `most` can go through: a band along the diagonal (Ukkonen, Information and Control 64,
// 1985), which ends as soon as no distance in it can stay below that. A common beginning and end are skipped, then the
// cheaper way round is chosen.
#include "engine/match/edit_distance.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace vectorgpu::engine
{
namespace
{

constexpr int64_t kWord = 64;
constexpr int64_t kPollInterval = 1 << 16; // columns, some hundred microseconds

int64_t
words(int64_t length)
{
	return (length + kWord - 1) / kWord;
}

/// Vertical differences of up to 64 rows in one column: +1 if a bit of plus is set, -1 if one of minus is.
struct Rows
{
	uint64_t plus;
	uint64_t minus;
};

/// Advance by one column. `equal` has the rows whose symbol is the column's; `in` is the horizontal difference above
/// the rows. Return that of row `last`.
inline int
step(Rows *rows, uint64_t equal, int in, int last)
{
	const uint64_t vertical = equal | rows->minus;
	const uint64_t matched = equal | (in < 0);
	const uint64_t horizontal = (((matched & rows->plus) + rows->plus) ^ rows->plus) | matched;
	uint64_t plus = rows->minus | ~(horizontal | rows->plus);
	uint64_t minus = rows->plus & horizontal;
	const int out = static_cast<int>(plus >> last & 1) - static_cast<int>(minus >> last & 1);

	plus = plus << 1 | (in > 0);
	minus = minus << 1 | (in < 0);
	rows->plus = minus | ~(vertical | plus);
	rows->minus = plus & vertical;
	return out;
}

/// A lower bound on all distances that continue from the last row done, in columns [first, end). edge: the distance at
/// the first of them; n_rows and n_columns: rows and columns that follow it.
int64_t
least_end(const int8_t *horizontal, int64_t first, int64_t end, int64_t edge, int64_t n_rows, int64_t n_columns)
{
	int64_t ahead = n_columns - n_rows; // columns minus rows that follow
	int64_t least = edge + std::abs(ahead);

	for (int64_t column = first; column < end; column++)
	{
		edge += horizontal[column];
		least = std::min(least, edge + std::abs(--ahead));
	}
	return least;
}

} // namespace

int64_t
edit_distance(Sequence a, Sequence b, uint32_t n_symbols, void *memory, int64_t most, Poll poll)
{
	uint64_t *equal = static_cast<uint64_t *>(memory);
	int8_t *horizontal = reinterpret_cast<int8_t *>(equal + n_symbols); // below the rows done so far, for each column
	int64_t first = 0;                                                  // column of the band
	int64_t edge = 0; // the distance at its beginning, in the last row done

	while (a.length > 0 && b.length > 0 && a.symbols[0] == b.symbols[0])
	{
		a = {a.symbols + 1, a.length - 1};
		b = {b.symbols + 1, b.length - 1};
	}
	while (a.length > 0 && b.length > 0 && a.symbols[a.length - 1] == b.symbols[b.length - 1])
	{
		a.length--;
		b.length--;
	}
	if (a.length == 0 || b.length == 0)
		return a.length + b.length;
	if (std::abs(a.length - b.length) > most)
		return std::abs(a.length - b.length);
	if (words(a.length) * b.length > words(b.length) * a.length)
		std::swap(a, b);

	// a runs down the rows, b along the columns. Differences outside of the band are taken as 1, so that distances
	// there are overestimated, never underestimated.
	const bool bounded = most < std::max(a.length, b.length);

	if (!bounded)
		most = std::max(a.length, b.length);
	std::memset(equal, 0, n_symbols * sizeof(uint64_t));
	std::memset(horizontal, 1, static_cast<size_t>(b.length));
	for (int64_t row = 0; row < a.length; row += kWord)
	{
		const int n_rows = static_cast<int>(std::min(a.length - row, kWord));
		const int64_t end_column = std::min(b.length, row + n_rows + most);
		Rows rows = {~uint64_t{0}, 0};

		for (; first < row - most; first++)
			edge += horizontal[first];
		for (int i = 0; i < n_rows; i++)
			equal[a.symbols[row + i]] |= uint64_t{1} << i;
		for (int64_t start = first; start < end_column; start += kPollInterval)
		{
			const int64_t end = std::min(start + kPollInterval, end_column);

			for (int64_t column = start; column < end; column++)
				horizontal[column] =
					static_cast<int8_t>(step(&rows, equal[b.symbols[column]], horizontal[column], n_rows - 1));
			if (!keep_going(poll))
				return INT64_MAX;
		}
		for (int i = 0; i < n_rows; i++)
			equal[a.symbols[row + i]] = 0;
		edge += n_rows;
		if (!bounded)
			continue;

		const int64_t least = least_end(horizontal, first, end_column, edge, a.length - row - n_rows, b.length - first);

		if (least > most)
			return least;
	}
	for (; first < b.length; first++)
		edge += horizontal[first];
	return edge;
}

} // namespace vectorgpu::engine
