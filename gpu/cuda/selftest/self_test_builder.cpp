// The part of the self-test about builds of inverted lists: labels of k-means against those of engine/ivf, and the rows
// that queries find beside the build. Half of the rows are whole numbers, so that there are ties; the others are
// thirds.
#include <algorithm>
#include <memory>
#include <vector>

#include "cuda/selftest/self_test.hpp"
#include "cuda/selftest/test_data.hpp"
#include "engine/distance/distance.hpp"
#include "engine/interface/list_builder.hpp"
#include "engine/ivf/coarse.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;

constexpr uint32_t kDim = 40;
constexpr uint32_t kClusters = 150;
constexpr size_t kAssigned = 300;
constexpr uint32_t kBuildQueries = 5; // the first centroids
constexpr uint32_t kNearest = 7;

std::vector<float>
make_values(size_t n_rows)
{
	std::vector<float> values(n_rows * kDim);
	uint32_t random = 1;

	for (size_t i = 0; i < values.size(); i++)
	{
		random = random * 1664525 + 1013904223;
		values[i] = static_cast<float>(random >> 28) / (i / kDim % 2 == 0 ? 1.0f : 3.0f);
	}
	return values;
}

Status
expect_labels(
	const float *centroids, const float *rows, const std::vector<uint32_t> &labels, const std::vector<float> &scores)
{
	std::vector<uint32_t> expected(kAssigned);
	std::vector<float> expected_scores(kAssigned);
	std::vector<uint8_t> memory(engine::ivf::coarse_bytes(kDim, kClusters));
	engine::ivf::Coarse coarse;
	engine::ivf::Outcome outcome =
		engine::ivf::coarse_init(centroids, kClusters, kDim, memory.data(), memory.size(), &coarse);
	std::vector<uint8_t> work(engine::ivf::coarse_assign_work_bytes(coarse, 1));

	if (outcome.is_ok())
		outcome = engine::ivf::coarse_assign(
			coarse, rows, kDim, kAssigned, expected.data(), expected_scores.data(), work.data(), work.size());
	if (!outcome.is_ok())
		return Status::error(outcome.code, outcome.message);
	return labels == expected && scores == expected_scores
		? Status::ok()
		: failed("the GPU assigns rows to other clusters than the CPU");
}

Status
expect_nearest(
	const engine::DistanceSpec &spec, const float *queries, const float *rows, const std::vector<Neighbor> &nearest)
{
	bool same = nearest.size() == size_t{kBuildQueries} * kNearest;

	for (size_t q = 0; same && q < kBuildQueries; q++)
	{
		std::vector<double> distances(kAssigned);
		std::vector<Neighbor> wanted;

		engine::compute_scores(spec, queries + q * kDim, rows, kDim * sizeof(float), kAssigned, distances.data());
		for (size_t row = 0; row < kAssigned; row++)
			wanted.push_back({distances[row], row});
		keep_first(&wanted, kNearest);
		for (size_t i = 0; i < kNearest; i++)
			same = same && nearest[q * kNearest + i].score == wanted[i].score &&
				nearest[q * kNearest + i].row == wanted[i].row;
	}
	return same ? Status::ok() : failed("the GPU finds other neighbours beside a build than the CPU");
}

} // namespace

Status
self_test_list_builder(engine::Engine *engine)
{
	const std::vector<float> rows = make_values(kAssigned + kClusters);
	const float *centroids = rows.data() + kAssigned * kDim;
	engine::SearchControl control;
	engine::ListBuildSpec spec;
	std::unique_ptr<engine::ListBuilder> builder;
	std::vector<uint32_t> labels(kAssigned);
	std::vector<float> scores(kAssigned);
	std::vector<Neighbor> nearest;

	spec.rows = {Metric::kL2, ElementType::kFloat32, kDim};
	spec.n_clusters = kClusters;
	spec.n_queries = kBuildQueries;
	spec.k = kNearest;
	VECTORGPU_TRY(engine->make_list_builder(spec, &control, &builder));
	VECTORGPU_TRY(builder->add_centroids(centroids, kClusters));
	VECTORGPU_TRY(builder->add_queries(centroids, kBuildQueries));
	VECTORGPU_TRY(builder->assign(0, rows.data(), kAssigned, labels.data(), scores.data()));
	VECTORGPU_TRY(builder->neighbors(&nearest));
	VECTORGPU_TRY(expect_labels(centroids, rows.data(), labels, scores));
	return expect_nearest(spec.rows, centroids, rows.data(), nearest);
}

} // namespace vectorgpu::cuda
