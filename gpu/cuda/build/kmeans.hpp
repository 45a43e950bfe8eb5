// k-means on the device: rows and centroids in the kernels' forms, and Lloyd's algorithm over them. Labels are those of
// the canonical distance and means those of src/engine/ivf, bit for bit. One thread at a time per context.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/device/block.hpp"
#include "engine/interface/engine.hpp"
#include "engine/ivf/kmeans.hpp"
#include "kernels/kmeans/kmeans.hpp"

namespace vectorgpu::cuda
{

constexpr uint64_t kTrainingPatienceNs =
	uint64_t{90} * 1000 * 1000 * 1000; // a pass over a large sample takes longer than a batch

/// The resources of one builder.
struct ClusterContext
{
	const Device *device = nullptr;
	Budget *budget = nullptr;
	Stream stream;
	engine::SearchControl *control = nullptr; // may be null

	Status check(cudaError_t error, const char *what) const { return device->check(error, what); }

	/// Wait for the stream and count progress. kCancelled if control says stop.
	Status wait() const;
};

class ClusterCentroids;

/// Rows on the device, with their labels, scores and groups.
class ClusterRows
{
public:
	/// most_clusters: of group(); 0 if it is not called.
	Status create(ClusterContext *context, uint32_t capacity, uint32_t dim, uint32_t most_clusters);

	/// Replace the rows: rows [n, dim] float32 in host memory, row_stride floats apart, n <= capacity.
	Status put(const float *rows, size_t row_stride, uint32_t n);

	/// The same of rows [n, dim], by host threads through pinned memory: faster than the driver's copy of memory that
	/// is not. On the stream, for a caller that waits for it before this is destroyed. Rows of little or much memory go
	/// by put().
	Status put_by_threads(const float *rows, uint32_t n);

	/// The same from device memory, on the stream: n rows of row_bytes each, of which the first `dim` floats count.
	Status put_from_device(const void *rows, size_t row_bytes, uint32_t n);

	/// Compute labels of all rows, and their scores if wanted. On the stream.
	Status assign(const ClusterCentroids &centroids, bool want_scores);

	/// Sort the rows by label (order(), first()) and compute errors of the clusters. On the stream.
	Status group(const ClusterCentroids &centroids, double *error_sums);

	/// Set the centroids to the means of the groups. On the stream.
	Status update(ClusterCentroids *centroids, bool spherical);

	/// kInvalidArgument if a row is not finite. Call after put(). Waits.
	Status check_finite(const ClusterCentroids &centroids);

	uint32_t n() const { return n_; }
	uint32_t dim_pad() const { return dim_pad_; }
	const float *vectors() const { return vectors_.as<float>(); }
	const uint32_t *labels() const { return labels_.as<uint32_t>(); }
	const float *scores() const { return scores_.as<float>(); }
	const uint32_t *order() const { return order_.as<uint32_t>(); }
	const uint32_t *first() const { return first_.as<uint32_t>(); }

private:
	Status begin_rows(uint32_t n);
	Status copy_some(uint32_t first, uint32_t n, const void *rows, size_t row_bytes, cudaMemcpyKind kind);
	Status copy_in(const void *rows, size_t row_bytes, uint32_t n, cudaMemcpyKind kind);
	bool make_staging();
	Status narrow(const ClusterCentroids &centroids);
	Status make_groups(uint32_t n_clusters);
	kernels::AssignArgs arguments(const ClusterCentroids &centroids) const;
	kernels::UpdateArgs update_arguments(const ClusterCentroids &centroids) const;

	ClusterContext *context_ = nullptr;
	uint32_t capacity_ = 0;
	uint32_t n_ = 0;
	uint32_t dim_ = 0;
	uint32_t dim_pad_ = 0;
	uint64_t narrowed_for_ = 0; // ClusterCentroids::id of the shift that the narrow rows were made with
	PinnedBuffer staging_;      // of put_by_threads
	bool staging_failed_ = false;
	Held vectors_;  // [capacity, dim_pad] float32
	Held narrow_;   // [capacity, narrow_pitch]
	Held errors_;   // [capacity]
	Held labels_;   // [capacity]
	Held scores_;   // [capacity] canonical, to the label's centroid
	Held doubtful_; // [capacity]
	Held counters_; // 4 numbers
	// For group().
	uint32_t most_clusters_ = 0;
	Held numbers_;       // [capacity]
	Held sorted_labels_; // [capacity]
	Held order_;         // [capacity]
	Held first_;         // [most_clusters + 1]
	Held temp_;
	Held means_; // [most_clusters, dim_pad] double
};

/// Centroids on the device.
class ClusterCentroids
{
public:
	Status create(ClusterContext *context, uint32_t capacity, uint32_t dim);

	/// Upload centroids [n, dim] float32 of host memory and choose how rows and centroids are narrowed. Waits.
	Status set(const float *centroids, uint32_t n);

	/// Download centroids [n, dim]. Waits.
	Status get(float *centroids) const;

	/// Call after the centroids changed on the device, before rows are assigned. On the stream.
	Status refresh();

	uint32_t n() const { return n_; }
	uint32_t dim() const { return dim_; }
	uint64_t id() const { return id_; }
	float scale() const { return scale_; }
	float *vectors() const { return vectors_.as<float>(); }

private:
	friend class ClusterRows;

	ClusterContext *context_ = nullptr;
	uint32_t capacity_ = 0;
	uint32_t n_ = 0;
	uint32_t dim_ = 0;
	uint32_t dim_pad_ = 0;
	uint64_t id_ = 0; // of the shift and scale
	float scale_ = 1;
	Held vectors_;    // [capacity, dim_pad]
	Held narrow_;     // [padded, narrow_pitch]
	Held half_norms_; // [padded]
	Held shift_;      // [dim_pad]
	Held largest_;
};

/// Device memory of a training. Rows [n_rows, dim].
struct KMeansRoom
{
	ClusterRows rows;
	ClusterCentroids centroids;
	Held error_sums; // [n_clusters] double

	Status create(ClusterContext *context, uint32_t n_rows, uint32_t dim, uint32_t n_clusters);
};

/// Times of a training.
struct KMeansTimes
{
	double upload_ms = 0;
	double seeds_ms = 0;
	double iterations_ms = 0; // of Lloyd over all clusters, with the last assignment
};

/// engine::ivf::kmeans_train on the device. The same rows, spec and seeds give the same bits, except for the sum that
/// decides when to stop. Drawn seeds differ: of two levels the second is not trained. rows, centroids [n_clusters,
/// dim], sizes [n_clusters] or null: host memory. seeds_given: the centroids are the seeds. n_threads of the host draw
/// seeds. room: made for the spec's rows, dimensions and clusters, or null. Waits. kUnsupported with balance.
Status train_kmeans(ClusterContext *context, const engine::ivf::KMeansSpec &spec, const engine::ivf::RowsView &rows,
	bool seeds_given, size_t n_threads, float *centroids, uint64_t *sizes, engine::ivf::KMeansReport *report,
	KMeansTimes *times = nullptr, KMeansRoom *room = nullptr);

} // namespace vectorgpu::cuda
