// See ivf_lists.hpp.
#include "cuda/resident/ivf_lists.hpp"

#include <algorithm>

#include "cuda/resident/rounded_rows.hpp"
#include "kernels/filter/filter.hpp"
#include "kernels/filter/tuning.hpp"

namespace vectorgpu::cuda
{
kernels::Rows
DeviceLists::rows_of_centroids() const
{
	kernels::Rows rows;

	rows.vectors = centroids.as<uint8_t>();
	rows.row_ids = list_ids.as<uint64_t>();
	rows.n_rows = layout.n_lists;
	rows.pitch_bytes = dim_pad * static_cast<uint32_t>(sizeof(float));
	rows.form = kernels::Form::kFloat32;
	return rows;
}

namespace
{

/// Make DeviceLists::ranked of lists of such rows. Without memory for it the filter does not serve. Caller holds the
/// uploader.
Status
make_ranked(Budget *budget, Uploader *uploader, const engine::DistanceSpec &rows, DeviceLists *lists)
{
	const engine::DistanceSpec spec = {rows.metric, ElementType::kFloat32, rows.dim};
	const Shape shape(spec);
	const RoundedPlace place{spec, shape, budget, uploader};
	const Device *device = budget->device();
	const cudaStream_t stream = uploader->stream.get();
	const uint32_t n = lists->n_lists();
	std::shared_ptr<const Block> block;
	Filled made;

	if (n < kernels::kFilterLeastRows || !filter_serves(rows))
		return Status::ok();
	if (const Status status = make_block(budget, kernels::Form::kFloat32, spec.dim, n, true, &block); !status.is_ok())
		return status.code == StatusCode::kOutOfMemory ? Status::ok() : status;
	VECTORGPU_TRY(device->check(cudaMemcpyAsync(block->vectors.as<uint8_t>(), lists->centroids.as<uint8_t>(),
									lists->centroids.bytes(), cudaMemcpyDeviceToDevice, stream),
		"copy centroids"));
	VECTORGPU_TRY(device->check(cudaMemcpyAsync(block->row_ids.as<uint8_t>(), lists->list_ids.as<uint8_t>(),
									lists->list_ids.bytes(), cudaMemcpyDeviceToDevice, stream),
		"copy numbers of lists"));
	made.block = std::move(block);
	made.n_rows = n;
	VECTORGPU_TRY(find_row_values(place, &made));
	VECTORGPU_TRY(make_half_rows(place, made, &made.rounded.halves));
	made.filterable = made.rounded.any() || kernels::filter_fits(kernels::Form::kFloat32, shape.dim_pad);
	VECTORGPU_TRY(uploader->stream.synchronize());
	lists->ranked = std::move(made);
	return Status::ok();
}

} // namespace

Status
make_lists(Budget *budget, Uploader *uploader, const engine::DistanceSpec &spec, const engine::Lists &lists,
	const uint64_t *row_ids, uint32_t dim_pad, bool coded, bool with_vectors, std::shared_ptr<const DeviceLists> *made)
{
	const Device *device = budget->device();
	const engine::ListsLayout layout = lists.layout();
	auto next = std::make_shared<DeviceLists>();
	const std::lock_guard lock(uploader->mutex);
	const cudaStream_t stream = uploader->stream.get();
	const uint32_t n_rows = static_cast<uint32_t>(layout.n_rows);

	next->layout = layout;
	next->dim_pad = dim_pad;
	next->with_vectors = with_vectors;
	VECTORGPU_TRY(next->offsets.allocate(budget, (layout.n_lists + size_t{1}) * sizeof(uint64_t), "offsets of lists"));
	VECTORGPU_TRY(next->centroids.allocate(budget, size_t{layout.n_lists} * dim_pad * sizeof(float), "centroids"));
	VECTORGPU_TRY(next->list_ids.allocate(budget, layout.n_lists * sizeof(uint64_t), "numbers of lists"));
	VECTORGPU_TRY(next->numbers.allocate(budget, layout.n_rows * sizeof(uint32_t), "numbers of rows"));
	VECTORGPU_TRY(next->row_ids.allocate(budget, layout.n_rows * sizeof(uint64_t), "row ids by place"));
	VECTORGPU_TRY(send_bytes(device, uploader, next->offsets.as<uint8_t>(), lists.offsets(), next->offsets.bytes()));
	VECTORGPU_TRY(send_bytes(device, uploader, next->numbers.as<uint8_t>(), lists.numbers(), next->numbers.bytes()));
	VECTORGPU_TRY(device->check(
		cudaMemsetAsync(next->centroids.as<uint8_t>(), 0, next->centroids.bytes(), stream), "clear centroids"));

	// Centroids are dense on the host and padded on the device: send as many rows at a time as fit the staging buffer.
	const size_t row_bytes = layout.dim * sizeof(float);
	const size_t per_round =
		std::max<size_t>(1, std::min(uploader->pinned.bytes(), uploader->staging.bytes()) / row_bytes);

	for (size_t done = 0; done < layout.n_lists;)
	{
		const size_t here = std::min(per_round, layout.n_lists - done);

		VECTORGPU_TRY(send_bytes(
			device, uploader, uploader->staging.get(), lists.centroids() + done * layout.dim, here * row_bytes));
		VECTORGPU_TRY(
			device->check(cudaMemcpy2DAsync(next->centroids.as<float>() + done * dim_pad, dim_pad * sizeof(float),
							  uploader->staging.get(), row_bytes, row_bytes, here, cudaMemcpyDeviceToDevice, stream),
				"pad centroids"));
		done += here;
	}
	VECTORGPU_TRY(
		device->check(kernels::launch_ivf_iota(next->list_ids.as<uint64_t>(), layout.n_lists, stream), "number lists"));
	VECTORGPU_TRY(device->check(kernels::launch_ivf_row_ids(row_ids, next->numbers.as<uint32_t>(), n_rows,
									next->row_ids.as<uint64_t>(), stream),
		"order row ids"));
	VECTORGPU_TRY(make_ranked(budget, uploader, spec, next.get()));
	VECTORGPU_TRY(device->damage("gpu_flip_derived", next->row_ids.as<uint8_t>(), 0, stream));
	VECTORGPU_TRY(uploader->stream.synchronize());
	if (coded)
		VECTORGPU_TRY(make_codes(budget, uploader, lists, &next->codes));
	*made = std::move(next);
	return Status::ok();
}

Status
read_lists(
	const Device *device, Uploader *uploader, const DeviceLists &lists, uint64_t first, size_t n_bytes, uint8_t *bytes)
{
	const engine::ListsLayout &layout = lists.layout;
	const size_t row_bytes = layout.dim * sizeof(float);
	const std::lock_guard lock(uploader->mutex);

	while (n_bytes > 0)
	{
		size_t here = n_bytes;
		const uint8_t *from = nullptr;

		if (first < layout.centroids_at())
		{
			here = std::min<uint64_t>(here, layout.centroids_at() - first);
			from = lists.offsets.as<uint8_t>() + first;
		}
		else if (first < layout.numbers_at())
		{
			// Up to the end of a centroid, since centroids are padded.
			const uint64_t at = first - layout.centroids_at();

			here = std::min<uint64_t>(here, row_bytes - at % row_bytes);
			from = lists.centroids.as<uint8_t>() + at / row_bytes * lists.dim_pad * sizeof(float) + at % row_bytes;
		}
		else if (first < layout.bytes())
		{
			here = std::min<uint64_t>(here, layout.bytes() - first);
			from = lists.numbers.as<uint8_t>() + (first - layout.numbers_at());
		}
		else
			return read_codes(device, uploader, *lists.codes, first - layout.bytes(), n_bytes, bytes);
		VECTORGPU_TRY(receive_bytes(device, uploader, bytes, from, here));
		first += here;
		bytes += here;
		n_bytes -= here;
	}
	return Status::ok();
}

Status
permute_bits(Budget *budget, Uploader *uploader, const DeviceLists &lists, const Held &by_number,
	std::shared_ptr<const Held> *by_place)
{
	auto made = std::make_shared<Held>();

	VECTORGPU_TRY(made->allocate(budget, by_number.bytes(), "tombstones by place"));

	const std::lock_guard lock(uploader->mutex);

	VECTORGPU_TRY(budget->device()->check(
		kernels::launch_ivf_bits(by_number.as<uint8_t>(), lists.numbers.as<uint32_t>(),
			static_cast<uint32_t>(lists.layout.n_rows), made->as<uint8_t>(), uploader->stream.get()),
		"order tombstones"));
	VECTORGPU_TRY(uploader->stream.synchronize());
	*by_place = std::move(made);
	return Status::ok();
}

Status
places_of(Budget *budget, const Stream &stream, const DeviceLists &lists, std::shared_ptr<const Held> *places)
{
	const std::lock_guard lock(lists.places_mutex);
	const uint32_t n_rows = static_cast<uint32_t>(lists.layout.n_rows);

	if (lists.places == nullptr)
	{
		auto made = std::make_shared<Held>();

		VECTORGPU_TRY(made->allocate(budget, lists.layout.n_rows * sizeof(uint32_t), "places of rows"));
		VECTORGPU_TRY(budget->device()->check(kernels::launch_ivf_places(lists.numbers.as<uint32_t>(), n_rows, 0,
												  n_rows, made->as<uint32_t>(), stream.get()),
			"find places of rows"));
		VECTORGPU_TRY(stream.synchronize());
		lists.places = std::move(made);
	}
	*places = lists.places;
	return Status::ok();
}

std::shared_ptr<const Held>
made_places(const DeviceLists &lists)
{
	const std::lock_guard lock(lists.places_mutex);

	return lists.places;
}

} // namespace vectorgpu::cuda
