// See kmeans.hpp: seeds and Lloyd's algorithm. All decisions besides distances and means are those of the CPU
// (engine/ivf/kmeans_policy.hpp).
#include "cuda/build/kmeans.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <system_error>
#include <thread>

#include "common/limits.hpp"
#include "engine/ivf/kmeans_policy.hpp"
#include "engine/ivf/kmeans_seed.hpp"

namespace vectorgpu::cuda
{
namespace
{

using namespace engine::ivf;

using Clock = std::chrono::steady_clock;

double
ms_since(Clock::time_point start)
{
	return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Call work(i) for all i < n, with up to n_threads threads.
template <class Work>
void
in_parallel(size_t n, size_t n_threads, const Work &work)
{
	std::atomic<size_t> next{0};
	std::vector<std::thread> helpers;
	const auto take = [&]
	{
		for (size_t i = next.fetch_add(1); i < n; i = next.fetch_add(1))
			work(i);
	};

	helpers.reserve(n_threads);
	try
	{
		for (size_t i = 1; i < std::min(n, n_threads); i++)
			helpers.emplace_back(take);
	}
	catch (const std::exception &) // no thread, or no memory for one: fewer threads do
	{
	}
	take();
	for (std::thread &helper : helpers)
		helper.join();
}

class Training
{
public:
	Training(ClusterContext *context, const KMeansSpec &spec, const RowsView &rows, size_t n_threads, KMeansRoom *room)
		: context_(context), spec_(spec), host_rows_(rows), n_threads_(std::max<size_t>(n_threads, 1)),
		  random_{spec.seed}, rows_(room->rows), centroids_(room->centroids), error_sums_(room->error_sums)
	{
	}

	Status run(bool seeds_given, float *centroids, uint64_t *sizes, KMeansReport *report, KMeansTimes *times)
	{
		Clock::time_point start = Clock::now();

		VECTORGPU_TRY(rows_.put(host_rows_.rows, host_rows_.row_stride, static_cast<uint32_t>(spec_.n_rows)));
		VECTORGPU_TRY(context_->wait());
		times->upload_ms = ms_since(start);
		start = Clock::now();
		if (!seeds_given)
			VECTORGPU_TRY(seed(centroids));
		times->seeds_ms = ms_since(start);
		VECTORGPU_TRY(centroids_.set(centroids, spec_.n_clusters));
		VECTORGPU_TRY(rows_.check_finite(centroids_));
		start = Clock::now();
		VECTORGPU_TRY(lloyd(spec_.max_iterations));
		times->iterations_ms = ms_since(start);
		VECTORGPU_TRY(centroids_.get(centroids));
		put_used_first(centroids, sizes);
		if (report != nullptr)
			*report = report_;
		return Status::ok();
	}

private:
	uint64_t size(size_t c) const { return first_[c + 1] - first_[c]; }

	/// Compute labels, scores and groups of the rows for the present centroids. Waits.
	Status assign()
	{
		const uint32_t k = centroids_.n();
		const cudaStream_t stream = context_->stream.get();
		const GpuWait wait(context_->device, kTrainingPatienceNs);

		VECTORGPU_TRY(rows_.assign(centroids_, true));
		VECTORGPU_TRY(rows_.group(centroids_, error_sums_.as<double>()));
		read_first_.resize(k + size_t{1});
		sums_.resize(k);
		VECTORGPU_TRY(context_->check(cudaMemcpyAsync(read_first_.data(), rows_.first(),
										  (k + size_t{1}) * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream),
			"read sizes"));
		VECTORGPU_TRY(context_->check(
			cudaMemcpyAsync(sums_.data(), error_sums_.as<double>(), k * sizeof(double), cudaMemcpyDeviceToHost, stream),
			"read errors"));
		VECTORGPU_TRY(context_->wait());
		first_.assign(read_first_.begin(), read_first_.end());
		return Status::ok();
	}

	/// See run_lloyd of engine/ivf.
	Status lloyd(uint32_t max_iterations)
	{
		double before = 0;
		bool moved = false;

		report_ = {};
		for (uint32_t iteration = 0;; iteration++)
		{
			VECTORGPU_TRY(assign());

			const uint32_t k = centroids_.n();
			const bool last = iteration >= max_iterations;
			uint32_t n_empty = 0;

			report_.inertia = 0;
			report_.largest = 0;
			for (size_t c = 0; c < k; c++)
			{
				n_empty += size(c) == 0;
				report_.largest = std::max(report_.largest, size(c));
				report_.inertia += sums_[c];
			}
			report_.n_iterations = iteration;
			report_.n_used = k - n_empty;
			report_.converged =
				iteration > 0 && !moved && before - report_.inertia <= static_cast<double>(spec_.tolerance) * before;
			if (n_empty == 0 && (last || report_.converged))
				return Status::ok();
			if (iteration >= max_iterations + kExtraIterations)
				return Status::ok();
			before = report_.inertia;
			VECTORGPU_TRY(rows_.update(&centroids_, spec_.kind == ClusterKind::kSpherical));
			VECTORGPU_TRY(split(&moved));
			if (n_empty > 0 && !moved && (last || report_.converged))
				return Status::ok(); // fewer different rows than clusters: they stay empty
			VECTORGPU_TRY(centroids_.refresh());
		}
	}

	Status split(bool *moved)
	{
		const SplitPlan plan = {first_.data(), centroids_.n(), sums_.data()};
		Status status;
		const uint32_t n_moved = plan_splits(plan,
			[&](size_t c, size_t donor)
			{
				if (status.is_ok())
					status = move_to_row_of(c, donor);
			});

		report_.n_splits += n_moved;
		*moved = n_moved > 0;
		return status;
	}

	/// Move a centroid to a row of the donor that differs from the donor's centroid.
	Status move_to_row_of(size_t c, size_t donor)
	{
		const cudaStream_t stream = context_->stream.get();
		const uint64_t n = size(donor);
		const uint64_t start = random_.below(n);
		const size_t row_bytes = rows_.dim_pad() * sizeof(float);

		donor_order_.resize(n);
		{
			const GpuWait wait(context_->device, kTrainingPatienceNs);

			VECTORGPU_TRY(context_->check(cudaMemcpyAsync(donor_order_.data(), rows_.order() + first_[donor],
											  n * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream),
				"read a cluster"));
			VECTORGPU_TRY(context_->wait());
		}
		for (uint64_t i = 0; i < n; i++)
		{
			const uint32_t row = donor_order_[(start + i) % n];
			const GpuWait wait(context_->device);
			float error = 0;

			VECTORGPU_TRY(context_->check(
				cudaMemcpyAsync(&error, rows_.scores() + row, sizeof(error), cudaMemcpyDeviceToHost, stream),
				"read an error"));
			VECTORGPU_TRY(context_->wait());
			if (!(error > 0))
				continue;
			return context_->check(cudaMemcpyAsync(centroids_.vectors() + c * rows_.dim_pad(),
									   rows_.vectors() + static_cast<size_t>(row) * rows_.dim_pad(), row_bytes,
									   cudaMemcpyDeviceToDevice, stream),
				"move a centroid");
		}
		return Status::ok();
	}

	/// Draw rows as seeds. index: the numbers of the rows to draw from, or null for all. scratch: [n_rows] each.
	void draw(const uint32_t *index, size_t n_rows, uint32_t n_clusters, Random *random, uint32_t *numbers,
		float *distances, float *centroids) const
	{
		const RowSource source = {host_rows_.rows, host_rows_.row_stride, index};
		Call call;

		call.progress = [](void *context, uint64_t, uint64_t)
		{
			engine::SearchControl *control = static_cast<engine::SearchControl *>(context);

			if (control == nullptr)
				return true;
			control->progress.fetch_add(1, std::memory_order_relaxed);
			return !control->stop.load(std::memory_order_relaxed);
		};
		call.progress_context = context_->control;
		if (n_rows > n_clusters) // if stopped, the next wait reports it
			(void) seed_plus_plus(
				source, n_rows, spec_.dim, n_clusters, random, {numbers, distances}, centroids, call, {});
		else
			seed_random(source, n_rows, spec_.dim, n_clusters, random, numbers, centroids);
	}

	/// Draw seeds by k-means++; for many clusters by two levels; the first is trained.
	Status seed(float *centroids)
	{
		std::vector<uint32_t> numbers(spec_.n_rows);
		std::vector<float> distances(spec_.n_rows);

		if (spec_.n_clusters < kTwoLevelClusters || spec_.n_rows <= spec_.n_clusters)
		{
			draw(nullptr, spec_.n_rows, spec_.n_clusters, &random_, numbers.data(), distances.data(), centroids);
			return Status::ok();
		}

		const uint32_t n_coarse = n_first_level(spec_.n_clusters);
		std::vector<float> coarse(static_cast<size_t>(n_coarse) * spec_.dim);
		std::vector<uint32_t> order(spec_.n_rows);
		std::vector<uint64_t> shares(n_coarse);

		draw(nullptr, spec_.n_rows, n_coarse, &random_, numbers.data(), distances.data(), coarse.data());
		VECTORGPU_TRY(centroids_.set(coarse.data(), n_coarse));
		VECTORGPU_TRY(rows_.check_finite(centroids_));
		VECTORGPU_TRY(lloyd(kSeedIterations));
		{
			const GpuWait wait(context_->device, kTrainingPatienceNs);

			VECTORGPU_TRY(context_->check(cudaMemcpyAsync(order.data(), rows_.order(), spec_.n_rows * sizeof(uint32_t),
											  cudaMemcpyDeviceToHost, context_->stream.get()),
				"read clusters"));
			VECTORGPU_TRY(context_->wait());
		}
		share_out_clusters(first_.data(), n_coarse, spec_.n_clusters, shares.data());

		std::vector<float *> begins;
		std::vector<Random> randoms;

		for (size_t i = 0; i < n_coarse; i++)
		{
			begins.push_back(centroids);
			randoms.push_back({random_.next()});
			centroids += shares[i] * spec_.dim;
		}
		in_parallel(n_coarse, n_threads_,
			[&](size_t i)
			{
				if (size(i) > 0)
					draw(order.data() + first_[i], size(i), static_cast<uint32_t>(shares[i]), &randoms[i],
						numbers.data() + first_[i], distances.data() + first_[i], begins[i]);
			});
		return Status::ok();
	}

	/// Order clusters as engine/ivf does: those with rows first, then copies of the first.
	void put_used_first(float *centroids, uint64_t *sizes) const
	{
		const size_t dim = spec_.dim;
		const size_t k = spec_.n_clusters;
		size_t n_used = 0;

		for (size_t c = 0; c < k; c++)
		{
			if (size(c) == 0)
				continue;
			if (c != n_used)
				std::copy_n(centroids + c * dim, dim, centroids + n_used * dim);
			if (sizes != nullptr)
				sizes[n_used] = size(c);
			n_used++;
		}
		for (size_t c = n_used; c < k; c++)
		{
			std::copy_n(centroids, dim, centroids + c * dim);
			if (sizes != nullptr)
				sizes[c] = 0;
		}
	}

	ClusterContext *context_;
	const KMeansSpec &spec_;
	const RowsView host_rows_;
	const size_t n_threads_;
	Random random_;
	ClusterRows &rows_;
	ClusterCentroids &centroids_;
	Held &error_sums_;
	std::vector<uint32_t> read_first_;
	std::vector<uint64_t> first_; // [n_clusters of the level + 1]
	std::vector<double> sums_;
	std::vector<uint32_t> donor_order_;
	KMeansReport report_{};
};

} // namespace

Status
KMeansRoom::create(ClusterContext *context, uint32_t n_rows, uint32_t dim, uint32_t n_clusters)
{
	VECTORGPU_TRY(rows.create(context, n_rows, dim, n_clusters));
	VECTORGPU_TRY(centroids.create(context, n_clusters, dim));
	return error_sums.allocate(context->budget, n_clusters * sizeof(double), "errors of clusters");
}

Status
train_kmeans(ClusterContext *context, const KMeansSpec &spec, const RowsView &rows, bool seeds_given, size_t n_threads,
	float *centroids, uint64_t *sizes, KMeansReport *report, KMeansTimes *times, KMeansRoom *room)
{
	KMeansTimes own;
	KMeansRoom own_room;

	if (spec.dim == 0 || spec.dim > static_cast<uint32_t>(kMaxDimensions) || spec.n_clusters == 0 ||
		spec.n_clusters > kMaxClusters)
		return Status::error(StatusCode::kInvalidArgument, "number of dimensions or clusters is out of range");
	if (spec.balance != 0) // requests have no balance
		return Status::error(StatusCode::kUnsupported, "a device does not balance clusters");
	if (spec.n_rows > static_cast<uint64_t>(std::numeric_limits<int32_t>::max()))
		return Status::error(StatusCode::kInvalidArgument, "too many training rows");
	if (report != nullptr)
		*report = {};
	if (spec.n_rows == 0)
	{
		std::fill_n(centroids, static_cast<size_t>(spec.n_clusters) * spec.dim, 0.0f);
		if (sizes != nullptr)
			std::fill_n(sizes, spec.n_clusters, 0);
		return Status::ok();
	}

	Status status;

	if (room == nullptr)
	{
		status = own_room.create(context, static_cast<uint32_t>(spec.n_rows), spec.dim, spec.n_clusters);
		room = &own_room;
	}
	if (status.is_ok())
	{
		Training training(context, spec, rows, n_threads, room);

		status = training.run(seeds_given, centroids, sizes, report, times != nullptr ? times : &own);
	}

	if (!status.is_ok() && !context->device->fatal()) // work on the stream must not use memory freed now
		(void) context->stream.synchronize();
	return status;
}

} // namespace vectorgpu::cuda
