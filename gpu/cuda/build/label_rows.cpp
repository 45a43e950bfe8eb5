// See label_rows.hpp.
#include "cuda/build/label_rows.hpp"

#include <algorithm>

#include "cuda/build/kmeans.hpp"

namespace vectorgpu::cuda
{
namespace
{

constexpr uint32_t kMostRows = 33792;           // at a time, as in list_builder.cpp ...
constexpr uint32_t kLeastRows = 4096;           // ... and fewer
constexpr size_t kRowBytes = size_t{128} << 20; // of these, since the copy has taken most memory

uint32_t
rows_at_a_time(size_t row_bytes)
{
	const size_t fit = kRowBytes / row_bytes / kernels::kClusterTile * kernels::kClusterTile;

	return static_cast<uint32_t>(std::clamp<size_t>(fit, kLeastRows, kMostRows));
}

/// Label rows from `first` on, n of them, on the stream.
Status
label_some(const ClusterContext &context, const Block &block, uint32_t first, uint32_t n,
	const ClusterCentroids &centroids, ClusterRows *rows, uint32_t *labels)
{
	const GpuWait wait(context.device, kTrainingPatienceNs);

	VECTORGPU_TRY(rows->put_from_device(
		block.vectors.as<uint8_t>() + static_cast<size_t>(first) * block.pitch_bytes, block.pitch_bytes, n));
	VECTORGPU_TRY(rows->assign(centroids, false));
	VECTORGPU_TRY(context.check(cudaMemcpyAsync(labels + first, rows->labels(), n * sizeof(uint32_t),
									cudaMemcpyDeviceToHost, context.stream.get()),
		"read labels"));
	return context.wait();
}

} // namespace

Status
label_rows(Budget *budget, const Block &block, uint32_t n_rows, uint32_t dim, std::span<const float> centroids,
	uint32_t *labels, engine::SearchControl *control)
{
	const uint32_t n_centroids = static_cast<uint32_t>(centroids.size() / dim);
	ClusterContext context;
	ClusterCentroids on_device;
	ClusterRows rows;

	if (block.form != kernels::Form::kFloat32 || block.on_host() || block.pitch_bytes == 0 || n_centroids == 0)
		return Status::error(StatusCode::kUnsupported, "the GPU labels no such rows");

	const uint32_t at_a_time = std::min(n_rows, rows_at_a_time(block.pitch_bytes));

	context.device = budget->device();
	context.budget = budget;
	context.control = control;
	VECTORGPU_TRY(context.stream.create(context.device));
	VECTORGPU_TRY(on_device.create(&context, n_centroids, dim));
	VECTORGPU_TRY(rows.create(&context, at_a_time, dim, 0));

	Status status = on_device.set(centroids.data(), n_centroids);

	for (uint32_t first = 0; first < n_rows && status.is_ok(); first += at_a_time)
		status = label_some(context, block, first, std::min(at_a_time, n_rows - first), on_device, &rows, labels);
	if (!context.device->fatal())
		(void) context.stream.synchronize(); // what is freed now may still be in use after a failure
	return status;
}

} // namespace vectorgpu::cuda
