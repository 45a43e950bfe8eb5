// See self_test.hpp. This part is about rows. The cases take each way of search: direct and filter, each form of rows,
// delta and tombstones, large k. The oracle is compute_scores and TopK, not the CPU engine.
#include "cuda/selftest/self_test.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "cuda/cuda_engine.hpp"
#include "cuda/selftest/row_cases.hpp"
#include "engine/distance/distance.hpp"
#include "engine/distance/topk.hpp"
#include "kernels/filter/tuning.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;

constexpr uint32_t kRows = kernels::kFilterLeastRows + 1000;
constexpr uint32_t kDeltaRows = 100;
constexpr size_t kAll = kRows + kDeltaRows;
constexpr uint32_t kQueries = 12;
constexpr uint32_t kDistinct = 13; // queries of a batch; larger ones repeat them at other places of the kernels' tiles

constexpr RowCase kCases[] = {
	{Metric::kL2, ElementType::kFloat32, 40, Values::kReal, 10, kQueries},
	{Metric::kL2, ElementType::kFloat32, 64, Values::kBytes, 10, kQueries},
	{Metric::kL2, ElementType::kFloat32, 33, Values::kHalves, 100, kQueries},
	{Metric::kL2, ElementType::kFloat32, 7, Values::kReal, 5000, 2},
	{Metric::kInnerProduct, ElementType::kFloat32, 48, Values::kReal, 10, kQueries},
	{Metric::kInnerProduct, ElementType::kFloat16, 48, Values::kHalves, 10, 1},
	{Metric::kCosine, ElementType::kFloat32, 48, Values::kReal, 10, kQueries},
	{Metric::kCosine, ElementType::kFloat16, 65, Values::kHalves, 10, kQueries},
	{Metric::kCosine, ElementType::kFloat32, 31, Values::kBytes, 10, 2},
	{Metric::kL1, ElementType::kFloat32, 48, Values::kReal, 10, 3},
	{Metric::kL1, ElementType::kFloat16, 48, Values::kHalves, 10, 1},
	{Metric::kL2, ElementType::kFloat32, 40, Values::kBytes, 10, 70},
	{Metric::kL2, ElementType::kFloat32, 24, Values::kBytes, 10, 130},
	{Metric::kL2, ElementType::kFloat32, 40, Values::kHalves, 10, 70},
	{Metric::kInnerProduct, ElementType::kFloat16, 24, Values::kHalves, 10, 130},
	{Metric::kCosine, ElementType::kFloat32, 40, Values::kReal, 10, 70},
	{Metric::kL2, ElementType::kFloat32, 24, Values::kReal, 10, 130},
	// Queries of this many dimensions are loaded with the rows.
	{Metric::kL2, ElementType::kFloat32, 360, Values::kReal, 10, kQueries},
	{Metric::kCosine, ElementType::kFloat32, 360, Values::kReal, 10, 70},
	{Metric::kInnerProduct, ElementType::kFloat32, 360, Values::kReal, 10, 130},
	{Metric::kHamming, ElementType::kBit, 200, Values::kReal, 10, 2},
	{Metric::kJaccard, ElementType::kBit, 200, Values::kReal, 10, 2},
};

constexpr RowCase kOnePassCases[] = {
	{Metric::kL2, ElementType::kFloat32, 64, Values::kBytes, 10, 1},
	{Metric::kL2, ElementType::kFloat32, 100, Values::kBytes, 10, 12},
	{Metric::kInnerProduct, ElementType::kFloat32, 200, Values::kBytes, 3, 10},
	{Metric::kL2, ElementType::kFloat32, 130, Values::kBytes, 20, 20},
	{Metric::kL2, ElementType::kFloat32, 140, Values::kBytes, 10, 35},
};

constexpr RowCase kScaledCases[] = {
	{Metric::kL2, ElementType::kFloat32, 40, Values::kReal, 10, 2},
	{Metric::kInnerProduct, ElementType::kFloat32, 96, Values::kReal, 10, kQueries},
	{Metric::kCosine, ElementType::kFloat32, 65, Values::kReal, 10, 20},
	{Metric::kL2, ElementType::kFloat32, 130, Values::kReal, 10, 35},
	{Metric::kCosine, ElementType::kFloat32, 40, Values::kReal, 10, 70},
	{Metric::kInnerProduct, ElementType::kFloat32, 24, Values::kReal, 100, 130},
	{Metric::kL2, ElementType::kFloat32, 700, Values::kReal, 10, 130}, // queries are loaded with the rows
};

/// Loads the rows, the last kDeltaRows of them into the delta. Dead rows are in the segment alone.
Status
load(engine::Engine *engine, const RowCase &test, const std::vector<uint8_t> &rows, const std::vector<RowId> &ids,
	engine::CopyId copy)
{
	const uint8_t *delta = rows.data() + kRows * test.row_bytes();

	VECTORGPU_TRY(engine->load_segment(copy, 1, {std::span(ids).first(kRows), rows.data(), kRows}));
	VECTORGPU_TRY(engine->seal_segment(copy, 1));
	VECTORGPU_TRY(engine->set_tombstones(copy, 1, make_tombstones(kRows, kRows)));
	return engine->append_delta(copy, 0, {std::span(ids).last(kDeltaRows), delta, kDeltaRows});
}

Status
run(engine::Engine *engine, const RowCase &test, engine::CopyId copy)
{
	Numbers numbers;
	const std::vector<uint8_t> rows = make_vectors(test, kAll, &numbers);
	const uint32_t n_distinct = std::min(test.n_queries, kDistinct);
	const std::vector<uint8_t> queries = make_vectors(test, n_distinct, &numbers);
	const std::vector<RowId> ids = make_ids(kAll);
	const std::vector<uint8_t> dead = make_tombstones(kAll, kRows);
	std::vector<engine::SearchQuery> batch(test.n_queries);
	std::vector<std::vector<Neighbor>> found;
	std::vector<double> scores(kAll);
	std::vector<Neighbor> buffer(2 * test.k + 1024);

	VECTORGPU_TRY(load(engine, test, rows, ids, copy));
	for (uint32_t q = 0; q < test.n_queries; q++)
		batch[q] = {queries.data() + q % n_distinct * test.row_bytes(), test.k, false, {}};
	VECTORGPU_TRY(engine->search(copy, batch, &found));
	for (uint32_t distinct = 0; distinct < n_distinct; distinct++)
	{
		engine::TopK topk;

		engine::compute_scores(test.spec(), batch[distinct].query, rows.data(), test.row_bytes(), kAll, scores.data());
		engine::topk_init(&topk, test.k, buffer.data(), buffer.size(), nullptr);
		engine::topk_push(&topk, scores.data(), ids.data(), kAll, dead.data(), 0);

		const size_t n = engine::topk_finish(&topk);

		for (uint32_t q = distinct; q < test.n_queries; q += n_distinct)
			if (!same_answer(std::span(buffer).first(n), found[q]))
				return failed("the GPU's answer differs from the CPU's: " + describe(test));
	}
	return Status::ok();
}

} // namespace

Status
self_test_scaled(CudaEngine *engine)
{
	for (const RowCase &test : kScaledCases)
	{
		bool is_scaled = false;

		VECTORGPU_TRY(with_copy(engine, {test.spec()},
			[&](engine::CopyId copy)
			{
				const Status status = run(engine, test, copy);

				is_scaled = engine->n_scaled_segments() > 0;
				return status;
			}));
		if (!is_scaled)
			return another_way(test);
	}
	return Status::ok();
}

Status
self_test_one_pass(CudaEngine *engine)
{
	for (const RowCase &test : kOnePassCases)
	{
		const uint64_t before = engine->n_one_pass();

		VECTORGPU_TRY(with_copy(engine, {test.spec()}, [&](engine::CopyId copy) { return run(engine, test, copy); }));
		if (engine->n_one_pass() == before)
			return another_way(test);
	}
	return Status::ok();
}

Status
self_test(engine::Engine *engine)
{
	VECTORGPU_TRY(self_test_list_builder(engine));
	VECTORGPU_TRY(self_test_lists(engine));
	for (const RowCase &test : kCases)
		VECTORGPU_TRY(with_copy(engine, {test.spec()}, [&](engine::CopyId copy) { return run(engine, test, copy); }));
	return Status::ok();
}

} // namespace vectorgpu::cuda
