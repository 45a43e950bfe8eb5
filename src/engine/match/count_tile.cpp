// See count_tile.hpp. Vector extensions of the compiler instead of one file per instruction set: the comparison below
// is bound by memory at 16 bytes a step already.
#include "engine/match/count_tile.hpp"

#include <cstring>

namespace vectorgpu::engine::match
{

namespace
{

template <typename Counter>
void
add_rows(void *counters, uint32_t first_row, size_t n_counters, const uint32_t *rows, size_t n)
{
	Counter *tile = static_cast<Counter *>(counters);

	for (size_t i = 0; i < n; i++)
	{
		const uint32_t local = rows[i] - first_row;

		if (local < n_counters)
			tile[local]++;
	}
}

template <typename Counter>
void
add_local(void *counters, const uint16_t *rows, size_t n)
{
	Counter *tile = static_cast<Counter *>(counters);

	for (size_t i = 0; i < n; i++)
		tile[rows[i]]++;
}

template <typename Counter>
void
add_some(void *counters, int64_t base, size_t n_counters, const uint16_t *places, size_t n)
{
	Counter *tile = static_cast<Counter *>(counters);

	for (size_t i = 0; i < n; i++)
	{
		const uint64_t local = static_cast<uint64_t>(base + places[i]);

		if (local < n_counters)
			tile[local]++;
	}
}

template <typename Counter>
bool
any_of(const void *counters, size_t first, size_t n, uint64_t min_count)
{
	constexpr size_t kLanes = 16 / sizeof(Counter);
	typedef Counter Vector __attribute__((vector_size(16)));
	const Counter *at = static_cast<const Counter *>(counters) + first;
	size_t i = 0;

	if (min_count == 0)
		return n > 0;
	if (min_count > static_cast<Counter>(-1))
		return false;
	const Counter below = static_cast<Counter>(min_count - 1);
	Vector bound;
	Vector found = {};

	for (size_t lane = 0; lane < kLanes; lane++)
		bound[lane] = below;
	for (; i + 4 * kLanes <= n; i += 4 * kLanes)
	{
		Vector values[4];

		memcpy(values, at + i, sizeof(values));
		for (const Vector &value : values)
			found |= reinterpret_cast<Vector>(value > bound);
		uint64_t halves[2];

		memcpy(halves, &found, sizeof(halves));
		if ((halves[0] | halves[1]) != 0)
			return true;
	}
	for (; i < n; i++)
		if (at[i] > below)
			return true;
	return false;
}

template <typename Counter>
void
to_scores(const void *counters, size_t first, size_t n, double *scores)
{
	const Counter *at = static_cast<const Counter *>(counters) + first;

	for (size_t i = 0; i < n; i++)
		scores[i] = at[i] == 0 ? 0.0 : -static_cast<double>(at[i]); // 0.0 - count is -0 with some compilers
}

} // namespace

size_t
counter_bytes(uint64_t max_count)
{
	return max_count <= UINT8_MAX ? 1 : max_count <= UINT16_MAX ? 2 : 4;
}

void
add_postings(void *counters, size_t width, uint32_t first_row, size_t n_counters, const uint32_t *rows, size_t n)
{
	if (width == 1)
		add_rows<uint8_t>(counters, first_row, n_counters, rows, n);
	else if (width == 2)
		add_rows<uint16_t>(counters, first_row, n_counters, rows, n);
	else
		add_rows<uint32_t>(counters, first_row, n_counters, rows, n);
}

void
add_local_postings(void *counters, size_t width, const uint16_t *rows, size_t n)
{
	if (width == 1)
		add_local<uint8_t>(counters, rows, n);
	else if (width == 2)
		add_local<uint16_t>(counters, rows, n);
	else
		add_local<uint32_t>(counters, rows, n);
}

void
add_places(void *counters, size_t width, int64_t base, size_t n_counters, const uint16_t *places, size_t n)
{
	const int64_t last = base + UINT16_MAX;

	if (last < 0 || base >= static_cast<int64_t>(n_counters))
		return;
	if (base >= 0 && last < static_cast<int64_t>(n_counters))
		add_local_postings(static_cast<uint8_t *>(counters) + static_cast<size_t>(base) * width, width, places, n);
	else if (width == 1)
		add_some<uint8_t>(counters, base, n_counters, places, n);
	else if (width == 2)
		add_some<uint16_t>(counters, base, n_counters, places, n);
	else
		add_some<uint32_t>(counters, base, n_counters, places, n);
}

bool
any_at_least(const void *counters, size_t width, size_t first, size_t n, uint64_t min_count)
{
	if (width == 1)
		return any_of<uint8_t>(counters, first, n, min_count);
	if (width == 2)
		return any_of<uint16_t>(counters, first, n, min_count);
	return any_of<uint32_t>(counters, first, n, min_count);
}

void
count_scores(const void *counters, size_t width, size_t first, size_t n, double *scores)
{
	if (width == 1)
		to_scores<uint8_t>(counters, first, n, scores);
	else if (width == 2)
		to_scores<uint16_t>(counters, first, n, scores);
	else
		to_scores<uint32_t>(counters, first, n, scores);
}

uint64_t
least_count(const TopK *topk, bool rows_after)
{
	if (!topk->full)
		return 0;
	return static_cast<uint64_t>(-topk->threshold.score) + (rows_after ? 1 : 0);
}

} // namespace vectorgpu::engine::match
