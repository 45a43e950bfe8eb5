// Builds by an engine of several devices: the lists, codes, neighbours and graphs of one engine.
#include "engine/helped_build.hpp"
#include "engine/helping_engine.hpp"
#include "engine/interface/list_builder.hpp"
#include "engine/ivf/codec.hpp"
#include "worker/spread_fixture.hpp"

namespace vectorgpu::worker
{
namespace
{

constexpr uint32_t kDim = 12;
constexpr size_t kRows = 3000;

/// What a build of lists gives.
struct Built
{
	std::vector<float> centroids;
	std::vector<uint32_t> labels = std::vector<uint32_t>(kRows);
	std::vector<float> scores = std::vector<float>(kRows);
	std::vector<uint8_t> codes;
	std::vector<Neighbor> neighbors;
};

Built
build_lists(engine::Engine *engine, const Rows &rows)
{
	engine::ListBuildSpec spec;
	engine::SearchControl control;
	std::unique_ptr<engine::ListBuilder> builder;
	const bool has_codes = rows.spec.element != ElementType::kBit;
	engine::ListCodeSpec codes;
	Built built;

	spec.rows = rows.spec;
	spec.n_clusters = 20;
	spec.n_training = 900;
	spec.n_queries = 30;
	spec.k = 7;
	EXPECT_TRUE(engine->make_list_builder(spec, &control, &builder).is_ok());
	EXPECT_TRUE(builder->add_training(rows.vectors.data(), 900).is_ok());
	EXPECT_TRUE(builder->train().is_ok());
	if (has_codes)
	{
		codes.codes.kind = engine::ivf::CodeKind::kSq8;
		codes.codes.metric = rows.spec.metric;
		codes.codes.dim = kDim;
		codes.n_training = 400;
		EXPECT_TRUE(builder->begin_codes(codes).is_ok());
		EXPECT_TRUE(builder->add_code_training(rows.vectors.data(), 400).is_ok());
		EXPECT_TRUE(builder->train_codes().is_ok());
		built.codes.resize(kRows * engine::ivf::code_bytes(builder->coder()->spec().codes));
	}
	EXPECT_TRUE(builder->add_queries(rows.vector(100), 30).is_ok());

	std::vector<float> terms(kRows);
	std::vector<uint8_t> is_out(kRows);

	for (size_t first = 0; first < kRows;)
	{
		const size_t n = std::min<size_t>(first % 1400 == 0 ? 1100 : 300, kRows - first);
		const size_t code_bytes = built.codes.size() / kRows;

		EXPECT_TRUE(builder
				->assign(first, rows.vector(first), n, built.labels.data() + first, built.scores.data() + first,
					{built.codes.data() + first * code_bytes, terms.data() + first, is_out.data() + first})
				.is_ok());
		first += n;
	}
	EXPECT_TRUE(builder->neighbors(&built.neighbors).is_ok());
	built.centroids = builder->centroids();
	return built;
}

TEST(SpreadBuild, ListsAreThoseOfOneEngine)
{
	for (const DistanceSpec &spec : {DistanceSpec{Metric::kL2, ElementType::kFloat32, kDim},
			 DistanceSpec{Metric::kCosine, ElementType::kFloat16, kDim},
			 DistanceSpec{Metric::kInnerProduct, ElementType::kFloat32, kDim},
			 DistanceSpec{Metric::kHamming, ElementType::kBit, 8 * kDim}})
	{
		SpreadBench bench;
		std::mt19937 rng(5);
		Rows rows(spec);
		const auto plain = engine::make_cpu_engine({});
		const auto engine = bench.make(3, 0);

		rows.add_random(kRows, Data::kGaussian, rng, 1);

		const Built want = build_lists(plain.get(), rows);
		const Built got = build_lists(engine.get(), rows);

		EXPECT_EQ(got.centroids, want.centroids);
		EXPECT_EQ(got.labels, want.labels);
		EXPECT_EQ(got.scores, want.scores);
		EXPECT_EQ(got.codes, want.codes);
		ASSERT_EQ(got.neighbors.size(), want.neighbors.size());
		for (size_t i = 0; i < got.neighbors.size(); i++)
		{
			ASSERT_EQ(got.neighbors[i].row, want.neighbors[i].row) << i;
			ASSERT_EQ(bits_of(got.neighbors[i].score), bits_of(want.neighbors[i].score)) << i;
		}
	}
}

/// Rows that several threads convert, and those at an odd address, have the lists of rows that come a few at a time.
TEST(SpreadBuild, RowsThatComeTogetherHaveTheirLists)
{
	constexpr size_t kMany = 30000;

	for (const DistanceSpec &spec : {DistanceSpec{Metric::kL2, ElementType::kFloat32, kDim},
			 DistanceSpec{Metric::kCosine, ElementType::kFloat32, kDim},
			 DistanceSpec{Metric::kCosine, ElementType::kFloat16, kDim}})
	{
		SpreadBench bench;
		std::mt19937 rng(5);
		Rows rows(spec);
		const auto engine = bench.make(2, 0);
		const size_t row_bytes = vector_bytes(spec.element, spec.dim);
		Bytes moved;
		std::vector<uint32_t> labels[2];
		std::vector<float> scores[2];
		std::vector<Neighbor> found[2];

		rows.add_random(kMany, Data::kGaussian, rng, 1);
		moved.resize(kMany * row_bytes + 1);
		std::copy_n(static_cast<const uint8_t *>(rows.vector(0)), kMany * row_bytes, moved.begin() + 1);
		for (const bool together : {false, true})
		{
			engine::ListBuildSpec build;
			engine::SearchControl control;
			std::unique_ptr<engine::ListBuilder> builder;
			const size_t step = together ? kMany : 500;

			build.rows = spec;
			build.n_clusters = 20;
			build.n_training = 900;
			build.n_queries = 10;
			build.k = 7;
			labels[together].resize(kMany);
			scores[together].resize(kMany);
			ASSERT_OK(engine->make_list_builder(build, &control, &builder));
			ASSERT_OK(builder->add_training(rows.vector(0), 900));
			ASSERT_OK(builder->train());
			ASSERT_OK(builder->add_queries(rows.vector(40), 10));
			for (size_t first = 0; first < kMany; first += step)
				ASSERT_OK(
					builder->assign(first, together ? static_cast<const void *>(moved.data() + 1) : rows.vector(first),
						step, labels[together].data() + first, scores[together].data() + first));
			ASSERT_OK(builder->neighbors(&found[together]));
		}
		EXPECT_EQ(labels[0], labels[1]);
		EXPECT_EQ(scores[0], scores[1]);
		for (size_t i = 0; i < found[0].size(); i++)
		{
			ASSERT_EQ(found[0][i].row, found[1][i].row) << i;
			ASSERT_EQ(bits_of(found[0][i].score), bits_of(found[1][i].score)) << i;
		}
	}
}

TEST(SpreadBuild, ABuildThatHasLostADeviceFailsAndTheNextDoesNot)
{
	SpreadBench bench;
	std::mt19937 rng(5);
	Rows rows({Metric::kL2, ElementType::kFloat32, kDim});
	const auto engine = bench.make(2, 0);
	engine::ListBuildSpec spec;
	engine::SearchControl control;
	std::unique_ptr<engine::ListBuilder> builder;
	std::vector<uint32_t> labels(kRows);
	std::vector<float> scores(kRows);

	rows.add_random(kRows, Data::kGaussian, rng, 1);
	spec.rows = rows.spec;
	spec.n_clusters = 20;
	spec.n_training = 900;
	ASSERT_OK(engine->make_list_builder(spec, &control, &builder));
	ASSERT_OK(builder->add_training(rows.vectors.data(), 900));
	ASSERT_OK(builder->train());
	engine->lose(1);
	EXPECT_EQ(builder->assign(0, rows.vector(0), kRows, labels.data(), scores.data()).code, StatusCode::kInternal);
	(void) build_lists(engine.get(), rows); // expects success
}

TEST(SpreadBuild, GraphsAreThoseOfOneSearcher)
{
	const auto host = engine::make_cpu_engine({});
	std::vector<uint32_t> edges[2];
	std::mt19937 rng(5);
	Rows rows({Metric::kL2, ElementType::kFloat32, kDim});

	rows.add_random(kRows, Data::kGaussian, rng, 1);
	for (const uint64_t room : {uint64_t{0}, uint64_t{4000 * (kDim * 4 + 16)}}) // replicas, then shards
	{
		SpreadBench bench;
		const auto several = bench.make(2, room);
		const auto single = engine::make_cpu_engine({});

		for (size_t i = 0; i < 2; i++)
		{
			engine::GraphBuildSpec spec;
			engine::SearchControl control;
			std::unique_ptr<engine::GraphBuilder> builder;
			engine::Engine *const searcher = i == 0 ? single.get() : static_cast<engine::Engine *>(several.get());

			spec.rows = rows.spec;
			spec.n_rows = kRows;
			spec.degree = 12;
			ASSERT_OK(host->make_graph_builder(spec, &control, searcher, &builder));
			ASSERT_OK(builder->add_rows(rows.vectors.data(), kRows));
			ASSERT_OK(builder->build());
			EXPECT_TRUE(builder->exact_neighbors());
			edges[i] = builder->edges();
		}
		EXPECT_EQ(edges[0], edges[1]);
		EXPECT_EQ(several->stats().n_copies, 0u);
	}
}

/// A graph of replicas is that of each device; a copy in shards is no help, and no failure.
TEST(SpreadBuild, DevicesHelpWithAGraph)
{
	const Rows rows = grouped_rows({Metric::kL2, ElementType::kFloat32, 7}, 3000);
	const auto plain = engine::make_cpu_engine({});
	const HelpedBuild want = build_helped(rows, plain.get());

	for (const uint64_t device_bytes : {uint64_t{0}, uint64_t{3} << 16})
	{
		SpreadBench bench;

		bench.make_device = [] { return std::make_unique<HelpingEngine>(); };

		const auto engine = bench.make(2, device_bytes);
		int n_searched = 0;

		expect_same_build(build_helped(rows, engine.get()), want);
		for (engine::Engine *device : bench.engines)
		{
			const HelpingEngine &helping = *static_cast<HelpingEngine *>(device);

			EXPECT_EQ(helping.n_edges, device == bench.engines.front() ? 2 : 0);
			EXPECT_EQ(helping.n_graphs > 0, device_bytes == 0);
			n_searched += helping.n_searched;
		}
		EXPECT_EQ(n_searched > 0, device_bytes == 0);
	}
}

/// Devices with the whole copy are told which of its rows queries are; a shard has other numbers for these.
TEST(SpreadBuild, QueriesAreRowsOfTheDevice)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 16};
	constexpr uint64_t kRowBytes = 16 * 4 + 16;
	std::mt19937 rng(6);
	Rows rows(spec);
	const auto plain = engine::make_cpu_engine({});
	CopyId plain_copy = 0;

	rows.add_random(1500, Data::kGaussian, rng, 1);
	ASSERT_OK(plain->create(spec, &plain_copy));
	ASSERT_OK(plain->load_segment(plain_copy, 1, rows.block()));
	ASSERT_OK(plain->seal_segment(plain_copy, 1));
	for (const uint64_t device_bytes : {uint64_t{0}, 1000 * kRowBytes})
	{
		SpreadBench bench;
		CopyId copy = 0;
		int n_own_rows = 0;
		std::vector<SearchQuery> queries;

		bench.make_device = [] { return std::make_unique<HelpingEngine>(); };

		const auto engine = bench.make(2, device_bytes);

		ASSERT_OK(engine->create(spec, &copy));
		for (size_t first = 0; first < rows.n(); first += 25)
			ASSERT_OK(engine->load_segment(copy, 1, rows.block(first, 25)));
		ASSERT_OK(engine->seal_segment(copy, 1));
		EXPECT_EQ(engine->is_sharded(copy), device_bytes > 0);
		for (uint32_t i = 0; i < 64; i++)
		{
			SearchQuery &query = queries.emplace_back();

			query.own_row = {1, i * 997 % 1500};
			query.query = rows.vector(query.own_row.number);
			query.k = 10;
		}
		ASSERT_NO_FATAL_FAILURE(expect_same_answers(engine.get(), copy, plain.get(), plain_copy, queries));
		for (engine::Engine *device : bench.engines)
			n_own_rows += static_cast<HelpingEngine *>(device)->n_own_rows;
		EXPECT_EQ(n_own_rows, device_bytes == 0 ? 64 : 0);
	}
}

} // namespace
} // namespace vectorgpu::worker
