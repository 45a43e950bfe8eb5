// See match_copy.hpp.
#include "engine/copies/match_copy.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace vectorgpu::engine
{

MatchCopy::MatchCopy(const CopySpec &spec, OpenedHook opened, DroppedHook dropped)
	: HostCopy(spec.distance), opened_(std::move(opened)), dropped_(std::move(dropped))
{
}

std::shared_ptr<const MatchSnapshot>
MatchCopy::make_snapshot() const
{
	auto next = std::make_shared<MatchSnapshot>();

	for (const auto &[id, segment] : segments_)
		if (segment.is_sealed())
		{
			next->segments.push_back(segment.sealed);
			next->n_rows += segment.sealed.segment->index.n_rows();
		}
	next->delta = delta_view();
	next->n_rows += n_delta_rows();
	return next;
}

uint64_t
MatchCopy::bytes_of(const LoadedMatchSegment &segment) const
{
	uint64_t bytes = segment.row_ids.size() * sizeof(RowId) + segment.description.size();

	for (const std::shared_ptr<const MatchSegment> &made : {segment.opened, segment.sealed.segment})
		if (made != nullptr)
			bytes += made->index.memory_bytes() + made->description.size();
	return bytes + (segment.sealed.dead != nullptr ? segment.sealed.dead->size() : 0);
}

Status
MatchCopy::load_segment(SegmentId id, const RowBlock &rows)
{
	const std::lock_guard lock(mutex_);

	if (Status status = check_rows(rows, false); !status.is_ok())
		return status;

	LoadedMatchSegment &segment = segments_[id];

	if (segment.is_sealed())
		return invalid("the segment is sealed");
	segment.row_ids.insert(segment.row_ids.end(), rows.row_ids.begin(), rows.row_ids.end());
	segment.opened = nullptr;
	account();
	return Status::ok();
}

Status
MatchCopy::load_structure(SegmentId id, uint32_t /*parameter*/, std::span<const uint8_t> bytes)
{
	const std::lock_guard lock(mutex_);
	LoadedMatchSegment &segment = segments_[id];

	if (segment.is_sealed())
		return invalid("the segment is sealed");
	segment.description.insert(segment.description.end(), bytes.begin(), bytes.end());
	segment.opened = nullptr;
	account();
	return Status::ok();
}

/// Check the parts of the segment and make its index. Caller holds the mutex.
Status
MatchCopy::open(SegmentId id, LoadedMatchSegment *segment)
{
	auto made = std::make_shared<MatchSegment>();

	if (!std::is_sorted(segment->row_ids.begin(), segment->row_ids.end()))
		return invalid("the row ids do not ascend");
	if (!segment->row_ids.empty() &&
		!made->index.open(segment->description, segment->row_ids, spec().metric == Metric::kEdit))
		return invalid("the segment has no good inverted index");
	if (segment->row_ids.empty()) // there is no index
		made->description = segment->description;
	if (opened_ != nullptr)
		if (Status status = opened_(id, made); !status.is_ok())
			return status;
	segment->opened = std::move(made);
	account();
	return Status::ok();
}

Status
MatchCopy::prepare_segment(SegmentId id)
{
	const std::lock_guard lock(mutex_);
	LoadedMatchSegment *const segment = find_segment(id);

	if (segment == nullptr)
		return no_segment();
	return segment->is_sealed() || segment->opened != nullptr ? Status::ok() : open(id, segment);
}

Status
MatchCopy::seal_segment(SegmentId id)
{
	const std::lock_guard lock(mutex_);
	LoadedMatchSegment *const segment = find_segment(id);

	if (segment == nullptr)
		return no_segment();
	if (segment->is_sealed())
		return Status::ok();
	if (segment->opened == nullptr)
		if (Status status = open(id, segment); !status.is_ok())
			return status;
	segment->sealed = {id, segment->opened, nullptr};
	publish_or([&] { segment->sealed = {}; });
	segment->opened = nullptr;
	std::vector<RowId>().swap(segment->row_ids);
	std::vector<uint8_t>().swap(segment->description);
	account();
	return Status::ok();
}

Status
MatchCopy::drop_segment(SegmentId id)
{
	const std::lock_guard lock(mutex_);

	if (Status status = drop(id); !status.is_ok())
		return status;
	if (dropped_ != nullptr)
		dropped_(id);
	return Status::ok();
}

Status
MatchCopy::set_tombstones(SegmentId id, std::span<const uint8_t> bits)
{
	const std::lock_guard lock(mutex_);
	LoadedMatchSegment *const segment = find_segment(id);

	if (segment == nullptr)
		return no_segment();

	MatchSegmentView &view = segment->sealed;

	if (view.segment == nullptr)
		return invalid("the segment is not sealed");
	if (bits.size() != (view.segment->index.n_rows() + 7) / 8)
		return invalid("the tombstones do not fit the segment");

	auto next = std::make_shared<const Bitmap>(bits.begin(), bits.end());

	view.dead.swap(next);
	publish_or([&] { view.dead.swap(next); });
	return Status::ok();
}

Status
MatchCopy::read_rows(SegmentId id, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) const
{
	const std::lock_guard lock(mutex_);
	const size_t slot_bytes = vector_bytes(spec().element, spec().dim);
	uint8_t *to = static_cast<uint8_t *>(vectors);

	if (id == kDeltaSegment)
	{
		const RowsView delta = delta_view();

		if (!delta.holds(first, n_rows))
			return not_held();
		for (uint64_t i = 0; i < n_rows; i++)
		{
			row_ids[i] = delta.rows.row_id(first + i);
			std::memcpy(to + i * slot_bytes, delta.rows.vector(first + i, slot_bytes), slot_bytes);
		}
		return Status::ok();
	}

	const LoadedMatchSegment *const segment = find_segment(id);

	if (segment == nullptr)
		return no_segment();

	const std::span<const RowId> ids = segment->ids();

	if (first > ids.size() || n_rows > ids.size() - first)
		return not_held();
	std::copy_n(ids.begin() + static_cast<ptrdiff_t>(first), n_rows, row_ids);
	return Status::ok();
}

Status
MatchCopy::read_structure(SegmentId id, uint64_t first, size_t n_bytes, void *bytes) const
{
	uint8_t *const to = static_cast<uint8_t *>(bytes);
	std::shared_ptr<const MatchSegment> sealed;
	{
		const std::lock_guard lock(mutex_);
		const LoadedMatchSegment *const segment = find_segment(id);

		if (segment == nullptr)
			return no_segment();
		sealed = segment->sealed.segment;
		if (sealed == nullptr || sealed->index.n_rows() == 0)
		{
			const std::vector<uint8_t> &description = sealed != nullptr ? sealed->description : segment->description;

			if (first > description.size() || n_bytes > description.size() - first)
				return invalid("bytes that are not held");
			std::copy_n(description.data() + first, n_bytes, to);
			return Status::ok();
		}
	}
	return sealed->index.read_description(first, n_bytes, to) ? Status::ok() : invalid("bytes that are not held");
}

Status
MatchCopy::read_tombstones(SegmentId id, uint64_t first, size_t n_rows, uint8_t *bits) const
{
	const std::lock_guard lock(mutex_);

	if (id == kDeltaSegment)
	{
		const RowsView delta = delta_view();

		if (!delta.holds(first, n_rows))
			return not_held();
		copy_bits(delta.dead.get(), delta.dead_first, first, n_rows, bits);
		return Status::ok();
	}

	const LoadedMatchSegment *const segment = find_segment(id);

	if (segment == nullptr)
		return no_segment();

	const size_t held = segment->ids().size();

	if (first > held || n_rows > held - first)
		return not_held();
	copy_bits(segment->sealed.dead.get(), 0, first, n_rows, bits);
	return Status::ok();
}

Status
MatchCopy::check_derived(SegmentId id, uint64_t first, size_t n_rows, uint64_t *n_different) const
{
	std::shared_ptr<const MatchSegment> sealed;

	*n_different = 0;
	{
		const std::lock_guard lock(mutex_);
		const LoadedMatchSegment *const segment = find_segment(id);

		if (id == kDeltaSegment)
			return Status::ok(); // nothing is derived of the delta
		if (segment == nullptr)
			return no_segment();
		sealed = segment->sealed.segment;
	}
	if (sealed == nullptr)
		return Status::ok();
	if (first > sealed->index.n_rows() || n_rows > sealed->index.n_rows() - first)
		return not_held();
	*n_different = sealed->index.count_different(static_cast<size_t>(first), n_rows);
	return Status::ok();
}

} // namespace vectorgpu::engine
