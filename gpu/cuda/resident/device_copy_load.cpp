// Segments of a copy: loading rows into blocks, which device_copy_join.cpp joins. See device_copy.hpp.
#include <algorithm>
#include <cstring>

#include "cuda/device/host_team.hpp"
#include "cuda/resident/device_copy.hpp"
#include "cuda/resident/device_graph.hpp"
#include "cuda/resident/ivf_lists.hpp"
#include "cuda/resident/rounded_rows.hpp"
#include "kernels/filter/filter.hpp"
#include "kernels/filter/tuning.hpp"

namespace vectorgpu::cuda
{
namespace
{

using kernels::Form;

constexpr size_t kBlockBytes = size_t{32} << 20; // of a part of a segment being loaded
constexpr uint32_t kLeastBlockRows = 1024;
constexpr uint64_t kMostSegmentRows = uint64_t{1} << 31; // row numbers are 32 bits in the kernels

Status
invalid(const char *message)
{
	return Status::error(StatusCode::kInvalidArgument, message);
}

Status
rows_lost()
{
	return Status::error(StatusCode::kInternal, "rows of the segment found no room again");
}

} // namespace

/// Fill n rows of a block from `first` on, through the pinned buffer: while some travel from one half of it, the next
/// are copied into the other. Waits for the upload. vectors: null for row ids alone.
Status
DeviceCopy::fill(const Block &block, uint32_t first, const RowId *row_ids, const uint8_t *vectors, uint32_t n,
	uint32_t *narrow_flags)
{
	if (block.on_host())
	{
		fill_on_host(block, first, row_ids, vectors, n, narrow_flags);
		return Status::ok();
	}

	const Device *device = budget_->device();
	const std::lock_guard lock(uploader_->mutex);
	const cudaStream_t stream = uploader_->stream.get();
	const size_t each = vectors != nullptr ? shape_.row_bytes : 0;
	const size_t half_bytes = uploader_->pinned.bytes() / 2;
	const uint32_t per_round = static_cast<uint32_t>(std::clamp<size_t>(half_bytes / (each + sizeof(RowId)), 1, n));
	uint32_t *flags = uploader_->scratch.as<uint32_t>();
	bool second = false;

	if (narrow_flags != nullptr)
		VECTORGPU_TRY(device->check(cudaMemsetAsync(flags, 0, sizeof(uint32_t), stream), "clear flags"));
	for (uint32_t done = 0; done < n; second = !second)
	{
		const uint32_t here = std::min(per_round, n - done);
		const uint32_t at = first + done;
		uint8_t *pinned = uploader_->pinned.as<uint8_t>() + (second ? half_bytes : 0);
		const size_t id_bytes = here * sizeof(RowId);
		const size_t row_bytes = here * each;

		std::memcpy(pinned, row_ids + done, id_bytes);
		if (vectors != nullptr)
			HostTeam::get().share(row_bytes, row_bytes, [&](size_t from, size_t to)
				{ std::memcpy(pinned + id_bytes + from, vectors + done * each + from, to - from); });
		if (done > 0) // then the other half can be filled again
			VECTORGPU_TRY(uploader_->stream.synchronize());
		VECTORGPU_TRY(device->check(
			cudaMemcpyAsync(block.row_ids.as<RowId>() + at, pinned, id_bytes, cudaMemcpyHostToDevice, stream),
			"send row ids"));
		done += here;
		if (vectors == nullptr)
			continue;
		VECTORGPU_TRY(device->check(
			cudaMemcpyAsync(uploader_->staging.get(), pinned + id_bytes, row_bytes, cudaMemcpyHostToDevice, stream),
			"send rows"));
		VECTORGPU_TRY(device->check(kernels::launch_store_rows(uploader_->staging.get(), spec_.element, spec_.dim, here,
										block.vectors.as<uint8_t>() + static_cast<size_t>(at) * block.pitch_bytes,
										block.form, block.pitch_bytes, stream),
			"store rows"));
		if (narrow_flags != nullptr)
			VECTORGPU_TRY(device->check(kernels::launch_narrow_check(uploader_->staging.as<float>(),
											static_cast<uint64_t>(here) * spec_.dim, flags, stream),
				"look at rows"));
	}
	if (narrow_flags == nullptr)
		return uploader_->stream.synchronize();

	uint32_t found = 0;

	VECTORGPU_TRY(uploader_->stream.synchronize()); // the last rows have left the buffer
	VECTORGPU_TRY(device->check(
		cudaMemcpyAsync(uploader_->pinned.get(), flags, sizeof(found), cudaMemcpyDeviceToHost, stream), "read flags"));
	VECTORGPU_TRY(uploader_->stream.synchronize());
	std::memcpy(&found, uploader_->pinned.get(), sizeof(found));
	*narrow_flags |= found;
	return Status::ok();
}

/// Return the rows of a new part. Less of a small budget, so that it is not spent on unused room.
uint32_t
DeviceCopy::least_block_rows() const
{
	const uint64_t bytes = std::min<uint64_t>(kBlockBytes, budget_->most() / 16);

	return std::max<uint32_t>(
		kLeastBlockRows, static_cast<uint32_t>(bytes / form_pitch(own_form(spec_.element), spec_.dim)));
}

/// Add an empty part.
Status
DeviceCopy::add_part(bool on_host, uint32_t capacity, std::vector<Filled> *parts) const
{
	const Form form = own_form(spec_.element);
	std::shared_ptr<Block> block;
	Filled made;

	if (on_host)
	{
		VECTORGPU_TRY(make_block_on_host(budget_->device(), form, spec_.dim, capacity, &block));
		made.block = std::move(block);
	}
	else if (with_vectors_)
		VECTORGPU_TRY(make_block(budget_, form, spec_.dim, capacity, false, &made.block));
	else
		VECTORGPU_TRY(make_block_of_ids(budget_, form, capacity, &made.block));
	parts->push_back(std::move(made));
	return Status::ok();
}

/// Append rows to the last part and to new ones. On failure rows may have been written behind the known ones.
Status
DeviceCopy::append(std::vector<Filled> *parts, bool on_host, const engine::RowBlock &rows, uint32_t *narrow_flags)
{
	std::vector<Filled> next = *parts;
	const RowId *row_ids = rows.row_ids.data();
	const uint8_t *vectors = with_vectors_ ? static_cast<const uint8_t *>(rows.vectors) : nullptr;

	for (size_t n = rows.n_rows; n > 0;)
	{
		if (next.empty() || next.back().n_rows == next.back().block->capacity)
		{
			const size_t capacity = std::min<size_t>(std::max<size_t>(least_block_rows(), n), 1u << 30);

			VECTORGPU_TRY(add_part(on_host, static_cast<uint32_t>(capacity), &next));
		}

		Filled &part = next.back();
		const uint32_t here = static_cast<uint32_t>(std::min<size_t>(n, part.block->capacity - part.n_rows));

		VECTORGPU_TRY(fill(*part.block, part.n_rows, row_ids, vectors, here, narrow_flags));
		part.n_rows += here;
		row_ids += here;
		if (vectors != nullptr)
			vectors += static_cast<size_t>(here) * shape_.row_bytes;
		n -= here;
	}
	*parts = std::move(next);
	return Status::ok();
}

Status
DeviceCopy::load_segment(engine::SegmentId id, const engine::RowBlock &rows)
{
	const std::lock_guard lock(mutex_);

	VECTORGPU_TRY(check_rows(rows, with_vectors_));

	const auto [found, is_new] = segments_.try_emplace(id);
	DeviceSegment &segment = found->second;
	const bool look = with_vectors_ && forms_.narrow && spec_.element == ElementType::kFloat32;
	Status status;

	if (segment.sealed.block != nullptr)
		return invalid("the segment is sealed");
	if (segment.rows_lost)
		return rows_lost();
	if (segment.n_rows == 0 && segment.parts.empty())
		segment.on_host = begins_on_host_ && may_read_host_rows();
	if (segment.n_rows + rows.n_rows >= kMostSegmentRows)
		status = Status::error(StatusCode::kUnsupported, "a segment of 2^31 rows");
	else
		status = append(&segment.parts, segment.on_host, rows, look ? &segment.narrow_flags : nullptr);
	if (status.is_ok())
		segment.n_rows += rows.n_rows;
	else if (is_new)
		segments_.erase(found);
	return status;
}

/// Round a block of float32 rows for the filter: to bytes and to binary16, if these serve. Goes without either where it
/// makes the bound wide, or takes memory that other copies may need; the first of both is the one that serves more
/// searches. Caller holds the uploader.
Status
DeviceCopy::make_rounded(Filled *sealed) const
{
	const RoundedPlace place{spec_, shape_, budget_, uploader_};
	const uint64_t n_bytes = uint64_t{sealed->n_rows} * shape_.dim_pad;
	const bool both = forms_.both_roundings;
	RoundedForms &made = sealed->rounded;

	const bool is_read_whole = kind_ == engine::CopyKind::kRows || kind_ == engine::CopyKind::kLists;

	if (!forms_.rounded || !is_read_whole || sealed->block->form != Form::kFloat32)
		return Status::ok();
	made.is_long = n_bytes >= forms_.scaled_least_bytes;
	if (forms_.scaled && made.is_long)
		VECTORGPU_TRY(make_scaled_rows(place, *sealed, &made.scaled));
	if (made.scaled == nullptr || both)
		VECTORGPU_TRY(make_half_rows(place, *sealed, &made.halves));
	if (forms_.scaled && !made.is_long && both && made.halves != nullptr &&
		n_bytes >= forms_.scaled_least_bytes / kernels::kScaledPartBeside)
		VECTORGPU_TRY(make_scaled_rows(place, *sealed, &made.scaled));
	if (!made.any())
		return Status::ok();

	const RoundedRows &rounded = made.scaled != nullptr ? *made.scaled : *made.halves;

	return budget_->device()->damage("gpu_flip_derived", rounded.vectors.as<uint8_t>(), 1, uploader_->stream.get());
}

bool
DeviceCopy::drop_rounded(bool all)
{
	const std::lock_guard lock(mutex_);
	bool dropped = false;

	for (auto &[id, segment] : segments_)
	{
		Filled &sealed = segment.sealed;

		if (all ? !sealed.rounded.any() : sealed.rounded.scaled == nullptr || sealed.rounded.halves == nullptr)
			continue;
		(sealed.rounded.is_long ? sealed.rounded.halves : sealed.rounded.scaled) = nullptr;
		if (all)
		{
			sealed.rounded = {};
			sealed.filterable = kernels::filter_fits(sealed.block->form, shape_.dim_pad);
		}
		dropped = true;
	}
	if (dropped)
		publish(make_snapshot(delta_, delta_dead_));
	return dropped;
}

uint64_t
DeviceCopy::n_scaled_segments() const
{
	const std::lock_guard lock(mutex_);
	uint64_t n = 0;

	for (const auto &[id, segment] : segments_)
		n += segment.sealed.rounded.scaled != nullptr ? 1 : 0;
	return n;
}

/// Caller holds the mutex.
Status
DeviceCopy::prepare(DeviceSegment *segment, bool through_host)
{
	if (segment->sealed.block != nullptr)
		return Status::ok();
	if (segment->rows_lost)
		return rows_lost();

	const bool coded = engine::has_codes(kind_);
	const bool with_lists = (coded || kind_ == engine::CopyKind::kLists) && segment->n_rows > 0;
	const bool with_graph = kind_ == engine::CopyKind::kGraph && segment->n_rows > 0;
	Filled sealed;
	std::shared_ptr<const DeviceLists> lists;
	std::shared_ptr<const DeviceGraph> graph;

	if (with_graph && segment->loading_graph == nullptr)
		return invalid("the segment has no graph");
	if (with_graph)
		VECTORGPU_TRY(segment->loading_graph->check(segment->n_rows));
	if (with_lists && segment->loading == nullptr)
		return invalid("the segment has no lists");
	if (with_lists)
		VECTORGPU_TRY(coded ? segment->loading->check_coded(spec_, segment->n_rows)
							: segment->loading->check(spec_.dim, segment->n_rows));
	VECTORGPU_TRY(segment->on_host && segment->n_rows > 0 ? merge_on_host(segment, &sealed)
														  : merge_parts(segment, through_host, &sealed));
	if (with_lists)
		VECTORGPU_TRY(make_lists(budget_, uploader_, spec_, *segment->loading, sealed.block->row_ids.as<uint64_t>(),
			shape_.dim_pad, coded, with_vectors_, &lists));
	if (with_graph)
		VECTORGPU_TRY(make_graph(budget_, uploader_, *segment->loading_graph, *sealed.block,
			rounded_ ? &spec_ : nullptr, shape_.dim_pad, &graph));
	segment->sealed = std::move(sealed);
	segment->lists = std::move(lists);
	segment->graph = std::move(graph);
	segment->parts.clear();
	segment->gathered = nullptr;
	segment->loading = nullptr;
	segment->loading_graph = nullptr;
	return Status::ok();
}

Status
DeviceCopy::prepare_segment(engine::SegmentId id)
{
	const std::lock_guard lock(mutex_);
	DeviceSegment *const segment = find_segment(id);

	return segment == nullptr ? no_segment() : prepare(segment);
}

Status
DeviceCopy::prepare_through_host(engine::SegmentId id)
{
	const std::lock_guard lock(mutex_);
	DeviceSegment *const segment = find_segment(id);

	return segment == nullptr ? no_segment() : prepare(segment, true);
}

Status
DeviceCopy::seal_segment(engine::SegmentId id)
{
	const std::lock_guard lock(mutex_);
	DeviceSegment *const segment = find_segment(id);

	if (segment == nullptr)
		return no_segment();
	if (segment->searched)
		return Status::ok();
	VECTORGPU_TRY(prepare(segment));
	segment->alive = std::make_shared<char>();
	segment->searched = true;
	publish_or([&] { segment->searched = false; });
	return Status::ok();
}

} // namespace vectorgpu::cuda
