// The lists of rows of a segment's keys, cut into tiles of 65,536 rows, as engines count them: for each tile in which a
// list has rows, ascending, the number of the tile, the number of its rows less one, and their places in the tile,
// ascending, all as uint16. So a row takes two bytes, lists that lie one behind the other can be read as one, and a
// reader needs no decoding. Rows are below 2^32. Plain structs, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu::engine::match
{

constexpr size_t kTileRows = 65536;
constexpr size_t kTileHeadItems = 2;

/// The rows of one list in one tile, gathered until the tile is complete.
struct TileRows
{
	uint32_t tile;
	uint32_t n; // rows; 0: of no tile
	uint16_t items[kTileHeadItems + kTileRows];
};

/// True if the next row of the list goes to the tile that is being gathered.
inline bool
tile_takes(const TileRows *rows, uint32_t row)
{
	return rows->n == 0 || row / kTileRows == rows->tile;
}

/// Add a row, behind those before.
inline void
tile_add(TileRows *rows, uint32_t row)
{
	rows->tile = static_cast<uint32_t>(row / kTileRows);
	rows->items[kTileHeadItems + rows->n++] = static_cast<uint16_t>(row % kTileRows);
}

/// Complete rows->items; return their number, 0 if there are no rows. What is added next begins another tile.
inline size_t
tile_finish(TileRows *rows)
{
	const size_t n_items = rows->n > 0 ? kTileHeadItems + rows->n : 0;

	rows->items[0] = static_cast<uint16_t>(rows->tile);
	rows->items[1] = static_cast<uint16_t>(rows->n - 1);
	rows->n = 0;
	return n_items;
}

/// Where a reader of lists in pieces is.
struct TileReader
{
	uint32_t first_row; // of the tile
	uint32_t left;      // of its rows
	bool in_head;       // the number of its rows is next
};

/// Add one to the counters (count_tile.hpp) of the rows in items [n], which go on where those of the last call have
/// ended; the first one begins a list. Rows outside of [first_row, first_row + n_counters) are left out.
void add_tile_lists(void *counters, size_t width, uint32_t first_row, size_t n_counters, TileReader *reader,
	const uint16_t *items, size_t n);

/// Write the rows of a list, items [n], to rows [n]. False if tiles do not ascend or are not whole; then *n_rows is
/// undefined.
bool tile_list_rows(const uint16_t *items, size_t n, uint32_t *rows, size_t *n_rows);

} // namespace vectorgpu::engine::match
