// See tile_lists.hpp.
#include "engine/match/tile_lists.hpp"

#include <algorithm>

#include "engine/match/count_tile.hpp"

namespace vectorgpu::engine::match
{

void
add_tile_lists(void *counters, size_t width, uint32_t first_row, size_t n_counters, TileReader *reader,
	const uint16_t *items, size_t n)
{
	for (const uint16_t *end = items + n; items < end;)
	{
		if (reader->left == 0 && !reader->in_head)
		{
			reader->first_row = static_cast<uint32_t>(*items++ * kTileRows);
			reader->in_head = true;
			continue;
		}
		if (reader->in_head)
		{
			reader->left = uint32_t{*items++} + 1;
			reader->in_head = false;
			continue;
		}

		const size_t part = std::min<size_t>(reader->left, static_cast<size_t>(end - items));

		add_places(counters, width, static_cast<int64_t>(reader->first_row) - first_row, n_counters, items, part);
		reader->left -= static_cast<uint32_t>(part);
		items += part;
	}
}

bool
tile_list_rows(const uint16_t *items, size_t n, uint32_t *rows, size_t *n_rows)
{
	size_t made = 0;

	for (size_t at = 0, before = 0; at < n; before = items[at] + size_t{1}, at += kTileHeadItems + items[at + 1] + 1)
	{
		if (items[at] < before || n - at < kTileHeadItems || n - at - kTileHeadItems < size_t{items[at + 1]} + 1)
			return false;
		for (size_t i = 0; i <= items[at + 1]; i++)
			rows[made++] = static_cast<uint32_t>(items[at] * kTileRows + items[at + kTileHeadItems + i]);
	}
	*n_rows = made;
	return true;
}

} // namespace vectorgpu::engine::match
