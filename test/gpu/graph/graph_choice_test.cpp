// The choice of queries that look at all rows of a segment instead of its graph (cuda/device/gpu_choice.hpp): these
// answers are exact, are reported so, and do not depend on the other queries of a batch. Edges are random here, so the
// nodes found by a graph differ from those of an exact search.
#include "answers.hpp"
#include "engine/graph_rows.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::CopyKind;
using engine::Coverage;
using engine::SegmentProbes;

constexpr size_t kRows = 20000;  // enough for the filter
constexpr uint32_t kWide = 64;   // by the model of such rows: 65 us by the graph, 43 us for all rows
constexpr uint32_t kNarrow = 10; // 35 us

CudaEngine *
choosing_engine()
{
	static std::unique_ptr<CudaEngine> engine;

	if (engine == nullptr)
	{
		CudaEngineOptions options;

		options.workspace_bytes = size_t{512} << 20;

		make_or_throw(options, &engine);
	}
	return engine.get();
}

struct Chosen
{
	Chosen(const DistanceSpec &spec, Values values, bool zero_row = false)
		: rng(spec.dim), graph(make_rows(spec, values, zero_row, rng), 16, 1, Edges::kRandom), queries(spec),
		  both(engine::CopySpec(spec, CopyKind::kGraph), choosing_engine())
	{
		add_values(&queries, values, 255, 150, rng, 0);
		both.change([&](Engine &e, CopyId c) { return graph.load(&e, c, 1); });
	}

	static Rows make_rows(const DistanceSpec &spec, Values values, bool zero_row, std::mt19937 &rng)
	{
		const std::vector<float> zero(spec.dim);
		Rows rows(spec);

		add_values(&rows, values, 255, kRows - (zero_row ? 1 : 0), rng, 1);
		if (zero_row)
			rows.add(kRows, reinterpret_cast<const uint8_t *>(zero.data()));
		return rows;
	}

	/// Search by the GPU; returns answers with their coverage. Widths are used in turn.
	void search(size_t n, size_t k, std::vector<uint32_t> widths, bool with_after = false)
	{
		std::vector<SearchQuery> batch;

		probes.assign(n, {});
		coverage.assign(n, Coverage::kAll);
		for (size_t i = 0; i < n; i++)
		{
			SearchQuery query = {queries.vector(i), k, with_after, {}};

			if (with_after)
				query.after = {oracle_score(graph.rows.spec, query.query, graph.rows.vector(17)), graph.rows.ids[17]};
			probes[i] = {1, widths[i % widths.size()]};
			query.probes = {&probes[i], 1};
			query.coverage = &coverage[i];
			batch.push_back(query);
		}
		ASSERT_OK(both.cuda()->search(both.cuda_copy(), batch, &found, nullptr));
	}

	/// The CPU's answers among all rows.
	void expect_exact(size_t i, size_t k, Coverage expected = Coverage::kAll)
	{
		const SearchQuery query = {queries.vector(i), k, false, {}};
		std::vector<std::vector<Neighbor>> exact;

		SCOPED_TRACE(testing::Message() << "query " << i << ", " << metric_name(graph.rows.spec.metric) << ", k " << k);
		ASSERT_OK(both.cpu()->search(both.cpu_copy(), {&query, 1}, &exact, nullptr));
		ASSERT_NO_FATAL_FAILURE(expect_same(found[i], exact[0]));
		EXPECT_EQ(coverage[i], expected);
	}

	std::mt19937 rng;
	GraphedRows graph;
	Rows queries;
	Both both;
	std::vector<SegmentProbes> probes;
	std::vector<Coverage> coverage;
	std::vector<std::vector<Neighbor>> found;
};

/// The choice is made only on devices whose exact searches have been measured.
bool
chooses()
{
	static const bool chooses = []
	{
		Chosen held({Metric::kL2, ElementType::kFloat32, 64}, Values::kBytes);
		const uint64_t before = choosing_engine()->n_one_pass();

		held.search(8, 10, {kWide});
		return choosing_engine()->n_one_pass() > before;
	}();

	return chooses;
}

TEST(GraphChoice, WideSearchesAreExactInBatchesOfEverySize)
{
	if (!chooses())
		GTEST_SKIP() << "the device has no products by warp groups";
	for (Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
		for (const auto &[element, values] : {std::tuple{ElementType::kFloat32, Values::kBytes},
				 {ElementType::kFloat32, Values::kReal}, {ElementType::kFloat16, Values::kReal}})
		{
			Chosen held({metric, element, 64}, values);

			for (const size_t n : {size_t{1}, size_t{16}, size_t{150}})
				for (const size_t k : {size_t{1}, size_t{10}, size_t{50}})
				{
					ASSERT_NO_FATAL_FAILURE(held.search(n, k, {kWide + 40}));
					for (size_t i = 0; i < n; i += 7)
						ASSERT_NO_FATAL_FAILURE(held.expect_exact(i, k));
				}
		}
}

TEST(GraphChoice, DeadRowsAreNotFoundAndTheDeltaIs)
{
	if (!chooses())
		GTEST_SKIP() << "the device has no products by warp groups";

	Chosen held({Metric::kL2, ElementType::kFloat32, 64}, Values::kBytes);
	Rows delta(held.graph.rows.spec);
	std::vector<uint8_t> dead((kRows + 7) / 8);

	for (uint8_t &byte : dead)
		byte = static_cast<uint8_t>(held.rng() & held.rng());
	ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
	ASSERT_NO_FATAL_FAILURE(held.search(20, 10, {kWide}));
	for (size_t i = 0; i < 20; i++)
		ASSERT_NO_FATAL_FAILURE(held.expect_exact(i, 10));

	// The delta's rows are scored in any case, and then those of the segment with them.
	add_values(&delta, Values::kBytes, 255, 100, held.rng, kRows + 1);
	ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.append_delta(c, 0, delta.block()); }));
	for (const uint32_t width : {kNarrow, kWide})
	{
		ASSERT_NO_FATAL_FAILURE(held.search(20, 10, {width}));
		for (size_t i = 0; i < 20; i++)
			ASSERT_NO_FATAL_FAILURE(held.expect_exact(i, 10));
	}
}

TEST(GraphChoice, ARowWithoutAScoreOrdersLast)
{
	if (!chooses())
		GTEST_SKIP() << "the device has no products by warp groups";

	Chosen held({Metric::kCosine, ElementType::kFloat32, 64}, Values::kReal, true);

	ASSERT_NO_FATAL_FAILURE(held.search(5, 10, {kWide + 40}));
	for (size_t i = 0; i < 5; i++)
		ASSERT_NO_FATAL_FAILURE(held.expect_exact(i, 10)); // no batch ends with that row
}

TEST(GraphChoice, OthersSearchTheGraph)
{
	Chosen held({Metric::kL2, ElementType::kFloat32, 64}, Values::kBytes);
	const uint64_t before = choosing_engine()->n_graph_alone();
	uint64_t n = 0;

	// Narrow queries,
	ASSERT_NO_FATAL_FAILURE(held.search(20, 10, {kNarrow}));
	for (const Coverage coverage : held.coverage)
		EXPECT_EQ(coverage, Coverage::kPart);
	// those that continue after others,
	ASSERT_NO_FATAL_FAILURE(held.search(20, 10, {kWide}, true));
	for (const Coverage coverage : held.coverage)
		EXPECT_EQ(coverage, Coverage::kPart);
	// and those for which the exact search would take a longer way.
	held.queries = Rows(held.graph.rows.spec);
	add_values(&held.queries, Values::kReal, 0, 20, held.rng, 0);
	ASSERT_NO_FATAL_FAILURE(held.search(20, 10, {kWide}));
	for (const Coverage coverage : held.coverage)
		EXPECT_EQ(coverage, Coverage::kPart);
	n = choosing_engine()->n_graph_alone() - before;
	EXPECT_EQ(n, 60u);
}

TEST(GraphChoice, DoesNotDependOnTheOthersOfABatch)
{
	Chosen held({Metric::kL2, ElementType::kFloat32, 64}, Values::kBytes);

	ASSERT_NO_FATAL_FAILURE(held.search(40, 10, {kNarrow, kWide, 20}));

	const std::vector<std::vector<Neighbor>> together = held.found;
	const std::vector<Coverage> covered = held.coverage;
	const Rows queries = held.queries;

	for (size_t i = 0; i < 40; i++)
	{
		const uint32_t widths[] = {kNarrow, kWide, 20};

		held.queries = Rows(queries.spec);
		held.queries.add(0, queries.vector(i));
		ASSERT_NO_FATAL_FAILURE(held.search(1, 10, {widths[i % 3]}));
		ASSERT_NO_FATAL_FAILURE(expect_same(held.found[0], together[i]));
		EXPECT_EQ(held.coverage[0], covered[i]);
	}
}

} // namespace
} // namespace vectorgpu::cuda::test
