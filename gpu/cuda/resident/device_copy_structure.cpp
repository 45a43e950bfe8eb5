// Lists and graphs of the segments of a copy: loading and reading back. See device_copy.hpp.
#include <algorithm>
#include <utility>

#include "cuda/resident/device_copy.hpp"
#include "cuda/resident/device_graph.hpp"
#include "cuda/resident/ivf_lists.hpp"

namespace vectorgpu::cuda
{

Status
DeviceCopy::load_structure(engine::SegmentId id, uint32_t parameter, std::span<const uint8_t> bytes)
{
	const std::lock_guard lock(mutex_);

	if (kind_ == engine::CopyKind::kRows)
		return Status::error(StatusCode::kInvalidArgument, "the copy has rows only");

	const auto [found, is_new] = segments_.try_emplace(id);
	DeviceSegment &segment = found->second;

	if (segment.sealed.block != nullptr)
		return Status::error(StatusCode::kInvalidArgument, "the segment is sealed");
	try
	{
		if (kind_ == engine::CopyKind::kGraph)
		{
			if (segment.loading_graph == nullptr)
				segment.loading_graph = std::make_shared<engine::SegmentGraph>();
			return segment.loading_graph->append(parameter, bytes);
		}
		if (segment.loading == nullptr)
			segment.loading = std::make_shared<engine::Lists>();
		return segment.loading->append(parameter, bytes);
	}
	catch (...)
	{
		if (is_new)
			segments_.erase(found);
		throw;
	}
}

Status
DeviceCopy::set_graph(engine::SegmentId id, const engine::graph::GivenGraph &given)
{
	const std::lock_guard lock(mutex_);
	DeviceSegment *const segment = find_segment(id);
	std::shared_ptr<const DeviceGraph> made;

	if (kind_ != engine::CopyKind::kRows)
		return Status::error(StatusCode::kUnsupported, "the copy takes no graph for its rows");
	if (segment == nullptr)
		return no_segment();
	if (!segment->searched || segment->n_rows == 0)
		return Status::error(StatusCode::kInvalidArgument, "the segment is not sealed, or empty");
	VECTORGPU_TRY(make_given_graph(
		budget_, uploader_, given, *segment->sealed.block, segment->n_rows, segment->graph.get(), &made));

	const auto before = std::exchange(segment->graph, std::move(made));

	publish_or([&] { segment->graph = before; });
	return Status::ok();
}

Status
DeviceCopy::sealed_rows(engine::SegmentId id, std::shared_ptr<const Block> *block, uint32_t *n_rows) const
{
	const std::lock_guard lock(mutex_);
	const auto found = segments_.find(id);

	if (found == segments_.end())
		return no_segment();
	if (kind_ != engine::CopyKind::kRows || found->second.sealed.block == nullptr)
		return Status::error(StatusCode::kUnsupported, "the copy's rows are not in one block");
	*block = found->second.sealed.block;
	*n_rows = found->second.sealed.n_rows;
	return Status::ok();
}

Status
DeviceCopy::read_segment_graph(engine::SegmentId id, uint64_t first, size_t n_bytes, uint8_t *bytes) const
{
	std::shared_ptr<const DeviceGraph> graph;

	{
		const std::lock_guard lock(mutex_);
		const auto found = segments_.find(id);

		if (found == segments_.end() || (found->second.graph == nullptr && found->second.loading_graph == nullptr))
			return Status::error(StatusCode::kNotFound, "no such graph");
		graph = found->second.graph;

		const uint64_t held = graph != nullptr ? graph->layout.bytes() : found->second.loading_graph->bytes().size();

		if (first > held || n_bytes > held - first)
			return Status::error(StatusCode::kInvalidArgument, "bytes that are not held");
		if (graph == nullptr)
		{
			std::copy_n(found->second.loading_graph->bytes().data() + first, n_bytes, bytes);
			return Status::ok();
		}
	}
	return read_graph(budget_->device(), uploader_, *graph, first, n_bytes, bytes);
}

Status
DeviceCopy::read_structure(engine::SegmentId id, uint64_t first, size_t n_bytes, void *bytes) const
{
	std::shared_ptr<const DeviceLists> lists;
	uint8_t *to = static_cast<uint8_t *>(bytes);

	if (kind_ == engine::CopyKind::kGraph)
		return read_segment_graph(id, first, n_bytes, to);
	{
		const std::lock_guard lock(mutex_);
		const auto found = segments_.find(id);

		if (found == segments_.end() || (found->second.lists == nullptr && found->second.loading == nullptr))
			return Status::error(StatusCode::kNotFound, "no such lists");
		lists = found->second.lists;

		const uint64_t held = lists != nullptr ? lists->bytes() : found->second.loading->bytes().size();

		if (first > held || n_bytes > held - first)
			return Status::error(StatusCode::kInvalidArgument, "bytes that are not held");
		if (lists == nullptr)
		{
			std::copy_n(found->second.loading->bytes().data() + first, n_bytes, to);
			return Status::ok();
		}
	}
	return read_lists(budget_->device(), uploader_, *lists, first, n_bytes, to);
}

} // namespace vectorgpu::cuda
