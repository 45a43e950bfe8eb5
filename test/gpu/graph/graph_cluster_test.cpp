// Searches of graphs by a cluster of two or four blocks for each query (GraphTuning::blocks): the answers of one block,
// bit for bit, and, except by cosine, where nodes are told apart by rounded scores, those of the CPU engine.
#include <algorithm>
#include <array>
#include <cmath>

#include <cuda_runtime_api.h>

#include "cuda/device/arena.hpp"
#include "cuda/device/device.hpp"
#include "kernels/graph/graph.hpp"
#include "graph/tuned_graphs.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::CopyKind;
using engine::SegmentProbes;
using kernels::Form;
using kernels::GraphTuning;
using kernels::GraphVisited;

constexpr std::array<uint32_t, 3> kBlockCounts = {1, 2, 4}; // of a query
constexpr uint32_t kApart = 16; // added to these: entry points are scored by a launch before
constexpr std::array<uint32_t, 5> kWays = {1, 2, 4, 1 + kApart, 4 + kApart};
constexpr size_t kMostAlone = 128; // queries in a batch that use this way

bool
device_has_clusters()
{
	int has = 0;

	EXPECT_EQ(cudaDeviceGetAttribute(&has, cudaDevAttrClusterLaunch, 0), cudaSuccess);
	return has != 0;
}

std::unique_ptr<CudaEngine>
make_engine(uint32_t way, bool narrow)
{
	GraphTuning tuning;

	tuning.blocks = way % kApart;
	tuning.entries_apart = way == 0 ? 0 : 1 + way / kApart;
	return make_tuned_engine(tuning, narrow, true);
}

/// One graph in engines whose queries have one block, two or four, with entry points scored apart or not; made once
/// each.
class Held : public TunedGraph
{
public:
	Held(const Rows &rows, uint32_t degree, bool narrow = true, Edges edges = Edges::kBuilt)
		: TunedGraph(usual_engines(narrow), rows, degree, 1, edges)
	{
	}

	/// As expect_batch, and each query with a score was searched by the number of blocks that the engine should take.
	void expect_alone(const Rows &queries, size_t n, size_t k, uint32_t width, bool with_after = false)
	{
		std::array<uint64_t, kWays.size()> alone, n_blocks, n_apart;
		size_t n_scored = 0;

		for (size_t i = 0; i < n; i++)
		{
			const void *query = queries.vector(i % queries.n());

			n_scored +=
				queries.spec.metric != Metric::kCosine || !std::isnan(oracle_score(queries.spec, query, query)) ? 1 : 0;
		}
		for (size_t i = 0; i < kWays.size(); i++)
		{
			alone[i] = both[i]->cuda()->n_graph_alone();
			n_apart[i] = both[i]->cuda()->n_entries_apart();
			n_blocks[i] = both[i]->cuda()->n_graph_blocks();
		}
		ASSERT_NO_FATAL_FAILURE(expect_batch(queries, n, k, width, with_after));
		for (size_t i = 0; i < kWays.size(); i++)
		{
			EXPECT_EQ(both[i]->cuda()->n_entries_apart() - n_apart[i], kWays[i] > kApart ? n_scored : 0);
			EXPECT_EQ(both[i]->cuda()->n_graph_alone() - alone[i], n_scored);
			EXPECT_EQ(both[i]->cuda()->n_graph_blocks() - n_blocks[i],
				n_scored * (device_has_clusters() ? kWays[i] % kApart : 1));
		}
	}

	static std::vector<CudaEngine *> usual_engines(bool narrow)
	{
		static TunedEngines<kWays.size()> engines;

		return engines.of(kWays, narrow, make_engine);
	}
};

TEST(GraphsByClusters, EveryMetricAndFormAndDimension)
{
	for (Metric metric : kFloatMetrics)
		for (const auto &[element, values, narrow] :
			{std::tuple{ElementType::kFloat32, Values::kReal, true}, {ElementType::kFloat32, Values::kBytes, true},
				{ElementType::kFloat32, Values::kBytes, false}, {ElementType::kFloat16, Values::kReal, true}})
			for (const uint32_t dim : {1u, 3u, 128u, 256u, 300u, 784u})
			{
				const DistanceSpec spec = {metric, element, dim};
				// Rows of so few dimensions may be zero; no graph by cosine is built of them.
				Held held(make_rows(spec, values, 1500, dim), 16, narrow, dim < 7 ? Edges::kRandom : Edges::kBuilt);
				const Rows queries = make_rows(spec, values, kMostAlone, dim + 1);

				for (const size_t n : {size_t{1}, size_t{3}, size_t{16}, kMostAlone})
					ASSERT_NO_FATAL_FAILURE(held.expect_alone(queries, n, 10, 10));
				ASSERT_NO_FATAL_FAILURE(held.expect_alone(queries, 7, 20, 90));
				ASSERT_NO_FATAL_FAILURE(held.expect_alone(queries, 5, 10, 33, true));
			}
}

TEST(GraphsByClusters, WidthsFromOneUpToTheMost)
{
	for (const Values values : {Values::kReal, Values::kBytes})
	{
		const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 24};
		Held held(make_rows(spec, values, 9000, 5), 32);
		const Rows queries = make_rows(spec, values, 4, 6);

		for (const uint32_t width :
			{1u, 2u, 7u, 8u, 9u, 10u, 31u, 32u, 33u, 64u, 65u, 100u, 250u, 256u, 512u, 1000u, 1002u, 1017u})
			for (const size_t k : {1u, 10u, 1000u, 2000u})
				ASSERT_NO_FATAL_FAILURE(
					held.expect_alone(queries, width > 1002 ? 2 : 4, k, width)); // the last is 1,024 wide
	}
}

TEST(GraphsByClusters, DegreesAroundThoseThatAreTakenTogether)
{
	for (Metric metric : {Metric::kL2, Metric::kCosine})
		for (const uint32_t degree :
			{2u, 3u, 4u, 5u, 7u, 8u, 9u, 15u, 16u, 17u, 31u, 32u, 33u, 48u, 63u, 64u, 65u, 100u})
		{
			const DistanceSpec spec = {metric, ElementType::kFloat32, 12};
			Held held(make_rows(spec, Values::kReal, 2000, degree), degree);

			ASSERT_NO_FATAL_FAILURE(held.expect_alone(make_rows(spec, Values::kReal, 40, degree + 1), 40, 20, 70));
		}
}

TEST(GraphsByClusters, NumbersOfEntryPointsAroundWarpsAndBlocks)
{
	// Half the square root of the number of rows.
	for (const Values values : {Values::kReal, Values::kBytes})
		for (const size_t n : {9u, 10u, 20u, 100u, 256u, 1000u, 4096u, 4500u, 20000u})
		{
			const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 6};
			Held held(make_rows(spec, values, n, static_cast<unsigned>(n)), 8);
			const Rows queries = make_rows(spec, values, 20, static_cast<unsigned>(n) + 1);
			const SegmentProbes probes[] = {
				{1, static_cast<uint32_t>(std::clamp<size_t>(n / 8 - 1, 1, 40))}}; // wider searches look at all rows
			std::vector<SearchQuery> requests;

			for (size_t i = 0; i < queries.n(); i++)
			{
				requests.push_back({queries.vector(i), 5, false, {}});
				requests.back().probes = probes;
			}
			ASSERT_NO_FATAL_FAILURE(held.expect_same_answers(requests));
		}
}

TEST(GraphsByClusters, OtherQueriesThanBytesOverRowsOfBytes)
{
	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct})
	{
		const DistanceSpec spec = {metric, ElementType::kFloat32, 40};
		Held held(make_rows(spec, Values::kBytes, 3000, 10), 16);

		ASSERT_NO_FATAL_FAILURE(held.expect_alone(make_rows(spec, Values::kReal, 33, 11), 33, 20, 70));
	}
}

TEST(GraphsByClusters, NaNAndInfinities)
{
	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kL1})
		for (const ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
		{
			for (const uint32_t dim : {3u, 300u})
			{
				const DistanceSpec spec = {metric, element, dim};
				Held held(make_rows(spec, Values::kExtremes, 3000, 12), 16, true, Edges::kRandom);
				const Rows queries = make_rows(spec, Values::kExtremes, 61, 13);

				for (const uint32_t width : {1u, 5u, 100u}) // and up to 22 more
					ASSERT_NO_FATAL_FAILURE(held.expect_alone(queries, 61, 50, width, width == 5));
			}
		}
}

TEST(GraphsByClusters, RowsThatAreEqualOrDead)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 16};
	const std::vector<float> same(spec.dim, 1.0f);
	Rows equal(spec);

	for (RowId id = 1; id <= 3000; id++)
		equal.add(id, reinterpret_cast<const uint8_t *>(same.data()));

	Held of_equal(equal, 8);

	ASSERT_NO_FATAL_FAILURE(of_equal.expect_alone(equal, 21, 40, 100));
	for (const double share : {0.3, 0.9, 1.0})
	{
		Held of_dead(make_rows(spec, Values::kReal, 3000, 14), 16);
		std::mt19937 rng(15);
		std::vector<uint8_t> dead(375);

		for (size_t i = 0; i < 3000; i++)
			if (static_cast<double>(rng()) <= share * static_cast<double>(std::mt19937::max()))
				dead[i / 8] |= static_cast<uint8_t>(1 << i % 8);
		ASSERT_NO_FATAL_FAILURE(of_dead.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
		ASSERT_NO_FATAL_FAILURE(of_dead.expect_batch(make_rows(spec, Values::kReal, 21, 16), 21, 30, 90));
	}
}

/// Every set of visited nodes, steps and sizes. Filters have enough room here to take no node for another.
TEST(GraphsByClusters, EveryTuning)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 30};

	for (const uint32_t degree : {16u, 64u})
	{
		const GraphedRows graph(make_rows(spec, Values::kBytes, 3000, 17), degree);
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
				{GraphVisited::kHash, true, true, 0u, 1u}, {GraphVisited::kBloom, false, false, 14u, 4u},
				{GraphVisited::kBloom, true, false, 14u, 1u}, {GraphVisited::kCuckoo, false, false, 14u, 4u},
				{GraphVisited::kCuckoo, true, false, 14u, 1u}})
		{
			std::vector<std::vector<Neighbor>> by_one;

			for (const uint32_t blocks : kBlockCounts)
			{
				std::vector<std::vector<Neighbor>> found;
				CopyId copy = 0;
				GraphTuning tuning = {visited, selected, deletion, table_bits, steps};

				tuning.blocks = blocks;

				const std::unique_ptr<CudaEngine> engine = make_tuned_engine(tuning, true, true);

				ASSERT_OK(engine->create({spec, CopyKind::kGraph}, &copy));
				ASSERT_OK(graph.load(engine.get(), copy, 1));
				ASSERT_OK(engine->search(copy, requests, &found, nullptr));
				EXPECT_EQ(engine->n_graph_blocks(), requests.size() * (device_has_clusters() ? blocks : 1));
				if (blocks == 1)
					by_one = found;
				for (size_t q = 0; q < requests.size(); q++)
				{
					SCOPED_TRACE(testing::Message()
						<< "degree " << degree << " visited " << static_cast<int>(visited) << selected << deletion
						<< " bits " << table_bits << " steps " << steps << " blocks " << blocks << " query " << q);
					ASSERT_NO_FATAL_FAILURE(test::expect_same(found[q], by_one[q]));
				}
			}
		}
	}
}

/// If no number of blocks is given: four or two for each query of many dimensions, as long as all have room, else one.
TEST(GraphsByClusters, FewQueriesOfManyDimensionsUseThemByDefault)
{
	int n_processors = 0;

	ASSERT_EQ(cudaDeviceGetAttribute(&n_processors, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);

	const std::unique_ptr<CudaEngine> by_one = make_engine(1, true);
	const std::unique_ptr<CudaEngine> unasked = make_engine(0, true);
	const std::array<CudaEngine *, 2> engines = {by_one.get(), unasked.get()};

	for (const uint32_t dim : {128u, 300u, 600u})
		for (const Values values : {Values::kReal, Values::kBytes})
		{
			const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, dim};
			TunedGraph graph(engines, make_rows(spec, values, 1500, dim), 16);
			const Rows queries = make_rows(spec, values, kMostAlone, dim + 1);

			for (const size_t n : {size_t{1}, size_t{16}, kMostAlone})
			{
				const size_t n_places = static_cast<size_t>(n_processors) / n;
				const size_t n_blocks = dim < (values == Values::kBytes ? 384 : 256) || !device_has_clusters() ? 1
					: n_places >= 4                                                                            ? 4
					: n_places >= 2                                                                            ? 2
																											   : 1;
				const uint64_t before = unasked->n_graph_blocks();

				ASSERT_NO_FATAL_FAILURE(graph.expect_batch(queries, n, 10, 40));
				EXPECT_EQ(unasked->n_graph_blocks() - before, n * n_blocks) << dim << ", " << n;
			}
		}
	EXPECT_EQ(by_one->n_graph_blocks(), by_one->n_graph_alone());
}

/// If it is not said how: where entry points are a megabyte or more. Their number is half the square root of that of
/// rows.
TEST(GraphsByClusters, ManyBytesOfEntryPointsAreScoredBeforeByDefault)
{
	const std::unique_ptr<CudaEngine> by_one = make_engine(1, true);
	const std::unique_ptr<CudaEngine> unasked = make_engine(0, true);
	const std::array<CudaEngine *, 2> engines = {by_one.get(), unasked.get()};

	for (const uint32_t dim : {300u, 15000u})
	{
		const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, dim};
		TunedGraph graph(engines, make_rows(spec, Values::kReal, 1500, dim), 16, 1, Edges::kRandom);
		const Rows queries = make_rows(spec, Values::kReal, 16, dim + 1);

		for (const size_t n : {1u, 16u})
		{
			const uint64_t before = unasked->n_entries_apart();

			ASSERT_NO_FATAL_FAILURE(graph.expect_batch(queries, n, 10, 40));
			EXPECT_EQ(unasked->n_entries_apart() - before, dim == 15000 ? n : 0);
		}
	}
	EXPECT_EQ(by_one->n_entries_apart(), 0u);
}

TEST(GraphsByClusters, SearchesFromManyThreads)
{
	for (const uint32_t dim : {32u, 300u})
	{
		const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, dim};
		Held held(make_rows(spec, Values::kBytes, 3000, 17), 16);
		const Rows queries = make_rows(spec, Values::kBytes, 64, 18);
		const SegmentProbes probes[] = {{1, 80}};
		std::vector<SearchQuery> requests;

		for (size_t i = 0; i < queries.n(); i++)
		{
			requests.push_back({queries.vector(i), 15, false, {}});
			requests.back().probes = probes;
		}
		for (const std::unique_ptr<Both> &each : held.both)
			ASSERT_NO_FATAL_FAILURE(expect_answers_side_by_side(8, 40, *each, requests,
				[](size_t thread, size_t round) { return Part{(round * 7 + thread) % 60, 1 + round % 4}; }));
	}
}

/// Blocks of an exact search in one pass wait for one another, so all of them must find room beside clusters that come
/// and go.
TEST(GraphsByClusters, BesideExactSearchesInOnePass)
{
	constexpr size_t kThreads = 8;
	constexpr size_t kRounds = 60;
	const DistanceSpec exact_spec = {Metric::kL2, ElementType::kFloat32, 128};
	const DistanceSpec graph_spec = {Metric::kL2, ElementType::kFloat32, 600};
	CudaEngineOptions options;
	std::unique_ptr<CudaEngine> engine;

	options.n_streams = 4;
	options.workspace_bytes = size_t{256} << 20;
	options.graph_choice = false;
	options.self_test = false;
	ASSERT_OK(make_cuda_engine(options, &engine));

	CudaEngine *const engines[] = {engine.get()};
	const Rows rows = make_rows(exact_spec, Values::kBytes, 40000, 21);
	const Rows exact_queries = make_rows(exact_spec, Values::kBytes, 24, 22);
	const Rows graph_queries = make_rows(graph_spec, Values::kReal, 24, 23);
	const SegmentProbes probes[] = {{1, 60}};
	TunedGraph graph(engines, make_rows(graph_spec, Values::kReal, 3000, 24), 16);
	Both exact(exact_spec, engine.get());
	std::vector<SearchQuery> requests;
	std::vector<std::vector<Neighbor>> expected, expected_of_graph;

	ASSERT_NO_FATAL_FAILURE(exact.load(1, rows, 0, rows.n() - 100));
	ASSERT_NO_FATAL_FAILURE(exact.load(2, rows, rows.n() - 100, 100)); // with two sources every batch goes in one pass
	for (size_t i = 0; i < exact_queries.n(); i++)
		requests.push_back({exact_queries.vector(i), 10, false, {}});
	ASSERT_OK(exact.cpu()->search(exact.cpu_copy(), requests, &expected, nullptr));

	const size_t n_exact = requests.size();

	for (size_t i = 0; i < graph_queries.n(); i++)
	{
		requests.push_back({graph_queries.vector(i), 10, false, {}});
		requests.back().probes = probes;
	}
	ASSERT_OK(graph.both[0]->cpu()->search(graph.both[0]->cpu_copy(),
		std::span<const SearchQuery>(requests).subspan(n_exact), &expected_of_graph, nullptr));
	expected.insert(expected.end(), expected_of_graph.begin(), expected_of_graph.end());
	ASSERT_NO_FATAL_FAILURE(expect_answers_side_by_side(
		kThreads, kRounds, requests, expected,
		[&](size_t thread)
		{
			return std::pair<Engine *, CopyId>{
				engine.get(), thread % 2 == 0 ? exact.cuda_copy() : graph.both[0]->cuda_copy()};
		},
		[&](size_t thread, size_t round)
		{ return Part{(thread % 2 == 0 ? 0 : n_exact) + (round * 5 + thread) % 8, 1 + round % 16}; }));
	if (device_has_clusters())
	{
		EXPECT_GT(engine->n_one_pass(), 0u);
		EXPECT_GT(engine->n_graph_blocks(), engine->n_graph_alone());
	}
	EXPECT_EQ(engine->n_one_pass_given_up(), 0u);
}

/// Arguments of searches of a graph of at most three rows, in memory that the device reads as well.
class SmallGraph
{
public:
	static constexpr uint32_t kMostRows = 3;
	static constexpr uint32_t kQueries = 5;

	SmallGraph(const PinnedBuffer &memory, Metric metric, uint32_t degree, uint32_t n_rows, uint32_t blocks)
		: arena_(memory.as<uint8_t>(), memory.bytes()), spec_{metric, ElementType::kFloat32, kDim}, n_rows_(n_rows),
		  vectors_(arena_.take<float>(kMostRows * kDim)), queries_(arena_.take<float>(kQueries * kDim)),
		  ids_(arena_.take<uint64_t>(kMostRows)), edges_(arena_.take<uint32_t>(kMostRows * degree)),
		  entry_nodes_(arena_.take<uint32_t>(1)), k_(arena_.take<uint32_t>(kQueries)),
		  widths_(arena_.take<uint32_t>(kQueries)), heads_(arena_.take<kernels::AnswerHead>(kQueries)),
		  entries_(arena_.take<kernels::Entry>(kQueries * kWidth))
	{
		if (arena_.failed())
			return;
		fill(degree);
		args.metric = metric;
		args.rows.vectors = vectors_;
		args.rows.row_ids = ids_;
		args.rows.n_rows = n_rows;
		args.rows.pitch_bytes = kDim * sizeof(float);
		args.rows.form = Form::kFloat32;
		args.queries.vectors = queries_;
		args.queries.k = k_;
		args.queries.n_queries = kQueries;
		args.queries.dim_pad = kDim;
		args.edges = edges_;
		args.degree = degree;
		args.entry_nodes = entry_nodes_;
		args.entries = args.rows; // searches begin at the first row
		args.entries.n_rows = std::min(n_rows, 1u);
		args.n_begin = args.entries.n_rows;
		args.widths = widths_;
		args.max_width = kWidth;
		args.answers = {heads_, entries_, kWidth, 1};
		args.tuning.blocks = blocks;
	}

	bool failed() const { return arena_.failed(); }

	/// Expect all rows as the answer of each query.
	void expect_answers() const
	{
		for (uint32_t q = 0; q < kQueries; q++)
		{
			std::vector<std::pair<double, uint64_t>> expected;

			for (uint32_t row = 0; row < n_rows_; row++)
				expected.emplace_back(oracle_score(spec_, queries_ + q * kDim, vectors_ + row * kDim), ids_[row]);
			std::sort(expected.begin(), expected.end());
			ASSERT_EQ(heads_[q].mark, n_rows_ > 0 ? 1u : 0u);
			ASSERT_EQ(heads_[q].n_entries, n_rows_);
			for (uint32_t i = 0; i < n_rows_; i++)
			{
				EXPECT_EQ(bits_of(kernels::key_to_score(entries_[q * kWidth + i].key)), bits_of(expected[i].first));
				EXPECT_EQ(entries_[q * kWidth + i].row, expected[i].second);
			}
		}
	}

	kernels::GraphArgs args;

private:
	static constexpr uint32_t kWidth = 10;
	static constexpr uint32_t kDim = 32;

	void fill(uint32_t degree)
	{
		std::mt19937 rng(n_rows_ + 7);

		std::generate_n(vectors_, kMostRows * kDim, [&] { return static_cast<float>(rng() % 2000) - 1000; });
		std::generate_n(queries_, kQueries * kDim, [&] { return static_cast<float>(rng() % 2000) - 1000; });
		std::fill_n(edges_, kMostRows * degree, UINT32_MAX);
		for (uint32_t row = 0; row < n_rows_; row++) // a chain: its end leads back to the beginning
		{
			ids_[row] = 100 - row;
			edges_[row * degree + degree - 1] = (row + 1) % n_rows_;
		}
		entry_nodes_[0] = 0;
		std::fill_n(k_, kQueries, kWidth);
		std::fill_n(widths_, kQueries, kWidth);
		std::fill_n(heads_, kQueries, kernels::AnswerHead{});
	}

	Arena arena_;
	const DistanceSpec spec_;
	const uint32_t n_rows_;
	float *vectors_;
	float *queries_;
	uint64_t *ids_;
	uint32_t *edges_;
	uint32_t *entry_nodes_;
	uint32_t *k_;
	uint32_t *widths_;
	kernels::AnswerHead *heads_;
	kernels::Entry *entries_;
};

/// The kernels alone, over graphs that an engine would search as a whole.
TEST(GraphsByClusters, GraphsOfAtMostThreeRows)
{
	Device device;
	Stream stream;
	PinnedBuffer memory;

	ASSERT_OK(Device::open(0, nullptr, &device));
	ASSERT_OK(device.use());
	ASSERT_OK(stream.create(&device));
	ASSERT_OK(memory.allocate(&device, size_t{1} << 20, "test"));
	ASSERT_EQ(kernels::prepare_graph_kernels(), cudaSuccess);

	for (const Metric metric : kFloatMetrics)
		for (const uint32_t degree : {1u, 2u, 33u})
			for (uint32_t n_rows = 0; n_rows <= SmallGraph::kMostRows; n_rows++)
				for (const uint32_t blocks : kBlockCounts)
				{
					SCOPED_TRACE(testing::Message()
						<< metric_name(metric) << " degree " << degree << " rows " << n_rows << " blocks " << blocks);

					const SmallGraph graph(memory, metric, degree, n_rows, blocks);
					uint32_t n_blocks = 0;

					ASSERT_FALSE(graph.failed());
					ASSERT_EQ(kernels::launch_graph_search(graph.args, stream.get(), &n_blocks), cudaSuccess);
					ASSERT_OK(stream.synchronize());
					EXPECT_EQ(n_blocks, n_rows > 0 && device_has_clusters() ? blocks : 1);
					ASSERT_NO_FATAL_FAILURE(graph.expect_answers());
				}
}

} // namespace
} // namespace vectorgpu::cuda::test
