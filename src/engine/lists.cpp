// See lists.hpp.
#include "engine/lists.hpp"

#include <algorithm>
#include <cmath>

#include "engine/engine.hpp"

namespace vectorgpu::engine
{
namespace
{

Status
invalid(const char *message)
{
	return Status::error(StatusCode::kInvalidArgument, message);
}

} // namespace

Status
Lists::append(uint32_t n_lists, std::span<const uint8_t> bytes)
{
	if (n_lists < 1 || n_lists > kMostLists || (layout_.n_lists != 0 && layout_.n_lists != n_lists))
		return invalid("the number of lists is out of range, or another than before");
	bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
	layout_.n_lists = n_lists;
	return Status::ok();
}

Status
Lists::check(uint32_t dim, uint64_t n_rows)
{
	const ListsLayout layout = {layout_.n_lists, dim, n_rows};

	if (layout.n_lists == 0 || n_rows > UINT32_MAX || bytes_.size() != layout.bytes())
		return invalid("the segment's lists are incomplete");
	layout_ = layout;
	if (offsets()[0] != 0 || offsets()[layout.n_lists] != n_rows || !std::is_sorted(offsets(), offsets() + layout.n_lists + 1))
		return invalid("the lists are not all of the segment's rows");
	if (!std::all_of(centroids(), centroids() + size_t{layout.n_lists} * dim, [](float x) { return std::isfinite(x); }))
		return invalid("a centroid is not finite");

	std::vector<bool> seen(n_rows);

	for (uint64_t place = 0; place < n_rows; place++)
	{
		const uint32_t number = numbers()[place];

		if (number >= n_rows || seen[number])
			return invalid("the lists do not have each row once");
		seen[number] = true;
	}
	return Status::ok();
}

uint32_t
probes_of(std::span<const SegmentProbes> probes, uint32_t segment, uint32_t n_lists)
{
	uint32_t largest = 0;

	if (probes.empty())
		return n_lists;
	for (const SegmentProbes &named : probes)
	{
		if (named.segment == segment)
			return std::clamp(named.probes, 1u, n_lists);
		largest = std::max(largest, named.probes);
	}
	return std::clamp(largest, 1u, n_lists);
}

} // namespace vectorgpu::engine
