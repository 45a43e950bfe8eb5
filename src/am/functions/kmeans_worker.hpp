// The worker's part in vectorgpu_kmeans: training, and assigning rows to clusters. After any failure the functions
// return false, and the backend does the work itself. PG dialect.
#pragma once

#include "engine/ivf/kmeans.hpp"
#include "pg/postgres.hpp"

namespace vectorgpu::am
{

struct KMeansWorker
{
	bool open;     // the worker may hold state of this training
	bool assigns;  // the worker has the centroids
	uint64 number; // number of the build: the query that reads the rows may begin another build in this session
	uint32 dim;
	uint32 n_used;
	MemoryContextCallback on_reset; // ends the session if an error leaves something open
};

/// Train on rows [spec->n_rows, spec->dim] (spherical: of length 1), ignoring the spec's balance. On true, centroids
/// [spec->n_clusters, dim] holds the n_used centroids. worker: all zeros, allocated in `context`, which an error
/// deletes.
bool kmeans_worker_train(KMeansWorker *worker, MemoryContext context, const engine::ivf::KMeansSpec *spec,
	const float *rows, float *centroids, uint32 *n_used);

/// Give the worker other centroids [n, dim] than the trained ones; rows are then assigned to these. Returns false if
/// the worker failed.
bool kmeans_worker_give(KMeansWorker *worker, const float *centroids, uint32 n);

/// Compute labels [n] and scores [n] (squared distances) of rows [n, dim]. Returns false if the worker failed.
bool kmeans_worker_assign(KMeansWorker *worker, const float *rows, uint64 n, uint32 *labels, float *scores);

/// Free the worker's state.
void kmeans_worker_end(KMeansWorker *worker);

} // namespace vectorgpu::am
