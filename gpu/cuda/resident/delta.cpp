// See delta.hpp.
#include "cuda/resident/delta.hpp"

#include <algorithm>

#include "cuda/resident/encode.hpp"
#include "kernels/filter/filter.hpp"

namespace vectorgpu::cuda
{
namespace
{

using kernels::Form;

constexpr size_t kFirstBytes = size_t{8} << 20;  // of the vectors of a new piece
constexpr size_t kMostBytes = size_t{256} << 20; // of a piece that has grown
constexpr uint64_t kGrowth = 4;
constexpr uint32_t kLeastRows = 1024;
constexpr uint64_t kMostRows = uint64_t{1} << 30;

/// The rows of a new piece and of the largest one. Less of a small budget, so that it is not spent on unused room.
uint64_t
first_rows(const Budget &budget, uint32_t pitch)
{
	return std::clamp<uint64_t>(std::min<uint64_t>(kFirstBytes, budget.most() / 64) / pitch, kLeastRows, kMostRows);
}

uint64_t
most_rows(const Budget &budget, uint32_t pitch)
{
	return std::clamp<uint64_t>(std::min<uint64_t>(kMostBytes, budget.most() / 16) / pitch, kLeastRows, kMostRows);
}

/// Bytes of a row in a slot.
size_t
slot_row_bytes(uint32_t pitch)
{
	return pitch + sizeof(RowId) + sizeof(float);
}

} // namespace

/// Return the number of trimmed rows at the front of the last piece.
uint64_t
Delta::n_gone_of_last() const
{
	return pieces_.size() == 1 ? first_ - start_ : 0;
}

/// True if the last piece, which is full, may get a larger block.
bool
Delta::can_grow(const Place &place) const
{
	const Block &block = *pieces_.back().block;

	return block.capacity < most_rows(*place.budget, block.pitch_bytes) || n_gone_of_last() >= block.capacity / 2;
}

/// Move the last piece's rows, without trimmed ones, to a larger block of the same form.
Status
Delta::grow(const Place &place, uint64_t n_rows)
{
	Filled &piece = pieces_.back();
	const Block &from = *piece.block;
	const uint32_t n_gone = static_cast<uint32_t>(n_gone_of_last());
	const uint32_t n_kept = piece.n_rows - n_gone;
	const uint64_t wanted = n_gone >= from.capacity / 2 ? from.capacity : from.capacity * kGrowth;
	const uint64_t capacity = std::min(most_rows(*place.budget, from.pitch_bytes), std::max(wanted, n_kept + n_rows));
	const Device *device = place.budget->device();
	const cudaStream_t stream = place.lane->stream().get();
	std::shared_ptr<const Block> to;

	VECTORGPU_TRY(make_block(
		place.budget, from.form, place.spec.dim, static_cast<uint32_t>(capacity), filter_serves(place.spec), &to));
	VECTORGPU_TRY(device->check(cudaMemcpyAsync(to->vectors.as<uint8_t>(),
									from.vectors.as<uint8_t>() + static_cast<size_t>(n_gone) * from.pitch_bytes,
									static_cast<size_t>(n_kept) * from.pitch_bytes, cudaMemcpyDeviceToDevice, stream),
		"move rows"));
	VECTORGPU_TRY(device->check(cudaMemcpyAsync(to->row_ids.as<RowId>(), from.row_ids.as<RowId>() + n_gone,
									n_kept * sizeof(RowId), cudaMemcpyDeviceToDevice, stream),
		"move row ids"));
	if (filter_serves(place.spec))
		VECTORGPU_TRY(device->check(cudaMemcpyAsync(to->values.as<float>(), from.values.as<float>() + n_gone,
										n_kept * sizeof(float), cudaMemcpyDeviceToDevice, stream),
			"move norms"));
	VECTORGPU_TRY(place.lane->stream().synchronize()); // the old block may be freed with its last reader
	piece.block = std::move(to);
	piece.n_rows = n_kept;
	start_ += n_gone;
	return Status::ok();
}

/// Make sure that the last piece has the form and room for at least one of the next n_rows rows.
Status
Delta::make_room(const Place &place, Form form, uint64_t n_rows)
{
	const uint32_t pitch = form_pitch(form, place.spec.dim);
	const uint64_t first = first_rows(*place.budget, pitch);
	const uint64_t most = most_rows(*place.budget, pitch);
	Filled piece;

	if (!pieces_.empty() && pieces_.back().block->form == form && can_grow(place))
	{
		const Status status = grow(place, n_rows);

		if (status.code != StatusCode::kOutOfMemory)
			return status;
		// Two blocks do not fit at the same time: the next rows get a new piece.
	}

	const uint64_t wanted = std::clamp(n_rows, first, most);
	Status status = make_block(
		place.budget, form, place.spec.dim, static_cast<uint32_t>(wanted), filter_serves(place.spec), &piece.block);

	if (status.code == StatusCode::kOutOfMemory && n_rows < wanted)
		status = make_block(
			place.budget, form, place.spec.dim, static_cast<uint32_t>(n_rows), filter_serves(place.spec), &piece.block);
	if (!status.is_ok())
		return status;
	piece.filterable = filter_serves(place.spec) &&
		kernels::filter_fits(form, (place.spec.dim + kernels::kLanes - 1) / kernels::kLanes * kernels::kLanes);
	pieces_.push_back(std::move(piece));
	return Status::ok();
}

/// Send rows, which fit the slot and the last piece, in the piece's form.
Status
Delta::send(const Place &place, const engine::RowBlock &rows, uint8_t *slot)
{
	Filled &piece = pieces_.back();
	const Block &block = *piece.block;
	const bool with_values = filter_serves(place.spec);
	const size_t row_bytes = vector_bytes(place.spec.element, place.spec.dim);
	const uint32_t n = static_cast<uint32_t>(rows.n_rows);
	const uint8_t *from = static_cast<const uint8_t *>(rows.vectors);
	uint8_t *vectors = slot; // a row's pitch is a multiple of 16 bytes
	RowId *row_ids = reinterpret_cast<RowId *>(slot + static_cast<size_t>(n) * block.pitch_bytes);
	float *values = reinterpret_cast<float *>(row_ids + n);
	std::vector<float> scratch(with_values ? place.spec.dim : 0);
	kernels::StoredRows stored;
	Filled next = piece;

	for (uint32_t i = 0; i < n; i++)
	{
		const uint8_t *row = from + i * row_bytes;

		encode_row(
			place.spec, row, block.form, block.pitch_bytes, vectors + static_cast<size_t>(i) * block.pitch_bytes);
		row_ids[i] = rows.row_ids[i];
		if (!with_values)
			continue;

		const RowValue value = row_value(place.spec, row, scratch.data());

		values[i] = value.value;
		next.n_untrusted += value.value != value.value ? 1 : 0;
		next.max_norm = std::max(next.max_norm, value.max_norm);
	}
	stored.n_rows = n;
	stored.pitch_bytes = block.pitch_bytes;
	stored.from_vectors = vectors;
	stored.from_row_ids = row_ids;
	stored.from_values = with_values ? values : nullptr;
	stored.vectors = block.vectors.as<uint8_t>() + static_cast<size_t>(piece.n_rows) * block.pitch_bytes;
	stored.row_ids = block.row_ids.as<RowId>() + piece.n_rows;
	stored.values = with_values ? block.values.as<float>() + piece.n_rows : nullptr;
	VECTORGPU_TRY(place.lane->send(stored, &ticket_));
	next.n_rows += n;
	piece = std::move(next);
	last_ += n;
	return Status::ok();
}

Status
Delta::append(const Place &place, Form least, const engine::RowBlock &rows, bool may_wait, bool *waits)
{
	const size_t row_bytes = vector_bytes(place.spec.element, place.spec.dim);
	const bool look = place.narrow && place.spec.element == ElementType::kFloat32;
	const uint32_t most_here = static_cast<uint32_t>(
		AppendLane::kSlotBytes / slot_row_bytes(form_pitch(own_form(place.spec.element), place.spec.dim)));

	*waits = false;
	for (size_t done = 0; done < rows.n_rows;)
	{
		const uint8_t *from = static_cast<const uint8_t *>(rows.vectors) + done * row_bytes;
		const size_t left = rows.n_rows - done;
		const bool has_room = !pieces_.empty() && pieces_.back().n_rows < pieces_.back().block->capacity;
		const bool goes_on = has_room || (!pieces_.empty() && can_grow(place));
		size_t here = std::min<size_t>(left, most_here);
		Form form = own_form(place.spec.element);

		if (look)
			form = narrowest_form(goes_on ? pieces_.back().block->form : least, reinterpret_cast<const float *>(from),
				here * place.spec.dim);
		if (!may_wait &&
			(here < left || !has_room || pieces_.back().block->form != form ||
				pieces_.back().block->capacity - pieces_.back().n_rows < here))
		{
			*waits = true;
			return Status::ok();
		}
		if (!has_room || pieces_.back().block->form != form)
			VECTORGPU_TRY(make_room(place, form, left));
		here = std::min<size_t>(here, pieces_.back().block->capacity - pieces_.back().n_rows);

		AppendLane::Lease lease;
		uint8_t *slot = nullptr;

		if (may_wait)
			VECTORGPU_TRY(place.lane->acquire(&lease, &slot));
		else if (!place.lane->try_acquire(&lease, &slot))
		{
			*waits = true;
			return Status::ok();
		}
		VECTORGPU_TRY(send(place, {rows.row_ids.subspan(done, here), from, here}, slot));
		done += here;
	}
	return Status::ok();
}

Status
Delta::trim(const Place &place, uint64_t position)
{
	if (position <= first_)
		return Status::ok();
	first_ = position;
	if (position >= last_)
	{
		// Begin with new pieces: the position may be beyond their rows, and readers may hold them.
		if (!pieces_.empty())
			VECTORGPU_TRY(place.lane->stream().synchronize());
		pieces_.clear();
		start_ = last_ = position;
		return Status::ok();
	}

	size_t n_gone = 0;

	while (start_ + pieces_[n_gone].n_rows <= position)
		start_ += pieces_[n_gone++].n_rows;
	if (n_gone > 0)
		VECTORGPU_TRY(place.lane->stream().synchronize());
	pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(n_gone));
	return Status::ok();
}

std::vector<Delta::Part>
Delta::parts() const
{
	std::vector<Part> parts;
	uint64_t start = start_;

	for (const Filled &piece : pieces_)
	{
		const uint64_t first = std::max(start, first_);
		const uint64_t end = start + piece.n_rows;

		if (first < end)
			parts.push_back({&piece, static_cast<uint32_t>(first - start), static_cast<uint32_t>(end - first), first});
		start = end;
	}
	return parts;
}

} // namespace vectorgpu::cuda
