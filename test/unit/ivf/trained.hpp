// A training of k-means and its checks.
#pragma once

#include <limits>

#include "engine/ivf/kmeans.hpp"
#include "ivf/ivf_data.hpp"

namespace vectorgpu::engine::ivf::test
{

struct Trained
{
	Outcome outcome;
	Floats centroids;
	std::vector<uint64_t> sizes;
	KMeansReport report;
};

inline Trained
train(const Floats &rows, KMeansSpec spec, const Call &call = {})
{
	Trained trained;

	spec.n_rows = spec.dim == 0 ? 0 : rows.size() / spec.dim;
	spec.n_threads = call.n_threads;
	trained.centroids.assign(size_t{spec.n_clusters} * spec.dim, std::numeric_limits<float>::quiet_NaN());
	trained.sizes.assign(spec.n_clusters, 999);

	Buffer work(kmeans_work_bytes(spec), 0xA5); // work memory need not be zero

	trained.outcome = kmeans_train(spec, {rows.data(), spec.dim}, trained.centroids.data(), trained.sizes.data(),
		&trained.report, work.data(), work.size(), call);
	return trained;
}

inline KMeansSpec
spec_of(uint32_t dim, uint32_t n_clusters)
{
	KMeansSpec spec;

	spec.dim = dim;
	spec.n_clusters = n_clusters;
	return spec;
}

/// Expect sizes and inertia to be those of the centroids.
inline void
expect_consistent(const Trained &trained, const Floats &rows, size_t dim)
{
	const std::vector<uint32_t> labels = oracle_labels(rows, trained.centroids, dim);
	std::vector<uint64_t> sizes(trained.sizes.size());
	double inertia = 0;

	ASSERT_TRUE(trained.outcome.is_ok()) << trained.outcome.message;
	for (size_t i = 0; i < labels.size(); i++)
	{
		sizes[labels[i]]++;
		inertia +=
			static_cast<double>(static_cast<float>(l2_score(&rows[i * dim], &trained.centroids[labels[i] * dim], dim)));
	}
	EXPECT_EQ(trained.sizes, sizes);
	EXPECT_EQ(trained.report.inertia, inertia);
	EXPECT_EQ(trained.report.largest, *std::max_element(sizes.begin(), sizes.end()));
	for (size_t c = 0; c < sizes.size(); c++)
		EXPECT_EQ(sizes[c] > 0, c < trained.report.n_used) << "cluster " << c;
}

} // namespace vectorgpu::engine::ivf::test
