// See passing_cuts.hpp.
#include "worker/devices/passing_cuts.hpp"

#include <algorithm>
#include <bit>

namespace vectorgpu::worker
{
namespace
{

constexpr size_t kKept = 64; // parts of segments

/// Append the numbers of the rows of one range that pass, as numbers of rows of its place.
void
list_range(const engine::PassingSegment &whole, const RowRange &range, std::vector<uint32_t> *rows)
{
	if (whole.listed)
	{
		auto at = std::lower_bound(whole.rows.begin(), whole.rows.end(), range.first);

		for (; at != whole.rows.end() && *at < range.first + range.n_rows; ++at)
			rows->push_back(static_cast<uint32_t>(*at - range.first + range.at));
		return;
	}
	for (uint64_t i = range.first; i < range.first + range.n_rows; i++)
		if ((whole.bits[i / 8] >> (i % 8) & 1) != 0)
			rows->push_back(static_cast<uint32_t>(i - range.first + range.at));
}

uint64_t
count_bits(const std::vector<uint8_t> &bits)
{
	uint64_t n = 0;

	for (const uint8_t byte : bits)
		n += static_cast<uint64_t>(std::popcount(byte));
	return n;
}

/// The bits of the rows of a place.
std::vector<uint8_t>
bits_of(const engine::PassingSegment &whole, const RowRanges &ranges, const DevicePlace *place, uint64_t n_rows)
{
	std::vector<uint8_t> bits((n_rows + 7) / 8);
	std::vector<uint32_t> rows;

	for (const RowRange &range : ranges)
	{
		if (range.place != place)
			continue;
		if (!whole.listed)
		{
			move_bits(whole.bits, range.first, range.n_rows, &bits, range.at);
			continue;
		}
		rows.clear();
		list_range(whole, range, &rows);
		for (const uint32_t row : rows)
			bits[row / 8] = static_cast<uint8_t>(bits[row / 8] | 1 << (row % 8));
	}
	return bits;
}

std::shared_ptr<const engine::PassingSegment>
make_part(const engine::PassingSegment &whole, const RowRanges &ranges, const DevicePlace *place)
{
	auto part = std::make_shared<engine::PassingSegment>();

	part->segment = whole.segment;
	for (const RowRange &range : ranges)
		part->n_rows += range.place == place ? range.n_rows : 0;
	part->bits = bits_of(whole, ranges, place, part->n_rows);
	part->n_pass = count_bits(part->bits);
	part->listed = part->n_pass <= part->n_rows / engine::kFewOfRows;
	if (!part->listed)
		return part;
	part->bits = {};
	for (const RowRange &range : ranges) // their rows follow each other on the place, too
		if (range.place == place)
			list_range(whole, range, &part->rows);
	return part;
}

} // namespace

PassingCuts::SegmentPtr
PassingCuts::part_of(const SegmentPtr &whole, const RowRanges &ranges, const DevicePlace *place)
{
	{
		const std::lock_guard lock(mutex_);

		for (const Kept &kept : kept_)
			if (kept.place == place && kept.whole.lock() == whole)
				return kept.part;
	}

	SegmentPtr part = make_part(*whole, ranges, place);
	const std::lock_guard lock(mutex_);

	if (kept_.size() < kKept)
		kept_.push_back({whole, place, part});
	else
		kept_[next_++ % kKept] = {whole, place, part};
	return part;
}

std::shared_ptr<const engine::Passing>
PassingCuts::cut(const SpreadView &view, const engine::Passing &passing, const DevicePlace *place)
{
	auto made = std::make_shared<engine::Passing>();
	uint64_t delta_rows = passing.n_rows;
	uint64_t delta_pass = passing.n_pass;

	for (const SegmentPtr &whole : passing.segments)
	{
		const auto found = view.ranges.find(whole->segment);

		delta_rows -= std::min(delta_rows, whole->n_rows);
		delta_pass -= std::min(delta_pass, whole->n_pass);
		if (found == view.ranges.end() ||
			std::none_of(found->second.begin(), found->second.end(),
				[&](const RowRange &range) { return range.place == place && range.n_rows > 0; }))
			continue;

		const bool is_whole = found->second.size() == 1;

		made->segments.push_back(is_whole ? whole : part_of(whole, found->second, place));
		made->n_rows += made->segments.back()->n_rows;
		made->n_pass += made->segments.back()->n_pass;
	}
	if (place != view.places.front().get())
		return made;
	made->delta_first = passing.delta_first;
	made->delta_end = passing.delta_end;
	made->delta_bits = passing.delta_bits;
	made->n_rows += delta_rows;
	made->n_pass += delta_pass;
	return made;
}

} // namespace vectorgpu::worker
