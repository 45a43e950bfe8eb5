// See self_test.hpp. Bytes, whose estimates are exact: what the kernels keep of each bin is what the reduction in plain
// code keeps. Some of the answers are not the exact ones, so that an exact way does not pass for this one.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/device/device.hpp"
#include "cuda/selftest/self_test.hpp"
#include "engine/distance/distance.hpp"
#include "engine/distance/partial_reduce.hpp"
#include "kernels/filter/tuning.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;

constexpr uint32_t kRows = kernels::kFilterLeastRows + 700;
constexpr uint32_t kDim = 40;
constexpr uint32_t kDistinct = 13; // queries of a batch; larger ones ask them again
constexpr size_t kNeighbors = 20;
constexpr float kTarget = 0.9f; // 256 bins

struct Case
{
	Metric metric;
	uint32_t n_queries;
};

constexpr Case kCases[] = {{Metric::kL2, 9}, {Metric::kInnerProduct, 40}, {Metric::kL2, 130}};

/// A linear congruential generator (Knuth's MMIX): the same numbers everywhere.
std::vector<float>
make_vectors(size_t n, uint64_t *state)
{
	std::vector<float> vectors(n * kDim);

	for (float &element : vectors)
	{
		*state = *state * 6364136223846793005u + 1442695040888963407u;
		element = static_cast<float>(*state >> 56);
	}
	return vectors;
}

Status
run(engine::Engine *engine, const Case &test, engine::CopyId copy)
{
	const engine::DistanceSpec spec = {test.metric, ElementType::kFloat32, kDim};
	const uint64_t n_bins = engine::partial_reduce_bins(kNeighbors, kTarget);
	uint64_t state = 20220628;
	const std::vector<float> rows = make_vectors(kRows, &state);
	const std::vector<float> queries = make_vectors(kDistinct, &state);
	std::vector<RowId> ids(kRows);
	std::vector<uint8_t> dead((kRows + 7) / 8);
	std::vector<engine::SearchQuery> batch;
	std::vector<std::vector<Neighbor>> found;
	std::vector<double> scores(kRows);
	std::vector<uint64_t> kept(n_bins);
	bool any_inexact = false;

	for (size_t i = 0; i < kRows; i++)
	{
		ids[i] = i * 3 + 7;
		if (i % 5 == 0)
			dead[i / 8] = static_cast<uint8_t>(dead[i / 8] | 1 << (i % 8));
	}
	VECTORGPU_TRY(engine->load_segment(copy, 1, {ids, rows.data(), kRows}));
	VECTORGPU_TRY(engine->seal_segment(copy, 1));
	VECTORGPU_TRY(engine->set_tombstones(copy, 1, dead));
	for (uint32_t q = 0; q < test.n_queries; q++)
		batch.push_back({queries.data() + size_t{q % kDistinct} * kDim, kNeighbors, false, {}, kTarget});
	VECTORGPU_TRY(engine->search(copy, batch, &found));
	for (uint32_t distinct = 0; distinct < std::min(kDistinct, test.n_queries); distinct++)
	{
		std::vector<Neighbor> wanted;

		engine::compute_scores(spec, batch[distinct].query, rows.data(), kDim * sizeof(float), kRows, scores.data());
		engine::partial_reduce(scores.data(), kRows, dead.data(), n_bins, kept.data());
		for (const uint64_t row : kept)
			if (row != engine::kNoRow)
				wanted.push_back({scores[row], ids[row]});
		std::sort(wanted.begin(), wanted.end(), engine::neighbor_less);
		wanted.resize(std::min(wanted.size(), kNeighbors));

		size_t n_before = 0; // rows that an exact answer would have before the last of these

		for (size_t i = 0; i < kRows; i++)
			n_before += i % 5 != 0 && engine::neighbor_less({scores[i], ids[i]}, wanted.back()) ? 1 : 0;
		any_inexact = any_inexact || n_before + 1 != wanted.size();
		for (uint32_t q = distinct; q < test.n_queries; q += kDistinct)
			if (!std::equal(wanted.begin(), wanted.end(), found[q].begin(), found[q].end(),
					[](const Neighbor &a, const Neighbor &b)
					{ return std::memcmp(&a.score, &b.score, sizeof(double)) == 0 && a.row == b.row; }))
				return Status::error(StatusCode::kUnavailable,
					"the GPU keeps other rows of bins than the CPU: metric " +
						std::to_string(static_cast<int>(test.metric)) + ", " + std::to_string(test.n_queries) +
						" queries");
	}
	return any_inexact
		? Status::ok()
		: Status::error(StatusCode::kUnavailable, "no answer differs from the exact one: bins may not have been used");
}

} // namespace

Status
self_test_bins(engine::Engine *engine)
{
	for (const Case &test : kCases)
	{
		engine::CopyId copy = 0;

		VECTORGPU_TRY(engine->create({{test.metric, ElementType::kFloat32, kDim}}, &copy));

		const Status status = run(engine, test, copy);

		VECTORGPU_TRY(engine->drop(copy));
		VECTORGPU_TRY(status);
	}
	return Status::ok();
}

} // namespace vectorgpu::cuda
