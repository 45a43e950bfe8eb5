// Rows of segments in host memory that the device reads (README.md, "Rows in host memory"). See device_copy.hpp.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "cuda/device/host_team.hpp"
#include "cuda/resident/device_copy.hpp"
#include "cuda/resident/encode.hpp"

namespace vectorgpu::cuda
{
namespace
{

using kernels::Form;

constexpr uint64_t kKeptFree = 8; // part of the budget that stays free when rows come back
constexpr int kMostWaits = 1000;  // milliseconds
constexpr uint32_t kNoByte = 1;   // of DeviceSegment::narrow_flags: an element is none
constexpr uint32_t kNoHalf = 2;   // ... or not exact in binary16

/// Return the bytes of a segment's vectors and row ids, wherever they are.
uint64_t
rows_bytes(const DeviceSegment &segment)
{
	const auto bytes = [](const Filled &filled) -> uint64_t
	{ return filled.block == nullptr ? 0 : uint64_t{filled.n_rows} * (filled.block->pitch_bytes + sizeof(RowId)); };
	uint64_t sum = bytes(segment.sealed);

	for (const Filled &part : segment.parts)
		sum += bytes(part);
	return sum;
}

/// Wait until the searches that read a block have ended, and its memory is free; not for long.
void
await_end(const std::weak_ptr<const Block> &block)
{
	for (int i = 0; i < kMostWaits && !block.expired(); i++)
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Copy rows of a block in host memory, all of its n rows, to rows from `at` on of another one with a form that holds
/// them.
void
convert_rows(const engine::DistanceSpec &spec, const Block &from, uint32_t n, const Block &to, uint32_t at)
{
	const size_t row_bytes = vector_bytes(spec.element, spec.dim);

	std::copy_n(from.row_ids.as<RowId>(), n, to.row_ids.as<RowId>() + at);
	HostTeam::get().share(n, size_t{n} * from.pitch_bytes,
		[&](size_t first, size_t last)
		{
			const uint8_t *row = from.vectors.as<uint8_t>() + first * from.pitch_bytes;
			uint8_t *target = to.vectors.as<uint8_t>() + (at + first) * to.pitch_bytes;
			std::vector<uint64_t> wide((row_bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t)); // aligned
			RowId row_id;

			if (from.form == to.form)
			{
				std::copy_n(row, (last - first) * from.pitch_bytes, target);
				return;
			}
			for (size_t i = first; i < last; i++, target += to.pitch_bytes)
			{
				read_host_block(
					spec, from, static_cast<uint32_t>(i), 1, &row_id, reinterpret_cast<uint8_t *>(wide.data()));
				encode_row(spec, wide.data(), to.form, to.pitch_bytes, target);
			}
		});
}

} // namespace

uint64_t
DeviceCopy::host_bytes() const
{
	const std::lock_guard lock(mutex_);
	uint64_t bytes = 0;

	for (const auto &[id, segment] : segments_)
		bytes += segment.on_host ? rows_bytes(segment) : 0;
	return bytes;
}

/// Write n rows to a block in host memory from `first` on.
void
DeviceCopy::fill_on_host(const Block &block, uint32_t first, const RowId *row_ids, const uint8_t *vectors, uint32_t n,
	uint32_t *narrow_flags) const
{
	std::atomic<uint32_t> flags{0};

	std::copy_n(row_ids, n, block.row_ids.as<RowId>() + first);
	HostTeam::get().share(n, size_t{n} * block.pitch_bytes,
		[&](size_t begin, size_t end)
		{
			Form form = narrow_flags == nullptr || (*narrow_flags & kNoHalf) != 0 ? Form::kFloat32 : Form::kByte;

			for (size_t i = begin; i < end; i++)
			{
				uint8_t *to = block.vectors.as<uint8_t>() + (first + i) * block.pitch_bytes;

				encode_row(spec_, vectors + i * shape_.row_bytes, block.form, block.pitch_bytes, to);
				if (form != Form::kFloat32)
					form = narrowest_form(form, reinterpret_cast<const float *>(to), spec_.dim);
			}
			flags.fetch_or(form == Form::kByte ? 0
					: form == Form::kFloat16   ? kNoByte
											   : kNoByte | kNoHalf,
				std::memory_order_relaxed);
		});
	if (narrow_flags != nullptr)
		*narrow_flags |= flags.load(std::memory_order_relaxed);
}

/// Join the parts of a segment, all of them in host memory, into one block of this form. Each goes as soon as it is
/// copied, so that few rows are there twice.
Status
DeviceCopy::gather(DeviceSegment *segment, Form form)
{
	std::shared_ptr<Block> made;
	uint32_t at = 0;
	std::vector<Filled> whole(1);

	if (segment->gathered != nullptr && segment->parts.size() == 1 && segment->gathered->form == form)
		return Status::ok();
	VECTORGPU_TRY(
		make_block_on_host(budget_->device(), form, spec_.dim, static_cast<uint32_t>(segment->n_rows), &made));
	segment->rows_lost = true; // until they are in their places
	segment->gathered = nullptr;
	for (Filled &part : segment->parts)
	{
		convert_rows(spec_, *part.block, part.n_rows, *made, at);
		at += part.n_rows;
		part.block = nullptr;
	}
	whole.front().block = made;
	whole.front().n_rows = at;
	segment->parts.swap(whole);
	segment->gathered = std::move(made);
	segment->rows_lost = false;
	return Status::ok();
}

/// As merge_parts, for a segment whose rows are in host memory: they stay there, pinned. The segment keeps them as its
/// only part, in case that what follows fails.
Status
DeviceCopy::merge_on_host(DeviceSegment *segment, Filled *sealed)
{
	const Device *device = budget_->device();

	VECTORGPU_TRY(gather(segment, joined_form(*segment)));
	VECTORGPU_TRY(pin_block(device, &segment->gathered));
	segment->parts.front().block = segment->gathered;

	const std::lock_guard lock(uploader_->mutex);

	VECTORGPU_TRY(device->damage("gpu_flip", segment->gathered->vectors.as<uint8_t>(), 1, uploader_->stream.get()));
	VECTORGPU_TRY(uploader_->stream.synchronize());
	*sealed = segment->parts.front();
	return Status::ok();
}

/// Move the parts of a segment that is being loaded to host memory, where further rows and the sealed block stay.
Status
DeviceCopy::move_parts(DeviceSegment *segment)
{
	std::vector<Filled> moved;

	for (const Filled &part : segment->parts)
	{
		const std::lock_guard lock(uploader_->mutex);
		std::shared_ptr<Block> block;

		VECTORGPU_TRY(make_block_on_host(budget_->device(), part.block->form, spec_.dim, part.block->capacity, &block));
		VECTORGPU_TRY(copy_block(budget_->device(), uploader_->stream, *part.block, part.n_rows, *block));
		moved.emplace_back().block = std::move(block);
		moved.back().n_rows = part.n_rows;
	}
	segment->parts.swap(moved);
	segment->on_host = true;
	return Status::ok();
}

/// Put the rows of a sealed segment into another block with the same rows, in other memory.
Status
DeviceCopy::replace_rows(DeviceSegment *segment, Filled next)
{
	std::swap(segment->sealed, next);
	if (segment->searched)
		publish_or([&] { std::swap(segment->sealed, next); });
	return Status::ok();
}

/// block: of the rows on the device, for which the caller waits without the mutex.
Status
DeviceCopy::move_sealed(DeviceSegment *segment, std::weak_ptr<const Block> *block)
{
	const Device *device = budget_->device();
	const Block &from = *segment->sealed.block;
	std::shared_ptr<Block> made;
	Filled next;

	VECTORGPU_TRY(make_block_on_host(device, from.form, spec_.dim, from.capacity, &made));
	VECTORGPU_TRY(pin_block(device, &made));
	{
		const std::lock_guard lock(uploader_->mutex);

		VECTORGPU_TRY(copy_block(device, uploader_->stream, from, segment->sealed.n_rows, *made));
	}
	*block = segment->sealed.block;
	next.block = std::move(made);
	next.n_rows = segment->sealed.n_rows;
	VECTORGPU_TRY(replace_rows(segment, std::move(next)));
	segment->on_host = true;
	return Status::ok();
}

Status
DeviceCopy::move_rows_to_host(uint64_t most_bytes)
{
	std::weak_ptr<const Block> gone;

	{
		const std::lock_guard lock(mutex_);
		DeviceSegment *chosen = nullptr;
		uint64_t most = 0;
		bool too_large = false;

		if (!may_read_host_rows())
			return Status::error(StatusCode::kNotFound, "the copy has no rows that may lie in host memory");
		for (auto &[id, segment] : segments_)
		{
			const uint64_t bytes = segment.on_host ? 0 : rows_bytes(segment);
			const bool is_loading = segment.sealed.block == nullptr;

			if (bytes == 0 || segment.rows_lost)
				continue;
			too_large |= bytes > most_bytes;
			// A segment that is being loaded comes first: that disturbs no search.
			if (bytes <= most_bytes &&
				(chosen == nullptr || (is_loading && chosen->sealed.block != nullptr) ||
					(is_loading == (chosen->sealed.block == nullptr) && bytes > most)))
			{
				most = bytes;
				chosen = &segment;
			}
		}
		if (chosen == nullptr && too_large)
			return Status::error(
				StatusCode::kOutOfMemory, "the budget of host memory has no room for rows of the copy");
		if (chosen == nullptr && std::exchange(begins_on_host_, true))
			return Status::error(StatusCode::kNotFound, "no rows of the copy are on the device");
		if (chosen == nullptr)
			return Status::ok(); // for segments that come
		if (chosen->sealed.block == nullptr)
			return move_parts(chosen);
		VECTORGPU_TRY(move_sealed(chosen, &gone));
	}
	await_end(gone);
	return Status::ok();
}

/// Bring the rows of a sealed segment to the device, if a part of the budget stays free.
Status
DeviceCopy::bring_rows(DeviceSegment *segment)
{
	const Block &from = *segment->sealed.block;
	const bool filter = filter_serves(spec_);
	const uint64_t bytes = rows_bytes(*segment) + (filter ? uint64_t{from.capacity} * sizeof(float) : 0);
	Filled next;

	if (budget_->used() + bytes > budget_->most() - budget_->most() / kKeptFree)
		return Status::error(StatusCode::kOutOfMemory, "the device has no room for rows in host memory");
	VECTORGPU_TRY(make_block(budget_, from.form, spec_.dim, from.capacity, filter, &next.block));
	next.n_rows = segment->sealed.n_rows;

	{
		const std::lock_guard lock(uploader_->mutex);

		VECTORGPU_TRY(copy_block(budget_->device(), uploader_->stream, from, next.n_rows, *next.block));
		if (filter)
			VECTORGPU_TRY(find_values(&next));
		VECTORGPU_TRY(uploader_->stream.synchronize());
	}
	VECTORGPU_TRY(replace_rows(segment, std::move(next)));
	segment->on_host = false;
	return Status::ok();
}

Status
DeviceCopy::attach()
{
	const std::lock_guard lock(mutex_);
	Status status;

	if (!may_read_host_rows() || forms_.on_host)
		return Status::ok();
	for (auto &[id, segment] : segments_)
		if (segment.sealed.block != nullptr && segment.sealed.block->on_host())
			if (Status brought = bring_rows(&segment); !brought.is_ok() && status.is_ok())
				status = std::move(brought);
	if (status.is_ok())
		begins_on_host_ = false;
	return status;
}

} // namespace vectorgpu::cuda
