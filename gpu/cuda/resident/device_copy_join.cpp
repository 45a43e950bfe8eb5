// Joining the blocks of a segment into one when it is sealed. Blocks and joined rows lie on the device side by side;
// where both have no room, the last blocks of a copy of rows wait in host memory. So a segment may be nearly as large
// as the device.
#include <algorithm>
#include <cstring>
#include <utility>

#include "cuda/resident/device_copy.hpp"
#include "cuda/resident/rounded_rows.hpp"
#include "kernels/filter/filter.hpp"

namespace vectorgpu::cuda
{

using kernels::Form;

/// Read the rows of a part.
Status
DeviceCopy::move_to_host(const Filled &part, size_t number, HostRows *rows) const
{
	const std::lock_guard lock(uploader_->mutex);

	rows->part = number;
	rows->row_ids.resize(part.n_rows);
	rows->vectors.resize(size_t{part.n_rows} * shape_.row_bytes);
	return read_block(budget_->device(), uploader_->stream, uploader_->pinned, spec_, *part.block, 0, part.n_rows,
		rows->row_ids.data(), rows->vectors.data());
}

/// Make the parts again that were moved. If that fails, the segment has lost rows.
Status
DeviceCopy::bring_back(DeviceSegment *segment, const std::vector<HostRows> &moved)
{
	Status status;

	for (const HostRows &rows : moved)
	{
		Filled &part = segment->parts[rows.part];
		std::shared_ptr<const Block> block;

		if (status.is_ok())
			status = make_block(budget_, own_form(spec_.element), spec_.dim, part.n_rows, false, &block);
		if (status.is_ok())
			status = fill(*block, 0, rows.row_ids.data(), rows.vectors.data(), part.n_rows, nullptr);
		if (status.is_ok())
			part.block = std::move(block);
	}
	if (!status.is_ok())
	{
		segment->parts.clear();
		segment->rows_lost = true;
	}
	return status;
}

/// Make the block of the joined rows.
Status
DeviceCopy::make_joined(const DeviceSegment &segment, Form form, bool filter, Filled *made) const
{
	const uint32_t capacity = static_cast<uint32_t>(std::max<uint64_t>(segment.n_rows, 1));

	return with_vectors_ ? make_block(budget_, form, spec_.dim, capacity, filter, &made->block)
						 : make_block_of_ids(budget_, form, capacity, &made->block);
}

/// Move parts of a segment to host memory, from the last one on, until the budget has room for the joined rows. Their
/// blocks are null then. kOutOfMemory: nothing was moved, since that would not help.
Status
DeviceCopy::make_room(DeviceSegment *segment, Form form, bool filter, std::vector<HostRows> *moved) const
{
	const uint64_t wanted =
		segment->n_rows * (form_pitch(form, spec_.dim) + sizeof(RowId) + (filter ? sizeof(float) : 0));
	const uint64_t room = budget_->most() - std::min(budget_->used(), budget_->most());
	uint64_t lacking = wanted - std::min(wanted, room);
	size_t first = segment->parts.size();

	while (lacking > 0 && first > 0)
	{
		const Block &block = *segment->parts[--first].block;

		lacking -= std::min<uint64_t>(lacking, block.vectors.bytes() + block.row_ids.bytes());
	}
	// None: the device has less than the budget, and others may take what is freed.
	if (lacking > 0 || first == segment->parts.size() || kind_ != engine::CopyKind::kRows)
		return Status::error(StatusCode::kOutOfMemory, "the budget of device memory is used up");
	for (size_t i = first; i < segment->parts.size(); i++)
		VECTORGPU_TRY(move_to_host(segment->parts[i], i, &moved->emplace_back()));
	for (size_t i = first; i < segment->parts.size(); i++)
		segment->parts[i].block = nullptr;
	return Status::ok();
}

/// Copy the parts that are on the device, each to its place.
Status
DeviceCopy::join_blocks(const DeviceSegment &segment, Filled *made) const
{
	const Device *device = budget_->device();
	const Block &block = *made->block;
	const std::lock_guard lock(uploader_->mutex);
	const cudaStream_t stream = uploader_->stream.get();

	for (const Filled &part : segment.parts)
	{
		const uint32_t at = std::exchange(made->n_rows, made->n_rows + part.n_rows);

		if (part.block == nullptr)
			continue;

		uint8_t *to = block.vectors.as<uint8_t>() + static_cast<size_t>(at) * block.pitch_bytes;

		if (with_vectors_ && part.block->form == block.form)
			VECTORGPU_TRY(device->check(
				cudaMemcpyAsync(to, part.block->vectors.as<uint8_t>(),
					static_cast<size_t>(part.n_rows) * block.pitch_bytes, cudaMemcpyDeviceToDevice, stream),
				"join rows"));
		else if (with_vectors_) // a padded row counts as dim_pad elements
			VECTORGPU_TRY(
				device->check(kernels::launch_store_rows(part.block->vectors.as<uint8_t>(), ElementType::kFloat32,
								  shape_.dim_pad, part.n_rows, to, block.form, block.pitch_bytes, stream),
					"narrow rows"));
		VECTORGPU_TRY(device->check(cudaMemcpyAsync(block.row_ids.as<RowId>() + at, part.block->row_ids.as<RowId>(),
										part.n_rows * sizeof(RowId), cudaMemcpyDeviceToDevice, stream),
			"join row ids"));
	}
	return uploader_->stream.synchronize();
}

/// Compute what the filter needs of joined rows. Caller holds the uploader.
Status
DeviceCopy::find_values(Filled *made) const
{
	VECTORGPU_TRY(find_row_values({spec_, shape_, budget_, uploader_}, made));
	VECTORGPU_TRY(make_rounded(made));
	made->filterable = made->rounded.any() || kernels::filter_fits(made->block->form, shape_.dim_pad);
	return Status::ok();
}

/// Return the form of a segment's joined rows: narrower than they came where that is exact.
Form
DeviceCopy::joined_form(const DeviceSegment &segment) const
{
	const Form own = own_form(spec_.element);

	if (own != Form::kFloat32 || !forms_.narrow || !with_vectors_)
		return own;
	return (segment.narrow_flags & 1) == 0 ? Form::kByte
		: (segment.narrow_flags & 2) == 0  ? Form::kFloat16
										   : Form::kFloat32;
}

/// Join a segment's parts into one block, narrowed where that is exact, with the values that the filter needs.
Status
DeviceCopy::merge_parts(DeviceSegment *segment, bool through_host, Filled *sealed)
{
	const bool filter = with_vectors_ && filter_serves(spec_);
	const Form form = joined_form(*segment);
	std::vector<HostRows> moved;
	Filled made;

	if (through_host)
		VECTORGPU_TRY(make_room(segment, form, filter, &moved));
	if (const Status status = make_joined(*segment, form, filter, &made); !status.is_ok())
	{
		VECTORGPU_TRY(bring_back(segment, moved));
		return status;
	}
	segment->rows_lost = !moved.empty(); // until they are in their places
	VECTORGPU_TRY(join_blocks(*segment, &made));

	uint32_t at = 0;
	auto next = moved.begin();

	for (size_t i = 0; i < segment->parts.size(); at += segment->parts[i++].n_rows)
		if (next != moved.end() && next->part == i)
		{
			VECTORGPU_TRY(
				fill(*made.block, at, next->row_ids.data(), next->vectors.data(), segment->parts[i].n_rows, nullptr));
			*next++ = {}; // its memory is not needed any more
		}

	const Device *device = budget_->device();
	const std::lock_guard lock(uploader_->mutex);
	const cudaStream_t stream = uploader_->stream.get();

	if (filter && made.n_rows > 0)
		VECTORGPU_TRY(find_values(&made));
	if (made.n_rows > 0 && with_vectors_)
		VECTORGPU_TRY(device->damage("gpu_flip", made.block->vectors.as<uint8_t>(), 1, stream));
	if (made.n_rows > 0 && filter)
		VECTORGPU_TRY(device->damage("gpu_flip_norm", made.block->values.as<uint8_t>(), 1, stream));
	VECTORGPU_TRY(uploader_->stream.synchronize());
	segment->rows_lost = false;
	*sealed = std::move(made);
	return Status::ok();
}

} // namespace vectorgpu::cuda
