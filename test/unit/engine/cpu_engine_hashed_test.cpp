// The CPU engine's search of graphs with codes against the definition: a search of the codes, whose results are
// compared by the rows.
#include <array>
#include <functional>
#include <tuple>

#include <gtest/gtest.h>

#include "engine/graph_copy.hpp"

namespace vectorgpu::engine::test
{
namespace
{

constexpr std::array<Metric, 3> kAngleMetrics = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine};

struct HashedCopy : GraphCopy
{
	HashedCopy(const DistanceSpec &spec, Data data, uint32_t bits, uint32_t seed, const CpuEngineOptions &options = {})
		: GraphCopy(spec, data, seed, options, bits)
	{
	}
};

/// Metric, element, bits.
struct CpuEngineHashed : testing::TestWithParam<std::tuple<size_t, ElementType, uint32_t>>
{
	DistanceSpec spec(uint32_t dim) const
	{
		return {kAngleMetrics[std::get<0>(GetParam())], std::get<1>(GetParam()), dim};
	}
	uint32_t bits() const { return std::get<2>(GetParam()); }
};

TEST_P(CpuEngineHashed, is_searched_as_defined)
{
	for (const uint32_t dim : {2u, 64u})
		for (const size_t n_threads : {1u, 3u})
		{
			HashedCopy held(spec(dim), Data::kGaussian, bits(), dim, {.n_threads = n_threads});
			Rows queries(held.delta.spec);

			queries.add_random(12, Data::kGaussian, held.rng, 0);
			ASSERT_NO_FATAL_FAILURE(expect_answers(held, queries));
		}
}

TEST_P(CpuEngineHashed, ties_and_strange_numbers_are_in_order)
{
	for (const Data data : {Data::kHuge, Data::kExtremes})
	{
		HashedCopy held(spec(5), data, bits(), 11);
		Rows queries(held.delta.spec);

		queries.add_random(12, data, held.rng, 0);
		ASSERT_NO_FATAL_FAILURE(expect_answers(held, queries));
	}
}

TEST_P(CpuEngineHashed, dead_rows_lead_on_and_are_not_found)
{
	HashedCopy held(spec(6), Data::kGaussian, bits(), 13);
	Rows queries(held.delta.spec);
	const std::set<RowId> dead = held.kill_some();

	queries.add_random(12, Data::kGaussian, held.rng, 0);
	ASSERT_NO_FATAL_FAILURE(expect_answers(held, queries, dead));
}

INSTANTIATE_TEST_SUITE_P(kinds, CpuEngineHashed,
	testing::Combine(testing::Range(size_t{0}, kAngleMetrics.size()),
		testing::Values(ElementType::kFloat32, ElementType::kFloat16), testing::Values(32u, 256u, 1u, 2u, 4u)));

TEST(CpuEngineHashedAlone, finds_most_of_the_nearest_rows_and_says_how_many_it_scored)
{
	for (const Metric metric : kAngleMetrics)
	{
		const HashedCopy held({metric, ElementType::kFloat32, 16}, Data::kGaussian, 256, 5);
		Rows queries(held.delta.spec);
		std::mt19937 rng(6);
		const SegmentProbes probes[] = {{1, 140}, {2, 60}};
		size_t hits = 0;

		queries.add_random(50, Data::kGaussian, rng, 0);
		for (size_t i = 0; i < queries.n(); i++)
		{
			SearchQuery query = {queries.vector(i), 10, false, {}};
			std::vector<std::vector<Neighbor>> results;
			std::set<RowId> truth;

			for (const Neighbor &neighbor :
				nearest_in_graphs({{&held.first, 0u}, {&held.second, 0u}}, &held.delta, query.query, 10))
				truth.insert(neighbor.row);
			query.probes = probes;
			ASSERT_OK(held.engine->search(held.copy, {&query, 1}, &results));
			for (const Neighbor &neighbor : results[0])
				hits += truth.count(neighbor.row);
		}
		EXPECT_GE(hits, 450u) << "of 500, " << metric_name(metric);
		EXPECT_EQ(held.engine->n_rescored(), 50 * (140 + 2 * 60)) << "a width of each part";
	}
}

TEST(CpuEngineHashedAlone, wide_searches_are_shared_by_threads_and_report_progress)
{
	constexpr size_t kPartsOfSegment = 5; // of a MiB
	Rows rows({Metric::kL2, ElementType::kFloat32, 64});
	Rows queries(rows.spec);
	std::mt19937 rng(31);
	Bytes bitmap((kPartsOfSegment * 4096 + 7) / 8);
	std::set<RowId> dead;

	rows.add_random(kPartsOfSegment * 4096 - 17, Data::kGaussian, rng, 1);
	queries.add_random(5, Data::kGaussian, rng, 0);
	bitmap.resize((rows.n() + 7) / 8);
	for (size_t i = 0; i < rows.n(); i += 7)
	{
		bitmap[i / 8] = static_cast<uint8_t>(bitmap[i / 8] | 1 << (i % 8));
		dead.insert(rows.ids[i]);
	}

	GraphedRows graphed(rows, 8, 1, Edges::kRandom);

	for (const uint32_t bits : {0u, 64u})
		for (const size_t n_threads : {1u, 2u, 4u})
			for (const size_t n_queries : {1u, 3u, 5u})
			{
				const std::unique_ptr<Engine> engine = make_cpu_engine({.n_threads = n_threads});
				const SegmentProbes named[] = {{1, static_cast<uint32_t>(rows.n() / 8 + 1)}};
				CopyId copy = 0;
				SearchControl control;
				std::vector<SearchQuery> batch;
				std::vector<std::vector<Neighbor>> results;

				SCOPED_TRACE(
					testing::Message() << bits << " bits, " << n_threads << " threads, " << n_queries << " queries");
				if (bits > 0 && graphed.code_bits == 0)
					graphed.add_codes(bits);
				ASSERT_OK(engine->create({rows.spec, bits > 0 ? CopyKind::kHashedGraph : CopyKind::kGraph}, &copy));
				ASSERT_OK(graphed.load(engine.get(), copy, 1));
				ASSERT_OK(engine->set_tombstones(copy, 1, bitmap));
				for (size_t i = 0; i < n_queries; i++)
				{
					batch.push_back({queries.vector(i), 50, false, {}});
					batch.back().probes = named;
				}
				ASSERT_OK(engine->search(copy, batch, &results, &control));
				EXPECT_GE(control.progress, kPartsOfSegment * n_queries);
				for (size_t i = 0; i < n_queries; i++)
					ASSERT_NO_FATAL_FAILURE(
						expect_same(results[i], rows.nearest(queries.vector(i), 50, nullptr, dead)));

				// A stopped search looks at nothing.
				control.progress = 0;
				control.stop = true;
				EXPECT_EQ(engine->search(copy, batch, &results, &control).code, StatusCode::kCancelled);
				EXPECT_EQ(control.progress, 0u);
			}
}

TEST(CpuEngineHashedAlone, gives_back_the_description)
{
	HashedCopy held({Metric::kL2, ElementType::kFloat32, 6}, Data::kGaussian, 64, 29);
	const Bytes given = held.second.description();
	Bytes got(given.size());

	ASSERT_OK(held.engine->read_structure(held.copy, 2, 0, got.size(), got.data()));
	EXPECT_EQ(got, given);
	EXPECT_FALSE(held.engine->read_structure(held.copy, 2, given.size(), 1, got.data()).is_ok());
}

/// The status of sealing a segment with a changed description, in a copy of that kind.
StatusCode
sealed(CopyKind kind, uint32_t bits, const std::function<void(GraphedRows *)> &change, size_t cut = 0)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 3};
	std::mt19937 rng(31);
	Rows rows(spec);
	CopyId copy = 0;
	const std::unique_ptr<Engine> engine = make_cpu_engine({});

	rows.add_random(40, Data::kGaussian, rng, 1);

	GraphedRows graphed(rows, 4, 2);

	if (bits > 0)
		graphed.add_codes(bits);
	change(&graphed);

	Bytes bytes = graphed.description();

	bytes.resize(bytes.size() - cut);
	EXPECT_TRUE(engine->create({spec, kind}, &copy).is_ok());
	EXPECT_TRUE(engine->load_segment(copy, 1, rows.block()).is_ok());
	EXPECT_TRUE(engine->load_structure(copy, 1, 4, bytes).is_ok());
	return engine->seal_segment(copy, 1).code;
}

TEST(CpuEngineHashedAlone, codes_that_do_not_fit_are_refused)
{
	EXPECT_EQ(sealed(CopyKind::kHashedGraph, 64, [](GraphedRows *) {}), StatusCode::kOk);
	EXPECT_EQ(sealed(CopyKind::kHashedGraph, 0, [](GraphedRows *) {}), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed(CopyKind::kGraph, 64, [](GraphedRows *) {}), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed(CopyKind::kHashedGraph, 64, [](GraphedRows *) {}, 1), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed(CopyKind::kHashedGraph, 64, [](GraphedRows *g) { g->codes.push_back(0); }),
		StatusCode::kInvalidArgument);
	EXPECT_EQ(
		sealed(CopyKind::kHashedGraph, 64, [](GraphedRows *g) { g->code_bits = 48; }), StatusCode::kInvalidArgument);
	EXPECT_EQ(
		sealed(CopyKind::kHashedGraph, 64, [](GraphedRows *g) { g->code_bits = 1024; }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed(CopyKind::kHashedGraph, 64, [](GraphedRows *g) { g->code_bits = 0x80000000; }),
		StatusCode::kInvalidArgument);
	EXPECT_EQ(
		sealed(CopyKind::kHashedGraph, 64, [](GraphedRows *g) { g->edges[7] = 40; }), StatusCode::kInvalidArgument);
}

TEST(CpuEngineHashedAlone, metrics_without_angles_are_refused)
{
	const std::unique_ptr<Engine> engine = make_cpu_engine({});
	CopyId copy = 0;

	EXPECT_EQ(engine->create({{Metric::kL1, ElementType::kFloat32, 8}, CopyKind::kHashedGraph}, &copy).code,
		StatusCode::kUnsupported);
	EXPECT_EQ(engine->create({{Metric::kHamming, ElementType::kBit, 8}, CopyKind::kHashedGraph}, &copy).code,
		StatusCode::kUnsupported);
}

} // namespace
} // namespace vectorgpu::engine::test
