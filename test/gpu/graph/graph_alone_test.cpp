// Few searches of one graph, a block each (cuda/search/graph_alone.hpp): the CPU engine's answers, bit for bit; by
// cosine, where nodes are told apart by rounded scores, nearly. Batches of 128 queries take that way, 129 do not.
#include "answers.hpp"
#include "engine/graph_rows.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::CopyKind;
using engine::SegmentProbes;

constexpr size_t kMostAlone = 128;

Rows
make_rows(const DistanceSpec &spec, Values values, size_t n, std::mt19937 &rng, RowId first_id)
{
	Rows rows(spec);

	add_values(&rows, values, 30, n, rng, first_id);
	return rows;
}

/// One segment with one graph, in both engines, and at least 128 queries.
struct OneGraph
{
	OneGraph(const DistanceSpec &spec, Values values, uint32_t seed, size_t n = 2000, uint32_t degree = 16,
		bool narrow = true, bool rounded = false)
		: rng(seed),
		  graph(make_rows(spec, values, n, rng, 1), degree, 1, has_extremes(values) ? Edges::kRandom : Edges::kBuilt),
		  queries(make_rows(spec, values, kMostAlone + 1, rng, 0)), both(copy_spec(spec, rounded), narrow)
	{
		both.change([&](Engine &e, CopyId c) { return graph.load(&e, c, 1); });
	}

	static engine::CopySpec copy_spec(const DistanceSpec &spec, bool rounded)
	{
		engine::CopySpec made(spec, CopyKind::kGraph);

		made.rounded = rounded;
		return made;
	}

	/// The first n queries, each with its own k and width, at most the given ones.
	std::vector<SearchQuery> batch(size_t n, size_t k, uint32_t width, bool with_after = false)
	{
		std::vector<SearchQuery> requests;

		probes.assign(n, {});
		for (size_t i = 0; i < n; i++)
		{
			SearchQuery query = {queries.vector(i), std::max<size_t>(1, k - i % 3 % k), false, {}};

			probes[i] = {1, width - static_cast<uint32_t>(i) % std::min(5u, width)};
			query.probes = {&probes[i], 1};
			if (with_after && i % 2 == 0)
			{
				query.has_after = true;
				query.after = {oracle_score(graph.rows.spec, query.query, graph.rows.vector(17)), graph.rows.ids[17]};
			}
			requests.push_back(query);
		}
		return requests;
	}

	/// Expect the same answers from both engines, n_alone queries of them with a block each.
	void expect_same(const std::vector<SearchQuery> &requests, size_t n_alone)
	{
		const uint64_t before = both.cuda()->n_graph_alone();

		SCOPED_TRACE(testing::Message() << metric_name(graph.rows.spec.metric) << " element "
										<< static_cast<int>(graph.rows.spec.element) << " dim " << graph.rows.spec.dim
										<< " batch " << requests.size() << " k " << requests[0].k << " width "
										<< requests[0].probes[0].probes);
		if (graph.rows.spec.metric == Metric::kCosine)
			ASSERT_NO_FATAL_FAILURE(expect_nearly_same_answers(both, requests, 0.99, [&](const void *query, RowId row)
				{ return oracle_score(graph.rows.spec, query, graph.rows.vector(row - 1)); }));
		else
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(requests));
		EXPECT_EQ(both.cuda()->n_graph_alone() - before, n_alone);
	}

	std::mt19937 rng;
	GraphedRows graph;
	Rows queries;
	Both both;
	std::vector<SegmentProbes> probes;
};

TEST(GraphsAlone, EveryMetricAndTypeInBatchesUpToTheMost)
{
	for (Metric metric : kFloatMetrics)
		for (const auto &[element, values, narrow] :
			{std::tuple{ElementType::kFloat32, Values::kReal, true}, {ElementType::kFloat32, Values::kBytes, true},
				{ElementType::kFloat32, Values::kBytes, false}, {ElementType::kFloat16, Values::kReal, true}})
			for (const uint32_t dim : {7u, 128u, 200u, 300u})
			{
				OneGraph held({metric, element, dim}, values, dim, 1500, 16, narrow);

				for (const size_t n : {size_t{1}, size_t{2}, kMostAlone})
					ASSERT_NO_FATAL_FAILURE(held.expect_same(held.batch(n, 10, 64), n));
				ASSERT_NO_FATAL_FAILURE(held.expect_same(held.batch(kMostAlone + 1, 10, 64), 0));
				ASSERT_NO_FATAL_FAILURE(held.expect_same(held.batch(5, 10, 33, true), 5));
			}
}

TEST(GraphsAlone, EveryWidthAndNumberOfRows)
{
	OneGraph held({Metric::kL2, ElementType::kFloat32, 20}, Values::kBytes, 3, 9000);

	for (const uint32_t width : {1u, 2u, 7u, 8u, 9u, 31u, 32u, 33u, 64u, 65u, 255u, 256u, 257u, 500u, 1023u, 1024u})
		for (const size_t k : {1u, 10u, 1000u, 2048u})
			ASSERT_NO_FATAL_FAILURE(held.expect_same(held.batch(3, k, width), 3));
}

TEST(GraphsAlone, DegreesThatAreNoMultipleOfAWarp)
{
	for (const uint32_t degree : {2u, 5u, 15u, 16u, 17u, 31u, 32u, 33u, 48u, 64u, 100u})
	{
		OneGraph held({Metric::kL2, ElementType::kFloat32, 12}, Values::kReal, degree, 2000, degree);

		ASSERT_NO_FATAL_FAILURE(held.expect_same(held.batch(40, 20, 70), 40));
	}
}

TEST(GraphsAlone, NumbersOfEntryPointsAroundAWarpAndABlock)
{
	// Half the square root of the number of rows.
	for (const size_t n : {20u, 100u, 256u, 1000u, 4096u, 4500u, 20000u})
	{
		OneGraph held({Metric::kL2, ElementType::kFloat32, 6}, Values::kReal, static_cast<uint32_t>(n), n, 8);
		const uint32_t width =
			static_cast<uint32_t>(std::clamp<size_t>(n / 8 - 1, 1, 40)); // wider searches look at all rows

		ASSERT_NO_FATAL_FAILURE(held.expect_same(held.batch(20, 5, width), 20));
	}
}

TEST(GraphsAlone, OtherQueriesThanBytesOverRowsOfBytes)
{
	OneGraph held({Metric::kL2, ElementType::kFloat32, 40}, Values::kBytes, 5);
	std::vector<SearchQuery> requests = held.batch(30, 20, 70);
	const Rows reals = make_rows(held.graph.rows.spec, Values::kReal, 30, held.rng, 0);

	for (size_t i = 0; i < requests.size(); i += 4) // some queries: then none is scored as bytes
		requests[i].query = reals.vector(i);
	ASSERT_NO_FATAL_FAILURE(held.expect_same(requests, 30));
}

TEST(GraphsAlone, NaNAndInfinities)
{
	for (Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kL1})
		for (const ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
		{
			for (const uint32_t dim : {3u, 64u, 300u})
			{
				OneGraph held({metric, element, dim}, Values::kExtremes, 7);

				for (const uint32_t width : {100u, 20u, 7u, 2u})
				{
					ASSERT_NO_FATAL_FAILURE(held.expect_same(held.batch(100, 50, width), 100));
					ASSERT_NO_FATAL_FAILURE(held.expect_same(held.batch(kMostAlone + 1, 50, width), 0));
				}
				ASSERT_NO_FATAL_FAILURE(held.expect_same(held.batch(100, 50, 20, true), 100));
			}
		}
}

/// Both choose their way by the same bytes, with a block for each query and without.
TEST(GraphsAlone, RoundedRowsLeadTheSameWay)
{
	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
		for (const auto &[values, dim] : {std::pair{Values::kReal, 100u}, {Values::kReal, 700u},
				 {Values::kExtremes, 64u}, {Values::kExtremes, 300u}, {Values::kFewExtremes, 300u}})
		{
			if (has_extremes(values) && metric == Metric::kCosine)
				continue; // queries without a score search no graph

			OneGraph held({metric, ElementType::kFloat32, dim}, values, dim, 2000, 16, true, true);

			for (const uint32_t width : {64u, 9u, 7u, 2u})
			{
				ASSERT_NO_FATAL_FAILURE(held.expect_same(held.batch(kMostAlone, 10, width), kMostAlone));
				ASSERT_NO_FATAL_FAILURE(held.expect_same(held.batch(kMostAlone + 1, 10, width), 0));
			}
			ASSERT_NO_FATAL_FAILURE(held.expect_same(held.batch(kMostAlone, 10, 33, true), kMostAlone));
			ASSERT_NO_FATAL_FAILURE(held.expect_same(held.batch(kMostAlone + 1, 10, 33, true), 0));
		}
}

TEST(GraphsAlone, AllRowsEqual)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 16};
	const std::vector<float> same(spec.dim, 1.0f);
	Rows rows(spec);
	Both both(engine::CopySpec(spec, CopyKind::kGraph));
	const SegmentProbes probes[] = {{1, 100}};
	SearchQuery query = {same.data(), 80, false, {}};

	for (RowId id = 1; id <= 3000; id++)
		rows.add(id, reinterpret_cast<const uint8_t *>(same.data()));

	const GraphedRows graph(rows, 8);
	const uint64_t before = both.cuda()->n_graph_alone();

	query.probes = probes;
	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return graph.load(&e, c, 1); }));
	ASSERT_NO_FATAL_FAILURE(both.expect_same_answers({query}));
	EXPECT_EQ(both.cuda()->n_graph_alone() - before, 1u);
}

TEST(GraphsAlone, DeltaTombstonesAndWhatFollows)
{
	OneGraph held({Metric::kL2, ElementType::kFloat32, 20}, Values::kBytes, 13);
	const Rows delta = make_rows(held.graph.rows.spec, Values::kBytes, 150, held.rng, 10001);
	std::vector<uint8_t> dead((held.graph.rows.n() + 7) / 8);

	ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.append_delta(c, 0, delta.block()); }));
	ASSERT_NO_FATAL_FAILURE(held.expect_same(held.batch(40, 30, 90), 40));
	for (uint8_t &byte : dead)
		byte = static_cast<uint8_t>(held.rng() | held.rng());
	ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
	ASSERT_NO_FATAL_FAILURE(held.expect_same(held.batch(40, 30, 90), 40));
	ASSERT_NO_FATAL_FAILURE(held.expect_same(held.batch(40, 30, 90, true), 40));
	std::fill(dead.begin(), dead.end(), uint8_t{0xFF});
	ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
	ASSERT_NO_FATAL_FAILURE(held.expect_same(held.batch(3, 30, 90), 3));
}

TEST(GraphsAlone, SearchesFromManyThreads)
{
	OneGraph held({Metric::kL2, ElementType::kFloat32, 32}, Values::kBytes, 17);
	const std::vector<SearchQuery> requests = held.batch(64, 15, 80);

	ASSERT_NO_FATAL_FAILURE(expect_answers_side_by_side(8, 60, held.both, requests,
		[](size_t thread, size_t round) { return Part{(round * 7 + thread) % 60, 1 + round % 4}; }));
}

} // namespace
} // namespace vectorgpu::cuda::test
