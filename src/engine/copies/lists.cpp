// See lists.hpp.
#include "engine/copies/lists.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/interface/engine.hpp"

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
	return check_lists(layout);
}

Status
Lists::check_coded(const DistanceSpec &rows, uint64_t n_rows)
{
	const ListsLayout layout = {layout_.n_lists, rows.dim, n_rows};
	CodesLayout codes;
	CodesHead head;

	if (layout.n_lists == 0 || n_rows > UINT32_MAX || bytes_.size() < layout.bytes() + sizeof(head))
		return invalid("the segment's lists are incomplete");
	std::memcpy(&head, bytes_.data() + layout.bytes(), sizeof(head));
	if (const char *error = code_spec_of(head, rows, &codes.spec); error != nullptr)
		return invalid(error);
	codes.n_rows = n_rows;
	if (bytes_.size() != layout.bytes() + codes.bytes())
		return invalid("the segment's codes are incomplete");
	if (Status status = check_lists(layout); !status.is_ok())
		return status;
	codes_layout_ = codes;
	model_ =
		ivf::make_code_model(codes.spec, reinterpret_cast<float *>(bytes_.data() + layout.bytes() + codes.model_at()));
	return Status::ok();
}

/// Check all but the number of bytes.
Status
Lists::check_lists(const ListsLayout &layout)
{
	const uint64_t n_rows = layout.n_rows;

	layout_ = layout;
	if (offsets()[0] != 0 || offsets()[layout.n_lists] != n_rows ||
		!std::is_sorted(offsets(), offsets() + layout.n_lists + 1))
		return invalid("the lists are not all of the segment's rows");
	if (!std::all_of(
			centroids(), centroids() + size_t{layout.n_lists} * layout.dim, [](float x) { return std::isfinite(x); }))
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

const uint32_t *
Lists::places() const
{
	const std::lock_guard lock(places_mutex_);

	if (places_.empty())
	{
		places_.resize(layout_.n_rows);
		for (uint64_t place = 0; place < layout_.n_rows; place++)
			places_[numbers()[place]] = static_cast<uint32_t>(place);
		places_bytes_.store(places_.size() * sizeof(uint32_t), std::memory_order_relaxed);
	}
	return places_.data();
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

uint32_t
candidates_of(std::span<const SegmentProbes> probes, uint32_t segment)
{
	uint32_t largest = 1;

	for (const SegmentProbes &named : probes)
	{
		if (named.segment == segment)
			return std::max(named.candidates, 1u);
		largest = std::max(largest, named.candidates);
	}
	return largest;
}

} // namespace vectorgpu::engine
