// Searches of graphs with two or four queries in one warp (GraphTuning::lanes): the answers of a warp for each query,
// bit for bit, and, except by cosine, where nodes are told apart by rounded scores, those of the CPU engine.
#include <algorithm>
#include <array>

#include "graph/tuned_graphs.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::CopyKind;
using engine::SegmentProbes;
using kernels::GraphTuning;
using kernels::GraphVisited;

constexpr std::array<uint32_t, 3> kLaneCounts = {0, 16, 8}; // of a query; 0: a warp, or four

std::unique_ptr<CudaEngine>
make_engine(uint32_t lanes, bool narrow)
{
	GraphTuning tuning;

	tuning.lanes = lanes;
	return make_tuned_engine(tuning, narrow, false); // batches of every size use the kernel that is compared
}

/// One graph in engines whose queries have a warp, 16 lanes or 8, made once each.
class Held : public TunedGraph
{
public:
	Held(const Rows &rows, uint32_t degree, uint32_t n_parts = 1, bool narrow = true, Edges edges = Edges::kBuilt)
		: TunedGraph(usual_engines(narrow), rows, degree, n_parts, edges)
	{
	}

private:
	static std::vector<CudaEngine *> usual_engines(bool narrow)
	{
		static TunedEngines<kLaneCounts.size()> engines;

		return engines.of(kLaneCounts, narrow, make_engine);
	}
};

TEST(GraphsByLanes, EveryMetricAndFormAndDimension)
{
	for (Metric metric : kFloatMetrics)
		for (const auto &[element, values, narrow] :
			{std::tuple{ElementType::kFloat32, Values::kReal, true}, {ElementType::kFloat32, Values::kBytes, true},
				{ElementType::kFloat32, Values::kBytes, false}, {ElementType::kFloat16, Values::kReal, true}})
			for (const uint32_t dim : {7u, 100u, 129u, 256u, 300u})
			{
				const DistanceSpec spec = {metric, element, dim};
				Held held(make_rows(spec, values, 1500, dim), 16, 1, narrow);
				const Rows queries = make_rows(spec, values, 37, dim + 1);

				for (const size_t n : {1u, 37u})
					ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 10, 10));
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 7, 20, 90));
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 5, 10, 33, true));
			}
}

TEST(GraphsByLanes, EveryNumberOfQueriesInTheLastWarp)
{
	for (Metric metric : kFloatMetrics)
	{
		const DistanceSpec spec = {metric, ElementType::kFloat32, 20};
		Held held(make_rows(spec, Values::kReal, 3000, 3), 16);
		const Rows queries = make_rows(spec, Values::kReal, 61, 4);

		for (const size_t n : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 15u, 17u, 31u, 33u, 127u, 129u, 1023u, 1101u})
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 10, 10));
	}
}

TEST(GraphsByLanes, WidthsFromOneUpToTheMost)
{
	for (const Values values : {Values::kReal, Values::kBytes})
	{
		const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 24};
		Held held(make_rows(spec, values, 9000, 5), 32);
		const Rows queries = make_rows(spec, values, 13, 6);

		for (const uint32_t width :
			{1u, 2u, 7u, 8u, 9u, 10u, 15u, 16u, 17u, 24u, 31u, 32u, 33u, 64u, 65u, 100u, 255u, 512u, 1000u, 1002u})
			for (const size_t k : {1u, 10u, 1000u})
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 13, k, width));
	}
}

TEST(GraphsByLanes, DegreesThatAreNoMultipleOfTheirLanes)
{
	for (const uint32_t degree : {2u, 5u, 7u, 8u, 9u, 15u, 17u, 31u, 33u, 48u, 64u, 100u})
	{
		const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 12};
		Held held(make_rows(spec, Values::kReal, 2000, degree), degree);
		const Rows queries = make_rows(spec, Values::kReal, 11, degree + 1);

		ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 11, 20, 70));
	}
}

TEST(GraphsByLanes, GraphsOfFewRows)
{
	for (Metric metric : kFloatMetrics)
	{
		const DistanceSpec spec = {metric, ElementType::kFloat32, 5};
		const Rows queries = make_rows(spec, Values::kReal, 9, 7);

		for (const size_t n : {9u, 10u, 30u, 100u}) // below, all rows are looked at
		{
			Held held(make_rows(spec, Values::kReal, n, 8), 4);
			std::vector<SegmentProbes> probes(7, SegmentProbes{1, 1});
			std::vector<SearchQuery> requests;

			for (size_t i = 0; i < probes.size(); i++)
			{
				requests.push_back({queries.vector(i), 3, false, {}});
				requests.back().probes = {&probes[i], 1};
			}
			ASSERT_NO_FATAL_FAILURE(held.expect_same_answers(requests));
		}
		// Widths greater than the rows of a part.
		for (const uint32_t n_parts : {40u, 100u, 300u})
		{
			Held held(make_rows(spec, Values::kReal, 300, 9), 4, n_parts);

			ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 9, 10, 10));
		}
	}
}

TEST(GraphsByLanes, OtherQueriesThanBytesOverRowsOfBytes)
{
	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct})
	{
		const DistanceSpec spec = {metric, ElementType::kFloat32, 40};
		Held held(make_rows(spec, Values::kBytes, 3000, 10), 16);

		ASSERT_NO_FATAL_FAILURE(held.expect_batch(make_rows(spec, Values::kReal, 33, 11), 33, 20, 70));
	}
}

TEST(GraphsByLanes, NaNAndInfinities)
{
	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kL1})
		for (const ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
		{
			for (const uint32_t dim : {3u, 64u})
			{
				const DistanceSpec spec = {metric, element, dim};
				Held held(make_rows(spec, Values::kExtremes, 3000, 12), 16, 1, true, Edges::kRandom);

				for (const uint32_t width : {1u, 100u})
					ASSERT_NO_FATAL_FAILURE(
						held.expect_batch(make_rows(spec, Values::kExtremes, 61, 13), 61, 50, width));
			}
		}
}

TEST(GraphsByLanes, RowsThatAreEqualOrDead)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 16};
	const std::vector<float> same(spec.dim, 1.0f);
	Rows equal(spec);

	for (RowId id = 1; id <= 3000; id++)
		equal.add(id, reinterpret_cast<const uint8_t *>(same.data()));

	Held of_equal(equal, 8);

	ASSERT_NO_FATAL_FAILURE(of_equal.expect_batch(equal, 21, 40, 100));

	Held of_dead(make_rows(spec, Values::kReal, 3000, 14), 16);
	std::mt19937 rng(15);
	std::vector<uint8_t> dead(375);

	for (uint8_t &byte : dead)
		byte = static_cast<uint8_t>(rng() | rng());
	ASSERT_NO_FATAL_FAILURE(of_dead.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
	ASSERT_NO_FATAL_FAILURE(of_dead.expect_batch(make_rows(spec, Values::kReal, 21, 16), 21, 30, 90));
}

/// Sets of visited nodes without false answers, steps and sizes: the same answers as by a warp.
TEST(GraphsByLanes, EveryTuningWhoseAnswersDoNotDependOnTheOrderOfItsInsertions)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 30};
	const GraphedRows graph(make_rows(spec, Values::kBytes, 3000, 17), 32);
	const Rows queries = make_rows(spec, Values::kBytes, 41, 18);
	const SegmentProbes probes[] = {{1, 50}};
	std::vector<SearchQuery> requests;

	for (size_t i = 0; i < queries.n(); i++)
	{
		requests.push_back({queries.vector(i), 30, false, {}});
		requests.back().probes = probes;
	}
	for (const auto &[visited, selected, deletion, table_bits, steps] :
		{std::tuple{GraphVisited::kNone, false, false, 0u, 1u}, {GraphVisited::kNone, false, false, 0u, 8u},
			{GraphVisited::kHash, false, false, 6u, 1u}, {GraphVisited::kHash, false, false, 13u, 8u},
			{GraphVisited::kHash, true, false, 6u, 3u}, {GraphVisited::kHash, true, true, 6u, 8u},
			{GraphVisited::kHash, true, true, 0u, 1u}})
	{
		std::vector<std::vector<Neighbor>> by_warps;

		for (const uint32_t lanes : kLaneCounts)
		{
			std::vector<std::vector<Neighbor>> found;
			CopyId copy = 0;
			GraphTuning tuning = {visited, selected, deletion, table_bits, steps};

			tuning.warps = lanes == 0 ? 1 : 0;
			tuning.lanes = lanes;

			const std::unique_ptr<CudaEngine> engine = make_tuned_engine(tuning, true, false);

			ASSERT_OK(engine->create({spec, CopyKind::kGraph}, &copy));
			ASSERT_OK(graph.load(engine.get(), copy, 1));
			ASSERT_OK(engine->search(copy, requests, &found, nullptr));
			if (lanes == 0)
				by_warps = found;
			for (size_t q = 0; q < requests.size(); q++)
			{
				SCOPED_TRACE(testing::Message()
					<< "visited " << static_cast<int>(visited) << selected << deletion << " bits " << table_bits
					<< " steps " << steps << " lanes " << lanes << " query " << q);
				ASSERT_NO_FATAL_FAILURE(test::expect_same(found[q], by_warps[q]));
			}
		}
	}
}

} // namespace
} // namespace vectorgpu::cuda::test
