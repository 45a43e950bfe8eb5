// See self_test.hpp. Rows are chosen so that each way of search is taken: direct and filter, each form of rows, delta
// and tombstones, large k. The oracle is compute_scores and TopK, not the CPU engine.
#include "cuda/selftest/self_test.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/half.hpp"
#include "cuda/cuda_engine.hpp"
#include "cuda/device/device.hpp"
#include "engine/distance/distance.hpp"
#include "engine/ivf/coarse.hpp"
#include "engine/interface/list_builder.hpp"
#include "engine/distance/topk.hpp"
#include "kernels/filter/tuning.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;

constexpr uint32_t kRows = kernels::kFilterLeastRows + 1000;
constexpr uint32_t kDeltaRows = 100;
constexpr uint32_t kQueries = 12;
constexpr uint32_t kDistinct =
	13; // queries of a batch; larger ones ask them again, at other places of the kernels' tiles

enum class Values : uint8_t
{
	kReal,
	kHalves, // exact in binary16
	kBytes,  // whole numbers 0 ... 255
};

struct Case
{
	Metric metric;
	ElementType element;
	uint32_t dim;
	Values values;
	size_t k;
	uint32_t n_queries;
};

constexpr Case kCases[] = {
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
	{Metric::kL2, ElementType::kFloat32, 360, Values::kReal, 10,
		kQueries}, // queries of so many dimensions come with the rows
	{Metric::kCosine, ElementType::kFloat32, 360, Values::kReal, 10, 70},
	{Metric::kInnerProduct, ElementType::kFloat32, 360, Values::kReal, 10, 130},
	{Metric::kHamming, ElementType::kBit, 200, Values::kReal, 10, 2},
	{Metric::kJaccard, ElementType::kBit, 200, Values::kReal, 10, 2},
};

/// splitmix64: the same numbers everywhere.
class Numbers
{
public:
	uint64_t next()
	{
		uint64_t z = state_ += 0x9E3779B97F4A7C15u;

		z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
		z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
		return z ^ (z >> 31);
	}

	float unit() { return static_cast<float>(static_cast<int32_t>(next() >> 40)) * 0x1p-23f - 1.0f; } // [-1, 1)

private:
	uint64_t state_ = 20170228;
};

std::vector<uint8_t>
make_vectors(const Case &test, size_t n, Numbers *numbers)
{
	const size_t row_bytes = vector_bytes(test.element, test.dim);
	std::vector<uint8_t> vectors(n * row_bytes);

	for (size_t i = 0; i < n; i++)
		for (size_t e = 0; e < (test.element == ElementType::kBit ? row_bytes : test.dim); e++)
		{
			uint8_t *row = vectors.data() + i * row_bytes;

			if (test.element == ElementType::kBit)
				row[e] = static_cast<uint8_t>(numbers->next());
			else
			{
				const float real = numbers->unit();
				const uint16_t half = float_to_half(real);
				const float value = test.values == Values::kBytes ? static_cast<float>(numbers->next() % 256)
					: test.values == Values::kHalves              ? half_to_float(half)
																  : real;

				if (test.element == ElementType::kFloat16)
					std::memcpy(row + e * 2, &half, 2);
				else
					std::memcpy(row + e * 4, &value, 4);
			}
		}
	return vectors;
}

std::string
describe(const Case &test)
{
	return "metric " + std::to_string(static_cast<int>(test.metric)) + ", element type " +
		std::to_string(static_cast<int>(test.element)) + ", " + std::to_string(test.dim) + " dimensions, values " +
		std::to_string(static_cast<int>(test.values)) + ", " + std::to_string(test.n_queries) + " queries";
}

Status
run(engine::Engine *engine, const Case &test, engine::CopyId copy)
{
	const engine::DistanceSpec spec = {test.metric, test.element, test.dim};
	const size_t row_bytes = vector_bytes(test.element, test.dim);
	constexpr size_t kAll = kRows + kDeltaRows;
	Numbers numbers;
	const std::vector<uint8_t> rows = make_vectors(test, kAll, &numbers);
	const uint32_t n_distinct = std::min(test.n_queries, kDistinct);
	const std::vector<uint8_t> queries = make_vectors(test, n_distinct, &numbers);
	std::vector<RowId> ids(kAll);
	std::vector<uint8_t> dead((kRows + 7) / 8);
	std::vector<uint8_t> all_dead((kAll + 7) / 8);

	for (size_t i = 0; i < kAll; i++)
		ids[i] = i * 3 + 7;
	for (size_t i = 0; i < kRows; i += 5)
		all_dead[i / 8] |= dead[i / 8] |= static_cast<uint8_t>(1 << (i % 8));
	if (Status status = engine->load_segment(copy, 1, {std::span(ids).first(kRows), rows.data(), kRows});
		!status.is_ok())
		return status;
	if (Status status = engine->seal_segment(copy, 1); !status.is_ok())
		return status;
	if (Status status = engine->set_tombstones(copy, 1, dead); !status.is_ok())
		return status;
	if (Status status = engine->append_delta(
			copy, 0, {std::span(ids).last(kDeltaRows), rows.data() + kRows * row_bytes, kDeltaRows});
		!status.is_ok())
		return status;

	std::vector<engine::SearchQuery> batch(test.n_queries);
	std::vector<std::vector<Neighbor>> found;

	for (uint32_t q = 0; q < test.n_queries; q++)
		batch[q] = {queries.data() + q % n_distinct * row_bytes, test.k, false, {}};
	if (Status status = engine->search(copy, batch, &found); !status.is_ok())
		return status;

	std::vector<double> scores(kAll);
	std::vector<Neighbor> buffer(2 * test.k + 1024);

	for (uint32_t distinct = 0; distinct < n_distinct; distinct++)
	{
		engine::TopK topk;

		engine::compute_scores(spec, batch[distinct].query, rows.data(), row_bytes, kAll, scores.data());
		engine::topk_init(&topk, test.k, buffer.data(), buffer.size(), nullptr);
		engine::topk_push(&topk, scores.data(), ids.data(), kAll, all_dead.data(), 0);

		const size_t n = engine::topk_finish(&topk);

		for (uint32_t q = distinct; q < test.n_queries; q += n_distinct)
		{
			bool same = n == found[q].size();

			for (size_t i = 0; same && i < n; i++)
				same = std::memcmp(&buffer[i].score, &found[q][i].score, sizeof(double)) == 0 &&
					buffer[i].row == found[q][i].row;
			if (!same)
				return Status::error(
					StatusCode::kUnavailable, "the GPU's answer differs from the CPU's: " + describe(test));
		}
	}
	return Status::ok();
}

constexpr uint32_t kLists = 16;
constexpr uint32_t kListRows = 4000;

/// Lists of every 16th row each, around their first rows, with some dead ones: one query goes alone, many go list by
/// list.
Status
run_lists(engine::Engine *engine, const Case &test, engine::CopyId copy)
{
	const engine::DistanceSpec spec = {test.metric, test.element, test.dim};
	const engine::DistanceSpec coarse = {test.metric, ElementType::kFloat32, test.dim};
	const size_t row_bytes = vector_bytes(test.element, test.dim);
	Numbers numbers;
	const std::vector<uint8_t> rows = make_vectors(test, kListRows, &numbers); // by number
	const std::vector<uint8_t> queries = make_vectors(test, test.n_queries, &numbers);
	std::vector<RowId> ids(kListRows);
	std::vector<uint8_t> by_place;
	std::vector<uint8_t> dead((kListRows + 7) / 8);
	std::vector<uint64_t> offsets = {0};
	std::vector<float> centroids(size_t{kLists} * test.dim);
	std::vector<uint32_t> order;
	std::vector<uint8_t> description;
	const engine::SegmentProbes probes[] = {{1, 3}};

	for (uint32_t list = 0; list < kLists; list++)
	{
		for (uint32_t row = list; row < kListRows; row += kLists)
		{
			order.push_back(row);
			by_place.insert(by_place.end(), rows.data() + row * row_bytes, rows.data() + (row + 1) * row_bytes);
		}
		offsets.push_back(order.size());
		for (uint32_t e = 0; e < test.dim; e++)
			centroids[list * test.dim + e] = static_cast<float>(e % (list + 2)) - 0.25f * static_cast<float>(list);
	}
	for (size_t i = 0; i < kListRows; i++)
		ids[i] = i * 3 + 7;
	for (size_t i = 0; i < kListRows; i += 5)
		dead[i / 8] = static_cast<uint8_t>(dead[i / 8] | 1 << (i % 8));
	description.resize(offsets.size() * 8 + centroids.size() * 4 + order.size() * 4);
	std::memcpy(description.data(), offsets.data(), offsets.size() * 8);
	std::memcpy(description.data() + offsets.size() * 8, centroids.data(), centroids.size() * 4);
	std::memcpy(description.data() + offsets.size() * 8 + centroids.size() * 4, order.data(), order.size() * 4);
	VECTORGPU_TRY(engine->load_segment(copy, 1, {ids, by_place.data(), kListRows}));
	VECTORGPU_TRY(engine->load_structure(copy, 1, kLists, description));
	VECTORGPU_TRY(engine->seal_segment(copy, 1));
	VECTORGPU_TRY(engine->set_tombstones(copy, 1, dead));

	std::vector<engine::SearchQuery> batch(test.n_queries);
	std::vector<std::vector<Neighbor>> found;

	for (uint32_t q = 0; q < test.n_queries; q++)
	{
		batch[q] = {queries.data() + q * row_bytes, test.k, false, {}};
		batch[q].probes = probes;
	}
	VECTORGPU_TRY(engine->search(copy, batch, &found));

	std::vector<double> scores(kListRows);
	std::vector<double> list_scores(kLists);
	std::vector<float> query(test.dim);

	for (uint32_t q = 0; q < test.n_queries; q++)
	{
		std::vector<Neighbor> ranked;
		std::vector<Neighbor> expected;

		if (test.element == ElementType::kFloat16)
			engine::widen_halves(batch[q].query, test.dim, query.data());
		else
			std::memcpy(query.data(), batch[q].query, row_bytes);
		engine::compute_scores(
			coarse, query.data(), centroids.data(), test.dim * sizeof(float), kLists, list_scores.data());
		for (uint32_t list = 0; list < kLists; list++)
			ranked.push_back({list_scores[list], list});
		std::sort(ranked.begin(), ranked.end(), engine::neighbor_less);
		engine::compute_scores(spec, batch[q].query, rows.data(), row_bytes, kListRows, scores.data());
		for (uint32_t i = 0; i < probes[0].probes; i++)
			for (size_t row = ranked[i].row; row < kListRows; row += kLists)
				if (row % 5 != 0)
					expected.push_back({scores[row], ids[row]});
		std::sort(expected.begin(), expected.end(), engine::neighbor_less);
		expected.resize(std::min(expected.size(), test.k));

		bool same = expected.size() == found[q].size();

		for (size_t i = 0; same && i < expected.size(); i++)
			same = std::memcmp(&expected[i].score, &found[q][i].score, sizeof(double)) == 0 &&
				expected[i].row == found[q][i].row;
		if (!same)
			return Status::error(
				StatusCode::kUnavailable, "the GPU's answer from lists differs from the CPU's: " + describe(test));
	}
	return Status::ok();
}

constexpr Case kListCases[] = {
	{Metric::kL2, ElementType::kFloat32, 40, Values::kReal, 10, 1},
	{Metric::kL2, ElementType::kFloat32, 64, Values::kBytes, 10, 30},
	{Metric::kL2, ElementType::kFloat32, 33, Values::kHalves, 300, 30},
	{Metric::kInnerProduct, ElementType::kFloat16, 48, Values::kHalves, 10, 30},
	{Metric::kCosine, ElementType::kFloat32, 48, Values::kReal, 10, 30},
	{Metric::kCosine, ElementType::kFloat16, 65, Values::kHalves, 10, 2},
	{Metric::kL1, ElementType::kFloat32, 48, Values::kReal, 10, 30},
};

/// Labels of k-means against those of engine/ivf, and what queries find among the rows: whole numbers, so that there
/// are ties, and numbers between.
Status
run_list_builder(engine::Engine *engine)
{
	constexpr uint32_t kDim = 40;
	constexpr uint32_t kClusters = 150;
	constexpr size_t kAssigned = 300;
	constexpr uint32_t kBuildQueries = 5;
	constexpr uint32_t kNearest = 7;
	engine::SearchControl control;
	engine::ListBuildSpec spec;
	std::unique_ptr<engine::ListBuilder> builder;
	std::vector<float> vectors((kAssigned + kClusters) * kDim);
	std::vector<uint32_t> labels(kAssigned);
	std::vector<uint32_t> expected(kAssigned);
	std::vector<float> scores(kAssigned);
	std::vector<float> expected_scores(kAssigned);
	std::vector<Neighbor> nearest;
	engine::ivf::Coarse coarse;
	uint32_t random = 1;

	for (size_t i = 0; i < vectors.size(); i++)
	{
		random = random * 1664525 + 1013904223;
		vectors[i] = static_cast<float>(random >> 28) / (i / kDim % 2 == 0 ? 1.0f : 3.0f);
	}

	const float *centroids = vectors.data() + kAssigned * kDim;

	spec.rows = {Metric::kL2, ElementType::kFloat32, kDim};
	spec.n_clusters = kClusters;
	spec.n_queries = kBuildQueries;
	spec.k = kNearest;
	VECTORGPU_TRY(engine->make_list_builder(spec, &control, &builder));
	VECTORGPU_TRY(builder->add_centroids(centroids, kClusters));
	VECTORGPU_TRY(builder->add_queries(centroids, kBuildQueries));
	VECTORGPU_TRY(builder->assign(0, vectors.data(), kAssigned, labels.data(), scores.data()));
	VECTORGPU_TRY(builder->neighbors(&nearest));

	std::vector<uint8_t> memory(engine::ivf::coarse_bytes(kDim, kClusters));
	engine::ivf::Outcome outcome =
		engine::ivf::coarse_init(centroids, kClusters, kDim, memory.data(), memory.size(), &coarse);
	std::vector<uint8_t> work(engine::ivf::coarse_assign_work_bytes(coarse, 1));

	if (outcome.is_ok())
		outcome = engine::ivf::coarse_assign(
			coarse, vectors.data(), kDim, kAssigned, expected.data(), expected_scores.data(), work.data(), work.size());
	if (!outcome.is_ok())
		return Status::error(outcome.code, outcome.message);
	if (labels != expected || scores != expected_scores)
		return Status::error(StatusCode::kUnavailable, "the GPU assigns rows to other clusters than the CPU");

	bool same = nearest.size() == size_t{kBuildQueries} * kNearest;

	for (size_t q = 0; same && q < kBuildQueries; q++)
	{
		std::vector<double> distances(kAssigned);
		std::vector<Neighbor> wanted;

		engine::compute_scores(
			spec.rows, centroids + q * kDim, vectors.data(), kDim * sizeof(float), kAssigned, distances.data());
		for (size_t row = 0; row < kAssigned; row++)
			wanted.push_back({distances[row], row});
		std::sort(wanted.begin(), wanted.end(), engine::neighbor_less);
		for (size_t i = 0; i < kNearest; i++)
			same = same && nearest[q * kNearest + i].score == wanted[i].score &&
				nearest[q * kNearest + i].row == wanted[i].row;
	}
	return same ? Status::ok()
				: Status::error(StatusCode::kUnavailable, "the GPU finds other neighbours beside a build than the CPU");
}

/// A right answer that says nothing of the way under test.
Status
another_way(const Case &test)
{
	return Status::error(StatusCode::kUnavailable, "the GPU went another way: " + describe(test));
}

constexpr Case kOnePassCases[] = {
	{Metric::kL2, ElementType::kFloat32, 64, Values::kBytes, 10, 1},
	{Metric::kL2, ElementType::kFloat32, 100, Values::kBytes, 10, 12},
	{Metric::kInnerProduct, ElementType::kFloat32, 200, Values::kBytes, 3, 10},
	{Metric::kL2, ElementType::kFloat32, 130, Values::kBytes, 20, 20},
	{Metric::kL2, ElementType::kFloat32, 140, Values::kBytes, 10, 35},
};

} // namespace

Status
self_test_one_pass(CudaEngine *engine)
{
	for (const Case &test : kOnePassCases)
	{
		const uint64_t before = engine->n_one_pass();
		engine::CopyId copy = 0;

		VECTORGPU_TRY(engine->create({test.metric, test.element, test.dim}, &copy));

		const Status status = run(engine, test, copy);

		VECTORGPU_TRY(engine->drop(copy));
		VECTORGPU_TRY(status);
		if (engine->n_one_pass() == before)
			return another_way(test);
	}
	return Status::ok();
}

constexpr Case kFewListCases[] = {
	{Metric::kL2, ElementType::kFloat32, 64, Values::kBytes, 10, 1},
	{Metric::kL2, ElementType::kFloat32, 120, Values::kBytes, 100, 12},
	{Metric::kInnerProduct, ElementType::kFloat32, 250, Values::kBytes, 10, 70},
};

constexpr Case kFewRealListCases[] = {
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

namespace
{

/// Lists of all cases, each of which count() must have counted.
template <class Count>
Status
run_few_lists(CudaEngine *engine, std::span<const Case> cases, const Count &count)
{
	for (const Case &test : cases)
	{
		const uint64_t before = count();
		engine::CopyId copy = 0;

		VECTORGPU_TRY(engine->create({{test.metric, test.element, test.dim}, engine::CopyKind::kLists}, &copy));

		const Status status = run_lists(engine, test, copy);

		VECTORGPU_TRY(engine->drop(copy));
		VECTORGPU_TRY(status);
		if (count() == before)
			return another_way(test);
	}
	return Status::ok();
}

} // namespace

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

Status
self_test(engine::Engine *engine)
{
	VECTORGPU_TRY(run_list_builder(engine));
	for (const Case &test : kListCases)
	{
		engine::CopyId copy = 0;

		VECTORGPU_TRY(engine->create({{test.metric, test.element, test.dim}, engine::CopyKind::kLists}, &copy));

		const Status status = run_lists(engine, test, copy);

		VECTORGPU_TRY(engine->drop(copy));
		VECTORGPU_TRY(status);
	}
	for (const Case &test : kCases)
	{
		engine::CopyId copy = 0;

		if (Status status = engine->create({test.metric, test.element, test.dim}, &copy); !status.is_ok())
			return status;

		const Status status = run(engine, test, copy);
		const Status dropped = engine->drop(copy);

		if (!status.is_ok())
			return status;
		if (!dropped.is_ok())
			return dropped;
	}
	return Status::ok();
}

} // namespace vectorgpu::cuda
