// Levenshtein distance by bit vectors; see the header.
#include "engine/match/edit_distance.hpp"

#include <algorithm>
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

/// Vertical differences of up to 64 rows in one column: +1 where a bit of plus is set, -1 where one of minus is.
struct Rows
{
	uint64_t plus;
	uint64_t minus;
};

/// One column further. `equal` has the rows whose symbol is the column's, `in` is the horizontal difference above the rows; returns
/// that of row `last`.
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

} // namespace

int64_t
edit_distance(Sequence a, Sequence b, uint32_t n_symbols, void *memory, Poll poll)
{
	uint64_t *equal = static_cast<uint64_t *>(memory);
	int8_t *horizontal = reinterpret_cast<int8_t *>(equal + n_symbols); // below the rows done so far, for each column
	int64_t distance;

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
	if (words(a.length) * b.length > words(b.length) * a.length)
		std::swap(a, b);

	// a goes down the rows, b along the columns
	distance = a.length;
	std::memset(equal, 0, n_symbols * sizeof(uint64_t));
	std::memset(horizontal, 1, static_cast<size_t>(b.length));
	for (int64_t row = 0; row < a.length; row += kWord)
	{
		const int n_rows = static_cast<int>(std::min(a.length - row, kWord));
		const bool is_last = row + n_rows == a.length;
		Rows rows = {~uint64_t{0}, 0};

		for (int i = 0; i < n_rows; i++)
			equal[a.symbols[row + i]] |= uint64_t{1} << i;
		for (int64_t start = 0; start < b.length; start += kPollInterval)
		{
			const int64_t end = std::min(start + kPollInterval, b.length);

			for (int64_t column = start; column < end; column++)
			{
				const int out = step(&rows, equal[b.symbols[column]], horizontal[column], n_rows - 1);

				horizontal[column] = static_cast<int8_t>(out);
				if (is_last)
					distance += out;
			}
			if (poll != nullptr)
				poll();
		}
		for (int i = 0; i < n_rows; i++)
			equal[a.symbols[row + i]] = 0;
	}
	return distance;
}

} // namespace vectorgpu::engine
