// See gram_bound.hpp.
#include "engine/match/gram_bound.hpp"

#include <limits>

namespace vectorgpu::engine::match
{

namespace
{

/// gram_bound for queries below kMostRowSize characters: what is divided is below 2^17, so that 2^32 / n, rounded up, is exact
/// enough (Granlund and Montgomery 1994, theorem 4.2), and much faster than a division.
struct FastBound
{
	int64_t size;
	int64_t n;
	uint64_t reciprocal;

	explicit FastBound(const GramQuery &query)
		: size(query.size), n(query.n), reciprocal(((uint64_t{1} << 32) + static_cast<uint64_t>(query.n) - 1) / static_cast<uint64_t>(query.n))
	{
	}

	double
	operator()(uint64_t count, uint16_t row_size) const
	{
		const int64_t other = row_size;
		const int64_t missing = std::max(std::max(size, other) - n + 1 - static_cast<int64_t>(count), int64_t{0});
		const int64_t by_count = static_cast<int64_t>((static_cast<uint64_t>(missing + n - 1) * reciprocal) >> 32);
		const int64_t by_length = size > other ? size - other : other - size;

		return static_cast<double>(std::max(by_count, by_length));
	}
};

template <typename Counter, typename Bound>
void
score_rows(const Bound &bound, const Counter *counters, size_t n, uint64_t min_count, const uint16_t *sizes, double *scores)
{
	for (size_t i = 0; i < n; i++)
		scores[i] = counters[i] < min_count ? std::numeric_limits<double>::infinity() : bound(counters[i], sizes[i]);
}

template <typename Bound>
void
score_counters(const Bound &bound, const void *counters, size_t width, size_t first, size_t n, uint64_t min_count,
	const uint16_t *sizes, double *scores)
{
	if (width == 1)
		score_rows(bound, static_cast<const uint8_t *>(counters) + first, n, min_count, sizes, scores);
	else if (width == 2)
		score_rows(bound, static_cast<const uint16_t *>(counters) + first, n, min_count, sizes, scores);
	else
		score_rows(bound, static_cast<const uint32_t *>(counters) + first, n, min_count, sizes, scores);
}

} // namespace

double
gram_bound(const GramQuery &query, uint64_t count, uint16_t size)
{
	// A size that is only known to be so large: any such size gives a bound that is not too high if it is no smaller than the
	// query's.
	const int64_t other = size < kMostRowSize ? size : std::max<int64_t>(query.size, size);

	return static_cast<double>(edit_distance_bound(query.size, other, static_cast<int64_t>(count), query.n));
}

uint64_t
gram_least_count(const GramQuery &query, double worst)
{
	// Theorem V.1 with max(|Q|, |S|) >= |Q|.
	const double least = static_cast<double>(query.size - query.n + 1) - worst * static_cast<double>(query.n);

	return least > 0 ? static_cast<uint64_t>(least) : 0;
}

void
gram_scores(const GramQuery &query, const void *counters, size_t width, size_t first, size_t n, uint64_t min_count,
	const uint16_t *sizes, double *scores)
{
	if (query.size < kMostRowSize)
		score_counters(FastBound(query), counters, width, first, n, min_count, sizes, scores);
	else
		score_counters([&](uint64_t count, uint16_t size) { return gram_bound(query, count, size); }, counters, width, first, n,
			min_count, sizes, scores);
}

} // namespace vectorgpu::engine::match
