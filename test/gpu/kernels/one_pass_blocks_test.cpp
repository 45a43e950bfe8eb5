// Small batches over byte rows in one pass: numbers of blocks, how blocks share tiles, tuning, waiting that gives up,
// the self-test, and engines side by side.
#include <array>
#include <optional>
#include <string>

#include <cuda_runtime_api.h>

#include "kernels/filter/one_pass.hpp"
#include "kernels/one_pass_rows.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

/// While it lives, one pass plans as on a device with this many processors.
class FewProcessors
{
public:
	explicit FewProcessors(uint32_t n) { EXPECT_EQ(kernels::prepare_one_pass(n), cudaSuccess); }

	~FewProcessors()
	{
		int device = 0;
		int n_processors = 0;

		EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
		EXPECT_EQ(cudaDeviceGetAttribute(&n_processors, cudaDevAttrMultiProcessorCount, device), cudaSuccess);
		EXPECT_EQ(kernels::prepare_one_pass(static_cast<uint32_t>(n_processors)), cudaSuccess);
	}

	FewProcessors(const FewProcessors &) = delete;
	FewProcessors &operator=(const FewProcessors &) = delete;
};

TEST(OnePass, FewerBlocksThanQueries)
{
	if (!has_one_pass())
		GTEST_SKIP() << "the device has no products by warp groups";
	for (uint32_t n_processors : {1u, 2u, 3u, 9u, 16u, 17u})
		for (uint32_t dim : {100u, 300u}) // up to 16 queries among the arguments, up to 5
		{
			SCOPED_TRACE(testing::Message() << n_processors << " blocks, dim " << dim);

			std::mt19937 rng(n_processors);
			Rows rows({Metric::kL2, ElementType::kFloat32, dim}), queries(rows.spec);
			Both both(rows.spec);
			const FewProcessors few(n_processors);
			const uint64_t before = both.cuda()->n_one_pass();

			add_whole_numbers(&rows, kRows + 500, 255, rng, 100);
			add_whole_numbers(&queries, 64, 255, rng, 0);
			ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, kRows));
			ASSERT_NO_FATAL_FAILURE(both.load(2, rows, kRows, 500));
			for (size_t batch : {2, 5, 8, 9, 10, 16, 17, 33, 64})
				for (size_t k : {1, 10})
					ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, batch, k));
			EXPECT_GE(both.cuda()->n_one_pass() - before, 2u + 5 + 8 + 9 + 10 + 16 + 17 + 33 + 64);
		}
}

TEST(OnePass, BlocksShareOutManyTiles)
{
	if (!has_one_pass())
		GTEST_SKIP() << "the device has no products by warp groups";
	for (uint32_t n_processors : {1u, 4u, 5u})
		for (size_t n : {size_t{17000}, size_t{128 * 4 * 50}, size_t{128 * 4 * 50 + 1}, size_t{128 * (5 * 40 + 1)},
				 size_t{128 * 5 * 41}, size_t{26000}})
			for (size_t n_delta : {0, 129})
			{
				SCOPED_TRACE(testing::Message() << n_processors << " blocks, " << n << " and " << n_delta << " rows");

				std::mt19937 rng(n_processors);
				Rows rows({Metric::kL2, ElementType::kFloat32, 40}), queries(rows.spec);
				Both both(rows.spec);
				const FewProcessors few(n_processors);

				add_whole_numbers(&rows, n + n_delta, 255, rng, 100);
				add_whole_numbers(&queries, 64, 255, rng, 0);
				ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, n));
				if (n_delta > 0)
				{
					ASSERT_NO_FATAL_FAILURE(append(&both, rows, n, n_delta, 0));
				}

				const uint64_t before = both.cuda()->n_one_pass();

				for (int round = 0; round < 2; round++)
					for (size_t batch : {2, 33, 40, 64})
						ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, batch, 4));
				EXPECT_EQ(both.cuda()->n_one_pass() - before, 2u * (2 + 33 + 40 + 64));
			}
}

TEST(OnePass, OtherChoices)
{
	if (!has_one_pass())
		GTEST_SKIP() << "the device has no products by warp groups";

	constexpr uint32_t kNever = 0xFFFFFFFFu;
	constexpr uint64_t kMegabyte = 1 << 20;
	const kernels::OnePassTuning choices[] = {
		{.stages_on_the_way = 1, .least_queries_to_share = kNever},
		{.stages_on_the_way = 20,
			.least_queries_to_share = 1,
			.least_tiles_to_share = 2,
			.shared_tiles = 1,
			.kept_bytes = 1},
		{.least_queries_to_share = 1, .shared_tiles = 2, .kept_bytes = kMegabyte, .exact_scores = false},
		{.least_queries_to_share = 1, .shared_tiles = 3, .kept_bytes = 3 * kMegabyte, .ranked = true},
		{.stages_on_the_way = 4, .least_queries_to_share = 17, .shared_tiles = 4, .kept_bytes = 1000 * kMegabyte},
		{.kept_bytes = 0, .ranked = true},
	};

	for (const auto &[metric, dim, most] : {std::tuple{Metric::kL2, 40u, 255u}, {Metric::kL2, 256u, 255u},
			 {Metric::kL2, 300u, 255u}, {Metric::kInnerProduct, 256u, 255u}, {Metric::kL2, 12u, 9u},
			 {Metric::kInnerProduct, 12u, 9u}}) // the last two: many ties
	{
		std::mt19937 rng(dim);
		Rows rows({metric, ElementType::kFloat32, dim}), queries(rows.spec);
		std::vector<SearchQuery> all;
		std::vector<std::vector<Neighbor>> expected;
		CopyId cpu_copy = 0;
		auto load = [&](Engine *engine, CopyId *copy)
		{
			ASSERT_OK(engine->create({rows.spec}, copy));
			ASSERT_OK(engine->load_segment(*copy, 1, rows.block(0, 26000)));
			ASSERT_OK(engine->seal_segment(*copy, 1));
			ASSERT_OK(engine->append_delta(*copy, 0, rows.block(26000, 200)));
		};

		add_whole_numbers(&rows, 26200, most, rng, 100);
		add_whole_numbers(&queries, 64, most, rng, 0);
		for (size_t i = 0; i < queries.n(); i++)
			all.push_back({queries.vector(i), 1 + i % 4, false, {}});
		ASSERT_NO_FATAL_FAILURE(load(cpu_engine(), &cpu_copy));
		ASSERT_OK(cpu_engine()->search(cpu_copy, all, &expected, nullptr));
		ASSERT_OK(cpu_engine()->drop(cpu_copy));
		for (uint32_t n_processors : {4u, 0u}) // 0: all
			for (const kernels::OnePassTuning &choice : choices)
			{
				SCOPED_TRACE(testing::Message() << n_processors << " blocks, " << metric_name(metric) << ", dim " << dim
												<< ", choice " << &choice - choices);

				CudaEngineOptions options;
				std::unique_ptr<CudaEngine> engine;
				std::optional<FewProcessors> few;
				CopyId copy = 0;
				size_t n_asked = 0;

				options.n_streams = 1;
				options.workspace_bytes = size_t{64} << 20;
				options.pinned_bytes = size_t{4} << 20;
				options.self_test = false;
				options.one_pass_tuning = choice;
				ASSERT_OK(make_cuda_engine(options, &engine));
				if (n_processors > 0)
					few.emplace(n_processors); // the engine has found all of them
				ASSERT_NO_FATAL_FAILURE(load(engine.get(), &copy));
				for (size_t batch : {1, 12, 20, 64, 64})
				{
					std::vector<std::vector<Neighbor>> found;

					ASSERT_OK(engine->search(copy, std::span(all).first(batch), &found, nullptr));
					ASSERT_EQ(found.size(), batch);
					for (size_t i = 0; i < batch; i++)
						ASSERT_NO_FATAL_FAILURE(expect_same(found[i], expected[i]));
					n_asked += batch;
				}
				EXPECT_EQ(engine->n_one_pass(), n_asked);
			}
	}
}

// For the sanitizers, under which blocks wait far longer for each other.
TEST(OnePass, Reduced)
{
	int major = 0;
	std::mt19937 rng(15);
	Rows rows({Metric::kL2, ElementType::kFloat32, 40});
	CudaEngineOptions options;
	std::unique_ptr<CudaEngine> engine;
	CopyId cuda_copy = 0, cpu_copy = 0;
	size_t n_asked = 0;

	ASSERT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
	if (major != 9)
		GTEST_SKIP() << "the device has no products by warp groups";
	options.workspace_bytes = size_t{64} << 20;
	options.pinned_bytes = size_t{8} << 20;
	options.self_test = false;
	options.one_pass_looks = 1u << 24;
	options.hang_limit_ms = 250000;
	ASSERT_OK(make_cuda_engine(options, &engine));
	add_whole_numbers(&rows, kRows + 300, 255, rng, 100);
	for (auto [e, copy] : {std::pair<Engine *, CopyId *>{engine.get(), &cuda_copy}, {cpu_engine(), &cpu_copy}})
	{
		ASSERT_OK(e->create({rows.spec}, copy));
		ASSERT_OK(e->load_segment(*copy, 1, rows.block(0, kRows)));
		ASSERT_OK(e->seal_segment(*copy, 1));
		ASSERT_OK(e->append_delta(*copy, 0, rows.block(kRows, 300)));
	}
	for (size_t batch : {2, 12, 40}) // queries among the arguments; thresholds by a block each; queries copied
	{
		std::vector<SearchQuery> all;
		std::vector<std::vector<Neighbor>> expected, found;

		for (size_t i = 0; i < batch; i++)
			all.push_back({rows.vector(i * 400), 10, false, {}});
		ASSERT_OK(cpu_engine()->search(cpu_copy, all, &expected, nullptr));
		ASSERT_OK(engine->search(cuda_copy, all, &found, nullptr));
		ASSERT_EQ(found.size(), batch);
		for (size_t i = 0; i < batch; i++)
			ASSERT_NO_FATAL_FAILURE(expect_same(found[i], expected[i]));
		n_asked += batch;
	}
	EXPECT_EQ(engine->n_one_pass(), n_asked);
	ASSERT_OK(engine->drop(cuda_copy));
	ASSERT_OK(cpu_engine()->drop(cpu_copy));
}

TEST(OnePass, BlocksThatWaitTooLongGiveUp)
{
	if (!has_one_pass())
		GTEST_SKIP() << "the device has no products by warp groups";
	for (size_t batch : {2, 12, 40}) // queries among the arguments; thresholds by a block each; queries copied
	{
		std::mt19937 rng(11);
		Rows rows({Metric::kL2, ElementType::kFloat32, 100});
		CudaEngineOptions options;
		std::unique_ptr<CudaEngine> engine;
		std::vector<SearchQuery> all;
		std::vector<std::vector<Neighbor>> expected, found;
		CopyId cuda_copy = 0, cpu_copy = 0;

		options.workspace_bytes = size_t{64} << 20;
		options.filter_min_queries = 2;
		options.self_test = false;
		options.one_pass_looks = 0;
		ASSERT_OK(make_cuda_engine(options, &engine));
		add_whole_numbers(&rows, kRows + 500, 255, rng, 100);
		for (size_t i = 0; i < batch; i++)
			all.push_back({rows.vector(i * 400), 10, false, {}});
		for (auto [e, copy] : {std::pair<Engine *, CopyId *>{engine.get(), &cuda_copy}, {cpu_engine(), &cpu_copy}})
		{
			ASSERT_OK(e->create({rows.spec}, copy));
			ASSERT_OK(e->load_segment(*copy, 1, rows.block(0, kRows)));
			ASSERT_OK(e->seal_segment(*copy, 1));
			ASSERT_OK(e->append_delta(*copy, 0, rows.block(kRows, 500)));
		}
		ASSERT_OK(cpu_engine()->search(cpu_copy, all, &expected, nullptr));
		for (int round = 0; round < 2; round++) // given up; not tried again so soon
		{
			ASSERT_OK(engine->search(cuda_copy, all, &found, nullptr));
			ASSERT_EQ(found.size(), batch);
			for (size_t i = 0; i < batch; i++)
				ASSERT_NO_FATAL_FAILURE(expect_same(found[i], expected[i]));
			EXPECT_EQ(engine->n_one_pass_given_up(), batch);
			EXPECT_EQ(engine->n_one_pass(), 0u);
		}
		ASSERT_OK(engine->drop(cuda_copy));
		ASSERT_OK(cpu_engine()->drop(cpu_copy));
	}
}

// The chain answers for passes that are given up: right answers do not prove that one pass was used.
TEST(OnePass, TheSelfTestProvesItOrLeavesItOff)
{
	int major = 0;

	ASSERT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
	if (major != 9)
		GTEST_SKIP() << "the device has no products by warp groups";
	for (const bool gives_up : {false, true})
	{
		SCOPED_TRACE(testing::Message() << "gives up " << gives_up);

		std::mt19937 rng(14);
		Rows rows({Metric::kL2, ElementType::kFloat32, 100});
		CudaEngineOptions options;
		std::unique_ptr<CudaEngine> engine;
		std::string log;
		std::vector<SearchQuery> all;
		std::vector<std::vector<Neighbor>> expected, found;
		CopyId cuda_copy = 0, cpu_copy = 0;

		options.workspace_bytes = size_t{512} << 20;
		options.filter_min_queries = 2; // so the test's batches use one pass anyway
		if (gives_up)
			options.one_pass_looks = 0;
		options.log = [&log](const char *line) { log.append(line).append("\n"); };
		ASSERT_OK(make_cuda_engine(options, &engine));
		EXPECT_EQ(log.find("no searches in one pass") != std::string::npos, gives_up) << log;
		EXPECT_EQ(log.find("no searches of lists in two launches"), std::string::npos) << log;
		EXPECT_EQ(log.find("recall targets"), std::string::npos) << log;
		add_whole_numbers(&rows, kRows + 500, 255, rng, 100);
		for (size_t i = 0; i < 12; i++)
			all.push_back({rows.vector(i * 400), 10, false, {}});
		for (auto [e, copy] : {std::pair<Engine *, CopyId *>{engine.get(), &cuda_copy}, {cpu_engine(), &cpu_copy}})
		{
			ASSERT_OK(e->create({rows.spec}, copy));
			ASSERT_OK(e->load_segment(*copy, 1, rows.block(0, kRows)));
			ASSERT_OK(e->seal_segment(*copy, 1));
			ASSERT_OK(e->append_delta(*copy, 0, rows.block(kRows, 500)));
		}

		const uint64_t given_up = engine->n_one_pass_given_up(); // in the self-test

		EXPECT_EQ(given_up > 0, gives_up);
		ASSERT_OK(cpu_engine()->search(cpu_copy, all, &expected, nullptr));
		ASSERT_OK(engine->search(cuda_copy, all, &found, nullptr));
		for (size_t i = 0; i < all.size(); i++)
			ASSERT_NO_FATAL_FAILURE(expect_same(found[i], expected[i]));
		EXPECT_EQ(engine->n_one_pass(), gives_up ? 0 : all.size());
		EXPECT_EQ(engine->n_one_pass_given_up(), given_up);
		ASSERT_OK(engine->drop(cuda_copy));
		ASSERT_OK(cpu_engine()->drop(cpu_copy));
	}
}

TEST(OnePass, EnginesSideBySide)
{
	std::mt19937 rng(12);
	Rows rows({Metric::kL2, ElementType::kFloat32, 128});
	std::array<CudaEngine *, 2> engines = {cuda_engine(), nullptr};
	std::unique_ptr<CudaEngine> other;
	CudaEngineOptions options;
	std::vector<SearchQuery> all;
	std::vector<std::vector<Neighbor>> expected;
	std::array<CopyId, 2> copies{};

	options.workspace_bytes = size_t{64} << 20;
	options.filter_min_queries = 2;
	options.self_test = false;
	ASSERT_OK(make_cuda_engine(options, &other));
	engines[1] = other.get();
	add_whole_numbers(&rows, 60000, 255, rng, 100);
	for (size_t i = 0; i < 16; i++)
		all.push_back({rows.vector(i * 400), 10, false, {}});
	for (size_t e = 0; e < 2; e++)
	{
		ASSERT_OK(engines[e]->create({rows.spec}, &copies[e]));
		ASSERT_OK(engines[e]->load_segment(copies[e], 1, rows.block(0, rows.n())));
		ASSERT_OK(engines[e]->seal_segment(copies[e], 1));
	}
	ASSERT_OK(engines[0]->search(copies[0], all, &expected, nullptr));

	const uint64_t given_up = engines[0]->n_one_pass_given_up();

	ASSERT_NO_FATAL_FAILURE(expect_answers_side_by_side(
		4, 200, all, expected,
		[&](size_t thread) { return std::pair<Engine *, CopyId>{engines[thread % 2], copies[thread % 2]}; },
		[&](size_t, size_t) { return Part{0, all.size()}; }));
	EXPECT_EQ(engines[0]->n_one_pass_given_up(), given_up);
	EXPECT_EQ(other->n_one_pass_given_up(), 0u);
	for (size_t e = 0; e < 2; e++)
		ASSERT_OK(engines[e]->drop(copies[e]));
}

} // namespace
} // namespace vectorgpu::cuda::test
