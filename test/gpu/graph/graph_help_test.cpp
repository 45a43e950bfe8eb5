// Builds of graphs that the GPU helps with, by the choice of edges and by searches, against builds in which it, or the
// CPU engine, only finds the nearest rows: the same bits. By cosine, where the GPU's searches tell nodes apart by
// rounded scores, the same edges but for the entry points' sake, and nearly the same recall.
#include "engine/helped_build.hpp"
#include "engine/graph_rows.hpp"
#include "engines.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::CopyKind;
using engine::SegmentProbes;
using engine::graph::GivenGraph;

TEST(GraphHelp, GivesTheBitsOfTheThreads)
{
	for (const DistanceSpec &spec :
		{DistanceSpec{Metric::kL2, ElementType::kFloat32, 7}, DistanceSpec{Metric::kL2, ElementType::kFloat32, 130},
			DistanceSpec{Metric::kL2, ElementType::kFloat16, 33},
			DistanceSpec{Metric::kInnerProduct, ElementType::kFloat32, 33},
			DistanceSpec{Metric::kL1, ElementType::kFloat32, 5}, DistanceSpec{Metric::kHamming, ElementType::kBit, 77}})
		for (const float noise : {0.1f, 0.5f})
		{
			SCOPED_TRACE(testing::Message() << metric_name(spec.metric) << " dim " << spec.dim << " noise " << noise);

			const Rows rows = grouped_rows(spec, 6000, noise);

			ASSERT_NO_FATAL_FAILURE(
				expect_same_build(build_helped(rows, cuda_engine()), build_helped(rows, cpu_engine())));
		}
}

/// Enough rows to know the queries' neighbours from their lists, and to measure more rows than ten.
TEST(GraphHelp, MeasuresTheRecallOfTheThreads)
{
	const Rows rows = grouped_rows({Metric::kL2, ElementType::kFloat32, 24}, 24000, 0.7f);
	const uint64_t before = cuda_engine()->stats().n_searches;
	const HelpedBuild got = build_helped(rows, cuda_engine(), 16);

	ASSERT_NO_FATAL_FAILURE(expect_same_build(got, build_helped(rows, cpu_engine(), 16)));
	EXPECT_GT(got.depths.n_depths, 0u);
	EXPECT_GT(cuda_engine()->stats().n_searches - before, 24000u + 24000 / 16 + 3 * 1000) << "trials and recall";
}

TEST(GraphHelp, RowsThatAreEqualOrHaveNoScore)
{
	constexpr float kLargest = 3.4e38f;

	for (const bool all_equal : {false, true})
	{
		Rows rows = grouped_rows({Metric::kL2, ElementType::kFloat32, 4}, 3000);

		for (size_t i = 0; i < rows.n(); i++)
		{
			const float odd[] = {0, kLargest, -kLargest, 1e-40f};
			float *row = reinterpret_cast<float *>(rows.vectors.data() + i * rows.row_bytes);

			if (all_equal)
				std::fill_n(row, 4, 1.5f);
			else if (i % 7 == 0)
				std::fill_n(row, 4, odd[i / 7 % 4]);
		}
		ASSERT_NO_FATAL_FAILURE(expect_same_build(build_helped(rows, cuda_engine()), build_helped(rows, cpu_engine())));
	}
}

TEST(GraphHelp, CosineIsNearlyTheSame)
{
	for (const ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
	{
		const Rows rows = grouped_rows({Metric::kCosine, element, 40}, 6000, 0.4f);
		const HelpedBuild got = build_helped(rows, cuda_engine());
		const HelpedBuild want = build_helped(rows, cpu_engine());
		size_t n_same = 0;

		ASSERT_OK(got.status);
		ASSERT_OK(want.status);
		for (size_t i = 0; i < want.edges.size(); i++)
			n_same += got.edges[i] == want.edges[i];
		EXPECT_GE(n_same, want.edges.size() * 999 / 1000);
		ASSERT_EQ(got.calibration.n_points, want.calibration.n_points);
		for (uint32_t i = 0; i < want.calibration.n_points; i++)
			EXPECT_NEAR(got.calibration.recall[i], want.calibration.recall[i], 0.02) << i;
	}
}

TEST(GraphHelp, TinyGraphs)
{
	for (const size_t n : {1u, 2u, 3u, 17u, 129u, 300u})
		for (const uint32_t degree : {2u, 33u})
		{
			std::mt19937 rng(3);
			Rows rows({Metric::kL2, ElementType::kFloat32, 3});

			rows.add_random(n, Data::kGaussian, rng, 0);
			ASSERT_NO_FATAL_FAILURE(
				expect_same_build(build_helped(rows, cuda_engine(), degree), build_helped(rows, cpu_engine(), degree)));
		}
}

/// A copy of rows with a given graph answers queries with probes as a copy of that graph does, and the others as
/// before; another set of entry points, other edges, and rows left out take their place.
TEST(GraphHelp, SearchesTheGivenGraph)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 20};
	const Rows rows = grouped_rows(spec, 4000, 0.4f);
	const GraphedRows graphs[] = {GraphedRows(rows, 8), GraphedRows(rows, 12)};
	CudaEngine *const cuda = cuda_engine();
	CopyId copy = 0;

	ASSERT_OK(cuda->create({spec, CopyKind::kRows}, &copy));
	ASSERT_OK(cuda->load_segment(copy, 1, rows.block()));
	EXPECT_EQ(cuda->set_graph(copy, 1, {8, graphs[0].edges.data(), graphs[0].entries.data(), 5}).code,
		StatusCode::kInvalidArgument)
		<< "not sealed";
	ASSERT_OK(cuda->seal_segment(copy, 1));
	EXPECT_EQ(cuda->set_graph(copy, 1, {8, nullptr, graphs[0].entries.data(), 5}).code, StatusCode::kInvalidArgument)
		<< "no edges yet";

	for (const GraphedRows &graph : graphs)
		for (const size_t n_entries : {graph.entries.size(), graph.entries.size() / 2})
			for (const uint32_t width : {16u, 200u})
				for (const size_t n : {5u, 700u})
				{
					std::vector<std::vector<Neighbor>> found;
					std::vector<std::vector<Neighbor>> all;
					std::vector<SearchQuery> queries;
					const SegmentProbes probes = {1, width};
					GraphedRows part = graph;
					const bool is_first = n_entries == graph.entries.size() && width == 16 && n == 5;

					part.entries.resize(n_entries);
					part.parts[0].n_entries = static_cast<uint32_t>(n_entries);
					ASSERT_OK(cuda->set_graph(copy, 1,
						{graph.degree, is_first ? graph.edges.data() : nullptr, graph.entries.data(),
							static_cast<uint32_t>(n_entries)}));
					for (size_t i = 0; i < n; i++)
					{
						queries.push_back({rows.vector(3 * i), 10, false, {}});
						queries.back().probes = {&probes, 1};
					}
					ASSERT_OK(cuda->search(copy, queries, &found));
					for (size_t i = 0; i < n; i += 7)
						ASSERT_NO_FATAL_FAILURE(expect_same(
							found[i], nearest_in_graphs({{&part, width}}, nullptr, rows.vector(3 * i), 10)));
					for (SearchQuery &query : queries)
						query.probes = {};
					ASSERT_OK(cuda->search(copy, queries, &all));
					for (size_t i = 0; i < n; i += 50)
						ASSERT_NO_FATAL_FAILURE(expect_same(all[i], rows.nearest(rows.vector(3 * i), 10)));
				}
	EXPECT_EQ(cuda->set_graph(copy, 1, {8, nullptr, graphs[0].entries.data(), 5}).code, StatusCode::kInvalidArgument)
		<< "another degree";

	const uint32_t beyond[] = {4000};

	EXPECT_EQ(cuda->set_graph(copy, 1, {12, nullptr, beyond, 1}).code, StatusCode::kInvalidArgument);
	ASSERT_OK(cuda->drop(copy));
}

} // namespace
} // namespace vectorgpu::cuda::test
