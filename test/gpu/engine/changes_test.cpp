// Copies that change: segments, delta, tombstones, trimming, reading back, continuation; searches beside writers;
// budget.
#include <atomic>
#include <thread>

#include "rounded_rows.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

std::vector<uint8_t>
random_bits(size_t n, std::mt19937 &rng)
{
	std::vector<uint8_t> bits((n + 7) / 8);

	for (size_t i = 0; i < n; i += 1 + rng() % 4)
		bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | 1 << (i % 8));
	return bits;
}

TEST(Changes, SegmentsDeltaTombstonesAndTrimsEqualTheCpu)
{
	for (bool whole : {false, true}) // real numbers, or bytes on the device
	{
		std::mt19937 rng(5);
		Rows rows({Metric::kL2, ElementType::kFloat32, 24}), queries(rows.spec);
		Both both(rows.spec);

		if (whole)
		{
			add_whole_numbers(&rows, 40000, 20, rng, 1);
			add_whole_numbers(&queries, 12, 20, rng, 0);
		}
		else
		{
			rows.add_random(40000, Data::kGaussian, rng, 1);
			queries.add_random(12, Data::kGaussian, rng, 0);
		}

		auto look = [&]
		{
			for (size_t batch : {1, 12})
				for (size_t k : {10, 300})
					ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, batch, k));
		};

		ASSERT_NO_FATAL_FAILURE(look()); // empty
		// Loaded in uneven pieces; searched only when sealed.
		for (size_t first = 0; first < 20000; first += 3001)
			ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c)
				{ return e.load_segment(c, 1, rows.block(first, std::min<size_t>(3001, 20000 - first))); }));
		ASSERT_NO_FATAL_FAILURE(look());
		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.seal_segment(c, 1); }));
		ASSERT_NO_FATAL_FAILURE(look());
		ASSERT_NO_FATAL_FAILURE(
			both.change([&](Engine &e, CopyId c) { return e.load_segment(c, 1, rows.block(0, 1)); })); // refused
		ASSERT_NO_FATAL_FAILURE(both.load(2, rows, 20000, 17000));
		for (size_t first = 0; first < 3000; first += 250) // delta in pieces, some sent twice
			ASSERT_NO_FATAL_FAILURE(both.change(
				[&](Engine &e, CopyId c)
				{
					return e.append_delta(c, first < 100 ? 0 : first - 100,
						rows.block(37000 + (first < 100 ? 0 : first - 100), first < 100 ? 250 : 350));
				}));
		ASSERT_NO_FATAL_FAILURE(
			both.change([&](Engine &e, CopyId c) { return e.append_delta(c, 9999, rows.block(0, 1)); })); // a gap
		ASSERT_NO_FATAL_FAILURE(look());

		const std::vector<uint8_t> dead_one = random_bits(20000, rng), dead_delta = random_bits(2000, rng);

		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead_one); }));
		ASSERT_NO_FATAL_FAILURE(
			both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 2, dead_one); })); // wrong size
		ASSERT_NO_FATAL_FAILURE(
			both.change([&](Engine &e, CopyId c) { return e.set_delta_tombstones(c, 500, dead_delta); }));
		ASSERT_NO_FATAL_FAILURE(look());
		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.trim_delta(c, 1234); }));
		ASSERT_NO_FATAL_FAILURE(look());
		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.drop_segment(c, 1); }));
		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.drop_segment(c, 77); }));
		ASSERT_NO_FATAL_FAILURE(look());
		ASSERT_NO_FATAL_FAILURE(
			both.change([&](Engine &e, CopyId c) { return e.trim_delta(c, 5000); })); // beyond the end
		ASSERT_NO_FATAL_FAILURE(
			both.change([&](Engine &e, CopyId c) { return e.append_delta(c, 5000, rows.block(0, 40)); }));
		ASSERT_NO_FATAL_FAILURE(look());
	}
}

TEST(Changes, AllRowsDead)
{
	std::mt19937 rng(2);
	Rows rows({Metric::kL2, ElementType::kFloat32, 8}), queries(rows.spec);
	Both both(rows.spec);

	rows.add_random(20000, Data::kGaussian, rng, 0);
	queries.add_random(8, Data::kGaussian, rng, 0);
	ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, rows.n()));

	std::vector<uint8_t> dead(2500, 0xFF);

	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
	for (size_t k : {10, 5000})
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 8, k));
	dead[100] = 0; // 8 of them live
	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
	for (size_t k : {3, 10, 5000})
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries, 8, k));
}

TEST(Changes, RowsAreReadBackUnchanged)
{
	for (unsigned most : {0u, 255u, 2000u})
	{
		std::mt19937 rng(most);
		Rows rows({Metric::kL2, ElementType::kFloat32, 37});
		CopyId copy = 0;
		CudaEngine *engine = cuda_engine();

		if (most == 0)
			rows.add_random(3000, Data::kExtremes, rng, 9);
		else
			add_whole_numbers(&rows, 3000, most, rng, 9);
		ASSERT_OK(engine->create(rows.spec, &copy));
		ASSERT_OK(engine->load_segment(copy, 1, rows.block(0, 1000)));
		ASSERT_OK(engine->load_segment(copy, 1, rows.block(1000, 1000)));
		ASSERT_OK(engine->append_delta(copy, 0, rows.block(2000, 1000)));
		for (bool sealed : {false, true})
		{
			std::vector<RowId> ids(3000);
			std::vector<uint8_t> vectors(rows.vectors.size());

			if (sealed)
				ASSERT_OK(engine->seal_segment(copy, 1));
			ASSERT_OK(engine->read_rows(copy, 1, 0, 700, ids.data(), vectors.data()));
			ASSERT_OK(engine->read_rows(copy, 1, 700, 1300, ids.data() + 700, vectors.data() + 700 * rows.row_bytes));
			ASSERT_OK(engine->read_rows(copy, 0, 0, 1000, ids.data() + 2000, vectors.data() + 2000 * rows.row_bytes));
			EXPECT_EQ(ids, rows.ids);
			EXPECT_EQ(vectors, rows.vectors);
			EXPECT_EQ(
				engine->read_rows(copy, 1, 1999, 2, ids.data(), vectors.data()).code, StatusCode::kInvalidArgument);
			EXPECT_EQ(engine->read_rows(copy, 5, 0, 1, ids.data(), vectors.data()).code, StatusCode::kNotFound);
		}
		ASSERT_OK(engine->drop(copy));
		EXPECT_EQ(engine->drop(copy).code, StatusCode::kNotFound);
	}
}

TEST(Changes, ContinuingAfterTheLastWalksAllRowsInOrder)
{
	std::mt19937 rng(4);
	Rows rows({Metric::kL2, ElementType::kFloat32, 4}), queries(rows.spec);
	Both both(rows.spec);

	add_whole_numbers(&rows, 18000, 3, rng, 50); // 256 different vectors
	add_whole_numbers(&queries, 3, 3, rng, 0);
	ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, 17000));
	ASSERT_NO_FATAL_FAILURE(
		both.change([&](Engine &e, CopyId c) { return e.append_delta(c, 0, rows.block(17000, 1000)); }));

	const std::vector<Neighbor> all = rows.nearest(queries.vector(0), rows.n());

	for (size_t at : {0, 1, 9, 1000, 16999, 17998, 17999})
		for (size_t k : {1, 10, 2048, 3000, 20000})
		{
			const SearchQuery query = {queries.vector(0), k, true, all[at]};
			const SearchQuery fresh = {queries.vector(1), k, false, {}};

			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers({query}));
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers({fresh, query, fresh}));
		}
}

TEST(Changes, AnswersDoNotDependOnTheOtherQueriesOfABatch)
{
	std::mt19937 rng(8);
	Rows rows({Metric::kCosine, ElementType::kFloat32, 50}), queries(rows.spec);
	CudaEngine *engine = cuda_engine();
	CopyId copy = 0;
	std::vector<std::vector<Neighbor>> together;
	std::vector<SearchQuery> batch;

	rows.add_random(20000, Data::kGaussian, rng, 0);
	queries.add_random(40, Data::kGaussian, rng, 0);
	ASSERT_OK(engine->create(rows.spec, &copy));
	ASSERT_OK(engine->load_segment(copy, 1, rows.block()));
	ASSERT_OK(engine->seal_segment(copy, 1));
	for (size_t i = 0; i < 40; i++)
		batch.push_back({queries.vector(i), 1 + i * 7, false, {}});
	ASSERT_OK(engine->search(copy, batch, &together));
	for (size_t i = 0; i < 40; i++)
	{
		std::vector<std::vector<Neighbor>> alone;

		ASSERT_OK(engine->search(copy, {&batch[i], 1}, &alone));
		ASSERT_NO_FATAL_FAILURE(expect_same(alone[0], together[i]));
	}
	ASSERT_OK(engine->drop(copy));
}

TEST(Changes, TheFilterAnswersMostAndPassesOnFewRows)
{
	std::mt19937 rng(8);
	Rows rows({Metric::kL2, ElementType::kFloat32, 64}), queries(rows.spec);
	std::vector<SearchQuery> batch;

	rows.add_random(60000, Data::kGaussian, rng, 0);
	queries.add_random(64, Data::kGaussian, rng, 0);
	for (size_t i = 0; i < 64; i++)
		batch.push_back({queries.vector(i), 10, false, {}});
	for (const bool scaled : {false, true})
	{
		SCOPED_TRACE(scaled);

		CudaEngine *engine = rounded_engine(scaled);
		CopyId copy = 0;
		std::vector<std::vector<Neighbor>> results;

		ASSERT_OK(engine->create(rows.spec, &copy));
		ASSERT_OK(engine->load_segment(copy, 1, rows.block()));
		ASSERT_OK(engine->seal_segment(copy, 1));

		const uint64_t before = engine->stats().n_rescored;

		ASSERT_OK(engine->search(copy, batch, &results));

		const uint64_t rescored = engine->stats().n_rescored - before;

		EXPECT_GE(rescored, 64u * 10u);                  // the filter was used
		EXPECT_LE(rescored, 64u * (scaled ? 80u : 20u)); // and excludes rows as it should
		ASSERT_OK(engine->drop(copy));
	}
}

TEST(Changes, SearchesBesideWritersSeeAPrefixOfTheDelta)
{
	constexpr size_t kRows = 20000;
	CudaEngine *engine = cuda_engine();
	CopyId copy = 0;
	Rows rows({Metric::kL2, ElementType::kFloat32, 1});
	std::atomic<bool> done{false};
	std::atomic<int> failures{0};
	std::vector<std::thread> searchers;

	// Row i lies at i: the k nearest to -1 are rows 0 ... k - 1, or all.
	for (size_t i = 0; i < kRows; i++)
	{
		const float x = static_cast<float>(i);

		rows.add(i, reinterpret_cast<const uint8_t *>(&x));
	}
	ASSERT_OK(engine->create(rows.spec, &copy));
	for (int t = 0; t < 4; t++)
		searchers.emplace_back(
			[&]
			{
				const float origin = -1;
				size_t most = 0;

				while (!done)
				{
					std::vector<std::vector<Neighbor>> found;
					const SearchQuery query = {&origin, 2000, false, {}};

					if (!engine->search(copy, {&query, 1}, &found).is_ok() || found[0].size() < most)
					{
						failures++;
						break;
					}
					most = found[0].size();
					for (size_t i = 0; i < most; i++)
						failures += found[0][i].row != i;
				}
			});
	for (size_t first = 0; first < kRows; first += 100)
		if (!engine->append_delta(copy, first, rows.block(first, 100)).is_ok())
			failures++;
	done = true;
	for (std::thread &searcher : searchers)
		searcher.join();
	EXPECT_EQ(failures, 0);
	ASSERT_OK(engine->drop(copy));
}

TEST(Changes, AStoppedSearchReportsIt)
{
	std::mt19937 rng(1);
	Rows rows({Metric::kL2, ElementType::kFloat32, 8});
	CudaEngine *engine = cuda_engine();
	CopyId copy = 0;
	engine::SearchControl control;
	std::vector<std::vector<Neighbor>> found;

	rows.add_random(1000, Data::kGaussian, rng, 0);
	ASSERT_OK(engine->create(rows.spec, &copy));
	ASSERT_OK(engine->load_segment(copy, 1, rows.block()));
	ASSERT_OK(engine->seal_segment(copy, 1));

	const SearchQuery query = {rows.vector(0), 5, false, {}};

	ASSERT_OK(engine->search(copy, {&query, 1}, &found, &control));
	EXPECT_GT(control.progress.load(), 0u);
	control.stop = true;
	EXPECT_EQ(engine->search(copy, {&query, 1}, &found, &control).code, StatusCode::kCancelled);
	ASSERT_OK(engine->drop(copy));
}

TEST(Changes, ABudgetRefusesRowsAndTheCopyStaysUnchanged)
{
	CudaEngineOptions options;
	std::unique_ptr<CudaEngine> engine;
	CopyId copy = 0;
	std::mt19937 rng(1);
	Rows rows({Metric::kL2, ElementType::kFloat32, 256});
	std::vector<std::vector<Neighbor>> found;

	options.memory_bytes = size_t{80} << 20;
	options.workspace_bytes = size_t{256} << 20;
	options.self_test = false;
	ASSERT_OK(make_cuda_engine(options, &engine));
	rows.add_random(20000, Data::kGaussian, rng, 0);
	ASSERT_OK(engine->create(rows.spec, &copy));
	ASSERT_OK(engine->append_delta(copy, 0, rows.block(0, 10000)));

	const uint64_t held = engine->stats().resident_bytes;
	StatusCode code = StatusCode::kOk;

	for (int i = 0; i < 20 && code == StatusCode::kOk; i++)
		code = engine->load_segment(copy, static_cast<SegmentId>(i + 1), rows.block()).code;
	EXPECT_EQ(code, StatusCode::kOutOfMemory);
	EXPECT_LE(engine->stats().resident_bytes, options.memory_bytes);
	EXPECT_GE(engine->stats().resident_bytes, held);

	const SearchQuery query = {rows.vector(77), 1, false, {}};

	ASSERT_OK(engine->search(copy, {&query, 1}, &found));
	EXPECT_EQ(found[0][0].row, 77u);
	ASSERT_OK(engine->drop(copy));
	EXPECT_EQ(engine->stats().resident_bytes, 0u);
	EXPECT_FALSE(engine->fatal());
}

TEST(Changes, ADeviceNumberOutOfRangeIsRefused)
{
	CudaEngineOptions options;
	std::unique_ptr<CudaEngine> engine;

	options.device = 100;
	EXPECT_EQ(make_cuda_engine(options, &engine).code, StatusCode::kUnavailable);
}

} // namespace
} // namespace vectorgpu::cuda::test
