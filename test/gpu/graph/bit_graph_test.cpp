// Graphs of bit strings on the GPU: the CPU engine's answers with the same graphs and widths, bit for bit. By Jaccard
// distance nodes are told apart by rounded scores: up to 2,000 bits these differ whenever the scores do; beyond,
// answers are nearly the same.
#include <array>

#include "answers.hpp"
#include "engine/interface/graph_builder.hpp"
#include "engine/graph_rows.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::CopyKind;
using engine::SegmentProbes;

constexpr uint32_t kExactJaccardDims = 2000;

Rows
random_bits(const DistanceSpec &spec, size_t n, std::mt19937 &rng, RowId first_id)
{
	Rows rows(spec);

	rows.add_random(n, Data::kGaussian, rng, first_id);
	return rows;
}

/// Two segments with graphs, one of them in two parts, and a delta, in both engines.
struct BothBitGraphs
{
	BothBitGraphs(const DistanceSpec &spec, uint32_t seed, size_t n = 3000, uint32_t degree = 16)
		: rng(seed), first(random_bits(spec, n, rng, 1), degree), second(random_bits(spec, n / 5, rng, 100001), 8, 2),
		  delta(random_bits(spec, 100, rng, 200001)), both(engine::CopySpec(spec, CopyKind::kGraph))
	{
		both.change([&](Engine &e, CopyId c) { return first.load(&e, c, 1); });
		both.change([&](Engine &e, CopyId c) { return second.load(&e, c, 2); });
		both.change([&](Engine &e, CopyId c) { return e.append_delta(c, 0, delta.block()); });
	}

	double score_of(const void *query, RowId row) const
	{
		const Rows &rows = row > 200000 ? delta : row > 100000 ? second.rows : first.rows;

		return oracle_score(rows.spec, query, rows.vector(row - rows.ids[0]));
	}

	/// One batch in which queries have other k and other widths, and some look at all rows.
	void expect_batch(const Rows &queries, size_t n, size_t k, std::array<uint32_t, 2> widths, bool with_after = false)
	{
		std::vector<std::array<SegmentProbes, 2>> named(n);
		std::vector<SearchQuery> requests;
		const DistanceSpec &spec = first.rows.spec;

		for (size_t i = 0; i < n; i++)
		{
			const uint32_t divisor = 1 + static_cast<uint32_t>(i % 3);
			SearchQuery query = {queries.vector(i % queries.n()), std::max<size_t>(1, k - i % 2), false, {}};

			named[i] = {SegmentProbes{1, std::max(1u, widths[0] / divisor)},
				SegmentProbes{2, std::max(1u, widths[1] / divisor)}};
			if (i % 7 != 6)
				query.probes = named[i];
			if (with_after && i % 2 == 0)
			{
				query.has_after = true;
				query.after = {oracle_score(spec, query.query, first.rows.vector(17)), first.rows.ids[17]};
			}
			requests.push_back(query);
		}
		SCOPED_TRACE(testing::Message() << metric_name(spec.metric) << " bits " << spec.dim << " batch " << n << " k "
										<< k << " width " << widths[0]);
		if (spec.metric == Metric::kJaccard && spec.dim > kExactJaccardDims)
			ASSERT_NO_FATAL_FAILURE(expect_nearly_same_answers(
				both, requests, 0.995, [&](const void *query, RowId row) { return score_of(query, row); }));
		else
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(requests));
	}

	std::mt19937 rng;
	GraphedRows first;
	GraphedRows second;
	Rows delta;
	Both both;
};

TEST(BitGraphs, EveryMetricInBatchesOfEverySize)
{
	for (const Metric metric : kBitMetrics)
		for (const uint32_t dim : {1u, 7u, 64u, 128u, 129u, 1000u, 1025u, 2000u})
		{
			BothBitGraphs held({metric, ElementType::kBit, dim}, dim);
			const Rows queries = random_bits(held.first.rows.spec, 40, held.rng, 0);

			for (const size_t n : {1u, 40u, 1100u})
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 10, {64, 40}));
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 1, {1, 1}));
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 300, {370, 70}));
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 10, {33, 20}, true));
		}
}

TEST(BitGraphs, LongStrings)
{
	for (const Metric metric : kBitMetrics)
		for (const uint32_t dim : {10000u, 64000u})
		{
			BothBitGraphs held({metric, ElementType::kBit, dim}, dim, 600);
			const Rows queries = random_bits(held.first.rows.spec, 20, held.rng, 0);

			for (const size_t n : {1u, 20u})
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 10, {40, 10}));
		}
}

/// One graph alone: each query has a block of its own, in batches of at most 128.
TEST(BitGraphs, SearchesOfOneGraphByABlockEach)
{
	for (const Metric metric : kBitMetrics)
		for (const uint32_t dim : {40u, 1500u})
		{
			const DistanceSpec spec = {metric, ElementType::kBit, dim};
			std::mt19937 rng(dim);
			const GraphedRows graph(random_bits(spec, 2500, rng, 1), 16);
			const Rows queries = random_bits(spec, 129, rng, 0);
			const SegmentProbes probes[] = {{1, 60}};
			Both both(engine::CopySpec(spec, CopyKind::kGraph));

			ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return graph.load(&e, c, 1); }));
			for (const size_t n : {1u, 5u, 128u, 129u})
			{
				std::vector<SearchQuery> requests;
				const uint64_t before = both.cuda()->n_graph_alone();

				for (size_t i = 0; i < n; i++)
				{
					requests.push_back({queries.vector(i), 10 + i % 3, false, {}});
					requests.back().probes = probes;
				}
				SCOPED_TRACE(testing::Message() << metric_name(metric) << " bits " << dim << " batch " << n);
				ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(requests));
				EXPECT_EQ(both.cuda()->n_graph_alone() - before, n <= 128 ? n : 0);
			}
		}
}

TEST(BitGraphs, DeadRowsLeadOnAndAreNotFound)
{
	for (const Metric metric : kBitMetrics)
	{
		BothBitGraphs held({metric, ElementType::kBit, 200}, 13);
		const Rows queries = random_bits(held.first.rows.spec, 40, held.rng, 0);
		std::vector<uint8_t> dead((held.first.rows.n() + 7) / 8);
		const std::vector<uint8_t> delta_dead = {0xFF, 0x0F};

		for (uint8_t &byte : dead)
			byte = static_cast<uint8_t>(held.rng() | held.rng());
		ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
		ASSERT_NO_FATAL_FAILURE(
			held.both.change([&](Engine &e, CopyId c) { return e.set_delta_tombstones(c, 0, delta_dead); }));
		for (const size_t n : {1u, 40u, 1100u})
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 30, {90, 40}));
	}
}

TEST(BitGraphs, EqualRowsAndRowsWithoutABit)
{
	for (const Metric metric : kBitMetrics)
		for (const uint8_t value : {uint8_t{0}, uint8_t{0x55}})
		{
			const DistanceSpec spec = {metric, ElementType::kBit, 64};
			const std::vector<uint8_t> same(8, value);
			const SegmentProbes probes[] = {{1, 100}};
			Rows rows(spec);
			Both both(engine::CopySpec(spec, CopyKind::kGraph));
			SearchQuery query = {same.data(), 80, false, {}};

			for (RowId id = 1; id <= 3000; id++)
				rows.add(id, same.data());

			const GraphedRows graph(rows, 8);

			query.probes = probes;
			ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return graph.load(&e, c, 1); }));
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers({query}));
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(std::vector<SearchQuery>(1100, query)));
		}
}

/// For few rows the host finds the nearest by comparing all pairs. The graph is the same, except for equal Jaccard
/// distances that are inexact as floats, at the end of a list.
TEST(BitGraphs, AreBuiltFromNearestRowsOfTheGpu)
{
	for (const Metric metric : kBitMetrics)
		for (const uint32_t dim : {20u, 300u})
		{
			const DistanceSpec spec = {metric, ElementType::kBit, dim};
			std::mt19937 rng(31);
			const Rows rows = random_bits(spec, 3000, rng, 1);
			engine::GraphBuildSpec build;
			engine::SearchControl control;
			std::unique_ptr<engine::GraphBuilder> builders[2];

			build.rows = spec;
			build.n_rows = static_cast<uint32_t>(rows.n());
			build.degree = 16;
			build.calibrate = true;
			for (const bool on_gpu : {false, true})
			{
				ASSERT_OK(cpu_engine()->make_graph_builder(
					build, &control, on_gpu ? cuda_engine() : nullptr, &builders[on_gpu]));
				ASSERT_OK(builders[on_gpu]->add_rows(rows.vectors.data(), rows.n()));
				ASSERT_OK(builders[on_gpu]->build());
				EXPECT_EQ(builders[on_gpu]->exact_neighbors(), on_gpu);
				EXPECT_GT(builders[on_gpu]->calibration().n_points, 0u);
			}
			if (metric == Metric::kHamming)
			{
				EXPECT_EQ(builders[0]->edges(), builders[1]->edges()) << "bits " << dim;
				EXPECT_EQ(builders[0]->entries(), builders[1]->entries()) << "bits " << dim;
			}

			size_t alike = 0;

			for (size_t i = 0; i < builders[0]->edges().size(); i++)
				alike += builders[0]->edges()[i] == builders[1]->edges()[i] ? 1 : 0;
			EXPECT_GE(alike, builders[0]->edges().size() * 9 / 10) << metric_name(metric) << " bits " << dim;
		}
}

} // namespace
} // namespace vectorgpu::cuda::test
