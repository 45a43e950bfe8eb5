// Bounds of the edit distance from the number of common n-grams. No allocation; for every engine and for SQL.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace vectorgpu::engine::match
{

/// A lower bound on the edit distance of two strings of a and b characters that have `count` ordered n-grams in common:
/// by theorem V.1 (Zhou et al.) count >= max(a, b) - n + 1 - distance * n, and the distance is at least the difference
/// of the lengths.
constexpr int64_t
edit_distance_bound(int64_t a, int64_t b, int64_t count, int64_t n)
{
	const int64_t missing = std::max(a, b) - n + 1 - count;
	const int64_t by_length = a > b ? a - b : b - a;

	return std::max(missing > 0 ? (missing + n - 1) / n : int64_t{0}, by_length);
}

/// The greatest stored number of characters of a row: that many, or more.
constexpr uint16_t kMostRowSize = 0xFFFF;

constexpr uint32_t kMostGramLength = 16;

/// The parameters of a query by edit distance.
struct GramQuery
{
	int64_t size; // characters, at most 2^48
	int64_t n;    // of the n-grams: 1 .. kMostGramLength
};

/// The least count of a row whose bound can be at most `worst`, whatever its size.
uint64_t gram_least_count(const GramQuery &query, double worst);

/// Rows are compared by ascending bound, kGramLevels bounds at a time: a row's level is its bound less the window's
/// first one.
constexpr uint32_t kGramLevels = 255;
constexpr uint8_t kNoGramLevel = 255; // of a row whose bound is in another window

/// The bounds [first, first + kGramLevels), and the least bound behind them that a row has.
struct GramWindow
{
	int64_t first = 0;
	int64_t next = INT64_MAX;
};

/// levels[i] = level of the row with counter first + i (of `width` bytes, count_tile.hpp) and sizes[i] characters
/// (kMostRowSize: that many or more), for i in [0, n). Lowers window->next.
void gram_levels(const GramQuery &query, const void *counters, size_t width, size_t first, size_t n,
	const uint16_t *sizes, GramWindow *window, uint8_t *levels);

} // namespace vectorgpu::engine::match
