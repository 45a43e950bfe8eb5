// The canonical distance of sparse vectors. See README.md ("Sparse vectors") for the exact order of operations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/limits.hpp"
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

/// Bytes of an element: its index and its value.
constexpr size_t kSparseElementBytes = sizeof(int32_t) + sizeof(float);

/// The most bytes of a vector's elements.
constexpr size_t kMostSparseBytes = size_t{kMaxNonZeros} * kSparseElementBytes;

/// The vector in n_bytes, a multiple of kSparseElementBytes, aligned to 4: int32 indices [n], then float values [n].
inline SparseVector
sparse_vector(const void *bytes, size_t n_bytes)
{
	const uint32_t n = static_cast<uint32_t>(n_bytes / kSparseElementBytes);
	const int32_t *const indices = static_cast<const int32_t *>(bytes);

	return {indices, reinterpret_cast<const float *>(indices + n), n};
}

/// True for L2, inner product, cosine and L1.
constexpr bool
sparse_metric(Metric metric)
{
	return metric == Metric::kL2 || metric == Metric::kInnerProduct || metric == Metric::kCosine ||
		metric == Metric::kL1;
}

/// Null, or a sentence that says what is wrong with a vector of `dim` dimensions.
const char *sparse_fault(const SparseVector &vector, int64_t dim);

/// The score of two sparse vectors of the same number of dimensions, by L2, inner product, cosine or L1; NaN for
/// another metric. distance = finish_score(metric, score). Never fails, allocates nothing.
double sparse_score(Metric metric, const SparseVector &a, const SparseVector &b);

} // namespace vectorgpu::engine
