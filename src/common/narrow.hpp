// Distances between rounded rows (rounded_rows.hpp), by which a search of a graph chooses its way; what it finds is
// scored canonically. Every step is a whole number or one rounded operation, so that the host and the kernels of
// gpu/kernels/graph, which share this definition, choose the same.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/host_device.hpp"
#include "common/types.hpp"

namespace vectorgpu
{

constexpr uint32_t kNarrowMostDims = 1024; // of rows that are searched so

/// True if a filter is trusted with a vector of this squared norm: no sum overflows, and a cosine is one.
VECTORGPU_HOST_DEVICE inline bool
narrow_trusts(Metric metric, double square_norm)
{
	constexpr double kLargestNorm = 0x1p60; // (|x| + |y|)² stays below 2^122
	constexpr double kSmallestCosineNorm = 0x1p-40;
	const double smallest = metric == Metric::kCosine ? kSmallestCosineNorm : 0;

	// False for NaN.
	return square_norm >= smallest * smallest && square_norm <= kLargestNorm * kLargestNorm;
}

/// What a row brings to its scores, beside the product with the query's bytes.
struct NarrowRow
{
	float factor;
	float besides;
};

/// The row that a search never finds: no filter is trusted with it.
VECTORGPU_HOST_DEVICE inline NarrowRow
narrow_nowhere()
{
	return {0, HUGE_VALF};
}

/// scale: of the rounded row c; squares: Σ c².
VECTORGPU_HOST_DEVICE inline NarrowRow
narrow_row(Metric metric, float scale, int32_t squares)
{
	if (metric == Metric::kCosine)
		return {1 / std::sqrt(static_cast<float>(squares)), 0};
	return {scale, metric == Metric::kL2 ? scale * scale * static_cast<float>(squares) : 0};
}

/// What a query brings. query_scale: of its rounded form.
VECTORGPU_HOST_DEVICE inline float
narrow_weight(Metric metric, float query_scale)
{
	return metric == Metric::kL2 ? -2 * query_scale : -1;
}

/// Scores of one query are in the order of the distances between the rounded rows and the rounded query: L2 without
/// the query's square, inner product and cosine without its length. product: of the bytes of both.
VECTORGPU_HOST_DEVICE inline float
narrow_score(int32_t product, const NarrowRow &row, float weight)
{
	return std::fma(static_cast<float>(product) * row.factor, weight, row.besides);
}

} // namespace vectorgpu
