// Rows and tombstones of a copy read back from the device. See device_copy.hpp.
#include <algorithm>

#include "cuda/resident/device_codes.hpp"
#include "cuda/resident/device_copy.hpp"
#include "cuda/resident/ivf_lists.hpp"
#include "engine/copies/rows_view.hpp"

namespace vectorgpu::cuda
{
namespace
{

constexpr uint32_t kBitsOfWord = 32;

Status
not_held()
{
	return Status::error(StatusCode::kInvalidArgument, "rows that are not held");
}

} // namespace

Status
DeviceCopy::read_rows(engine::SegmentId id, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) const
{
	struct Part
	{
		std::shared_ptr<const Block> block;
		uint32_t first;
		uint32_t n_rows;
	};
	std::vector<Part> parts;
	uint64_t held_first = 0;
	uint64_t held_last = 0;
	bool is_delta = false;

	{
		const std::lock_guard lock(mutex_);

		if (id == engine::kDeltaSegment)
		{
			is_delta = true;
			for (const Delta::Part &part : delta_.parts())
				parts.push_back({part.piece->block, part.first, part.n_rows});
			held_first = delta_.first();
			held_last = delta_.last();
		}
		else if (const auto found = segments_.find(id); found != segments_.end())
		{
			const DeviceSegment &segment = found->second;

			if (segment.rows_lost)
				return not_held();
			if (segment.sealed.block != nullptr)
				parts.push_back({segment.sealed.block, 0, segment.sealed.n_rows});
			for (const Filled &part : segment.parts)
				parts.push_back({part.block, 0, part.n_rows});
			held_last = segment.n_rows;
		}
		else
			return Status::error(StatusCode::kNotFound, "no such segment");
	}
	if (first < held_first || first > held_last || n_rows > held_last - first)
		return not_held();
	if (is_delta)
		VECTORGPU_TRY(lane_->stream().synchronize());

	uint64_t skipped = first - held_first;
	uint8_t *to = static_cast<uint8_t *>(vectors);

	for (const Part &part : parts)
	{
		if (n_rows == 0)
			break;
		if (skipped >= part.n_rows)
		{
			skipped -= part.n_rows;
			continue;
		}

		const uint32_t here = static_cast<uint32_t>(std::min<uint64_t>(n_rows, part.n_rows - skipped));
		const std::lock_guard lock(uploader_->mutex);

		VECTORGPU_TRY(read_block(budget_->device(), uploader_->stream, uploader_->pinned, spec_, *part.block,
			part.first + static_cast<uint32_t>(skipped), here, row_ids, to));
		row_ids += here;
		if (part.block->pitch_bytes > 0)
			to += static_cast<size_t>(here) * shape_.row_bytes;
		n_rows -= here;
		skipped = 0;
	}
	return Status::ok();
}

Status
DeviceCopy::read_tombstones(engine::SegmentId id, uint64_t first, size_t n_rows, uint8_t *bits) const
{
	std::shared_ptr<const Held> dead;
	std::shared_ptr<const DeviceLists> lists;
	uint64_t dead_first = 0;
	uint64_t dead_bits = 0;

	{
		const std::lock_guard lock(mutex_);
		const auto found = segments_.find(id);
		uint64_t held_first = 0;
		uint64_t held_last = 0;

		if (id == engine::kDeltaSegment)
		{
			dead = delta_dead_.bits;
			dead_bits = delta_dead_.n_bits;
			dead_first = delta_dead_.first;
			held_first = delta_.first();
			held_last = delta_.last();
		}
		else if (found == segments_.end())
			return Status::error(StatusCode::kNotFound, "no such segment");
		else
		{
			dead = found->second.dead;
			dead_bits = found->second.dead_bits;
			lists = found->second.lists;
			held_last = found->second.n_rows;
		}
		if (first < held_first || first > held_last || n_rows > held_last - first)
			return not_held();
	}

	// Those bytes of the bitmap that have one of the rows.
	const uint64_t end = dead_first + dead_bits;
	const uint64_t from = std::clamp(first, dead_first, end) - dead_first;
	const uint64_t to = std::clamp(first + n_rows, dead_first, end) - dead_first;
	engine::Bitmap held(dead == nullptr ? 0 : (to + 7) / 8 - from / 8);
	const Device *device = budget_->device();

	if (lists == nullptr || held.empty())
	{
		if (!held.empty())
		{
			const std::lock_guard lock(uploader_->mutex);

			VECTORGPU_TRY(receive_bytes(device, uploader_, held.data(), dead->as<uint8_t>() + from / 8, held.size()));
		}
		engine::copy_bits(&held, dead_first + from / 8 * 8, first, n_rows, bits);
		return Status::ok();
	}

	// By place: into the order of numbers.
	const std::lock_guard lock(uploader_->mutex);
	const size_t per_round = uploader_->staging.bytes() / sizeof(uint32_t) * kBitsOfWord;

	for (size_t done = 0; done < n_rows;)
	{
		const size_t here = std::min(per_round, n_rows - done);

		VECTORGPU_TRY(
			device->check(kernels::launch_ivf_bits_back(dead->as<uint8_t>(), lists->numbers.as<uint32_t>(),
							  static_cast<uint32_t>(lists->layout.n_rows), static_cast<uint32_t>(first + done),
							  static_cast<uint32_t>(here), uploader_->staging.as<uint32_t>(), uploader_->stream.get()),
				"order tombstones"));
		VECTORGPU_TRY(
			receive_bytes(device, uploader_, bits + done / 8, uploader_->staging.as<uint8_t>(), (here + 7) / 8));
		done += here;
	}
	return Status::ok();
}

} // namespace vectorgpu::cuda
