// Copies of kind kMatch in the CUDA engine: segments on the device, delta and tombstones, against the definition.
#include <gtest/gtest.h>

#include "cuda/cuda_engine.hpp"
#include "cuda/resident/match_index.hpp"
#include "cuda/selftest/self_test.hpp"
#include "match/copies.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using vectorgpu::test::match_spec;
using vectorgpu::test::MatchRows;
using vectorgpu::test::TextRows;

TEST(MatchCopy, EqualsTheDefinition)
{
	std::unique_ptr<CudaEngine> engine;
	CudaEngineOptions options;
	MatchRows rows(7, 70000, 400, 150);
	engine::CopyId copy = 0;

	options.self_test = false;
	ASSERT_TRUE(make_cuda_engine(options, &engine).is_ok());
	const uint64_t before = engine->stats().resident_bytes;

	ASSERT_TRUE(engine->create(match_spec(), &copy).is_ok());
	ASSERT_NO_FATAL_FAILURE(rows.load(engine.get(), copy));
	ASSERT_NO_FATAL_FAILURE(rows.expect_answers(engine.get(), copy));
	EXPECT_GT(engine->stats().resident_bytes, before);
	ASSERT_NO_FATAL_FAILURE(rows.kill(engine.get(), copy));
	ASSERT_NO_FATAL_FAILURE(rows.expect_answers(engine.get(), copy));
	ASSERT_TRUE(engine->drop(copy).is_ok());
	EXPECT_EQ(engine->stats().resident_bytes, before);
}

// On the device, all live texts count for each query; on the host, those that it compares. Sets are counted, not
// compared.
TEST(MatchCopy, ComparedTextsAreCounted)
{
	std::unique_ptr<CudaEngine> engine;
	CudaEngineOptions options;

	options.self_test = false;
	ASSERT_TRUE(make_cuda_engine(options, &engine).is_ok());
	for (const Metric metric : {Metric::kMatchCount, Metric::kEdit})
	{
		MatchRows sets(9, 30000, 400, 150);
		TextRows texts(9, 30000, 400, 150);
		MatchRows *rows = metric == Metric::kEdit ? &texts : &sets;
		const uint64_t before = engine->n_rescored();
		engine::CopyId copy = 0;

		ASSERT_TRUE(engine->create(match_spec(metric), &copy).is_ok());
		ASSERT_NO_FATAL_FAILURE(rows->load(engine.get(), copy));
		ASSERT_NO_FATAL_FAILURE(rows->kill(engine.get(), copy));

		const uint64_t n_live = static_cast<uint64_t>(std::count(rows->dead.begin(), rows->dead.end() - 150, false));
		std::string stored;

		for (const size_t n : {size_t{5}, size_t{80}}) // compared by the device, by the host
		{
			std::vector<std::vector<engine::Neighbor>> results;
			engine::SearchQuery query;
			const uint64_t before_query = engine->n_rescored();

			stored = metric == Metric::kEdit ? vectorgpu::test::stored_text_query(vectorgpu::test::Text(n, 'a'), 3)
											 : vectorgpu::test::stored_query({{"A", "B"}});
			query.query = stored.data();
			query.query_bytes = stored.size();
			query.k = n == 5 ? 1 : 40000;
			ASSERT_TRUE(engine->search(copy, {&query, 1}, &results, nullptr).is_ok());
			EXPECT_EQ(engine->n_rescored() - before_query, metric == Metric::kEdit ? n_live : 0) << n;
		}
		EXPECT_EQ(engine->n_rescored() > before, metric == Metric::kEdit);
		ASSERT_TRUE(engine->drop(copy).is_ok());
	}
}

// Lists and texts larger than the budget: the lists come in parts for large batches, or the host counts and compares.
// The budget holds, and answers are the same.
TEST(MatchCopy, LargerThanTheBudget)
{
	for (const Metric metric : {Metric::kMatchCount, Metric::kEdit})
	{
		std::unique_ptr<CudaEngine> engine;
		CudaEngineOptions options;
		MatchRows sets(9, 150000, 20000, 150);
		TextRows texts(9, 40000, 400, 150);
		MatchRows *rows = metric == Metric::kEdit ? &texts : &sets;
		engine::CopyId copy = 0;

		options.self_test = false;
		options.memory_bytes = metric == Metric::kEdit ? 300000 : 700000;
		ASSERT_TRUE(make_cuda_engine(options, &engine).is_ok());
		const uint64_t before = engine->stats().resident_bytes;

		ASSERT_TRUE(engine->create(match_spec(metric), &copy).is_ok());
		ASSERT_NO_FATAL_FAILURE(rows->load(engine.get(), copy));
		EXPECT_LE(engine->stats().resident_bytes, options.memory_bytes);
		EXPECT_GT(engine->stats().resident_bytes, before);
		ASSERT_NO_FATAL_FAILURE(rows->expect_answers(engine.get(), copy)); // all rows for some queries: by the host
		ASSERT_NO_FATAL_FAILURE(rows->kill(engine.get(), copy));
		ASSERT_NO_FATAL_FAILURE(rows->expect_answers(engine.get(), copy, 50)); // the parts of the lists are sent
		ASSERT_NO_FATAL_FAILURE(rows->expect_answers(engine.get(), copy));
		ASSERT_TRUE(engine->drop(copy).is_ok());
		EXPECT_EQ(engine->stats().resident_bytes, before);
	}
}

// More rows than a tile of marks of 8 bits (no long text), of 16 bits, and more different characters than the device
// takes; queries on both sides of the words of 32 and 64 bits, and longer ones, which the host answers.
TEST(MatchCopy, EditDistancesEqualTheDefinition)
{
	struct
	{
		size_t n_rows;
		uint32_t alphabet;
		size_t long_size;
	} const cases[] = {
		{70000, 5, 40}, {70000, 4, 300}, {1, 5, 14}, {31, 5, 14}, {33, 5, 14}, {3000, 400, 300}, {3000, 200, 14}};

	for (const auto &one : cases)
	{
		std::unique_ptr<CudaEngine> engine;
		CudaEngineOptions options;
		TextRows rows(8, one.n_rows, 400, 150, one.alphabet, one.long_size);
		engine::CopyId copy = 0;

		SCOPED_TRACE(
			testing::Message() << one.n_rows << " rows, " << one.alphabet << " characters, up to " << one.long_size);
		options.self_test = false;
		ASSERT_TRUE(make_cuda_engine(options, &engine).is_ok());
		ASSERT_TRUE(engine->create(match_spec(Metric::kEdit), &copy).is_ok());

		const uint64_t before = engine->stats().resident_bytes;

		ASSERT_NO_FATAL_FAILURE(rows.load(engine.get(), copy));
		// The device has the texts, or nothing if they have too many different characters.
		if (one.alphabet < 254)
			EXPECT_GT(engine->stats().resident_bytes, before + one.n_rows * 8);
		else
			EXPECT_EQ(engine->stats().resident_bytes, before);
		ASSERT_NO_FATAL_FAILURE(rows.expect_answers(engine.get(), copy));
		ASSERT_NO_FATAL_FAILURE(rows.kill(engine.get(), copy));
		ASSERT_NO_FATAL_FAILURE(rows.expect_answers(engine.get(), copy));
		ASSERT_TRUE(engine->drop(copy).is_ok());
	}
}

// The same for texts, with marks of 8 and of 16 bits, without dead rows: the first rows are those of the definition,
// however many launches there are.
TEST(MatchCopy, LaunchesOfTextsAreShort)
{
	for (const size_t long_size : {size_t{30}, size_t{300}})
	{
		vectorgpu::test::RandomTexts texts(9, false);
		std::vector<vectorgpu::test::Text> rows(150000);
		std::vector<vectorgpu::test::Set> no_grams(rows.size());
		std::vector<RowId> ids(rows.size());
		engine::match::MatchIndex on_host;
		DeviceMatchIndex index;
		Device device;
		Stream stream;
		DeviceBuffer memory;
		MatchWorkspace workspace(&stream, &memory);
		std::vector<std::vector<uint8_t>> symbols;
		std::vector<MatchRequest> requests;
		std::vector<std::vector<MatchFound>> expected(12), found;

		for (size_t i = 0; i < rows.size(); i++)
		{
			rows[i] = texts.next(i % 1000 == 0 ? long_size : 14);
			ids[i] = i;
		}
		ASSERT_TRUE(
			on_host.open(vectorgpu::test::description_of(no_grams, vectorgpu::test::described_texts(rows)), ids, true));
		ASSERT_TRUE(Device::open(0, nullptr, &device).is_ok());
		ASSERT_TRUE(index.load_texts(&device, on_host).is_ok());
		ASSERT_TRUE(stream.create(&device).is_ok());
		ASSERT_TRUE(memory.allocate(&device, uint64_t{1} << 30, "test").is_ok());
		for (size_t i = 0; i < expected.size(); i++)
		{
			const vectorgpu::test::Text &text = rows[i * 777 + 1];

			for (uint32_t row = 0; row < rows.size(); row++)
				expected[i].push_back({index.texts().most_distance() -
						static_cast<uint32_t>(vectorgpu::test::true_distance(text, rows[row])),
					row});
			std::sort(expected[i].begin(), expected[i].end(), [](const MatchFound &a, const MatchFound &b)
				{ return a.count != b.count ? a.count > b.count : a.row < b.row; });
			expected[i].resize(i == 0 ? 1 : 50);
			symbols.push_back(index.texts().symbols_of(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
		}
		for (size_t i = 0; i < expected.size(); i++)
			requests.push_back({{}, index.texts().most_distance(), expected[i].size(), false, 0, 0, symbols[i]});
		for (const uint64_t most_work : {uint64_t{1}, uint64_t{3000000}, uint64_t{12000000}, uint64_t{1} << 40})
		{
			index.limit_launches(most_work);
			ASSERT_TRUE(index.search(requests, &workspace, &found).is_ok());
			for (size_t i = 0; i < requests.size(); i++)
			{
				ASSERT_EQ(found[i].size(), expected[i].size());
				for (size_t j = 0; j < found[i].size(); j++)
				{
					ASSERT_EQ(found[i][j].row, expected[i][j].row) << "query " << i << " place " << j;
					ASSERT_EQ(found[i][j].count, expected[i][j].count) << "query " << i << " place " << j;
				}
			}
		}
		for (const bool stopped : {false, true})
		{
			engine::SearchControl control;

			control.stop = stopped;
			index.limit_launches(1);
			EXPECT_EQ(index.search(requests, &workspace, &found, &control).code,
				stopped ? StatusCode::kCancelled : StatusCode::kOk);
			EXPECT_EQ(control.progress.load(), stopped ? 1u : index.texts().n_tiles() * requests.size() - 1);
		}
	}
}

// The self-test itself, and that it accepts the device's counts and distances.
TEST(MatchCopy, TheSelfTestPasses)
{
	std::unique_ptr<CudaEngine> engine;
	CudaEngineOptions options;

	options.self_test = false;
	ASSERT_TRUE(make_cuda_engine(options, &engine).is_ok());

	uint64_t n_searches = 0;
	const Status status = self_test_matches(engine.get(), &n_searches);

	EXPECT_TRUE(status.is_ok()) << status.message;
	EXPECT_GT(n_searches, 0u);
	EXPECT_EQ(engine->n_matched(), n_searches);
}

std::unique_ptr<MatchRows>
rows_of(Metric metric, size_t n_first, size_t n_second)
{
	if (metric == Metric::kEdit)
		return std::make_unique<TextRows>(11, n_first, n_second, 60, 5, 40);
	return std::make_unique<MatchRows>(11, n_first, n_second, 60);
}

// A detached copy answers from host memory and has nothing on the device. Attached, the device answers again, without
// the rows that died meanwhile.
TEST(MatchCopy, TheDevicesPartComesAndGoes)
{
	for (const Metric metric : {Metric::kMatchCount, Metric::kEdit})
	{
		const std::unique_ptr<MatchRows> rows = rows_of(metric, 20000, 400);
		std::unique_ptr<CudaEngine> engine;
		CudaEngineOptions options;
		engine::CopyId copy = 0;

		options.self_test = false;
		ASSERT_TRUE(make_cuda_engine(options, &engine).is_ok());
		EXPECT_TRUE(engine->keeps_on_host(engine::CopyKind::kMatch));

		const uint64_t before = engine->stats().resident_bytes;

		ASSERT_TRUE(engine->create(match_spec(metric), &copy).is_ok());
		ASSERT_NO_FATAL_FAILURE(rows->load(engine.get(), copy));

		const uint64_t attached = engine->stats().resident_bytes;

		EXPECT_GT(attached, before);
		ASSERT_NO_FATAL_FAILURE(rows->expect_answers(engine.get(), copy));

		const uint64_t n_matched = engine->n_matched();

		EXPECT_GT(n_matched, 0u);
		ASSERT_TRUE(engine->detach(copy).is_ok());
		EXPECT_EQ(engine->stats().resident_bytes, before);
		ASSERT_NO_FATAL_FAILURE(rows->expect_answers(engine.get(), copy));
		ASSERT_NO_FATAL_FAILURE(rows->kill(engine.get(), copy));
		ASSERT_NO_FATAL_FAILURE(rows->expect_answers(engine.get(), copy));
		EXPECT_EQ(engine->n_matched(), n_matched); // by the host
		ASSERT_TRUE(engine->attach(copy).is_ok());
		ASSERT_TRUE(engine->attach(copy).is_ok()); // there is nothing more to upload
		EXPECT_EQ(engine->stats().resident_bytes, attached);
		ASSERT_NO_FATAL_FAILURE(rows->expect_answers(engine.get(), copy));
		EXPECT_GT(engine->n_matched(), n_matched);
		ASSERT_TRUE(engine->drop(copy).is_ok());
		EXPECT_EQ(engine->stats().resident_bytes, before);
		EXPECT_EQ(engine->attach(copy).code, StatusCode::kNotFound);
		EXPECT_EQ(engine->detach(copy).code, StatusCode::kNotFound);
	}
}

// A copy that fits, but not beside another one: sealing succeeds, and the host answers until the other one is dropped.
TEST(MatchCopy, WithoutRoomOnTheDeviceTheHostAnswers)
{
	for (const Metric metric : {Metric::kMatchCount, Metric::kEdit})
	{
		const std::unique_ptr<MatchRows> rows = rows_of(metric, 20000, 400);
		std::unique_ptr<CudaEngine> engine;
		CudaEngineOptions options;
		engine::CopyId first = 0;
		engine::CopyId second = 0;
		uint64_t one = 0; // copy's bytes

		options.self_test = false;
		for (const bool limited : {false, true})
		{
			options.memory_bytes = limited ? one * 3 / 2 : 0;
			engine = nullptr;
			ASSERT_TRUE(make_cuda_engine(options, &engine).is_ok());
			ASSERT_TRUE(engine->create(match_spec(metric), &first).is_ok());
			ASSERT_NO_FATAL_FAILURE(rows->load(engine.get(), first));
			one = engine->stats().resident_bytes;
		}
		ASSERT_TRUE(engine->create(match_spec(metric), &second).is_ok());
		ASSERT_NO_FATAL_FAILURE(rows->load(engine.get(), second));
		EXPECT_LE(engine->stats().resident_bytes, options.memory_bytes);
		ASSERT_NO_FATAL_FAILURE(rows->expect_answers(engine.get(), second));
		EXPECT_EQ(engine->attach(second).code, StatusCode::kOutOfMemory);
		ASSERT_NO_FATAL_FAILURE(rows->expect_answers(engine.get(), second));
		ASSERT_TRUE(engine->detach(first).is_ok());
		ASSERT_TRUE(engine->attach(second).is_ok());
		EXPECT_EQ(engine->stats().resident_bytes, one);
		for (const engine::CopyId copy : {first, second})
			ASSERT_NO_FATAL_FAILURE(rows->expect_answers(engine.get(), copy));
	}
}

// A segment without rows, beside others or alone, and its dead rows: no effect.
TEST(MatchCopy, SegmentsWithoutRows)
{
	for (const Metric metric : {Metric::kMatchCount, Metric::kEdit})
		for (const auto &[n_first, n_second] : {std::pair<size_t, size_t>{3000, 0}, {0, 3000}, {0, 0}})
		{
			const std::unique_ptr<MatchRows> rows = rows_of(metric, n_first, n_second);
			std::unique_ptr<CudaEngine> engine;
			CudaEngineOptions options;
			engine::CopyId copy = 0;

			SCOPED_TRACE(testing::Message() << n_first << " and " << n_second << " rows");
			options.self_test = false;
			ASSERT_TRUE(make_cuda_engine(options, &engine).is_ok());
			ASSERT_TRUE(engine->create(match_spec(metric), &copy).is_ok());
			ASSERT_NO_FATAL_FAILURE(rows->load(engine.get(), copy));
			ASSERT_NO_FATAL_FAILURE(rows->expect_answers(engine.get(), copy));
			ASSERT_NO_FATAL_FAILURE(rows->kill(engine.get(), copy));
			ASSERT_NO_FATAL_FAILURE(rows->expect_answers(engine.get(), copy));
			ASSERT_TRUE(engine->detach(copy).is_ok());
			ASSERT_NO_FATAL_FAILURE(rows->expect_answers(engine.get(), copy));
			ASSERT_TRUE(engine->attach(copy).is_ok());
			ASSERT_NO_FATAL_FAILURE(rows->expect_answers(engine.get(), copy));
		}
}

// By the device or the host: a search that was stopped reports it, and does not count.
TEST(MatchCopy, StoppedSearchesAreCancelled)
{
	for (const Metric metric : {Metric::kMatchCount, Metric::kEdit})
	{
		vectorgpu::test::RandomTexts texts(4, false);
		const std::unique_ptr<MatchRows> rows = rows_of(metric, 20000, 400);
		const std::string asked = metric == Metric::kEdit ? vectorgpu::test::stored_text_query(texts.next(14), 3)
														  : vectorgpu::test::stored_query(rows->random_query());
		std::unique_ptr<CudaEngine> engine;
		CudaEngineOptions options;
		engine::CopyId copy = 0;

		options.self_test = false;
		ASSERT_TRUE(make_cuda_engine(options, &engine).is_ok());
		ASSERT_TRUE(engine->create(match_spec(metric), &copy).is_ok());
		ASSERT_NO_FATAL_FAILURE(rows->load(engine.get(), copy));
		for (const bool attached : {true, false})
		{
			std::vector<std::vector<engine::Neighbor>> results;
			engine::SearchControl control;
			engine::SearchQuery query;

			if (!attached)
			{
				ASSERT_TRUE(engine->detach(copy).is_ok());
			}
			query.query = asked.data();
			query.query_bytes = asked.size();
			query.k = 10;
			control.stop = true;
			EXPECT_EQ(engine->search(copy, {&query, 1}, &results, &control).code, StatusCode::kCancelled);
			EXPECT_EQ(engine->stats().n_searches, attached ? 0u : 1u);
			control.stop = false;
			EXPECT_TRUE(engine->search(copy, {&query, 1}, &results, &control).is_ok());
			EXPECT_EQ(results[0].size(), 10u);
		}
	}
}

} // namespace
} // namespace vectorgpu::cuda::test
