// Rows and tombstones of a segment or of the delta in host memory, as one search sees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/copies/lists.hpp"
#include "engine/copies/row_list.hpp"
#include "engine/copies/segment_graph.hpp"
#include "engine/copies/sparse_rows.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

using Bitmap = std::vector<uint8_t>; // bit i of byte i / 8 is 1 << (i % 8)

/// bits [ceil(n / 8)] = bits [first, first + n) of a bitmap whose first bit has the number bitmap_first; 0 outside of
/// it. bitmap: null: all 0.
void copy_bits(const Bitmap *bitmap, uint64_t bitmap_first, uint64_t first, size_t n, uint8_t *bits);

struct PassingRows; // an engine's

/// A list of rows as one search sees it.
struct RowsView
{
	RowListView rows;
	std::shared_ptr<const Bitmap> dead; // null: none
	uint64_t dead_first = 0;            // position of the bitmap's first bit; rows outside it are alive
	SegmentId segment = kDeltaSegment;
	std::shared_ptr<const Lists>
		lists; // of a segment of kind kLists, kCodedLists or kCodes: vectors lie by place, row ids and bitmap by number
	std::shared_ptr<const SegmentGraph> graph;            // of a segment of kind kGraph or kHashedGraph
	std::shared_ptr<const PassingRows> passing = nullptr; // null: all rows pass the search's conditions
	std::shared_ptr<const SparseRows> sparse = nullptr;   // of a segment of kind kSparse
	bool rounded_lead = false;                            // rounded rows lead searches of the graph

	bool holds(uint64_t first, uint64_t n_rows) const
	{
		return first >= rows.first && first <= rows.last && n_rows <= rows.last - first;
	}
};

/// True if the row at a position, in the order of the bitmap, has a tombstone.
inline bool
is_dead(const RowsView &view, uint64_t position)
{
	if (view.dead == nullptr || position < view.dead_first)
		return false;

	const uint64_t bit = position - view.dead_first;

	return bit / 8 < view.dead->size() && (((*view.dead)[bit / 8] >> (bit % 8)) & 1) != 0;
}

} // namespace vectorgpu::engine
