// k-means on the device against engine/ivf: labels are the canonical nearest centroids whatever the data, means have
// the same bits.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/build/kmeans.hpp"
#include "engine/ivf/coarse.hpp"
#include "engine/ivf/kmeans.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::ivf::ClusterKind;
using engine::ivf::KMeansReport;
using engine::ivf::KMeansSpec;

/// A device with a context, made once.
struct Fixture
{
	Device device;
	std::unique_ptr<Budget> budget;
	ClusterContext context;
};

Fixture *
fixture()
{
	static std::unique_ptr<Fixture> made;

	if (made == nullptr)
	{
		made = std::make_unique<Fixture>();

		const Status opened = Device::open(0, {}, &made->device);

		EXPECT_TRUE(opened.is_ok()) << opened.message;
		made->budget = std::make_unique<Budget>(&made->device, 0);
		EXPECT_TRUE(made->context.stream.create(&made->device).is_ok());
		EXPECT_EQ(kernels::prepare_cluster_kernels(), cudaSuccess);
		made->context.device = &made->device;
		made->context.budget = made->budget.get();
	}
	return made.get();
}

enum class Data
{
	kNormal,
	kBytes,
	kFarFromOrigin, // differences far smaller than the common offset
	kFewValues,     // many exact ties
	kWideRange,     // elements of very different magnitude
	kNotFinite,     // some NaN and infinity among the rows
	kHuge,          // beyond what the products' bound covers
	kTiny,          // squares underflow
};

std::vector<float>
make_vectors(Data data, size_t n, uint32_t dim, std::mt19937 *rng, bool centroids)
{
	std::normal_distribution<float> normal;
	std::vector<float> vectors(n * dim);

	for (size_t i = 0; i < vectors.size(); i++)
	{
		const float x = normal(*rng);

		switch (data)
		{
			case Data::kNormal:
				vectors[i] = x;
				break;
			case Data::kBytes:
				vectors[i] = std::clamp(std::round(x * 60 + 40), 0.0f, 255.0f);
				break;
			case Data::kFarFromOrigin:
				vectors[i] = 1000 + x / 1000;
				break;
			case Data::kFewValues:
				vectors[i] = static_cast<float>((*rng)() % 3);
				break;
			case Data::kWideRange:
				vectors[i] = std::ldexp(x, static_cast<int>((*rng)() % 40) - 20);
				break;
			case Data::kNotFinite:
				vectors[i] = centroids || (*rng)() % (20 * dim) != 0 ? x
					: (*rng)() % 2 == 0                              ? std::numeric_limits<float>::quiet_NaN()
																	 : std::numeric_limits<float>::infinity();
				break;
			case Data::kHuge:
				vectors[i] = x * 0x1p70f;
				break;
			case Data::kTiny:
				vectors[i] = x * 0x1p-70f;
				break;
		}
	}
	return vectors;
}

struct Found
{
	std::vector<uint32_t> labels;
	std::vector<float> scores;
};

Found
labels_on_device(const std::vector<float> &rows, const std::vector<float> &centroids, uint32_t dim, uint32_t n_clusters)
{
	Fixture *f = fixture();
	const uint32_t n = static_cast<uint32_t>(rows.size() / dim);
	ClusterRows device_rows;
	ClusterCentroids device_centroids;
	Found found = {std::vector<uint32_t>(n), std::vector<float>(n)};
	const cudaStream_t stream = f->context.stream.get();

	EXPECT_TRUE(device_rows.create(&f->context, n, dim, 0).is_ok());
	EXPECT_TRUE(device_centroids.create(&f->context, n_clusters, dim).is_ok());
	EXPECT_TRUE(device_centroids.set(centroids.data(), n_clusters).is_ok());
	EXPECT_TRUE(device_rows.put(rows.data(), dim, n).is_ok());

	const Status assigned = device_rows.assign(device_centroids, true);

	EXPECT_TRUE(assigned.is_ok()) << assigned.message;
	EXPECT_EQ(cudaMemcpyAsync(
				  found.labels.data(), device_rows.labels(), n * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream),
		cudaSuccess);
	EXPECT_EQ(
		cudaMemcpyAsync(found.scores.data(), device_rows.scores(), n * sizeof(float), cudaMemcpyDeviceToHost, stream),
		cudaSuccess);

	const Status waited = f->context.wait();

	EXPECT_TRUE(waited.is_ok()) << waited.message;
	return found;
}

Found
labels_on_cpu(const std::vector<float> &rows, const std::vector<float> &centroids, uint32_t dim, uint32_t n_clusters)
{
	const size_t n = rows.size() / dim;
	Found found = {std::vector<uint32_t>(n), std::vector<float>(n)};
	std::vector<uint8_t> memory(engine::ivf::coarse_bytes(dim, n_clusters));
	engine::ivf::Coarse coarse;

	EXPECT_TRUE(
		engine::ivf::coarse_init(centroids.data(), n_clusters, dim, memory.data(), memory.size(), &coarse).is_ok());

	std::vector<uint8_t> work(engine::ivf::coarse_assign_work_bytes(coarse, 1));

	EXPECT_TRUE(engine::ivf::coarse_assign(
		coarse, rows.data(), dim, n, found.labels.data(), found.scores.data(), work.data(), work.size())
			.is_ok());
	return found;
}

bool
same_bits(float a, float b)
{
	return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof(a)) == 0;
}

void
compare_labels(Data data, uint32_t dim, uint32_t n_clusters, size_t n_rows)
{
	std::mt19937 rng(static_cast<uint32_t>(data) * 1000 + dim + n_clusters);
	const std::vector<float> centroids = make_vectors(data, n_clusters, dim, &rng, true);
	const std::vector<float> rows = make_vectors(data, n_rows, dim, &rng, false);
	const Found device = labels_on_device(rows, centroids, dim, n_clusters);
	const Found cpu = labels_on_cpu(rows, centroids, dim, n_clusters);
	size_t n_wrong = 0;

	for (size_t i = 0; i < n_rows; i++)
		n_wrong += device.labels[i] != cpu.labels[i] || !same_bits(device.scores[i], cpu.scores[i]);
	EXPECT_EQ(n_wrong, 0u) << "data " << static_cast<int>(data) << ", dim " << dim << ", clusters " << n_clusters
						   << ", rows " << n_rows;
}

/// Rows around this many centres.
std::vector<float>
make_clustered(size_t n, uint32_t dim, size_t n_centers, std::mt19937 *rng)
{
	std::normal_distribution<float> normal;
	const std::vector<float> centers = make_vectors(Data::kNormal, n_centers, dim, rng, false);
	std::vector<float> rows(n * dim);

	for (size_t i = 0; i < n; i++)
	{
		const size_t center = (*rng)() % n_centers;

		for (uint32_t d = 0; d < dim; d++)
			rows[i * dim + d] = centers[center * dim + d] + 0.3f * normal(*rng);
	}
	return rows;
}

struct Trained
{
	std::vector<float> centroids;
	std::vector<uint64_t> sizes;
	KMeansReport report;
};

Trained
train_on_device(const KMeansSpec &spec, const std::vector<float> &rows, const std::vector<float> *seeds)
{
	Trained trained;

	if (seeds != nullptr)
		trained.centroids = *seeds;
	trained.centroids.resize(static_cast<size_t>(spec.n_clusters) * spec.dim);
	trained.sizes.resize(spec.n_clusters);

	const Status status = train_kmeans(&fixture()->context, spec, {rows.data(), spec.dim}, seeds != nullptr, 4,
		trained.centroids.data(), trained.sizes.data(), &trained.report);

	EXPECT_TRUE(status.is_ok()) << status.message;
	return trained;
}

Trained
train_on_cpu(const KMeansSpec &spec, const std::vector<float> &rows, const std::vector<float> *seeds)
{
	Trained trained;
	std::vector<uint8_t> work(engine::ivf::kmeans_work_bytes(spec));
	engine::ivf::KMeansMore more;

	if (seeds != nullptr)
		trained.centroids = *seeds;
	trained.centroids.resize(static_cast<size_t>(spec.n_clusters) * spec.dim);
	trained.sizes.resize(spec.n_clusters);
	more.centroids_given = seeds != nullptr;
	EXPECT_TRUE(engine::ivf::kmeans_train_more(spec, {rows.data(), spec.dim}, more, trained.centroids.data(),
		trained.sizes.data(), &trained.report, work.data(), work.size(), {})
			.is_ok());
	return trained;
}

/// The same seeds give the same clusters, bit for bit.
void
compare_training(KMeansSpec spec, std::vector<float> rows, const std::vector<float> &seeds)
{
	if (spec.kind == ClusterKind::kSpherical)
		engine::ivf::normalise_rows(rows.data(), spec.n_rows, spec.dim);

	const Trained device = train_on_device(spec, rows, &seeds);
	const Trained cpu = train_on_cpu(spec, rows, &seeds);
	size_t n_wrong = 0;

	for (size_t i = 0; i < cpu.centroids.size(); i++)
		n_wrong += !same_bits(device.centroids[i], cpu.centroids[i]);
	EXPECT_EQ(n_wrong, 0u) << "of " << cpu.centroids.size();
	EXPECT_EQ(device.sizes, cpu.sizes);
	EXPECT_EQ(device.report.n_iterations, cpu.report.n_iterations);
	EXPECT_EQ(device.report.n_splits, cpu.report.n_splits);
	EXPECT_EQ(device.report.n_used, cpu.report.n_used);
	EXPECT_EQ(device.report.largest, cpu.report.largest);
	EXPECT_NEAR(device.report.inertia, cpu.report.inertia, 1e-12 * cpu.report.inertia);
}

TEST(KMeans, LabelsAreTheCanonicalNearest)
{
	for (const Data data : {Data::kNormal, Data::kBytes, Data::kFarFromOrigin, Data::kFewValues, Data::kWideRange,
			 Data::kNotFinite, Data::kHuge, Data::kTiny})
		for (const uint32_t dim : {1u, 3u, 32u, 128u, 200u, 784u})
			compare_labels(data, dim, dim == 784 ? 100 : 300, 1000);
}

TEST(KMeans, LabelsForAnyNumberOfClusters)
{
	for (const uint32_t n_clusters : {1u, 2u, 127u, 128u, 129u, 1000u, 5000u})
		compare_labels(Data::kBytes, 64, n_clusters, 700);
	for (const size_t n_rows : {1u, 127u, 128u, 129u, 10000u})
		compare_labels(Data::kNormal, 48, 77, n_rows);
}

TEST(KMeans, TheSameSeedsGiveTheSameClusters)
{
	std::mt19937 rng(1);
	KMeansSpec spec;

	spec.tolerance = 0;
	spec.max_iterations = 6;
	for (const uint32_t dim : {2u, 40u, 128u})
		for (const ClusterKind kind : {ClusterKind::kL2, ClusterKind::kSpherical})
		{
			spec.dim = dim;
			spec.n_rows = 6000;
			spec.n_clusters = 90;
			spec.kind = kind;

			const std::vector<float> rows = make_clustered(spec.n_rows, dim, 60, &rng);

			compare_training(
				spec, rows, std::vector<float>(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(size_t{90} * dim)));
		}
}

TEST(KMeans, EmptyClustersMoveAsOnTheCpu)
{
	std::mt19937 rng(2);
	KMeansSpec spec = {16, 40, 3000};
	const std::vector<float> rows = make_clustered(spec.n_rows, spec.dim, 30, &rng);
	std::vector<float> seeds(size_t{40} * 16);

	for (size_t i = 0; i < seeds.size(); i++) // all but three alike
		seeds[i] = rows[i < 48 ? i : i % 16];
	compare_training(spec, rows, seeds);
}

TEST(KMeans, BalancingIsLeftToTheCpu)
{
	KMeansSpec spec = {8, 4, 100};
	const std::vector<float> rows(size_t{100} * 8, 1.0f);
	std::vector<float> centroids(size_t{4} * 8);

	spec.balance = 2;

	const Status status =
		train_kmeans(&fixture()->context, spec, {rows.data(), 8}, false, 1, centroids.data(), nullptr, nullptr);

	EXPECT_EQ(status.code, StatusCode::kUnsupported);
}

TEST(KMeans, FewDifferentRows)
{
	KMeansSpec spec = {8, 20, 500};
	std::vector<float> rows(size_t{500} * 8);

	for (size_t i = 0; i < 500; i++)
		std::fill_n(rows.begin() + static_cast<ptrdiff_t>(i * 8), 8, static_cast<float>(i % 3));

	const Trained some = train_on_device(spec, rows, nullptr);

	EXPECT_EQ(some.report.n_used, 3u);
	EXPECT_EQ(some.report.inertia, 0);
	std::fill(rows.begin(), rows.end(), 7.0f);

	const Trained one = train_on_device(spec, rows, nullptr);

	EXPECT_EQ(one.report.n_used, 1u);
	EXPECT_EQ(one.sizes[0], 500u);
	EXPECT_EQ(one.centroids[0], 7.0f);
	spec.n_rows = 5; // fewer than clusters
	rows.resize(5 * 8);
	for (size_t i = 0; i < rows.size(); i++)
		rows[i] = static_cast<float>(i);
	EXPECT_EQ(train_on_device(spec, rows, nullptr).report.n_used, 5u);
	spec.n_rows = 0;
	EXPECT_EQ(train_on_device(spec, {}, nullptr).report.n_used, 0u);
}

TEST(KMeans, RowsThatAreNotFiniteAreRefused)
{
	std::mt19937 rng(3);
	const KMeansSpec spec = {8, 4, 100};
	std::vector<float> rows = make_vectors(Data::kNormal, 100, 8, &rng, false);
	std::vector<float> centroids(4 * 8);

	rows[777] = std::numeric_limits<float>::infinity();

	const Status status =
		train_kmeans(&fixture()->context, spec, {rows.data(), 8}, false, 1, centroids.data(), nullptr, nullptr);

	EXPECT_EQ(status.code, StatusCode::kInvalidArgument);
}

TEST(KMeans, SeedsOfTwoLevelsLeadToClustersNearlyAsGood)
{
	std::mt19937 rng(4);
	const KMeansSpec spec = {24, 300, 20000};
	const std::vector<float> rows = make_clustered(spec.n_rows, spec.dim, 200, &rng);
	const Trained device = train_on_device(spec, rows, nullptr);
	const Trained cpu = train_on_cpu(spec, rows, nullptr);

	EXPECT_LT(device.report.inertia, 1.05 * cpu.report.inertia);
	EXPECT_EQ(device.report.n_used, 300u);
	EXPECT_EQ(train_on_device(spec, rows, nullptr).centroids, device.centroids) << "not reproducible";
}

} // namespace
} // namespace vectorgpu::cuda::test
