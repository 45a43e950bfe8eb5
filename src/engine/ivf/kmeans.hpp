// k-means: training of the coarse centroids, of product quantiser codebooks, and the SQL function. See README.md,
// "k-means". Deterministic: the same rows, spec and seed give the same bits whatever the instruction set and n_threads.
#pragma once

#include "common/types.hpp"
#include "engine/ivf/call.hpp"

namespace vectorgpu::engine::ivf
{

/// The kind of centroids, which also determines the assignment of rows.
enum class ClusterKind : uint8_t
{
	kL2 = 0,        // means; the nearest by squared Euclidean distance
	kSpherical = 1, // means scaled to length 1, of rows of length 1 (normalise_rows); the nearest is the same then
};

/// The kind for the clusters of a graph: spherical for cosine and Jaccard, which weigh the common part against the
/// sizes of both; kL2 for the others (inner product too: README.md, "Metrics"). Lists of bit strings are ranked by
/// Jaccard distance itself, so their centroids are means: list_kind of list_metric.hpp.
ClusterKind cluster_kind(Metric metric);

struct KMeansSpec
{
	uint32_t dim = 0;        // 1 .. kMaxBitDimensions; a bit is a zero or a one
	uint32_t n_clusters = 0; // from 1, at most kMaxClusters; may exceed n_rows
	uint64_t n_rows = 0;     // training rows, 0 .. 2^32 - 1
	ClusterKind kind = ClusterKind::kL2;
	uint64_t seed = 1;
	uint32_t max_iterations = 10; // of Lloyd over all clusters, after the seeding
	float tolerance = 3e-3f;      // stop when an iteration lowers the inertia by less than this share of it
	float balance = 0;    // 0: off. From 1: no cluster has fewer than n_rows / n_clusters / balance rows; there may be
						  // fewer clusters then
	size_t n_threads = 1; // that the work memory is for; Call::n_threads may be less
};

constexpr uint32_t kMaxClusters = 1 << 20;

/// Rows [n_rows, dim] of float32, `row_stride` floats apart.
struct RowsView
{
	const float *rows = nullptr;
	size_t row_stride = 0;
};

/// The result of a training.
struct KMeansReport
{
	double inertia = 0;        // Σ squared distance of the rows to their centroids; spherical: of rows of length 1
	uint32_t n_iterations = 0; // of Lloyd over all clusters
	uint32_t n_splits = 0;     // empty clusters that were moved; when balancing, also small ones that were dissolved
	uint32_t n_used = 0;  // clusters 0 .. n_used - 1 have rows; the others are copies of cluster 0, which no row is
						  // assigned to. Less than n_clusters only if there are fewer different rows, or when balancing
	uint64_t largest = 0; // rows of the largest cluster
	bool converged = false;
};

/// The number of training rows for a table of n_table_rows: at most kTrainingRowsPerCluster a cluster or
/// kLeastTrainingRows, if that is more, and no more than fit in budget_bytes (0: no bound) together with the work
/// memory; at least 1 if there is a row.
uint64_t kmeans_training_rows(uint64_t n_table_rows, uint32_t n_clusters, uint32_t dim, size_t budget_bytes);
constexpr uint64_t kTrainingRowsPerCluster = 64;
constexpr uint64_t kLeastTrainingRows = 10000; // few clusters: rows cost little then, and place the centroids

/// Bytes of kmeans_train's work memory.
size_t kmeans_work_bytes(const KMeansSpec &spec);

/// Train. centroids [n_clusters, dim]; sizes [n_clusters] rows of each, or null; report may be null. Rows must be
/// finite (else kInvalidArgument). Without rows all centroids are zero and n_used is 0.
Outcome kmeans_train(const KMeansSpec &spec, const RowsView &rows, float *centroids, uint64_t *sizes,
	KMeansReport *report, void *work, size_t work_bytes, const Call &call = {});

/// Further options, for the product quantiser's training and kmeans_balance.
struct KMeansMore
{
	bool random_seeds = false;    // instead of k-means++, which costs many small trainings more than it gains
	bool centroids_given = false; // start from the centroids as they are, instead of from seeds
	uint32_t *labels = nullptr;   // [n_rows] the cluster of each row in the end, or null
	bool balance_only = false;    // balance centroids_given without iterations before
};

/// As kmeans_train, with more options.
Outcome kmeans_train_more(const KMeansSpec &spec, const RowsView &rows, const KMeansMore &more, float *centroids,
	uint64_t *sizes, KMeansReport *report, void *work, size_t work_bytes, const Call &call);

/// Balance clusters that another engine has trained, as a rule on the same rows. centroids [n_clusters, dim]: the first
/// n_given, 1 or more, are used; spec.balance from 1. The rest, guarantees included, as in kmeans_train. If the given
/// clusters are large enough and none of n_clusters is empty, the centroids do not change; empty clusters are filled
/// first, as in training. report: of the balancing alone; converged is false if there was nothing to do.
Outcome kmeans_balance(const KMeansSpec &spec, const RowsView &rows, uint32_t n_given, float *centroids,
	uint64_t *sizes, KMeansReport *report, void *work, size_t work_bytes, const Call &call = {});

/// Scale rows [n_rows, dim] to length 1 in place (norm in double, one rounding per element); a zero row stays zero. For
/// cosine, clustering, SQ8 and PQ take such rows and queries.
void normalise_rows(float *rows, size_t n_rows, size_t dim);

} // namespace vectorgpu::engine::ivf
