// See list_metric.hpp.
#include "engine/ivf/list_metric.hpp"

#include <cstring>

namespace vectorgpu::engine::ivf
{
namespace
{

constexpr size_t kLanes = 8; // sums of a centroid: a fixed order whatever the compiler makes of it

void
bits_to_floats(const unsigned char *bits, size_t dim, float *floats)
{
	for (size_t d = 0; d < dim; d++)
		floats[d] = static_cast<float>(bits[d / 8] >> (7 - d % 8) & 1);
}

/// Σ of the lanes, in order.
double
total(const double *lanes)
{
	double sum = 0;

	for (size_t i = 0; i < kLanes; i++)
		sum += lanes[i];
	return sum;
}

/// n_set: ones of the query.
double
soft_jaccard(const float *query, double n_set, const float *centroid, size_t dim)
{
	double common[kLanes] = {};
	double all[kLanes] = {};
	size_t d = 0;

	for (; d + kLanes <= dim; d += kLanes)
		for (size_t i = 0; i < kLanes; i++)
		{
			common[i] += static_cast<double>(query[d + i] * centroid[d + i]); // exact: by 0 or 1
			all[i] += static_cast<double>(centroid[d + i]);
		}
	for (size_t i = 0; d + i < dim; i++)
	{
		common[i] += static_cast<double>(query[d + i] * centroid[d + i]);
		all[i] += static_cast<double>(centroid[d + i]);
	}

	// With q in {0, 1} and c in [0, 1], min(q, c) = q c and max(q, c) = q + c - q c.
	const double smaller = total(common);
	const double larger = n_set + total(all) - smaller;

	return larger > 0 ? 1 - smaller / larger : 1;
}

} // namespace

ClusterKind
list_kind(Metric metric)
{
	return metric == Metric::kCosine ? ClusterKind::kSpherical : ClusterKind::kL2;
}

void
list_floats(const DistanceSpec &rows, const void *vectors, size_t n, float *floats)
{
	switch (rows.element)
	{
		case ElementType::kFloat16:
			widen_halves(vectors, n * rows.dim, floats);
			break;
		case ElementType::kBit:
			for (size_t i = 0; i < n; i++)
				bits_to_floats(static_cast<const unsigned char *>(vectors) + i * vector_bytes(rows.element, rows.dim),
					rows.dim, floats + i * rows.dim);
			break;
		case ElementType::kFloat32:
		case ElementType::kSet: // no lists
			std::memcpy(floats, vectors, n * rows.dim * sizeof(float));
			break;
	}
}

void
centroid_scores(const DistanceSpec &rows, const float *query, const void *centroids, size_t stride, size_t n,
	double *scores, ptrdiff_t read_ahead)
{
	const Metric metric = rows.metric == Metric::kHamming ? Metric::kL2 : rows.metric;
	double n_set = 0;

	if (metric != Metric::kJaccard)
	{
		compute_scores({metric, ElementType::kFloat32, rows.dim}, query, centroids, stride, n, scores, read_ahead);
		return;
	}
	for (size_t d = 0; d < rows.dim; d++)
		n_set += static_cast<double>(query[d]);
	for (size_t i = 0; i < n; i++)
		scores[i] = soft_jaccard(query, n_set,
			reinterpret_cast<const float *>(static_cast<const unsigned char *>(centroids) + i * stride), rows.dim);
}

} // namespace vectorgpu::engine::ivf
