// See gram_bound.hpp.
#include "engine/match/gram_bound.hpp"

#include <limits>

namespace vectorgpu::engine::match
{

namespace
{

/// edit_distance_bound for queries below kMostRowSize characters: the dividend is below 2^17, so that 2^32 / n, rounded
/// up, is exact enough (Granlund and Montgomery 1994, theorem 4.2), and much faster than a division. For a row of
/// kMostRowSize or more characters the bound for kMostRowSize holds.
struct FastBound
{
	using Value = uint32_t;

	int32_t size;
	int32_t n;
	uint64_t reciprocal;

	explicit FastBound(const GramQuery &query)
		: size(static_cast<int32_t>(query.size)), n(static_cast<int32_t>(query.n)),
		  reciprocal(((uint64_t{1} << 32) + static_cast<uint64_t>(query.n) - 1) / static_cast<uint64_t>(query.n))
	{
	}

	Value operator()(uint32_t count, uint16_t row_size) const
	{
		const int32_t other = row_size;
		const int32_t missing = std::max(std::max(size, other) - n + 1 - static_cast<int32_t>(count), 0);
		const int32_t by_count = static_cast<int32_t>((static_cast<uint64_t>(missing + n - 1) * reciprocal) >> 32);
		const int32_t by_length = size > other ? size - other : other - size;

		return static_cast<Value>(std::max(by_count, by_length));
	}
};

/// The same for longer queries.
struct SlowBound
{
	using Value = uint64_t;

	GramQuery query;

	Value operator()(uint32_t count, uint16_t row_size) const
	{
		// kMostRowSize means that many characters or more: any such size gives a bound that is not too high, if it is
		// no smaller than the query's.
		const int64_t other = row_size < kMostRowSize ? row_size : std::max<int64_t>(query.size, row_size);

		return static_cast<Value>(edit_distance_bound(query.size, other, static_cast<int64_t>(count), query.n));
	}
};

template <typename Counter, typename Bound>
void
bound_rows(
	const Bound &bound, const Counter *counters, size_t n, const uint16_t *sizes, GramWindow *window, uint8_t *levels)
{
	using Value = typename Bound::Value;
	constexpr Value kMost = std::numeric_limits<Value>::max();
	const Value first = static_cast<Value>(window->first);
	Value next = kMost;

	for (size_t i = 0; i < n; i++)
	{
		const Value value = bound(counters[i], sizes[i]);
		const Value level = value - first; // of a bound before the window very large

		levels[i] = static_cast<uint8_t>(std::min<Value>(level, kNoGramLevel));
		next = std::min(next, level >= kGramLevels && value >= first ? value : kMost);
	}
	if (next != kMost)
		window->next = std::min(window->next, static_cast<int64_t>(next));
}

template <typename Bound>
void
bound_counters(const Bound &bound, const void *counters, size_t width, size_t first, size_t n, const uint16_t *sizes,
	GramWindow *window, uint8_t *levels)
{
	if (width == 1)
		bound_rows(bound, static_cast<const uint8_t *>(counters) + first, n, sizes, window, levels);
	else if (width == 2)
		bound_rows(bound, static_cast<const uint16_t *>(counters) + first, n, sizes, window, levels);
	else
		bound_rows(bound, static_cast<const uint32_t *>(counters) + first, n, sizes, window, levels);
}

} // namespace

uint64_t
gram_least_count(const GramQuery &query, double worst)
{
	// Theorem V.1 with max(|Q|, |S|) >= |Q|.
	const double least = static_cast<double>(query.size - query.n + 1) - worst * static_cast<double>(query.n);

	return least > 0 ? static_cast<uint64_t>(least) : 0;
}

void
gram_levels(const GramQuery &query, const void *counters, size_t width, size_t first, size_t n, const uint16_t *sizes,
	GramWindow *window, uint8_t *levels)
{
	if (query.size < kMostRowSize)
		bound_counters(FastBound(query), counters, width, first, n, sizes, window, levels);
	else
		bound_counters(SlowBound{query}, counters, width, first, n, sizes, window, levels);
}

} // namespace vectorgpu::engine::match
