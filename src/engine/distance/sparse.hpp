// The canonical distance of sparse vectors. See README.md ("Sparse vectors") for the exact order of operations.
#pragma once

#include <cstdint>

#include "common/types.hpp"

namespace vectorgpu::engine
{

/// A sparse vector: elements at `indices`, and 0 elsewhere.
struct SparseVector
{
	const int32_t *indices; // [n], ascending, each once
	const float *values;    // [n]
	uint32_t n;
};

/// The score of two sparse vectors of the same number of dimensions, by L2, inner product, cosine or L1; NaN for
/// another metric. distance = finish_score(metric, score). Never fails, allocates nothing.
double sparse_score(Metric metric, const SparseVector &a, const SparseVector &b);

} // namespace vectorgpu::engine
