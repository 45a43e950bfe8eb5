// See device_copy.hpp. Each writer prepares everything that can fail, then changes the copy.
#include "cuda/resident/device_copy.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/narrow.hpp"
#include "cuda/resident/ivf_lists.hpp"
#include "engine/filter/rounded_rows.hpp"

namespace vectorgpu::cuda
{
namespace
{

using kernels::Form;

Status
invalid(const char *message)
{
	return Status::error(StatusCode::kInvalidArgument, message);
}

} // namespace

Status
check_rows(const engine::RowBlock &rows, bool with_vectors)
{
	if (rows.row_ids.size() != rows.n_rows)
		return invalid("the number of row ids differs from the number of rows");
	if (rows.n_rows > 0 && with_vectors && rows.vectors == nullptr)
		return invalid("rows without vectors");
	return Status::ok();
}

DeviceCopy::DeviceCopy(
	const engine::CopySpec &spec, Budget *budget, Uploader *uploader, AppendLane *lane, const RowForms &forms)
	: spec_(spec.distance), kind_(spec.kind), with_vectors_(engine::segment_vector_bytes(spec) > 0),
	  rounded_(spec.rounded && rounded_row_bytes(spec) > 0), shape_(spec.distance), budget_(budget),
	  uploader_(uploader), lane_(lane), forms_(forms), begins_on_host_(forms.on_host || spec.rows_on_host)
{
}

size_t
DeviceCopy::rounded_row_bytes(const engine::CopySpec &spec)
{
	return spec.kind == engine::CopyKind::kGraph && engine::rounds(spec.distance) &&
			spec.distance.dim <= kNarrowMostDims
		? Shape(spec.distance).dim_pad + sizeof(NarrowRow)
		: 0;
}

DeviceCopy::~DeviceCopy()
{
	if (delta_.ticket() != 0) // no append may write to memory that is given back
		(void) lane_->stream().synchronize();
}

/// Return what later searches are to see with this delta. Caller holds the mutex. Throws bad_alloc.
std::shared_ptr<const Snapshot>
DeviceCopy::make_snapshot(const Delta &delta, const DeltaDead &dead) const
{
	auto next = std::make_shared<Snapshot>();
	auto add = [&](const Filled &filled) -> Source &
	{
		Source &source = next->sources.emplace_back();

		source.block = filled.block;
		source.max_norm = filled.max_norm;
		source.max_inverse = filled.max_inverse;
		source.n_untrusted = filled.n_untrusted;
		source.filterable = filled.filterable;
		source.rounded = filled.rounded;
		return source;
	};
	const std::vector<Delta::Part> parts = delta.parts();

	next->sources.reserve(segments_.size() + parts.size());
	for (const auto &[id, segment] : segments_)
		if (segment.searched && segment.n_rows > 0)
		{
			Source &source = add(segment.sealed);

			source.n_rows = static_cast<uint32_t>(segment.n_rows);
			source.dead = segment.dead;
			source.dead_bits = segment.dead_bits;
			source.rows_ascending = segment.lists == nullptr;
			source.segment = id;
			source.alive = segment.alive;
			source.lists = segment.lists;
			source.graph = segment.graph;
			next->n_rows += segment.n_rows;
		}
	for (const Delta::Part &part : parts)
	{
		Source &source = add(*part.piece);

		source.first = part.first;
		source.n_rows = part.n_rows;
		source.dead = dead.bits;
		source.dead_bits = dead.n_bits;
		source.dead_start = static_cast<int64_t>(part.position - dead.first);
		source.position = part.position;
		source.ticket = delta.ticket();
		next->n_rows += part.n_rows;
	}
	return next;
}

/// Return the widest form of the segments, sealed or prepared; without any, the narrowest form.
Form
DeviceCopy::widest_form() const
{
	Form widest = Form::kByte;

	for (const auto &[id, segment] : segments_)
		if (segment.sealed.block != nullptr && segment.n_rows > 0)
		{
			const Form form = segment.sealed.block->form;

			if (form == Form::kFloat32 || (form == Form::kFloat16 && widest == Form::kByte))
				widest = form;
		}
	return widest;
}

/// Caller holds the mutex.
Status
DeviceCopy::append_rows(uint64_t position, const engine::RowBlock &rows, bool may_wait, bool *waits)
{
	VECTORGPU_TRY(check_rows(rows));
	if (position > delta_.last())
		return invalid("the rows leave a gap behind the delta that is held");

	const uint64_t held = delta_.last() - position;

	if (held >= rows.n_rows)
		return Status::ok();

	const size_t n = rows.n_rows - static_cast<size_t>(held);
	// Rows are read more than once, and their sender may be changing them.
	std::vector<uint64_t> own((n * shape_.row_bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t));
	const uint8_t *vectors = reinterpret_cast<const uint8_t *>(own.data());

	std::memcpy(own.data(), static_cast<const uint8_t *>(rows.vectors) + held * shape_.row_bytes, n * shape_.row_bytes);

	Delta next = delta_;

	VECTORGPU_TRY(next.append(delta_place(), widest_form(), {rows.row_ids.subspan(held), vectors, n}, may_wait, waits));
	if (*waits)
		return Status::ok();
	publish(make_snapshot(next, delta_dead_));
	delta_ = std::move(next);
	return Status::ok();
}

Status
DeviceCopy::append_delta(uint64_t position, const engine::RowBlock &rows)
{
	const std::lock_guard lock(mutex_);
	bool waits = false;

	return append_rows(position, rows, true, &waits);
}

bool
DeviceCopy::try_append_delta(uint64_t position, const engine::RowBlock &rows, Status *status)
{
	const std::unique_lock lock(mutex_, std::try_to_lock);
	bool waits = false;

	if (!lock.owns_lock())
		return false;
	*status = append_rows(position, rows, false, &waits);
	return !waits;
}

Status
DeviceCopy::trim_delta(uint64_t position)
{
	const std::lock_guard lock(mutex_);
	Delta next = delta_;

	if (position <= delta_.first())
		return Status::ok();
	VECTORGPU_TRY(next.trim(delta_place(), position));
	publish(make_snapshot(next, delta_dead_));
	delta_ = std::move(next);
	return Status::ok();
}

Status
DeviceCopy::upload_bits(std::span<const uint8_t> bits, std::shared_ptr<const Held> *held) const
{
	const Device *device = budget_->device();
	auto made = std::make_shared<Held>();

	VECTORGPU_TRY(made->allocate(budget_, std::max<size_t>(bits.size(), 1), "tombstones"));

	const std::lock_guard lock(uploader_->mutex);

	for (size_t done = 0; done < bits.size();)
	{
		const size_t here = std::min(bits.size() - done, uploader_->pinned.bytes());

		std::memcpy(uploader_->pinned.as<uint8_t>(), bits.data() + done, here);
		VECTORGPU_TRY(device->check(cudaMemcpyAsync(made->as<uint8_t>() + done, uploader_->pinned.as<uint8_t>(), here,
										cudaMemcpyHostToDevice, uploader_->stream.get()),
			"send tombstones"));
		VECTORGPU_TRY(uploader_->stream.synchronize());
		done += here;
	}
	VECTORGPU_TRY(device->damage("gpu_flip_dead", made->as<uint8_t>(), 0, uploader_->stream.get()));
	VECTORGPU_TRY(uploader_->stream.synchronize());
	*held = std::move(made);
	return Status::ok();
}

Status
DeviceCopy::set_tombstones(engine::SegmentId id, std::span<const uint8_t> bits)
{
	const std::lock_guard lock(mutex_);
	DeviceSegment *const segment = find_segment(id);

	if (segment == nullptr)
		return no_segment();
	if (!segment->searched)
		return invalid("the segment is not sealed");
	if (bits.size() != (segment->n_rows + 7) / 8)
		return invalid("the tombstones do not fit the segment");

	std::shared_ptr<const Held> dead;
	std::shared_ptr<const void> alive = std::make_shared<char>();

	VECTORGPU_TRY(upload_bits(bits, &dead));
	if (segment->lists != nullptr)
	{
		const std::shared_ptr<const Held> by_number = std::move(dead);

		VECTORGPU_TRY(permute_bits(budget_, uploader_, *segment->lists, *by_number, &dead));
	}

	const auto before = std::exchange(segment->dead, std::move(dead));
	const uint64_t bits_before = std::exchange(segment->dead_bits, bits.size() * 8);
	const auto alive_before = std::exchange(segment->alive, std::move(alive));

	publish_or(
		[&]
		{
			segment->dead = before;
			segment->dead_bits = bits_before;
			segment->alive = alive_before;
		});
	return Status::ok();
}

Status
DeviceCopy::set_delta_tombstones(uint64_t first_position, std::span<const uint8_t> bits)
{
	const std::lock_guard lock(mutex_);
	DeltaDead next;

	VECTORGPU_TRY(upload_bits(bits, &next.bits));
	next.n_bits = bits.size() * 8;
	next.first = first_position;
	publish(make_snapshot(delta_, next));
	delta_dead_ = std::move(next);
	return Status::ok();
}

} // namespace vectorgpu::cuda
