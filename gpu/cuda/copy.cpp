// See copy.hpp. Each writer prepares everything that can fail, then changes the copy.
#include "cuda/copy.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "common/half.hpp"
#include "cuda/ivf_lists.hpp"
#include "kernels/fault.hpp"
#include "kernels/filter.hpp"

namespace vectorgpu::cuda
{
namespace
{

using kernels::Form;

constexpr size_t kBlockBytes = size_t{32} << 20;  // of a block of the delta or of a segment being loaded
constexpr uint32_t kLeastBlockRows = 1024;
constexpr uint64_t kMostSegmentRows = uint64_t{1} << 31; // row numbers are 32 bits in the kernels

Status
invalid(const char *message)
{
	return Status::error(StatusCode::kInvalidArgument, message);
}

Status
check_rows(const engine::RowBlock &rows)
{
	if (rows.row_ids.size() != rows.n_rows)
		return invalid("the number of row ids differs from the number of rows");
	if (rows.n_rows > 0 && rows.vectors == nullptr)
		return invalid("rows without vectors");
	return Status::ok();
}

Form
own_form(ElementType element)
{
	return element == ElementType::kFloat32 ? Form::kFloat32 : element == ElementType::kFloat16 ? Form::kFloat16 : Form::kBit;
}

uint32_t
round_up(uint32_t n, uint32_t unit)
{
	return (n + unit - 1) / unit * unit;
}

uint32_t
form_pitch(Form form, uint32_t dim)
{
	const uint32_t padded = round_up(dim, kernels::kLanes);

	switch (form)
	{
		case Form::kFloat32:
			return padded * 4;
		case Form::kFloat16:
			return padded * 2;
		case Form::kByte:
			return padded;
		case Form::kBit:
			return round_up((dim + 7) / 8, kernels::kBitPadBytes);
	}
	return 0;
}

} // namespace

Status
Budget::take(uint64_t bytes)
{
	const uint64_t before = used_.fetch_add(bytes, std::memory_order_relaxed);

	if (most_ != 0 && before + bytes > most_)
	{
		give(bytes);
		return Status::error(StatusCode::kOutOfMemory, "the budget of device memory is used up");
	}
	return Status::ok();
}

Held::~Held()
{
	if (budget_ != nullptr)
		budget_->give(buffer_.bytes());
}

Status
Held::allocate(Budget *budget, size_t bytes, const char *purpose)
{
	VECTORGPU_TRY(budget->take(bytes));
	if (Status status = buffer_.allocate(budget->device(), bytes, purpose); !status.is_ok())
	{
		budget->give(bytes);
		return status;
	}
	budget_ = budget;
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

Shape::Shape(const engine::DistanceSpec &spec) : row_bytes(static_cast<uint32_t>(vector_bytes(spec.element, spec.dim)))
{
	if (spec.element == ElementType::kBit)
		query_bytes = dim_pad = form_pitch(Form::kBit, spec.dim);
	else
	{
		dim_pad = round_up(spec.dim, kernels::kLanes);
		query_bytes = dim_pad * 4;
	}
}

Copy::Copy(const engine::CopySpec &spec, Budget *budget, Uploader *uploader, bool narrow)
	: spec_(spec.distance), kind_(spec.kind), shape_(spec.distance), budget_(budget), uploader_(uploader), narrow_(narrow),
	  snapshot_(std::make_shared<const Snapshot>())
{
}

std::shared_ptr<const Snapshot>
Copy::snapshot() const
{
	const std::lock_guard lock(mutex_);

	return snapshot_;
}

/// Makes what the members say visible to searches to come. Caller holds the mutex. Throws bad_alloc before any change.
void
Copy::publish()
{
	auto next = std::make_shared<Snapshot>();

	for (const auto &[id, segment] : segments_)
		if (segment.sealed != nullptr && segment.n_rows > 0)
		{
			next->sources.push_back({segment.sealed, 0, static_cast<uint32_t>(segment.n_rows), segment.dead, segment.dead_bits, 0,
				segment.lists == nullptr, id, segment.lists});
			next->n_rows += segment.n_rows;
		}

	uint64_t start = delta_start_;

	for (const std::shared_ptr<Block> &block : delta_)
	{
		const uint64_t first = std::max(start, delta_first_);
		const uint64_t last = std::min(start + block->capacity, delta_last_);

		if (first < last)
		{
			next->sources.push_back({block, static_cast<uint32_t>(first - start), static_cast<uint32_t>(last - first), delta_dead_,
				delta_dead_bits_, static_cast<int64_t>(first - delta_dead_first_), false, engine::kDeltaSegment, nullptr});
			next->n_rows += last - first;
		}
		start += block->capacity;
	}
	snapshot_ = std::move(next);
}

Status
Copy::make_block(Form form, uint32_t capacity, bool with_values, std::shared_ptr<Block> *block) const
{
	auto made = std::make_shared<Block>();

	made->form = form;
	made->pitch_bytes = form_pitch(form, spec_.dim);
	made->capacity = capacity;
	VECTORGPU_TRY(made->vectors.allocate(budget_, static_cast<size_t>(capacity) * made->pitch_bytes, "vectors"));
	VECTORGPU_TRY(made->row_ids.allocate(budget_, static_cast<size_t>(capacity) * sizeof(RowId), "row ids"));
	if (with_values)
		VECTORGPU_TRY(made->values.allocate(budget_, static_cast<size_t>(capacity) * sizeof(float), "norms of rows"));
	*block = std::move(made);
	return Status::ok();
}

/// Fills a block's next n rows, through the pinned buffer. Waits until they are there.
Status
Copy::fill(Block *block, const RowId *row_ids, const uint8_t *vectors, uint32_t n, uint32_t *narrow_flags)
{
	const Device *device = budget_->device();
	const std::lock_guard lock(uploader_->mutex);
	const cudaStream_t stream = uploader_->stream.get();
	const uint32_t per_round = static_cast<uint32_t>(
		std::clamp<size_t>(uploader_->pinned.bytes() / (shape_.row_bytes + sizeof(RowId)), 1, n));

	for (uint32_t done = 0; done < n;)
	{
		const uint32_t here = std::min(per_round, n - done);
		const uint32_t at = block->n_rows + done;
		uint8_t *pinned = uploader_->pinned.as<uint8_t>();
		const size_t id_bytes = here * sizeof(RowId);
		const size_t row_bytes = static_cast<size_t>(here) * shape_.row_bytes;

		std::memcpy(pinned, row_ids + done, id_bytes);
		std::memcpy(pinned + id_bytes, vectors + static_cast<size_t>(done) * shape_.row_bytes, row_bytes);
		VECTORGPU_TRY(device->check(cudaMemcpyAsync(block->row_ids.as<RowId>() + at, pinned, id_bytes, cudaMemcpyHostToDevice, stream),
			"send row ids"));
		VECTORGPU_TRY(device->check(
			cudaMemcpyAsync(uploader_->staging.get(), pinned + id_bytes, row_bytes, cudaMemcpyHostToDevice, stream), "send rows"));
		VECTORGPU_TRY(device->check(
			kernels::launch_store_rows(uploader_->staging.get(), spec_.element, spec_.dim, here,
				block->vectors.as<uint8_t>() + static_cast<size_t>(at) * block->pitch_bytes, block->form, block->pitch_bytes, stream),
			"store rows"));
		if (narrow_flags != nullptr)
		{
			uint32_t *flags = uploader_->scratch.as<uint32_t>();

			VECTORGPU_TRY(device->check(cudaMemsetAsync(flags, 0, sizeof(uint32_t), stream), "clear flags"));
			VECTORGPU_TRY(device->check(kernels::launch_narrow_check(uploader_->staging.as<float>(),
											static_cast<uint64_t>(here) * spec_.dim, flags, stream),
				"look at rows"));
			VECTORGPU_TRY(device->check(cudaMemcpyAsync(pinned, flags, sizeof(uint32_t), cudaMemcpyDeviceToHost, stream), "read flags"));
		}
		VECTORGPU_TRY(uploader_->stream.synchronize());
		if (narrow_flags != nullptr)
		{
			uint32_t found;

			std::memcpy(&found, pinned, sizeof(found));
			*narrow_flags |= found;
		}
		done += here;
	}
	return Status::ok();
}

/// Room of a new block that grows. A small budget is not to be spent on room that stays empty.
uint32_t
Copy::least_block_rows() const
{
	const uint64_t bytes = std::min<uint64_t>(kBlockBytes, budget_->most() / 16);

	return std::max<uint32_t>(kLeastBlockRows, static_cast<uint32_t>(bytes / form_pitch(own_form(spec_.element), spec_.dim)));
}

/// Appends rows to the last block with room, and new ones. On failure rows may have been written that nobody knows of.
Status
Copy::append(BlockList *blocks, uint32_t least_rows, const RowId *row_ids, const uint8_t *vectors, size_t n, uint32_t *narrow_flags)
{
	BlockList added;
	std::vector<std::pair<Block *, uint32_t>> filled;
	Block *block = blocks->empty() ? nullptr : blocks->back().get();

	blocks->reserve(blocks->size() + 1 + n / least_rows);
	while (n > 0)
	{
		if (block == nullptr || block->n_rows == block->capacity)
		{
			std::shared_ptr<Block> made;

			VECTORGPU_TRY(make_block(own_form(spec_.element), static_cast<uint32_t>(std::min<size_t>(std::max<size_t>(least_rows, n), 1u << 30)),
				false, &made));
			block = made.get();
			added.push_back(std::move(made));
		}

		const uint32_t here = static_cast<uint32_t>(std::min<size_t>(n, block->capacity - block->n_rows));

		VECTORGPU_TRY(fill(block, row_ids, vectors, here, narrow_flags));
		filled.emplace_back(block, here);
		block = nullptr; // what is left needs a new block
		row_ids += here;
		vectors += static_cast<size_t>(here) * shape_.row_bytes;
		n -= here;
	}
	for (const auto &[into, rows] : filled)
		into->n_rows += rows;
	for (std::shared_ptr<Block> &made : added)
		blocks->push_back(std::move(made));
	return Status::ok();
}

Status
Copy::load_segment(engine::SegmentId id, const engine::RowBlock &rows)
{
	const std::lock_guard lock(mutex_);

	VECTORGPU_TRY(check_rows(rows));

	const auto [found, is_new] = segments_.try_emplace(id);
	Segment &segment = found->second;
	const bool look = narrow_ && spec_.element == ElementType::kFloat32;
	Status status;

	if (segment.sealed != nullptr)
		return invalid("the segment is sealed");
	if (segment.n_rows + rows.n_rows >= kMostSegmentRows)
		status = Status::error(StatusCode::kUnsupported, "a segment of 2^31 rows");
	else
	{
		status = append(&segment.parts, least_block_rows(), rows.row_ids.data(), static_cast<const uint8_t *>(rows.vectors), rows.n_rows,
			look ? &segment.narrow_flags : nullptr);
	}
	if (status.is_ok())
		segment.n_rows += rows.n_rows;
	else if (is_new)
		segments_.erase(found);
	return status;
}

/// One block from a segment's parts, narrowed where that is exact, with what the filter needs.
Status
Copy::merge_parts(Segment *segment, std::shared_ptr<Block> *sealed)
{
	const Device *device = budget_->device();
	Form form = own_form(spec_.element);
	const bool filter = spec_.element != ElementType::kBit && spec_.metric != Metric::kL1;
	std::shared_ptr<Block> block;

	if (form == Form::kFloat32 && narrow_)
		form = (segment->narrow_flags & 1) == 0 ? Form::kByte : (segment->narrow_flags & 2) == 0 ? Form::kFloat16 : Form::kFloat32;
	VECTORGPU_TRY(make_block(form, static_cast<uint32_t>(std::max<uint64_t>(segment->n_rows, 1)), filter, &block));

	const std::lock_guard lock(uploader_->mutex);
	const cudaStream_t stream = uploader_->stream.get();

	for (const std::shared_ptr<Block> &part : segment->parts)
	{
		uint8_t *to = block->vectors.as<uint8_t>() + static_cast<size_t>(block->n_rows) * block->pitch_bytes;

		if (part->form == form)
			VECTORGPU_TRY(device->check(cudaMemcpyAsync(to, part->vectors.as<uint8_t>(),
											static_cast<size_t>(part->n_rows) * block->pitch_bytes, cudaMemcpyDeviceToDevice, stream),
				"join rows"));
		else // the padded row is a row of dim_pad elements
			VECTORGPU_TRY(device->check(kernels::launch_store_rows(part->vectors.as<uint8_t>(), ElementType::kFloat32,
											shape_.dim_pad, part->n_rows, to, form, block->pitch_bytes, stream),
				"narrow rows"));
		VECTORGPU_TRY(device->check(cudaMemcpyAsync(block->row_ids.as<RowId>() + block->n_rows, part->row_ids.as<RowId>(),
										part->n_rows * sizeof(RowId), cudaMemcpyDeviceToDevice, stream),
			"join row ids"));
		block->n_rows += part->n_rows;
	}
	if (filter && block->n_rows > 0)
	{
		auto *stats = uploader_->scratch.as<kernels::RowStats>();
		kernels::RowStats found{};
		const Source whole{block, 0, block->n_rows, nullptr, 0, 0, true, engine::kDeltaSegment, nullptr};

		VECTORGPU_TRY(device->check(cudaMemsetAsync(stats, 0, sizeof(*stats), stream), "clear counts"));
		VECTORGPU_TRY(device->check(kernels::launch_row_values(spec_.metric, whole.rows(), shape_.dim_pad, block->values.as<float>(),
										stats, stream),
			"compute norms"));
		VECTORGPU_TRY(device->check(
			cudaMemcpyAsync(uploader_->pinned.as<uint8_t>(), stats, sizeof(found), cudaMemcpyDeviceToHost, stream), "read counts"));
		VECTORGPU_TRY(uploader_->stream.synchronize());
		std::memcpy(&found, uploader_->pinned.as<uint8_t>(), sizeof(found));
		block->max_norm = std::bit_cast<float>(found.max_norm_bits);
		block->n_untrusted = found.n_untrusted;
		block->filterable = kernels::filter_fits(form, shape_.dim_pad);
	}
#ifdef VECTORGPU_FAULTS
	if (block->n_rows > 0 && device->armed() && device->fault("gpu_flip"))
		VECTORGPU_TRY(device->check(kernels::launch_flip(block->vectors.as<uint8_t>(), 1, stream), "damage rows"));
#endif
	VECTORGPU_TRY(uploader_->stream.synchronize());
	*sealed = std::move(block);
	return Status::ok();
}

Status
Copy::seal_segment(engine::SegmentId id)
{
	const std::lock_guard lock(mutex_);
	const auto found = segments_.find(id);

	if (found == segments_.end())
		return Status::error(StatusCode::kNotFound, "no such segment");

	Segment &segment = found->second;

	if (segment.sealed != nullptr)
		return Status::ok();

	const bool with_lists = kind_ == engine::CopyKind::kLists && segment.n_rows > 0;
	std::shared_ptr<Block> sealed;
	std::shared_ptr<const DeviceLists> lists;

	if (with_lists && segment.loading == nullptr)
		return invalid("the segment has no lists");
	if (with_lists)
		VECTORGPU_TRY(segment.loading->check(spec_.dim, segment.n_rows));
	VECTORGPU_TRY(merge_parts(&segment, &sealed));
	if (with_lists)
		VECTORGPU_TRY(make_lists(budget_, uploader_, *segment.loading, sealed->row_ids.as<uint64_t>(), shape_.dim_pad, &lists));
	segment.sealed = std::move(sealed);
	segment.lists = std::move(lists);
	try
	{
		publish();
	}
	catch (...)
	{
		segment.sealed = nullptr;
		segment.lists = nullptr;
		throw;
	}
	segment.parts.clear();
	segment.loading = nullptr;
	return Status::ok();
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

Status
Copy::append_delta(uint64_t position, const engine::RowBlock &rows)
{
	const std::lock_guard lock(mutex_);

	VECTORGPU_TRY(check_rows(rows));
	if (position > delta_last_)
		return invalid("the rows leave a gap behind the delta that is held");

	const uint64_t held = delta_last_ - position;

	if (held >= rows.n_rows)
		return Status::ok();

	VECTORGPU_TRY(append(&delta_, least_block_rows(), rows.row_ids.data() + held,
		static_cast<const uint8_t *>(rows.vectors) + held * shape_.row_bytes, rows.n_rows - held, nullptr));

	const uint64_t last = delta_last_;

	delta_last_ += rows.n_rows - held;
	try
	{
		publish();
	}
	catch (...)
	{
		// The rows stay where they are, unknown: the next append must not come behind them.
		uint64_t start = delta_start_;

		delta_last_ = last;
		for (const std::shared_ptr<Block> &block : delta_)
		{
			block->n_rows = static_cast<uint32_t>(std::clamp<int64_t>(static_cast<int64_t>(last - start), 0, block->capacity));
			start += block->capacity;
		}
		throw;
	}
	return Status::ok();
}

Status
Copy::trim_delta(uint64_t position)
{
	const std::lock_guard lock(mutex_);
	const BlockList blocks = delta_;
	const uint64_t start = delta_start_;
	const uint64_t first = delta_first_;
	const uint64_t last = delta_last_;

	if (position <= delta_first_)
		return Status::ok();
	delta_first_ = position;
	if (position >= delta_last_)
	{
		// Start anew: the rows behind may be beyond the position, and readers may hold these blocks.
		delta_.clear();
		delta_start_ = delta_last_ = position;
	}
	else
		while (delta_start_ + delta_.front()->capacity <= position)
		{
			delta_start_ += delta_.front()->capacity;
			delta_.erase(delta_.begin());
		}
	try
	{
		publish();
	}
	catch (...)
	{
		delta_ = blocks;
		delta_start_ = start;
		delta_first_ = first;
		delta_last_ = last;
		throw;
	}
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

	if (segment.sealed == nullptr)
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
	std::shared_ptr<const Held> dead;

	VECTORGPU_TRY(upload_bits(bits, &dead));

	const auto before = std::exchange(delta_dead_, std::move(dead));
	const uint64_t bits_before = std::exchange(delta_dead_bits_, bits.size() * 8);
	const uint64_t first_before = std::exchange(delta_dead_first_, first_position);

	try
	{
		publish();
	}
	catch (...)
	{
		delta_dead_ = before;
		delta_dead_bits_ = bits_before;
		delta_dead_first_ = first_before;
		throw;
	}
	return Status::ok();
}

/// Rows of one block back in the element type, exactly.
Status
Copy::read_block(const Block &block, uint32_t first, uint32_t n, RowId *row_ids, uint8_t *vectors) const
{
	const Device *device = budget_->device();
	const std::lock_guard lock(uploader_->mutex);
	const cudaStream_t stream = uploader_->stream.get();
	const uint32_t per_round = static_cast<uint32_t>(std::max<size_t>(1, uploader_->pinned.bytes() / (block.pitch_bytes + sizeof(RowId))));

	while (n > 0)
	{
		const uint32_t here = std::min(n, per_round);
		uint8_t *pinned = uploader_->pinned.as<uint8_t>();
		const size_t id_bytes = here * sizeof(RowId);

		VECTORGPU_TRY(device->check(
			cudaMemcpyAsync(pinned, block.row_ids.as<RowId>() + first, id_bytes, cudaMemcpyDeviceToHost, stream), "read row ids"));
		VECTORGPU_TRY(device->check(
			cudaMemcpyAsync(pinned + id_bytes, block.vectors.as<uint8_t>() + static_cast<size_t>(first) * block.pitch_bytes,
				static_cast<size_t>(here) * block.pitch_bytes, cudaMemcpyDeviceToHost, stream),
			"read rows"));
		VECTORGPU_TRY(uploader_->stream.synchronize());
		std::memcpy(row_ids, pinned, id_bytes);
		for (uint32_t i = 0; i < here; i++)
		{
			const uint8_t *from = pinned + id_bytes + static_cast<size_t>(i) * block.pitch_bytes;
			uint8_t *to = vectors + static_cast<size_t>(i) * shape_.row_bytes;

			if (block.form == own_form(spec_.element))
				std::memcpy(to, from, shape_.row_bytes);
			else
				for (uint32_t e = 0; e < spec_.dim; e++)
				{
					float value;

					if (block.form == Form::kByte)
						value = from[e];
					else
					{
						uint16_t half;

						std::memcpy(&half, from + e * 2, 2);
						value = half_to_float(half);
					}
					std::memcpy(to + e * 4, &value, 4);
				}
		}
		first += here;
		row_ids += here;
		vectors += static_cast<size_t>(here) * shape_.row_bytes;
		n -= here;
	}
	return Status::ok();
}

Status
Copy::read_rows(engine::SegmentId id, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) const
{
	std::vector<std::shared_ptr<const Block>> blocks;
	uint64_t start = 0;
	uint64_t held_first = 0;
	uint64_t held_last = 0;

	{
		const std::lock_guard lock(mutex_);

		if (id == engine::kDeltaSegment)
		{
			blocks.assign(delta_.begin(), delta_.end());
			start = delta_start_;
			held_first = delta_first_;
			held_last = delta_last_;
		}
		else if (const auto found = segments_.find(id); found != segments_.end())
		{
			if (found->second.sealed != nullptr)
				blocks.push_back(found->second.sealed);
			else
				blocks.assign(found->second.parts.begin(), found->second.parts.end());
			held_last = found->second.n_rows;
		}
		else
			return Status::error(StatusCode::kNotFound, "no such segment");
	}
	if (first < held_first || first > held_last || n_rows > held_last - first)
		return invalid("rows that are not held");

	uint8_t *to = static_cast<uint8_t *>(vectors);

	for (const std::shared_ptr<const Block> &block : blocks)
	{
		if (n_rows == 0)
			break;
		if (first < start + block->capacity)
		{
			const uint32_t at = static_cast<uint32_t>(first - start);
			const uint32_t here = static_cast<uint32_t>(std::min<uint64_t>(n_rows, block->capacity - at));

			VECTORGPU_TRY(read_block(*block, at, here, row_ids, to));
			row_ids += here;
			to += static_cast<size_t>(here) * shape_.row_bytes;
			first += here;
			n_rows -= here;
		}
		start += block->capacity;
	}
	return Status::ok();
}

} // namespace vectorgpu::cuda
