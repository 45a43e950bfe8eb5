// The part of the self-test about inverted lists of vectors.
#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "cuda/cuda_engine.hpp"
#include "cuda/selftest/row_cases.hpp"
#include "cuda/selftest/self_test.hpp"
#include "engine/distance/distance.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;

constexpr uint32_t kLists = 16;
constexpr uint32_t kRows = 4000;
constexpr uint32_t kScaledRows = 17000; // fewer are not rounded to signed bytes
constexpr uint32_t kProbes = 3;

// A single query goes over its lists; many queries go list by list.
constexpr RowCase kListCases[] = {
	{Metric::kL2, ElementType::kFloat32, 40, Values::kReal, 10, 1},
	{Metric::kL2, ElementType::kFloat32, 64, Values::kBytes, 10, 30},
	{Metric::kL2, ElementType::kFloat32, 33, Values::kHalves, 300, 30},
	{Metric::kInnerProduct, ElementType::kFloat16, 48, Values::kHalves, 10, 30},
	{Metric::kCosine, ElementType::kFloat32, 48, Values::kReal, 10, 30},
	{Metric::kCosine, ElementType::kFloat16, 65, Values::kHalves, 10, 2},
	{Metric::kL1, ElementType::kFloat32, 48, Values::kReal, 10, 30},
};

constexpr RowCase kFewListCases[] = {
	{Metric::kL2, ElementType::kFloat32, 64, Values::kBytes, 10, 1},
	{Metric::kL2, ElementType::kFloat32, 120, Values::kBytes, 100, 12},
	{Metric::kInnerProduct, ElementType::kFloat32, 250, Values::kBytes, 10, 70},
};

constexpr RowCase kFewRealListCases[] = {
	{Metric::kL2, ElementType::kFloat32, 40, Values::kReal, 10, 1},
	{Metric::kL2, ElementType::kFloat32, 136, Values::kReal, 100, 70},
	{Metric::kL2, ElementType::kFloat32, 90, Values::kBytes, 10, 12},
	{Metric::kInnerProduct, ElementType::kFloat16, 48, Values::kHalves, 10, 12},
	{Metric::kInnerProduct, ElementType::kFloat32, 260, Values::kReal, 10, 1},
	{Metric::kCosine, ElementType::kFloat32, 64, Values::kReal, 10, 8},
	{Metric::kCosine, ElementType::kFloat32, 150, Values::kHalves, 20, 30},
	{Metric::kL1, ElementType::kFloat32, 30, Values::kReal, 10, 3},
	{Metric::kL1, ElementType::kFloat16, 100, Values::kHalves, 100, 33},
};

// Binary16 rows as they are, and float32 rows rounded to it.
constexpr RowCase kRoundedListCases[] = {
	{Metric::kL2, ElementType::kFloat32, 40, Values::kReal, 10, 40},
	{Metric::kL2, ElementType::kFloat32, 136, Values::kReal, 20, 70},
	{Metric::kInnerProduct, ElementType::kFloat32, 128, Values::kReal, 10, 33},
	{Metric::kInnerProduct, ElementType::kFloat16, 48, Values::kHalves, 10, 30},
	{Metric::kCosine, ElementType::kFloat32, 260, Values::kReal, 10, 90},
	{Metric::kCosine, ElementType::kFloat16, 65, Values::kHalves, 10, 30},
};

// Float32 rows rounded to signed bytes.
constexpr RowCase kScaledListCases[] = {
	{Metric::kL2, ElementType::kFloat32, 100, Values::kReal, 10, 20},
	{Metric::kInnerProduct, ElementType::kFloat32, 64, Values::kReal, 10, 33},
	{Metric::kCosine, ElementType::kFloat32, 40, Values::kReal, 10, 20},
};

/// List i has every 16th row from row i on.
struct Lists
{
	Lists(const RowCase &test, uint32_t n)
		: n_rows(n), rows(make_vectors(test, n, &numbers)), queries(make_vectors(test, test.n_queries, &numbers)),
		  centroids(size_t{kLists} * test.dim)
	{
		std::vector<uint64_t> offsets = {0};
		std::vector<uint32_t> order;

		for (uint32_t list = 0; list < kLists; list++)
		{
			for (uint32_t row = list; row < n_rows; row += kLists)
			{
				order.push_back(row);
				append(&by_place, rows.data() + row * test.row_bytes(), test.row_bytes());
			}
			offsets.push_back(order.size());
			for (uint32_t e = 0; e < test.dim; e++)
				centroids[list * test.dim + e] = static_cast<float>(e % (list + 2)) - 0.25f * static_cast<float>(list);
		}
		append(&description, offsets.data(), offsets.size());
		append(&description, centroids.data(), centroids.size());
		append(&description, order.data(), order.size());
	}

	Numbers numbers;
	uint32_t n_rows;
	std::vector<uint8_t> rows; // by number
	std::vector<uint8_t> queries;
	std::vector<float> centroids;
	std::vector<uint8_t> by_place;
	std::vector<uint8_t> description;
};

/// The lists in the order of their distance.
std::vector<Neighbor>
rank(const RowCase &test, const Lists &lists, const void *query)
{
	const engine::DistanceSpec coarse = {test.metric, ElementType::kFloat32, test.dim};
	std::vector<double> scores(kLists);
	std::vector<float> floats(test.dim);
	std::vector<Neighbor> ranked;

	if (test.element == ElementType::kFloat16)
		engine::widen_halves(query, test.dim, floats.data());
	else
		std::memcpy(floats.data(), query, test.row_bytes());
	engine::compute_scores(
		coarse, floats.data(), lists.centroids.data(), test.dim * sizeof(float), kLists, scores.data());
	for (uint32_t list = 0; list < kLists; list++)
		ranked.push_back({scores[list], list});
	std::sort(ranked.begin(), ranked.end(), engine::neighbor_less);
	return ranked;
}

/// The live rows of the nearest lists.
std::vector<Neighbor>
expected(const RowCase &test, const Lists &lists, const void *query)
{
	const std::vector<Neighbor> ranked = rank(test, lists, query);
	std::vector<double> scores(lists.n_rows);
	std::vector<Neighbor> neighbors;

	engine::compute_scores(test.spec(), query, lists.rows.data(), test.row_bytes(), lists.n_rows, scores.data());
	for (uint32_t i = 0; i < kProbes; i++)
		for (size_t row = ranked[i].row; row < lists.n_rows; row += kLists)
			if (!is_dead(row))
				neighbors.push_back({scores[row], id_of(row)});
	keep_first(&neighbors, test.k);
	return neighbors;
}

Status
run(engine::Engine *engine, const RowCase &test, engine::CopyId copy, uint32_t n_rows = kRows)
{
	const Lists lists(test, n_rows);
	const engine::SegmentProbes probes[] = {{1, kProbes}};
	std::vector<engine::SearchQuery> batch(test.n_queries);
	std::vector<std::vector<Neighbor>> found;

	VECTORGPU_TRY(load_sealed(engine, copy, n_rows, lists.by_place.data(), kLists, lists.description));
	for (uint32_t q = 0; q < test.n_queries; q++)
	{
		batch[q] = {lists.queries.data() + q * test.row_bytes(), test.k, false, {}};
		batch[q].probes = probes;
	}
	VECTORGPU_TRY(engine->search(copy, batch, &found));
	for (uint32_t q = 0; q < test.n_queries; q++)
		if (!same_answer(expected(test, lists, batch[q].query), found[q]))
			return failed("the GPU's answer from lists differs from the CPU's: " + describe(test));
	return Status::ok();
}

Status
run_on_copy(engine::Engine *engine, const RowCase &test)
{
	return with_copy(
		engine, {test.spec(), engine::CopyKind::kLists}, [&](engine::CopyId copy) { return run(engine, test, copy); });
}

/// Run all cases; count() must have counted each.
template <class Count>
Status
run_few_lists(CudaEngine *engine, std::span<const RowCase> cases, const Count &count)
{
	for (const RowCase &test : cases)
	{
		const uint64_t before = count();

		VECTORGPU_TRY(run_on_copy(engine, test));
		if (count() == before)
			return another_way(test);
	}
	return Status::ok();
}

} // namespace

Status
self_test_lists(engine::Engine *engine)
{
	for (const RowCase &test : kListCases)
		VECTORGPU_TRY(run_on_copy(engine, test));
	return Status::ok();
}

Status
self_test_rounded_lists(CudaEngine *engine)
{
	return run_few_lists(engine, kRoundedListCases, [&] { return engine->n_rounded_lists(); });
}

Status
self_test_scaled_lists(CudaEngine *engine)
{
	for (const RowCase &test : kScaledListCases)
	{
		const uint64_t before = engine->n_rounded_lists();
		bool is_scaled = false;

		VECTORGPU_TRY(with_copy(engine, {test.spec(), engine::CopyKind::kLists},
			[&](engine::CopyId copy)
			{
				const Status status = run(engine, test, copy, kScaledRows);

				is_scaled = engine->n_scaled_segments() > 0;
				return status;
			}));
		if (!is_scaled || engine->n_rounded_lists() == before)
			return another_way(test);
	}
	return Status::ok();
}

Status
self_test_few_lists(CudaEngine *engine)
{
	return run_few_lists(engine, kFewListCases, [&] { return engine->n_few_lists(); });
}

Status
self_test_few_real_lists(CudaEngine *engine)
{
	return run_few_lists(engine, kFewRealListCases, [&] { return engine->n_few_real_lists(); });
}

} // namespace vectorgpu::cuda
