// Decisions of k-means apart from distances and means: levels of the seeding, shares of clusters, which clusters are
// split. Every engine that trains takes these. Plain functions, no memory of their own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace vectorgpu::engine::ivf
{

constexpr uint32_t kTwoLevelClusters = 256; // two levels of seeding from this number on
constexpr uint32_t kSeedIterations = 8;     // of each level of the seeding
constexpr uint32_t kExtraIterations = 3;    // to fill clusters that the last iteration left empty

/// The number of clusters of the first level of the seeding: √n_clusters.
uint32_t n_first_level(uint32_t n_clusters);

/// Set shares [n], the number of clusters that each cluster of the first level is divided into: proportional to its
/// rows (from first[i] up to first[i + 1]), at least 1 if it has any, never more than its rows; the largest remainders
/// are rounded up.
void share_out_clusters(const uint64_t *first, size_t n, uint32_t n_clusters, uint64_t *shares);

struct SplitPlan
{
	const uint64_t *first = nullptr; // [n_clusters + 1] where a cluster's rows begin
	uint32_t n_clusters = 0;
	double *weights = nullptr; // [n_clusters] the clusters' errors; scratch
};

/// Move empty clusters to a row of the cluster with the largest error, whose error then counts half. take(cluster,
/// donor): puts the cluster's centroid on a row of the donor that does not lie on the donor's. Return how many moved.
template <class Take>
uint32_t
plan_splits(const SplitPlan &plan, const Take &take)
{
	double *weights = plan.weights;
	uint32_t n_moved = 0;
	const auto size_of = [&](size_t c) { return plan.first[c + 1] - plan.first[c]; };

	for (size_t c = 0; c < plan.n_clusters; c++)
		if (size_of(c) < 2)
			weights[c] = 0;
	for (size_t c = 0; c < plan.n_clusters; c++)
	{
		if (size_of(c) > 0)
			continue;

		const size_t donor = static_cast<size_t>(std::max_element(weights, weights + plan.n_clusters) - weights);

		if (!(weights[donor] > 0)) // all rows lie on centroids
			break;
		take(c, donor);
		weights[donor] /= 2;
		n_moved++;
	}
	return n_moved;
}

} // namespace vectorgpu::engine::ivf
