// Changes of copies in the CPU engine: segments, delta, tombstones, bad requests, writers beside searches.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/held_rows.hpp"

namespace vectorgpu::engine
{
namespace
{

using namespace test;

TEST(CpuEngineCopy, SearchesOnlySealedSegmentsAndForgetsDroppedOnes)
{
	std::mt19937 rng(3);
	Rows rows({Metric::kL2, ElementType::kFloat32, 5}), second(rows.spec), both(rows.spec), queries(rows.spec);

	rows.add_random(300, Data::kGaussian, rng, 0);
	second.add_random(200, Data::kGaussian, rng, 1000);
	queries.add_random(1, Data::kGaussian, rng, 0);
	both = rows;
	for (size_t i = 0; i < second.n(); i++)
		both.add(second.ids[i], second.vector(i));

	const Loaded loaded = load(rows);

	ASSERT_OK(loaded.engine->load_segment(loaded.copy, 2, second.block(0, 50)));
	ASSERT_OK(loaded.engine->load_segment(loaded.copy, 2, second.block(50, 150)));
	ASSERT_NO_FATAL_FAILURE(expect_exact(loaded, rows, queries, 1000, 1));
	ASSERT_OK(loaded.engine->seal_segment(loaded.copy, 2));
	ASSERT_NO_FATAL_FAILURE(expect_exact(loaded, both, queries, 1000, 1));
	EXPECT_EQ(loaded.engine->load_segment(loaded.copy, 2, second.block()).code, StatusCode::kInvalidArgument);
	ASSERT_OK(loaded.engine->drop_segment(loaded.copy, 1));
	ASSERT_NO_FATAL_FAILURE(expect_exact(loaded, second, queries, 1000, 1));
	EXPECT_EQ(loaded.engine->drop_segment(loaded.copy, 1).code, StatusCode::kNotFound);
}

TEST(CpuEngineCopy, DeltaTakesRowsOnceInAnyOverlapAndRefusesGaps)
{
	std::mt19937 rng(3);
	Rows delta({Metric::kL2, ElementType::kFloat32, 300}), queries(delta.spec); // several chunks

	delta.add_random(3000, Data::kGaussian, rng, 0);
	queries.add_random(1, Data::kGaussian, rng, 0);

	const Loaded loaded = load(Rows(delta.spec));
	Engine &engine = *loaded.engine;

	EXPECT_EQ(engine.append_delta(loaded.copy, 1, delta.block(1, 1)).code, StatusCode::kInvalidArgument);
	ASSERT_OK(engine.append_delta(loaded.copy, 0, delta.block(0, 10)));
	ASSERT_OK(engine.append_delta(loaded.copy, 0, delta.block(0, 10)));
	ASSERT_OK(engine.append_delta(loaded.copy, 5, delta.block(5, 100)));
	ASSERT_OK(engine.append_delta(loaded.copy, 20, delta.block(20, 30)));
	EXPECT_EQ(engine.append_delta(loaded.copy, 106, delta.block(106, 10)).code, StatusCode::kInvalidArgument);
	ASSERT_OK(engine.append_delta(loaded.copy, 105, delta.block(105, 2895)));
	ASSERT_NO_FATAL_FAILURE(expect_exact(loaded, delta, queries, 4000, 1));
}

TEST(CpuEngineCopy, TrimmedDeltaRowsAreGoneAndDoNotComeBack)
{
	std::mt19937 rng(3);
	Rows delta({Metric::kL2, ElementType::kFloat32, 300}), rest(delta.spec), queries(delta.spec);

	delta.add_random(3000, Data::kGaussian, rng, 0);
	queries.add_random(1, Data::kGaussian, rng, 0);

	const Loaded loaded = load(Rows(delta.spec));
	Engine &engine = *loaded.engine;

	ASSERT_OK(engine.append_delta(loaded.copy, 0, delta.block(0, 2500)));
	for (size_t position : {0, 1, 1000, 2499, 2400})
		ASSERT_OK(engine.trim_delta(loaded.copy, position));
	rest.add(delta.ids[2499], delta.vector(2499));
	ASSERT_NO_FATAL_FAILURE(expect_exact(loaded, rest, queries, 4000, 1));

	ASSERT_OK(engine.append_delta(loaded.copy, 2000, delta.block(2000, 510)));
	for (size_t i = 2500; i < 2510; i++)
		rest.add(delta.ids[i], delta.vector(i));
	ASSERT_NO_FATAL_FAILURE(expect_exact(loaded, rest, queries, 4000, 1));

	// A merge moved more rows than this copy ever held.
	ASSERT_OK(engine.trim_delta(loaded.copy, 2900));
	EXPECT_EQ(engine.append_delta(loaded.copy, 2901, delta.block(2901, 1)).code, StatusCode::kInvalidArgument);
	ASSERT_OK(engine.append_delta(loaded.copy, 2800, delta.block(2800, 200)));
	rest = Rows(delta.spec);
	for (size_t i = 2900; i < 3000; i++)
		rest.add(delta.ids[i], delta.vector(i));
	ASSERT_NO_FATAL_FAILURE(expect_exact(loaded, rest, queries, 4000, 1));
}

TEST(CpuEngineCopy, PassesOverTombstonesOfSegmentsAndDelta)
{
	std::mt19937 rng(12);
	Rows rows({Metric::kL2, ElementType::kFloat32, 300}), queries(rows.spec);
	const size_t n_segment = 2501, n_delta = 2000, dead_first = 7, n_dead_bits = 1600;

	rows.add_random(n_segment + n_delta, Data::kGaussian, rng, 0);
	queries.add_random(8, Data::kGaussian, rng, 0);

	Loaded loaded;

	loaded.engine = make_cpu_engine({});
	Engine &engine = *loaded.engine;

	ASSERT_OK(engine.create(rows.spec, &loaded.copy));
	ASSERT_OK(engine.load_segment(loaded.copy, 1, rows.block(0, n_segment)));
	EXPECT_EQ(engine.set_tombstones(loaded.copy, 1, Bytes(313)).code, StatusCode::kInvalidArgument);
	ASSERT_OK(engine.seal_segment(loaded.copy, 1));
	ASSERT_OK(engine.append_delta(loaded.copy, 0, rows.block(n_segment, n_delta)));

	Bytes segment_bits((n_segment + 7) / 8), delta_bits(n_dead_bits / 8);
	std::set<RowId> dead;

	for (uint8_t &byte : segment_bits)
		byte = static_cast<uint8_t>(rng());
	for (uint8_t &byte : delta_bits)
		byte = static_cast<uint8_t>(rng());
	for (size_t i = 0; i < n_segment; i++)
		if ((segment_bits[i / 8] >> (i % 8)) & 1)
			dead.insert(i);
	for (size_t i = 0; i < n_dead_bits; i++)
		if ((delta_bits[i / 8] >> (i % 8)) & 1)
			dead.insert(n_segment + dead_first + i);
	EXPECT_EQ(engine.set_tombstones(loaded.copy, 1, Bytes(312)).code, StatusCode::kInvalidArgument);
	EXPECT_EQ(engine.set_tombstones(loaded.copy, 9, segment_bits).code, StatusCode::kNotFound);
	ASSERT_OK(engine.set_tombstones(loaded.copy, 1, segment_bits));
	ASSERT_OK(engine.set_delta_tombstones(loaded.copy, dead_first, delta_bits));

	for (size_t batch : {1, 8})
		for (size_t k : {10, 5000})
		{
			std::vector<SearchQuery> requests;
			std::vector<std::vector<Neighbor>> results;

			for (size_t i = 0; i < batch; i++)
				requests.push_back({queries.vector(i), k, false, {}});
			ASSERT_OK(engine.search(loaded.copy, requests, &results));
			for (size_t i = 0; i < batch; i++)
				ASSERT_NO_FATAL_FAILURE(expect_same(results[i], rows.nearest(queries.vector(i), k, nullptr, dead)));
		}

	// The next bitmaps replace these.
	ASSERT_OK(engine.set_tombstones(loaded.copy, 1, Bytes((n_segment + 7) / 8)));
	ASSERT_OK(engine.set_delta_tombstones(loaded.copy, 0, {}));
	ASSERT_NO_FATAL_FAILURE(expect_exact(loaded, rows, queries, 5000, 8));
}

TEST(CpuEngineCopy, AnswersBadRequestsWithAStatus)
{
	const std::unique_ptr<Engine> engine = make_cpu_engine({});
	const float vector[2] = {1, 2};
	const RowId id = 1;
	CopyId copy = 0;
	std::vector<std::vector<Neighbor>> results;
	const std::vector<SearchQuery> none = {{nullptr, 1, false, {}}}, one = {{vector, 1, false, {}}};

	EXPECT_STREQ(engine->name(), "cpu");
	EXPECT_EQ(engine->create({Metric::kHamming, ElementType::kFloat32, 2}, &copy).code, StatusCode::kUnsupported);
	EXPECT_EQ(engine->create({Metric::kL2, ElementType::kFloat32, 0}, &copy).code, StatusCode::kInvalidArgument);
	EXPECT_EQ(engine->create({Metric::kL2, ElementType::kFloat32, 16001}, &copy).code, StatusCode::kInvalidArgument);
	EXPECT_EQ(engine->search(77, one, &results).code, StatusCode::kNotFound);
	EXPECT_EQ(engine->drop(77).code, StatusCode::kNotFound);
	ASSERT_OK(engine->create({Metric::kL2, ElementType::kFloat32, 2}, &copy));
	EXPECT_EQ(engine->search(copy, none, &results).code, StatusCode::kInvalidArgument);
	EXPECT_EQ(engine->seal_segment(copy, 3).code, StatusCode::kNotFound);
	EXPECT_EQ(engine->load_segment(copy, 3, {{&id, 1}, nullptr, 1}).code, StatusCode::kInvalidArgument);
	EXPECT_EQ(engine->load_segment(copy, 3, {{&id, 1}, vector, 2}).code, StatusCode::kInvalidArgument);
	EXPECT_EQ(engine->append_delta(copy, 0, {{&id, 1}, vector, 2}).code, StatusCode::kInvalidArgument);
	ASSERT_OK(engine->search(copy, one, &results));
	ASSERT_EQ(results.size(), 1u);
	EXPECT_TRUE(results[0].empty());
	ASSERT_OK(engine->search(copy, {}, &results));
	EXPECT_TRUE(results.empty());

	ASSERT_OK(engine->append_delta(copy, 0, {{&id, 1}, vector, 1}));
	EXPECT_EQ(engine->stats().n_copies, 1u);
	EXPECT_GE(engine->stats().resident_bytes, sizeof(vector) + sizeof(id));

	CopyId second = 0;

	ASSERT_OK(engine->drop(copy));
	EXPECT_EQ(engine->stats().resident_bytes, 0u);
	ASSERT_OK(engine->create({Metric::kL2, ElementType::kFloat32, 2}, &second));
	EXPECT_NE(copy, second);
}

TEST(CpuEngineCopy, SearchesBesideAppendsSeeAPrefixOfThem)
{
	// Row i is the point i on a line; the query is the origin. A search that sees the first n rows gives 0 .. k - 1 in
	// order, and how many it sees never falls.
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 4};
	Rows rows(spec);
	const size_t n_rows = 20000, n_step = 37;

	for (size_t i = 0; i < n_rows; i++)
	{
		const float vector[4] = {static_cast<float>(i + 1), 0, 0, 0};

		rows.add(i, reinterpret_cast<const uint8_t *>(vector));
	}

	const Loaded loaded = load(Rows(spec), {2, 8});
	std::atomic<bool> done{false};
	std::atomic<int> n_searches{0};
	std::vector<std::thread> threads;
	const float origin[4] = {};

	for (size_t batch : {1, 8})
		threads.emplace_back(
			[&, batch]
			{
				const std::vector<SearchQuery> requests(batch, {origin, n_rows, false, {}});
				std::vector<std::vector<Neighbor>> results;
				size_t seen = 0;

				while (!done)
				{
					ASSERT_OK(loaded.engine->search(loaded.copy, requests, &results));
					for (const std::vector<Neighbor> &result : results)
					{
						ASSERT_GE(result.size(), seen);
						ASSERT_EQ(result.size(), results[0].size());
						for (size_t i = 0; i < result.size(); i++)
							ASSERT_EQ(result[i].row, i);
					}
					seen = results[0].size();
					n_searches++;
				}
			});

	// Two senders of the same rows, as two backends that notice the same lag.
	for (int sender = 0; sender < 2; sender++)
		threads.emplace_back(
			[&]
			{
				for (size_t first = 0; first < n_rows; first += n_step)
				{
					const size_t n = std::min(n_step, n_rows - first);

					ASSERT_OK(loaded.engine->append_delta(loaded.copy, first, rows.block(first, n)));
					if (first % (n_step * 50) == 0)
						std::this_thread::sleep_for(std::chrono::milliseconds(1));
				}
			});
	for (size_t i = 2; i < threads.size(); i++)
		threads[i].join();
	while (n_searches < 4)
		std::this_thread::yield();
	done = true;
	threads[0].join();
	threads[1].join();

	std::vector<std::vector<Neighbor>> results;

	ASSERT_OK(loaded.engine->search(loaded.copy, {std::vector<SearchQuery>{{origin, n_rows, false, {}}}}, &results));
	EXPECT_EQ(results[0].size(), n_rows);
}

TEST(CpuEngineCopy, SearchesDoNotWaitForAWriterThatTakesLong)
{
	std::mt19937 rng(5);
	Rows rows({Metric::kL2, ElementType::kFloat32, 8});
	CpuCopy copy({rows.spec, CopyKind::kRows}, nullptr);
	Status status = Status::error(StatusCode::kInternal, "not tried");

	rows.add_random(30, Data::kGaussian, rng, 0);
	ASSERT_OK(copy.append_delta(0, rows.block(0, 10)));
	{
		auto writing = copy.hold_writers();
		auto search = std::async(std::launch::async, [&] { return copy.snapshot()->n_rows; });
		auto append =
			std::async(std::launch::async, [&] { return copy.try_append_delta(10, rows.block(10, 20), &status); });
		const bool has_snapshot = search.wait_for(std::chrono::minutes(1)) == std::future_status::ready;

		EXPECT_FALSE(append.get());
		writing.unlock();
		EXPECT_TRUE(has_snapshot);
		EXPECT_EQ(search.get(), 10u);
	}
	EXPECT_EQ(copy.snapshot()->n_rows, 10u);
	EXPECT_TRUE(copy.try_append_delta(10, rows.block(10, 20), &status));
	ASSERT_OK(status);
	EXPECT_EQ(copy.snapshot()->n_rows, 30u);
}

TEST(CpuEngineCopy, WritersOfAllKindsRunBesideSearches)
{
	std::mt19937 rng(5);
	Rows rows({Metric::kInnerProduct, ElementType::kFloat32, 8});

	rows.add_random(2000, Data::kGaussian, rng, 0);

	const Loaded loaded = load(rows, {2, 8});
	Engine &engine = *loaded.engine;
	std::atomic<bool> done{false};
	std::atomic<int> n_searches{0};
	std::thread searcher(
		[&]
		{
			const std::vector<SearchQuery> requests(8, {rows.vector(0), 50, false, {}});
			std::vector<std::vector<Neighbor>> results;

			while (!done)
			{
				ASSERT_OK(engine.search(loaded.copy, requests, &results));
				for (const std::vector<Neighbor> &result : results)
				{
					ASSERT_EQ(result.size(), 50u);
					ASSERT_TRUE(std::is_sorted(result.begin(), result.end(), neighbor_less));
				}
				ASSERT_GT(engine.stats().resident_bytes, 0u);
				n_searches++;
			}
		});

	for (uint32_t round = 0; round < 100 || (n_searches < 50 && round < 100000); round++)
	{
		const uint8_t dead = static_cast<uint8_t>(round % 255); // never all bits: an eighth of the rows stays alive
		CopyId other = 0;

		ASSERT_OK(engine.append_delta(loaded.copy, round * 20, rows.block(round % 100 * 20, 20)));
		ASSERT_OK(engine.load_segment(loaded.copy, 10 + round, rows.block(0, 500)));
		ASSERT_OK(engine.seal_segment(loaded.copy, 10 + round));
		ASSERT_OK(engine.set_tombstones(loaded.copy, 1, Bytes(250, dead)));
		ASSERT_OK(engine.set_delta_tombstones(loaded.copy, round * 20, Bytes(2, dead)));
		ASSERT_OK(engine.trim_delta(loaded.copy, round * 20));
		ASSERT_OK(engine.drop_segment(loaded.copy, 10 + round));
		ASSERT_OK(engine.create(rows.spec, &other));
		ASSERT_OK(engine.drop(other));
	}
	EXPECT_GE(n_searches, 50);
	done = true;
	searcher.join();
}

} // namespace
} // namespace vectorgpu::engine
