// See kmeans.hpp: rows and centroids of k-means in device memory.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "cuda/build/kmeans.hpp"
#include "cuda/device/host_team.hpp"

namespace vectorgpu::cuda
{
namespace
{

constexpr int kScaledExponent =
	12; // centroids less the shift lie within ±2^12 when scaled: rows may be 16 times as far away
constexpr size_t kStagingBytes = 16u << 20;    // of rows that host threads put: those of a request, as a rule
constexpr size_t kLeastStagedBytes = 1u << 20; // fewer are not worth waking threads
constexpr size_t kSentBytes = 2u << 20;        // at a time, while the next ones are put
constexpr int kShiftBits = 8; // of the shift: rows of bytes are still exact in binary16 when it is subtracted

uint32_t
pad_to_lanes(uint32_t dim)
{
	return (dim + kernels::kLanes - 1) / kernels::kLanes * kernels::kLanes;
}

/// Return the smallest e with |x| <= 2^e; 0 if there is none.
int
exponent_above(double x)
{
	int exponent = 0;

	if (!(x > 0) || !std::isfinite(x))
		return 0;
	(void) std::frexp(x, &exponent);
	return exponent;
}

/// The shift and scale with the smallest error of products: around the mean of the centroids.
struct Narrowing
{
	std::vector<float> shift; // [dim_pad]
	float scale;
};

Narrowing
plan_narrowing(const float *centroids, uint32_t n, uint32_t dim, uint32_t dim_pad)
{
	Narrowing plan = {std::vector<float>(dim_pad, 0.0f), 1.0f};
	std::vector<double> mean(dim, 0.0);
	double most = 0;
	double most_shifted = 0;

	for (size_t c = 0; c < n; c++)
		for (size_t d = 0; d < dim; d++)
		{
			const double x = static_cast<double>(centroids[c * dim + d]);

			mean[d] += x / n;
			most = std::max(most, std::abs(x));
		}

	const double quantum = std::ldexp(1.0, exponent_above(most) - kShiftBits);

	for (size_t d = 0; d < dim; d++)
		plan.shift[d] = static_cast<float>(std::rint(mean[d] / quantum) * quantum);
	for (size_t c = 0; c < n; c++)
		for (size_t d = 0; d < dim; d++)
			most_shifted = std::max(most_shifted,
				std::abs(static_cast<double>(centroids[c * dim + d]) - static_cast<double>(plan.shift[d])));

	const int exponent = exponent_above(most_shifted > most / 256 ? most_shifted : most);

	plan.scale = static_cast<float>(std::ldexp(1.0, std::clamp(kScaledExponent - exponent, -100, 100)));
	return plan;
}

std::atomic<uint64_t> next_id{1};

} // namespace

Status
ClusterContext::wait() const
{
	VECTORGPU_TRY(stream.synchronize(kTrainingPatienceNs));
	if (control == nullptr)
		return Status::ok();
	control->progress.fetch_add(1, std::memory_order_relaxed);
	return control->stop.load(std::memory_order_relaxed)
		? Status::error(StatusCode::kCancelled, "the training was stopped")
		: Status::ok();
}

Status
ClusterCentroids::create(ClusterContext *context, uint32_t capacity, uint32_t dim)
{
	const size_t padded = kernels::padded_clusters(capacity);

	context_ = context;
	capacity_ = capacity;
	dim_ = dim;
	dim_pad_ = pad_to_lanes(dim);
	VECTORGPU_TRY(
		vectors_.allocate(context->budget, static_cast<size_t>(capacity) * dim_pad_ * sizeof(float), "centroids"));
	VECTORGPU_TRY(narrow_.allocate(context->budget, padded * kernels::narrow_pitch(dim) * sizeof(__half), "centroids"));
	VECTORGPU_TRY(half_norms_.allocate(context->budget, padded * sizeof(float), "centroids"));
	VECTORGPU_TRY(shift_.allocate(context->budget, dim_pad_ * sizeof(float), "centroids"));
	return largest_.allocate(context->budget, sizeof(kernels::NarrowError), "centroids");
}

Status
ClusterCentroids::set(const float *centroids, uint32_t n)
{
	const cudaStream_t stream = context_->stream.get();
	const Narrowing plan = plan_narrowing(centroids, n, dim_, dim_pad_);
	const GpuWait wait(context_->device, kTrainingPatienceNs);
	const uint32_t padded = kernels::padded_clusters(n);
	const std::vector<float> behind(padded - n, std::numeric_limits<float>::infinity());

	n_ = n;
	id_ = next_id.fetch_add(1, std::memory_order_relaxed);
	scale_ = plan.scale;
	VECTORGPU_TRY(context_->check(
		cudaMemsetAsync(vectors_.as<float>(), 0, static_cast<size_t>(n) * dim_pad_ * sizeof(float), stream),
		"clear centroids"));
	VECTORGPU_TRY(context_->check(cudaMemcpy2DAsync(vectors_.as<float>(), dim_pad_ * sizeof(float), centroids,
									  dim_ * sizeof(float), dim_ * sizeof(float), n, cudaMemcpyHostToDevice, stream),
		"send centroids"));
	VECTORGPU_TRY(context_->check(cudaMemcpyAsync(shift_.as<float>(), plan.shift.data(), dim_pad_ * sizeof(float),
									  cudaMemcpyHostToDevice, stream),
		"send centroids"));
	VECTORGPU_TRY(
		context_->check(cudaMemsetAsync(narrow_.as<uint8_t>(), 0,
							static_cast<size_t>(padded) * kernels::narrow_pitch(dim_) * sizeof(__half), stream),
			"clear centroids"));
	if (!behind.empty())
		VECTORGPU_TRY(context_->check(cudaMemcpyAsync(half_norms_.as<float>() + n, behind.data(),
										  behind.size() * sizeof(float), cudaMemcpyHostToDevice, stream),
			"send centroids"));
	VECTORGPU_TRY(refresh());
	return context_->wait(); // the caller may free the host's memory
}

Status
ClusterCentroids::get(float *centroids) const
{
	const GpuWait wait(context_->device, kTrainingPatienceNs);

	VECTORGPU_TRY(context_->check(
		cudaMemcpy2DAsync(centroids, dim_ * sizeof(float), vectors_.as<float>(), dim_pad_ * sizeof(float),
			dim_ * sizeof(float), n_, cudaMemcpyDeviceToHost, context_->stream.get()),
		"read centroids"));
	return context_->wait();
}

Status
ClusterCentroids::refresh()
{
	const cudaStream_t stream = context_->stream.get();
	kernels::NarrowArgs args;

	VECTORGPU_TRY(context_->check(
		cudaMemsetAsync(largest_.as<uint8_t>(), 0, sizeof(kernels::NarrowError), stream), "clear norms"));
	args.vectors = vectors_.as<float>();
	args.shift = shift_.as<float>();
	args.scale = scale_;
	args.n = n_;
	args.dim = dim_;
	args.dim_pad = dim_pad_;
	args.narrow = narrow_.as<__half>();
	args.half_norms = half_norms_.as<float>();
	args.largest = largest_.as<kernels::NarrowError>();
	return context_->check(kernels::launch_narrow(args, stream), "narrow centroids");
}

Status
ClusterRows::create(ClusterContext *context, uint32_t capacity, uint32_t dim, uint32_t most_clusters)
{
	context_ = context;
	capacity_ = capacity;
	dim_ = dim;
	dim_pad_ = pad_to_lanes(dim);
	VECTORGPU_TRY(vectors_.allocate(context->budget, static_cast<size_t>(capacity) * dim_pad_ * sizeof(float), "rows"));
	VECTORGPU_TRY(narrow_.allocate(
		context->budget, static_cast<size_t>(capacity) * kernels::narrow_pitch(dim) * sizeof(__half), "rows"));
	VECTORGPU_TRY(errors_.allocate(context->budget, capacity * sizeof(kernels::NarrowError), "rows"));
	VECTORGPU_TRY(labels_.allocate(context->budget, capacity * sizeof(uint32_t), "labels"));
	VECTORGPU_TRY(scores_.allocate(context->budget, capacity * sizeof(float), "labels"));
	VECTORGPU_TRY(doubtful_.allocate(context->budget, capacity * sizeof(kernels::Doubtful), "labels"));
	VECTORGPU_TRY(counters_.allocate(context->budget, 4 * sizeof(uint32_t), "counters"));
	return most_clusters == 0 ? Status::ok() : make_groups(most_clusters);
}

Status
ClusterRows::put(const float *rows, size_t row_stride, uint32_t n)
{
	return copy_in(rows, row_stride * sizeof(float), n, cudaMemcpyHostToDevice);
}

Status
ClusterRows::put_from_device(const void *rows, size_t row_bytes, uint32_t n)
{
	return copy_in(rows, row_bytes, n, cudaMemcpyDeviceToDevice);
}

/// n other rows are to come: forget those before, and clear the padding.
Status
ClusterRows::begin_rows(uint32_t n)
{
	n_ = n;
	narrowed_for_ = 0;
	if (n == 0 || dim_ == dim_pad_)
		return Status::ok();
	return context_->check(cudaMemsetAsync(vectors_.as<float>(), 0, static_cast<size_t>(n) * dim_pad_ * sizeof(float),
							   context_->stream.get()),
		"clear rows");
}

/// Copy rows to those from `first` on.
Status
ClusterRows::copy_some(uint32_t first, uint32_t n, const void *rows, size_t row_bytes, cudaMemcpyKind kind)
{
	return context_->check(
		cudaMemcpy2DAsync(vectors_.as<float>() + static_cast<size_t>(first) * dim_pad_, dim_pad_ * sizeof(float), rows,
			row_bytes, dim_ * sizeof(float), n, kind, context_->stream.get()),
		"send rows");
}

Status
ClusterRows::copy_in(const void *rows, size_t row_bytes, uint32_t n, cudaMemcpyKind kind)
{
	const GpuWait wait(context_->device, kTrainingPatienceNs);

	VECTORGPU_TRY(begin_rows(n));
	return n == 0 ? Status::ok() : copy_some(0, n, rows, row_bytes, kind);
}

/// False: there is no such memory.
bool
ClusterRows::make_staging()
{
	if (staging_.get() == nullptr && !staging_failed_)
		staging_failed_ =
			!staging_
				 .allocate(context_->device,
					 std::min(kStagingBytes, static_cast<size_t>(capacity_) * dim_ * sizeof(float)), "rows")
				 .is_ok();
	return staging_.get() != nullptr;
}

Status
ClusterRows::put_by_threads(const float *rows, uint32_t n)
{
	const size_t row_bytes = dim_ * sizeof(float);
	const size_t n_bytes = n * row_bytes;
	const uint32_t least = static_cast<uint32_t>(kSentBytes / row_bytes);
	Status status = Status::ok();
	size_t sent = 0;

	if (n_bytes < kLeastStagedBytes || n_bytes > kStagingBytes || !make_staging())
		return put(rows, dim_, n);

	const GpuWait wait(context_->device, kTrainingPatienceNs);
	float *const to = staging_.as<float>();

	VECTORGPU_TRY(context_->stream.synchronize(kTrainingPatienceNs)); // rows before may still be sent from there
	VECTORGPU_TRY(begin_rows(n));
	HostTeam::get().share_in_order(
		n, n_bytes, [&](size_t first, size_t last)
		{ std::memcpy(to + first * dim_, rows + first * dim_, (last - first) * row_bytes); },
		[&](size_t, size_t last)
		{
			if (!status.is_ok() || (last < n && last - sent < least))
				return;
			status = copy_some(static_cast<uint32_t>(sent), static_cast<uint32_t>(last - sent), to + sent * dim_,
				row_bytes, cudaMemcpyHostToDevice);
			sent = last;
		});
	return status;
}

/// Narrow the rows by the shift and scale of these centroids. Counter 3 counts rows that are not finite.
Status
ClusterRows::narrow(const ClusterCentroids &centroids)
{
	const cudaStream_t stream = context_->stream.get();
	kernels::NarrowArgs args;

	if (narrowed_for_ == centroids.id())
		return Status::ok();
	VECTORGPU_TRY(
		context_->check(cudaMemsetAsync(counters_.as<uint32_t>() + 3, 0, sizeof(uint32_t), stream), "clear counters"));
	args.vectors = vectors_.as<float>();
	args.shift = centroids.shift_.as<float>();
	args.scale = centroids.scale();
	args.n = n_;
	args.dim = dim_;
	args.dim_pad = dim_pad_;
	args.narrow = narrow_.as<__half>();
	args.errors = errors_.as<kernels::NarrowError>();
	args.n_not_finite = counters_.as<uint32_t>() + 3;
	VECTORGPU_TRY(context_->check(kernels::launch_narrow(args, stream), "narrow rows"));
	narrowed_for_ = centroids.id();
	return Status::ok();
}

Status
ClusterRows::check_finite(const ClusterCentroids &centroids)
{
	const GpuWait wait(context_->device, kTrainingPatienceNs);
	uint32_t n_not_finite = 0;

	if (n_ == 0)
		return Status::ok();
	VECTORGPU_TRY(narrow(centroids));
	VECTORGPU_TRY(context_->check(cudaMemcpyAsync(&n_not_finite, counters_.as<uint32_t>() + 3, sizeof(uint32_t),
									  cudaMemcpyDeviceToHost, context_->stream.get()),
		"read counters"));
	VECTORGPU_TRY(context_->wait());
	return n_not_finite == 0
		? Status::ok()
		: Status::error(StatusCode::kInvalidArgument, "a training row has an element that is not finite");
}

kernels::AssignArgs
ClusterRows::arguments(const ClusterCentroids &centroids) const
{
	kernels::AssignArgs args;

	args.rows = vectors_.as<float>();
	args.narrow_rows = narrow_.as<__half>();
	args.row_errors = errors_.as<kernels::NarrowError>();
	args.centroids = centroids.vectors_.as<float>();
	args.narrow_centroids = centroids.narrow_.as<__half>();
	args.half_norms = centroids.half_norms_.as<float>();
	args.largest = centroids.largest_.as<kernels::NarrowError>();
	args.scale = centroids.scale();
	args.n_rows = n_;
	args.n_clusters = centroids.n();
	args.dim = dim_;
	args.dim_pad = dim_pad_;
	args.labels = labels_.as<uint32_t>();
	args.doubtful = doubtful_.as<kernels::Doubtful>();
	args.n_doubtful = counters_.as<uint32_t>();
	return args;
}

Status
ClusterRows::assign(const ClusterCentroids &centroids, bool want_scores)
{
	const cudaStream_t stream = context_->stream.get();
	const kernels::AssignArgs args = arguments(centroids);

	if (n_ == 0)
		return Status::ok();
	VECTORGPU_TRY(narrow(centroids));
	VECTORGPU_TRY(context_->check(cudaMemsetAsync(args.n_doubtful, 0, 3 * sizeof(uint32_t), stream), "clear counters"));
	VECTORGPU_TRY(context_->check(kernels::launch_assign(args, stream), "assign rows"));
	if (!want_scores)
		return Status::ok();
	return context_->check(kernels::launch_label_scores(args, scores_.as<float>(), stream), "score rows");
}

/// Make room for group() by at most most_clusters clusters.
Status
ClusterRows::make_groups(uint32_t n_clusters)
{
	kernels::GroupArgs args;

	VECTORGPU_TRY(numbers_.allocate(context_->budget, capacity_ * sizeof(uint32_t), "rows by cluster"));
	VECTORGPU_TRY(sorted_labels_.allocate(context_->budget, capacity_ * sizeof(uint32_t), "rows by cluster"));
	VECTORGPU_TRY(order_.allocate(context_->budget, capacity_ * sizeof(uint32_t), "rows by cluster"));
	VECTORGPU_TRY(context_->check(
		kernels::launch_numbers(numbers_.as<uint32_t>(), capacity_, context_->stream.get()), "number rows"));
	args.n_rows = capacity_;
	args.n_clusters = n_clusters;
	VECTORGPU_TRY(context_->check(kernels::group_rows(&args, context_->stream.get()), "ask for the room of a sort"));
	VECTORGPU_TRY(temp_.allocate(context_->budget, std::max<size_t>(args.temp_bytes, 1), "rows by cluster"));
	VECTORGPU_TRY(first_.allocate(context_->budget, (n_clusters + size_t{1}) * sizeof(uint32_t), "rows by cluster"));
	VECTORGPU_TRY(
		means_.allocate(context_->budget, static_cast<size_t>(n_clusters) * dim_pad_ * sizeof(double), "means"));
	most_clusters_ = n_clusters;
	return Status::ok();
}

kernels::UpdateArgs
ClusterRows::update_arguments(const ClusterCentroids &centroids) const
{
	kernels::UpdateArgs args;

	args.rows = vectors_.as<float>();
	args.errors = scores_.as<float>();
	args.order = order_.as<uint32_t>();
	args.first = first_.as<uint32_t>();
	args.n_clusters = centroids.n();
	args.dim = dim_;
	args.dim_pad = dim_pad_;
	args.means = means_.as<double>();
	args.centroids = centroids.vectors_.as<float>();
	return args;
}

Status
ClusterRows::group(const ClusterCentroids &centroids, double *error_sums)
{
	const cudaStream_t stream = context_->stream.get();
	kernels::GroupArgs args;

	if (centroids.n() > most_clusters_)
		return Status::error(StatusCode::kInternal, "there is no room to group rows by this number of clusters");
	args.labels = labels_.as<uint32_t>();
	args.numbers = numbers_.as<uint32_t>();
	args.sorted_labels = sorted_labels_.as<uint32_t>();
	args.order = order_.as<uint32_t>();
	args.first = first_.as<uint32_t>();
	args.n_rows = n_;
	args.n_clusters = centroids.n();
	args.temp = temp_.as<uint8_t>();
	args.temp_bytes = temp_.bytes();
	VECTORGPU_TRY(context_->check(kernels::group_rows(&args, stream), "sort rows by cluster"));

	kernels::UpdateArgs sums = update_arguments(centroids);

	sums.error_sums = error_sums;
	return context_->check(kernels::launch_error_sums(sums, stream), "sum up errors");
}

Status
ClusterRows::update(ClusterCentroids *centroids, bool spherical)
{
	kernels::UpdateArgs args = update_arguments(*centroids);

	args.spherical = spherical;
	return context_->check(kernels::launch_means(args, context_->stream.get()), "compute means");
}

} // namespace vectorgpu::cuda
