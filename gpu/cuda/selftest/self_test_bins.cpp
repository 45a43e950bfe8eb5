// The part of the self-test about PartialReduce. The rows are bytes, whose estimates are exact: the kernels must keep
// the rows of each bin that the reduction in plain code keeps. Some of the answers must differ from the exact ones, so
// that an exact way does not pass for this one.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/selftest/self_test.hpp"
#include "cuda/selftest/test_data.hpp"
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
constexpr uint32_t kDistinct = 13; // queries of a batch; larger ones repeat them
constexpr size_t kNeighbors = 20;
constexpr float kTarget = 0.9f; // 256 bins

struct Case
{
	Metric metric;
	uint32_t n_queries;
};

constexpr Case kCases[] = {{Metric::kL2, 9}, {Metric::kInnerProduct, 40}, {Metric::kL2, 130}};

/// Whole numbers 0 ... 255, by the generator of test_data.hpp.
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

/// The k first rows that the reduction keeps. *exact: whether these are the k first of all rows.
std::vector<Neighbor>
expected(
	Metric metric, const std::vector<float> &rows, const std::vector<uint8_t> &dead, const void *query, bool *exact)
{
	const engine::DistanceSpec spec = {metric, ElementType::kFloat32, kDim};
	const uint64_t n_bins = engine::partial_reduce_bins(kNeighbors, kTarget);
	std::vector<double> scores(kRows);
	std::vector<uint64_t> kept(n_bins);
	std::vector<Neighbor> wanted;
	size_t n_before = 0; // rows before the last of these

	engine::compute_scores(spec, query, rows.data(), kDim * sizeof(float), kRows, scores.data());
	engine::partial_reduce(scores.data(), kRows, dead.data(), n_bins, kept.data());
	for (const uint64_t row : kept)
		if (row != engine::kNoRow)
			wanted.push_back({scores[row], id_of(row)});
	keep_first(&wanted, kNeighbors);
	for (size_t i = 0; i < kRows; i++)
		n_before += !is_dead(i) && engine::neighbor_less({scores[i], id_of(i)}, wanted.back()) ? 1 : 0;
	*exact = n_before + 1 == wanted.size();
	return wanted;
}

Status
run(engine::Engine *engine, const Case &test, engine::CopyId copy)
{
	uint64_t state = 20220628;
	const std::vector<float> rows = make_vectors(kRows, &state);
	const std::vector<float> queries = make_vectors(kDistinct, &state);
	const std::vector<uint8_t> dead = make_tombstones(kRows, kRows);
	std::vector<engine::SearchQuery> batch;
	std::vector<std::vector<Neighbor>> found;
	bool any_inexact = false;

	VECTORGPU_TRY(engine->load_segment(copy, 1, {make_ids(kRows), rows.data(), kRows}));
	VECTORGPU_TRY(engine->seal_segment(copy, 1));
	VECTORGPU_TRY(engine->set_tombstones(copy, 1, dead));
	for (uint32_t q = 0; q < test.n_queries; q++)
		batch.push_back({queries.data() + size_t{q % kDistinct} * kDim, kNeighbors, false, {}, kTarget});
	VECTORGPU_TRY(engine->search(copy, batch, &found));
	for (uint32_t distinct = 0; distinct < std::min(kDistinct, test.n_queries); distinct++)
	{
		bool exact = true;
		const std::vector<Neighbor> wanted = expected(test.metric, rows, dead, batch[distinct].query, &exact);

		any_inexact = any_inexact || !exact;
		for (uint32_t q = distinct; q < test.n_queries; q += kDistinct)
			if (!same_answer(wanted, found[q]))
				return failed("the GPU keeps other rows of bins than the CPU: metric " +
					std::to_string(static_cast<int>(test.metric)) + ", " + std::to_string(test.n_queries) + " queries");
	}
	return any_inexact ? Status::ok() : failed("no answer differs from the exact one: bins may not have been used");
}

} // namespace

Status
self_test_bins(engine::Engine *engine)
{
	for (const Case &test : kCases)
		VECTORGPU_TRY(with_copy(engine, {test.metric, ElementType::kFloat32, kDim},
			[&](engine::CopyId copy) { return run(engine, test, copy); }));
	return Status::ok();
}

} // namespace vectorgpu::cuda
