// The CPU engine's search of graphs against the definition: same nodes found, same rows, same scores.
#include <array>
#include <functional>

#include <gtest/gtest.h>

#include "engine/graph_copy.hpp"

namespace vectorgpu::engine::test
{
namespace
{

constexpr size_t kMetrics = 4;
constexpr int kShapes = 2 * kMetrics + 2; // of floats, of halves, of bits

struct CpuEngineGraph : testing::TestWithParam<int>
{
	DistanceSpec spec(uint32_t dim) const
	{
		if (GetParam() >= static_cast<int>(2 * kMetrics))
			return {kBitMetrics[static_cast<size_t>(GetParam()) - 2 * kMetrics], ElementType::kBit, 8 * dim - 1};
		return {kFloatMetrics[static_cast<size_t>(GetParam()) % kMetrics],
			GetParam() < static_cast<int>(kMetrics) ? ElementType::kFloat32 : ElementType::kFloat16, dim};
	}
};

TEST_P(CpuEngineGraph, is_searched_as_defined)
{
	for (const uint32_t dim : {2u, 31u})
		for (const size_t n_threads : {1u, 3u})
		{
			GraphCopy held(spec(dim), Data::kGaussian, dim, {.n_threads = n_threads});
			Rows queries(held.delta.spec);

			queries.add_random(12, Data::kGaussian, held.rng, 0);
			ASSERT_NO_FATAL_FAILURE(expect_answers(held, queries));
		}
}

TEST_P(CpuEngineGraph, finds_most_of_the_nearest_rows)
{
	const GraphCopy held(spec(8), Data::kGaussian, 5);
	Rows queries(held.delta.spec);
	std::mt19937 rng(6);
	const SegmentProbes probes[] = {{1, 100}, {2, 60}};
	size_t hits = 0;

	queries.add_random(50, Data::kGaussian, rng, 0);
	for (size_t i = 0; i < queries.n(); i++)
	{
		SearchQuery query = {queries.vector(i), 10, false, {}};
		std::vector<std::vector<Neighbor>> results;
		const std::vector<Neighbor> truth = held.nearest(query.query, 10, {0, 0});

		query.probes = probes;
		ASSERT_OK(held.engine->search(held.copy, {&query, 1}, &results));
		for (const Neighbor &neighbor : results[0])
			hits += neighbor.score <= truth.back().score ? 1 : 0; // many bit strings are as near as the last
	}
	EXPECT_GE(hits, 480u) << "of 500, " << metric_name(queries.spec.metric);
}

TEST_P(CpuEngineGraph, ties_and_strange_numbers_are_in_order)
{
	for (const Data data : {Data::kHuge, Data::kExtremes})
	{
		GraphCopy held(spec(5), data, 11);
		Rows queries(held.delta.spec);

		queries.add_random(12, data, held.rng, 0);
		ASSERT_NO_FATAL_FAILURE(expect_answers(held, queries));
	}
}

TEST_P(CpuEngineGraph, dead_rows_lead_on_and_are_not_found)
{
	GraphCopy held(spec(6), Data::kGaussian, 13);
	Rows queries(held.delta.spec);
	const std::set<RowId> dead = held.kill_some();

	queries.add_random(12, Data::kGaussian, held.rng, 0);
	ASSERT_NO_FATAL_FAILURE(expect_answers(held, queries, dead));
}

INSTANTIATE_TEST_SUITE_P(metrics, CpuEngineGraph, testing::Range(0, kShapes));

TEST(CpuEngineGraphAlone, rows_without_a_score_are_found_without_a_width_only)
{
	const DistanceSpec spec = {Metric::kCosine, ElementType::kFloat32, 4};
	GraphCopy held(spec, Data::kGaussian, 17);
	const std::vector<float> zero(4);
	const SegmentProbes probes[] = {{1, 20}, {2, 20}};
	Coverage coverage = Coverage::kAll;
	SearchQuery query = {zero.data(), 5000, false, {}};
	std::vector<std::vector<Neighbor>> results;

	query.coverage = &coverage;
	ASSERT_OK(held.engine->search(held.copy, {&query, 1}, &results));
	EXPECT_EQ(results[0].size(), 1750u);
	EXPECT_EQ(coverage, Coverage::kAll);
	query.probes = probes;
	ASSERT_OK(held.engine->search(held.copy, {&query, 1}, &results));
	EXPECT_TRUE(results[0].empty());
	EXPECT_EQ(coverage, Coverage::kScored);
}

TEST(CpuEngineGraphAlone, a_segment_that_is_not_named_is_searched_as_the_widest)
{
	GraphCopy held({Metric::kL2, ElementType::kFloat32, 6}, Data::kGaussian, 19);
	const SegmentProbes named[] = {{1, 30}, {9, 40}};
	SearchQuery query = {held.delta.vector(0), 60, false, {}};
	std::vector<std::vector<Neighbor>> results;

	query.probes = named;
	ASSERT_OK(held.engine->search(held.copy, {&query, 1}, &results));
	ASSERT_NO_FATAL_FAILURE(expect_same(results[0], held.nearest(query.query, 60, {30, 40})));
}

TEST(CpuEngineGraphAlone, all_of_few_rows_are_found)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 3};
	std::mt19937 rng(23);

	for (const size_t n : {1u, 2u, 4u, 9u})
	{
		Rows rows(spec);
		const SegmentProbes probes[] = {{1, 1}};
		CopyId copy = 0;
		std::vector<std::vector<Neighbor>> results;

		rows.add_random(n, Data::kGaussian, rng, 1);

		const GraphedRows graphed(rows, 4);
		const std::unique_ptr<Engine> engine = make_cpu_engine({});
		SearchQuery query = {rows.vector(0), 20, false, {}};

		query.probes = probes;
		ASSERT_OK(engine->create({spec, CopyKind::kGraph}, &copy));
		ASSERT_OK(graphed.load(engine.get(), copy, 1));
		ASSERT_OK(engine->search(copy, {&query, 1}, &results));
		ASSERT_NO_FATAL_FAILURE(expect_same(results[0], nearest_in_graphs({{&graphed, 1}}, nullptr, query.query, 20)));
	}
}

TEST(CpuEngineGraphAlone, gives_back_the_description)
{
	GraphCopy held({Metric::kL2, ElementType::kFloat32, 6}, Data::kGaussian, 29);
	const Bytes given = held.second.description();
	Bytes got(given.size());

	ASSERT_OK(held.engine->read_structure(held.copy, 2, 0, got.size(), got.data()));
	EXPECT_EQ(got, given);
	EXPECT_FALSE(held.engine->read_structure(held.copy, 2, given.size(), 1, got.data()).is_ok());
	EXPECT_FALSE(held.engine->read_structure(held.copy, 3, 0, 1, got.data()).is_ok());
	EXPECT_EQ(held.engine->stats().resident_bytes,
		given.size() + held.first.description().size() + 1750 * (6 * sizeof(float) + 2 * sizeof(uint64_t)));
}

/// The status of sealing a segment whose description was changed.
StatusCode
sealed(const std::function<void(GraphedRows *)> &change, size_t cut = 0)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 3};
	std::mt19937 rng(31);
	Rows rows(spec);
	CopyId copy = 0;
	const std::unique_ptr<Engine> engine = make_cpu_engine({});

	rows.add_random(40, Data::kGaussian, rng, 1);

	GraphedRows graphed(rows, 4, 2);

	change(&graphed);

	Bytes bytes = graphed.description();

	bytes.erase(bytes.end() - static_cast<std::ptrdiff_t>(cut), bytes.end());
	EXPECT_TRUE(engine->create({spec, CopyKind::kGraph}, &copy).is_ok());
	EXPECT_TRUE(engine->load_segment(copy, 1, rows.block()).is_ok());
	EXPECT_TRUE(engine->load_structure(copy, 1, 4, bytes).is_ok());
	return engine->seal_segment(copy, 1).code;
}

TEST(CpuEngineGraphAlone, edges_out_of_the_segment_are_refused)
{
	EXPECT_EQ(sealed([](GraphedRows *) {}), StatusCode::kOk);
	EXPECT_EQ(sealed([](GraphedRows *g) { g->edges[7] = graph::kNoNode; }), StatusCode::kOk);
	EXPECT_EQ(sealed([](GraphedRows *) {}, 4), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](GraphedRows *g) { g->edges[7] = 40; }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](GraphedRows *g) { g->edges.back() = graph::kNoNode - 1; }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](GraphedRows *g) { g->edges.push_back(1); }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](GraphedRows *g) { g->entries[0] = 20; }), StatusCode::kInvalidArgument); // of the other part
	EXPECT_EQ(sealed([](GraphedRows *g) { g->entries.back() = 40; }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](GraphedRows *g) { g->entries.clear(); }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](GraphedRows *g) { g->parts[1].first_row++; }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](GraphedRows *g) { g->parts[1].n_rows++; }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](GraphedRows *g) { g->parts[1].n_rows = UINT32_MAX; }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](GraphedRows *g) { g->parts[0].n_entries = UINT32_MAX; }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](GraphedRows *g) { g->parts[1].n_entries--; }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](GraphedRows *g) { g->parts.pop_back(); }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](GraphedRows *g) { g->degree = 5; }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](GraphedRows *g) { g->degree = UINT32_MAX; }), StatusCode::kInvalidArgument);
}

TEST(CpuEngineGraphAlone, belongs_to_copies_of_that_kind)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 3};
	const std::unique_ptr<Engine> engine = make_cpu_engine({});
	const uint8_t byte[1] = {};
	const uint64_t id = 1;
	const float vector[3] = {};
	CopyId copy = 0;

	EXPECT_EQ(engine->create({{Metric::kHamming, ElementType::kBit, 8}, CopyKind::kHashedGraph}, &copy).code,
		StatusCode::kUnsupported);
	ASSERT_OK(engine->create({spec, CopyKind::kGraph}, &copy));
	ASSERT_OK(engine->load_segment(copy, 1, {{&id, 1}, vector, 1}));
	EXPECT_EQ(engine->seal_segment(copy, 1).code, StatusCode::kInvalidArgument); // no description
	EXPECT_EQ(engine->load_structure(copy, 1, 1, byte).code, StatusCode::kInvalidArgument);
	EXPECT_EQ(engine->load_structure(copy, 1, 257, byte).code, StatusCode::kInvalidArgument);
	ASSERT_OK(engine->load_structure(copy, 1, 4, byte));
	EXPECT_EQ(engine->load_structure(copy, 1, 5, byte).code, StatusCode::kInvalidArgument);
	EXPECT_EQ(engine->seal_segment(copy, 1).code, StatusCode::kInvalidArgument); // a part of one
}

} // namespace
} // namespace vectorgpu::engine::test
