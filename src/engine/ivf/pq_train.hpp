// Training of the product quantiser: codebooks, and the rotation of OPQ.
#pragma once

#include "engine/ivf/pq.hpp"

namespace vectorgpu::engine::ivf
{

struct PqTraining
{
	const float *rows = nullptr;      // [n_rows, dim] the sample (cosine: of length 1)
	const uint32_t *labels = nullptr; // [n_rows] list of each, or null: rows instead of residuals
	const float *centroids = nullptr; // [n_lists, dim]
	size_t n_rows = 0;
	uint64_t seed = 1;
	uint32_t max_iterations = 16; // of each sub-quantiser's k-means
	uint32_t opq_iterations = 8;  // rotations tried
	size_t n_threads = 1;
};

constexpr size_t kPqTrainingRows = 65536; // more are not worth their time

size_t pq_train_work_bytes(const PqSpec &spec, const PqTraining &training);
/// Train. mean_error, or null: mean squared length of a row's quantisation error.
Outcome pq_train(const PqModel &model, const PqTraining &training, double *mean_error, void *work, size_t work_bytes,
	const Call &call = {});

} // namespace vectorgpu::engine::ivf
