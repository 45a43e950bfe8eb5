// See topk.hpp: a buffer of candidates that is cut back to the k first whenever it is full. Called by scans and engines
// between two checks for interrupts; no locks, no allocation, no exceptions.
#include "engine/distance/topk.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace vectorgpu::engine
{
namespace
{

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kGroup = 8; // scores compared with the bounds at a time

/// Cut the buffer back to the k first. Precondition: size >= k > 0.
void
cut(TopK *topk)
{
	if (topk->size > topk->k)
		std::nth_element(topk->buffer, topk->buffer + (topk->k - 1), topk->buffer + topk->size, neighbor_less);
	else
	{
		Neighbor *last = std::max_element(topk->buffer, topk->buffer + topk->size, neighbor_less);

		std::swap(*last, topk->buffer[topk->k - 1]);
	}
	topk->size = topk->k;
	topk->threshold = topk->buffer[topk->k - 1];
	topk->full = true;
}

/// Take one candidate that the quick comparison let through.
void
offer(TopK *topk, const Neighbor &candidate)
{
	if (topk->has_after && !neighbor_less(topk->after, candidate))
		return;
	if (topk->full && !neighbor_less(candidate, topk->threshold))
		return;
	if (topk->size == topk->capacity)
	{
		cut(topk);
		if (!neighbor_less(candidate, topk->threshold))
			return;
		if (topk->size == topk->capacity) // capacity == k: the last of the k makes room
			topk->size--;
	}
	topk->buffer[topk->size++] = candidate;
}

bool
is_dead(const uint8_t *dead, size_t bit)
{
	return dead != nullptr && ((dead[bit / 8] >> (bit % 8)) & 1) != 0;
}

} // namespace

bool
neighbor_less(const Neighbor &a, const Neighbor &b)
{
	if (a.score < b.score)
		return true;
	if (a.score > b.score)
		return false;

	const bool a_nan = a.score != a.score;
	const bool b_nan = b.score != b.score;

	if (a_nan != b_nan)
		return b_nan;
	return a.row < b.row;
}

size_t
topk_buffer_bytes(size_t k)
{
	// With twice k a cut costs O(1) per candidate; the constant spares small k most cuts.
	constexpr size_t kSlack = 1024;
	constexpr size_t kMost = std::numeric_limits<size_t>::max() / sizeof(Neighbor) / 2 - kSlack;

	if (k > kMost)
		return std::numeric_limits<size_t>::max(); // no allocator has this: the caller's allocation fails
	return (k + std::max(k, kSlack)) * sizeof(Neighbor);
}

void
topk_init(TopK *topk, size_t k, Neighbor *buffer, size_t capacity, const Neighbor *after)
{
	*topk = TopK{};
	topk->buffer = buffer;
	topk->capacity = capacity;
	topk->k = k;
	// Bounds that let every candidate through: nothing is greater than NaN, nothing less than -infinity.
	topk->threshold = {kNaN, std::numeric_limits<RowId>::max()};
	topk->after = {-kInfinity, 0};
	if (after != nullptr)
	{
		topk->has_after = true;
		topk->after = *after;
	}
}

bool
topk_wants(const TopK *topk, const double *scores, size_t n)
{
	const double most = topk->threshold.score;
	const double least = topk->after.score;
	size_t wanted = 0;

	for (size_t i = 0; i < n; i++)
		wanted += !((scores[i] > most) | (scores[i] < least)); // NaN passes both, as in topk_push
	return wanted > 0 && topk->k > 0;
}

void
topk_push(TopK *topk, const double *scores, const RowId *rows, size_t n, const uint8_t *dead, size_t dead_offset)
{
	if (topk->k == 0)
		return;

	for (size_t first = 0; first < n; first += kGroup)
	{
		const size_t group = std::min(kGroup, n - first);
		unsigned int passed = 0;

		// Almost every group of a long scan ends here. NaN passes both comparisons; offer() decides on it.
		for (size_t i = 0; i < group; i++)
		{
			const double score = scores[first + i];
			const bool beyond = (score > topk->threshold.score) | (score < topk->after.score);

			passed |= static_cast<unsigned int>(!beyond) << i;
		}
		while (passed != 0)
		{
			const size_t i = first + static_cast<size_t>(__builtin_ctz(passed));

			passed &= passed - 1;
			if (!is_dead(dead, dead_offset + i))
				offer(topk, Neighbor{scores[i], rows[i]});
		}
	}
}

void
topk_tighten(TopK *topk)
{
	if (topk->k > 0 && topk->size >= topk->k)
		cut(topk);
}

void
topk_tighten_some(TopK *topk)
{
	if (!topk->full || topk->size >= topk->k + topk->k / 8)
		topk_tighten(topk);
}

size_t
topk_finish(TopK *topk)
{
	if (topk->k > 0 && topk->size > topk->k)
		cut(topk);
	std::sort(topk->buffer, topk->buffer + topk->size, neighbor_less);
	return topk->size;
}

} // namespace vectorgpu::engine
