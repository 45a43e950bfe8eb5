// k-means with what only the product quantiser's training asks for. Internal to the folder.
#pragma once

#include "engine/ivf/kmeans.hpp"

namespace vectorgpu::engine::ivf
{

struct KMeansMore
{
	bool random_seeds = false;    // instead of k-means++: for many small trainings, where it costs more than it gains
	bool centroids_given = false; // start from the centroids as they are, instead of from seeds
	uint32_t *labels = nullptr;   // [n_rows] the cluster of each row in the end, or null
	bool balance_only = false;    // with centroids_given and a spec that asks for balance: no iterations before
};

/// As kmeans_train.
Outcome kmeans_train_more(const KMeansSpec &spec, const RowsView &rows, const KMeansMore &more, float *centroids,
	uint64_t *sizes, KMeansReport *report, void *work, size_t work_bytes, const Call &call);

} // namespace vectorgpu::engine::ivf
