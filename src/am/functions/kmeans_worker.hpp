// The worker's part in vectorgpu_kmeans: training, and the clusters of rows. Whatever goes wrong is a false, and the
// backend does it by itself. PG dialect.
#pragma once

#include "engine/ivf/kmeans.hpp"
#include "pg/postgres.hpp"

namespace vectorgpu::am
{

struct KMeansWorker
{
	bool open;     // the worker may have something of it
	bool assigns;  // it has the centroids
	uint64 number; // of the build: a query that reads the rows may begin another one in this session
	uint32 dim;
	uint32 n_used;
	MemoryContextCallback on_reset; // ends the session if an error leaves something open
};

/// Trains on rows [spec->n_rows, spec->dim] (spherical: of length 1), without balance whatever the spec says. On true
/// centroids [spec->n_clusters, dim] has the n_used first. worker: all zeros, in memory of `context`, which outlives no
/// error.
bool kmeans_worker_train(KMeansWorker *worker, MemoryContext context, const engine::ivf::KMeansSpec *spec,
	const float *rows, float *centroids, uint32 *n_used);

/// Other centroids [n, dim] than it has trained: rows are assigned to these from now on. False: the worker is out.
bool kmeans_worker_give(KMeansWorker *worker, const float *centroids, uint32 n);

/// labels [n], scores [n] (squared distances) of rows [n, dim]. False: the worker is out.
bool kmeans_worker_assign(KMeansWorker *worker, const float *rows, uint64 n, uint32 *labels, float *scores);

/// The worker forgets all of it.
void kmeans_worker_end(KMeansWorker *worker);

} // namespace vectorgpu::am
