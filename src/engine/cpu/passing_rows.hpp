// The rows that pass a search's conditions, as the searches of this engine use them: a snapshot in which the others are
// left out. Thread-safe; throws bad_alloc.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/status.hpp"
#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

/// The rows that pass of a segment with lists, whose vectors lie by place.
struct PassingPlaces
{
	std::vector<uint32_t> listed;    // PassingSegment::listed: places, ascending
	Bitmap fails;                    // else: by place, 1: the row fails
	std::vector<uint32_t> n_in_list; // else: [n_lists], how many pass
};

/// RowsView::passing. Segments: rows that fail have tombstones in the view, but for segments with lists and for listed
/// rows: there the view has the tombstones that it had. The delta: always tombstones, `segment` is null.
struct PassingRows
{
	std::shared_ptr<const PassingSegment> segment;
	std::shared_ptr<const PassingPlaces> places; // null: no lists
	bool few = false; // of all segments together few rows pass (kFewOfRows): every one is scored

	bool listed() const { return segment != nullptr && segment->listed; }
	uint64_t n_pass() const { return segment->n_pass; }

	/// listed(): the places of the rows, ascending; the numbers where there are no lists.
	std::span<const uint32_t> rows() const { return places != nullptr ? places->listed : segment->rows; }
};

/// True if a segment's rows that pass are all scored, whatever structure it has.
inline bool
all_pass_scored(const RowsView &view)
{
	return view.passing != nullptr && (view.passing->listed() || view.passing->few);
}

/// Make a snapshot without the segments in which no row passes; the others and the delta have RowsView::passing.
/// kInvalidArgument if `passing` is of other segments of that name. *way: raised to that of a search in which no
/// structure is used.
Status mask_snapshot(const Snapshot &snapshot, const Passing &passing, Snapshot *masked, FilterWay *way);

/// Set *query.filter_way, if there is one, to at least this.
inline void
note_way(const SearchQuery &query, FilterWay way)
{
	if (query.filter_way != nullptr && *query.filter_way < way)
		*query.filter_way = way;
}

} // namespace vectorgpu::engine
