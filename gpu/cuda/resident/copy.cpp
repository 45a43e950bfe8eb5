// See copy.hpp. Each writer prepares everything that can fail, then changes the copy. Segments being loaded:
// copy_load.cpp.
#include "cuda/resident/copy.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cuda/resident/ivf_lists.hpp"

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

kernels::Rows
Source::rows() const
{
	kernels::Rows rows;

	rows.vectors = block->vectors.as<uint8_t>() + static_cast<size_t>(first) * block->pitch_bytes;
	rows.row_ids = (lists != nullptr ? lists->row_ids : block->row_ids).as<uint64_t>() + first;
	rows.dead = dead == nullptr ? nullptr : dead->as<uint8_t>();
	rows.dead_start = dead_start;
	rows.dead_bits = dead_bits;
	rows.n_rows = n_rows;
	rows.pitch_bytes = block->pitch_bytes;
	rows.form = block->form;
	return rows;
}

Copy::Copy(const engine::CopySpec &spec, Budget *budget, Uploader *uploader, AppendLane *lane, bool narrow)
	: spec_(spec.distance), kind_(spec.kind), with_vectors_(engine::segment_vector_bytes(spec) > 0),
	  shape_(spec.distance), budget_(budget), uploader_(uploader), lane_(lane), narrow_(narrow),
	  snapshot_(std::make_shared<const Snapshot>())
{
}

Copy::~Copy()
{
	if (delta_.ticket() != 0) // nothing is to be written to memory that is given back
		(void) lane_->stream().synchronize();
}

std::shared_ptr<const Snapshot>
Copy::snapshot() const
{
	const std::lock_guard lock(snapshot_mutex_);

	return snapshot_;
}

/// What searches to come are to see: the segments, and this delta. Caller holds the mutex. Throws bad_alloc.
std::shared_ptr<const Snapshot>
Copy::make_snapshot(const Delta &delta, const DeltaDead &dead) const
{
	auto next = std::make_shared<Snapshot>();
	auto add = [&](const Filled &filled) -> Source &
	{
		Source &source = next->sources.emplace_back();

		source.block = filled.block;
		source.max_norm = filled.max_norm;
		source.n_untrusted = filled.n_untrusted;
		source.filterable = filled.filterable;
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
		source.ticket = delta.ticket();
		next->n_rows += part.n_rows;
	}
	return next;
}

void
Copy::publish(std::shared_ptr<const Snapshot> snapshot)
{
	const std::lock_guard lock(snapshot_mutex_);

	snapshot_.swap(snapshot); // the old one goes after the lock
}

Status
Copy::drop_segment(engine::SegmentId id)
{
	const std::lock_guard lock(mutex_);
	auto dropped = segments_.extract(id);

	if (dropped.empty())
		return Status::error(StatusCode::kNotFound, "no such segment");
	try
	{
		publish();
	}
	catch (...)
	{
		segments_.insert(std::move(dropped));
		throw;
	}
	return Status::ok();
}

/// The widest form of the segments, sealed or about to be; with none, the narrowest that there is.
Form
Copy::widest_form() const
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
Copy::append_rows(uint64_t position, const engine::RowBlock &rows, bool may_wait, bool *waits)
{
	VECTORGPU_TRY(check_rows(rows));
	if (position > delta_.last())
		return invalid("the rows leave a gap behind the delta that is held");

	const uint64_t held = delta_.last() - position;

	if (held >= rows.n_rows)
		return Status::ok();

	const size_t n = rows.n_rows - static_cast<size_t>(held);
	// Rows are looked at more than once, and whoever sent them may be changing them.
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
Copy::append_delta(uint64_t position, const engine::RowBlock &rows)
{
	const std::lock_guard lock(mutex_);
	bool waits = false;

	return append_rows(position, rows, true, &waits);
}

/// False, and nothing has happened, if it would have to wait or to allocate on the device.
bool
Copy::append_at_once(uint64_t position, const engine::RowBlock &rows, Status *status)
{
	const std::unique_lock lock(mutex_, std::try_to_lock);
	bool waits = false;

	if (!lock.owns_lock())
		return false;
	*status = append_rows(position, rows, false, &waits);
	return !waits;
}

Status
Copy::trim_delta(uint64_t position)
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
Copy::upload_bits(std::span<const uint8_t> bits, std::shared_ptr<const Held> *held) const
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
Copy::set_tombstones(engine::SegmentId id, std::span<const uint8_t> bits)
{
	const std::lock_guard lock(mutex_);
	const auto found = segments_.find(id);

	if (found == segments_.end())
		return Status::error(StatusCode::kNotFound, "no such segment");

	Segment &segment = found->second;

	if (!segment.searched)
		return invalid("the segment is not sealed");
	if (bits.size() != (segment.n_rows + 7) / 8)
		return invalid("the tombstones do not fit the segment");

	std::shared_ptr<const Held> dead;

	VECTORGPU_TRY(upload_bits(bits, &dead));
	if (segment.lists != nullptr)
	{
		const std::shared_ptr<const Held> by_number = std::move(dead);

		VECTORGPU_TRY(permute_bits(budget_, uploader_, *segment.lists, *by_number, &dead));
	}

	const auto before = std::exchange(segment.dead, std::move(dead));
	const uint64_t bits_before = std::exchange(segment.dead_bits, bits.size() * 8);

	try
	{
		publish();
	}
	catch (...)
	{
		segment.dead = before;
		segment.dead_bits = bits_before;
		throw;
	}
	return Status::ok();
}

Status
Copy::set_delta_tombstones(uint64_t first_position, std::span<const uint8_t> bits)
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

Status
Copy::read_rows(engine::SegmentId id, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) const
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
			const Segment &segment = found->second;

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
		return invalid("rows that are not held");
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

} // namespace vectorgpu::cuda
