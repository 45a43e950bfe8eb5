// Copies of kind kMatch in the CPU engine: segments, delta and tombstones against the definition; requests are not
// trusted.
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "engine/cpu/cpu_engine.hpp"
#include "engine/cpu/cpu_engine_match.hpp"
#include "match/copies.hpp"

namespace vectorgpu::test
{
namespace
{

TEST(CpuEngineMatch, EqualsTheDefinition)
{
	for (const size_t n_threads : {size_t{1}, size_t{3}})
	{
		const auto engine = engine::make_cpu_engine({.n_threads = n_threads});
		MatchRows rows(7, 900, 400, 150);
		engine::CopyId copy = 0;

		ASSERT_TRUE(engine->create(match_spec(), &copy).is_ok());
		ASSERT_NO_FATAL_FAILURE(rows.load(engine.get(), copy));
		ASSERT_NO_FATAL_FAILURE(rows.expect_answers(engine.get(), copy));
		ASSERT_NO_FATAL_FAILURE(rows.kill(engine.get(), copy));
		ASSERT_NO_FATAL_FAILURE(rows.expect_answers(engine.get(), copy));
	}
}

TEST(CpuEngineMatch, EditDistancesEqualTheDefinition)
{
	for (const uint32_t n : {1u, 2u, 3u, 16u})
	{
		const auto engine = engine::make_cpu_engine({.n_threads = 1 + n % 3});
		TextRows rows(8 + n, 2900, 400, 150, 5, 300, n);
		engine::CopyId copy = 0;

		ASSERT_TRUE(engine->create(match_spec(Metric::kEdit), &copy).is_ok());
		ASSERT_NO_FATAL_FAILURE(rows.load(engine.get(), copy));
		ASSERT_NO_FATAL_FAILURE(rows.expect_answers(engine.get(), copy));
		ASSERT_NO_FATAL_FAILURE(rows.kill(engine.get(), copy));
		ASSERT_NO_FATAL_FAILURE(rows.expect_answers(engine.get(), copy));
	}
}

// Texts whose distances, and bounds of them, reach the 255 that a byte holds, of one character or of many.
TEST(CpuEngineMatch, EditDistancesOfLongTexts)
{
	for (const uint32_t alphabet : {1u, 20u})
	{
		const auto engine = engine::make_cpu_engine({.n_threads = 2});
		TextRows rows(20 + alphabet, 30, 10, 5, alphabet, 1500, 2, 700);
		engine::CopyId copy = 0;

		ASSERT_TRUE(engine->create(match_spec(Metric::kEdit), &copy).is_ok());
		ASSERT_NO_FATAL_FAILURE(rows.load(engine.get(), copy));
		ASSERT_NO_FATAL_FAILURE(rows.expect_answers(engine.get(), copy));
		ASSERT_NO_FATAL_FAILURE(rows.kill(engine.get(), copy));
		ASSERT_NO_FATAL_FAILURE(rows.expect_answers(engine.get(), copy));
	}
}

// A search reports progress and can be stopped, inside a segment and inside the delta, even inside one long text.
TEST(CpuEngineMatch, SearchesOfTextsCanBeStopped)
{
	const auto engine = engine::make_cpu_engine({});
	RandomTexts texts(30, false);
	std::vector<std::string> slots;
	engine::SearchQuery query;
	std::vector<std::vector<engine::Neighbor>> results;
	const auto text_of_size = [&](size_t size)
	{
		Text text(size);

		for (uint32_t &code : text)
			code = 'a' + texts.number(4);
		return text;
	};
	const std::string wanted = stored_text_query(text_of_size(2000), 3);

	query.query = wanted.data();
	query.query_bytes = wanted.size();
	query.k = 5;
	for (const bool in_delta : {false, true})
	{
		const std::vector<Text> rows = {text_of_size(150000), text_of_size(2000), text_of_size(100)};
		std::vector<RowId> ids = {16, 32, 48};
		engine::CopyId copy = 0;
		engine::SearchControl free, stopped;
		std::vector<uint8_t> bytes;

		ASSERT_TRUE(engine->create(match_spec(Metric::kEdit), &copy).is_ok());
		if (in_delta)
		{
			const std::string value = stored_text(rows[0], 3);
			const uint32_t length = static_cast<uint32_t>(value.size());

			bytes.resize((sizeof(length) + length + kSlotBytes - 1) / kSlotBytes * kSlotBytes);
			memcpy(bytes.data(), &length, sizeof(length));
			memcpy(bytes.data() + sizeof(length), value.data(), length);
			ids.resize(bytes.size() / kSlotBytes);
			ASSERT_TRUE(engine->append_delta(copy, 0, {ids, bytes.data(), ids.size()}).is_ok());
		}
		else
		{
			bytes = description_of(
				{grams_of(rows[0], 3), grams_of(rows[1], 3), grams_of(rows[2], 3)}, described_texts(rows));
			ASSERT_TRUE(engine->load_segment(copy, 1, {ids, nullptr, 3}).is_ok());
			ASSERT_TRUE(engine->load_structure(copy, 1, 1, bytes).is_ok());
			ASSERT_TRUE(engine->seal_segment(copy, 1).is_ok());
		}
		ASSERT_TRUE(engine->search(copy, {&query, 1}, &results, &free).is_ok());
		EXPECT_EQ(results[0].size(), in_delta ? 1u : 3u);
		EXPECT_GE(free.progress.load(), 32u); // a word of the query after the other against the long text
		stopped.stop = true;
		EXPECT_EQ(engine->search(copy, {&query, 1}, &results, &stopped).code, StatusCode::kCancelled);
		EXPECT_LT(stopped.progress.load(), 5u);
		ASSERT_TRUE(engine->drop(copy).is_ok());
	}
}

// More rows than a tile; later tiles are cut off by the results of the first ones.
TEST(CpuEngineMatch, EditDistancesOverTiles)
{
	const auto engine = engine::make_cpu_engine({.n_threads = 2});
	TextRows rows(12, engine::match::kTileRows + 5000, 10, 10);
	engine::CopyId copy = 0;

	ASSERT_TRUE(engine->create(match_spec(Metric::kEdit), &copy).is_ok());
	ASSERT_NO_FATAL_FAILURE(rows.load(engine.get(), copy));
	ASSERT_NO_FATAL_FAILURE(rows.expect_answers(engine.get(), copy));
}

// A segment needs a text for each row, a query needs a text.
TEST(CpuEngineMatch, EditDistancesNeedTexts)
{
	const auto engine = engine::make_cpu_engine({});
	const std::vector<Text> texts = {text_of("abc"), text_of("abcabc"), text_of("")};
	const std::vector<Set> rows = {grams_of(texts[0], 3), grams_of(texts[1], 3), {}};
	const std::vector<RowId> ids = {1, 2, 3};
	const std::vector<uint8_t> good = described_texts(texts);
	std::vector<std::pair<std::vector<uint8_t>, bool>> descriptions = {{good, true}, {{}, false}};
	std::vector<std::vector<engine::Neighbor>> results;
	std::string no_gram_length = stored_text_query(texts[0], 0);
	std::string cut_off = stored_text_query(texts[0], 3);

	cut_off.pop_back();
	for (size_t byte = 0; byte < good.size() - 9; byte++) // the last are characters
	{
		descriptions.emplace_back(good, false);
		descriptions.back().first[byte] ^= 0x40;
	}
	descriptions.emplace_back(good, false);
	descriptions.back().first.pop_back();
	descriptions.emplace_back(good, false);
	descriptions.back().first.push_back('a');
	for (const auto &[described, is_good] : descriptions)
	{
		engine::CopyId copy = 0;

		ASSERT_TRUE(engine->create(match_spec(Metric::kEdit), &copy).is_ok());
		ASSERT_TRUE(engine->load_segment(copy, 1, {ids, nullptr, 3}).is_ok());
		ASSERT_TRUE(engine->load_structure(copy, 1, 1, description_of(rows, described)).is_ok());
		EXPECT_EQ(engine->seal_segment(copy, 1).is_ok(), is_good);
		for (const auto &[query, query_is_good] :
			{std::pair(stored_query({{"a", "b"}}), false), std::pair(no_gram_length, false), std::pair(cut_off, false),
				std::pair(stored_text_query(texts[0], 17), false), std::pair(stored_text_query(texts[0], 3), true)})
		{
			engine::SearchQuery search;

			search.query = query.data();
			search.query_bytes = query.size();
			search.k = 5;
			EXPECT_EQ(engine->search(copy, {&search, 1}, &results).is_ok(), query_is_good);
		}
		ASSERT_TRUE(engine->drop(copy).is_ok());
	}
}

TEST(CpuEngineMatch, RequestsAreReadBack)
{
	const auto engine = engine::make_cpu_engine({});
	const std::vector<Set> rows = {{"a", "b"}, {"b"}, {}};
	const std::vector<RowId> ids = {1, 2, 3};
	const std::vector<uint8_t> description = description_of(rows);
	std::vector<uint8_t> read(description.size());
	std::vector<RowId> read_ids(2);
	engine::CopyId copy = 0;

	ASSERT_TRUE(engine->create(match_spec(), &copy).is_ok());
	ASSERT_TRUE(engine->load_segment(copy, 1, {ids, nullptr, 3}).is_ok());
	ASSERT_TRUE(engine->load_structure(copy, 1, 1, description).is_ok());
	for (int sealed = 0; sealed < 2; sealed++)
	{
		ASSERT_TRUE(engine->read_structure(copy, 1, 0, read.size(), read.data()).is_ok());
		EXPECT_EQ(read, description);
		EXPECT_EQ(engine->read_structure(copy, 1, 1, read.size(), read.data()).code, StatusCode::kInvalidArgument);
		ASSERT_TRUE(engine->read_rows(copy, 1, 1, 2, read_ids.data(), nullptr).is_ok());
		EXPECT_EQ(read_ids, (std::vector<RowId>{2, 3}));
		ASSERT_TRUE(engine->seal_segment(copy, 1).is_ok());
	}
}

// Texts that are compared with a query count as rescored rows: all live ones if all are wanted, few for the nearest
// one. Sets are counted, not compared.
TEST(CpuEngineMatch, ComparedTextsAreCounted)
{
	const auto engine = engine::make_cpu_engine({});

	for (const Metric metric : {Metric::kMatchCount, Metric::kEdit})
	{
		MatchRows sets(6, 3000, 400, 0);
		TextRows texts(6, 3000, 400, 0);
		MatchRows *rows = metric == Metric::kEdit ? &texts : &sets;
		engine::CopyId copy = 0;
		std::vector<std::vector<engine::Neighbor>> results;

		ASSERT_TRUE(engine->create(match_spec(metric), &copy).is_ok());
		ASSERT_NO_FATAL_FAILURE(rows->load(engine.get(), copy));
		ASSERT_NO_FATAL_FAILURE(rows->kill(engine.get(), copy));

		const uint64_t n_live = static_cast<uint64_t>(std::count(rows->dead.begin(), rows->dead.end(), false));
		const std::string stored =
			metric == Metric::kEdit ? stored_text_query(Text{'a', 'b', 'c', 'd', 'e'}, 3) : stored_query({{"A", "B"}});
		const auto compared = [&](size_t k)
		{
			const uint64_t before = engine->n_rescored();
			engine::SearchQuery query;

			query.query = stored.data();
			query.query_bytes = stored.size();
			query.k = k;
			EXPECT_TRUE(engine->search(copy, {&query, 1}, &results, nullptr).is_ok());
			return engine->n_rescored() - before;
		};

		if (metric == Metric::kMatchCount)
		{
			EXPECT_EQ(compared(10), 0u);
			continue;
		}
		EXPECT_EQ(compared(3400), n_live);
		EXPECT_GT(compared(1), 0u);
		EXPECT_LT(compared(1), n_live / 2);
	}
}

// Change every byte of a description: it is refused, or it is a valid one of other keys.
TEST(CpuEngineMatch, BadDescriptionsAreRefused)
{
	const auto engine = engine::make_cpu_engine({});
	const std::vector<Set> rows = {{"aa", "ab"}, {"ab", "c"}, {"aa"}};
	const std::vector<RowId> ids = {1, 2, 3};
	const std::vector<uint8_t> good = description_of(rows);
	const std::string query = stored_query({{"a", "b"}});
	size_t n_refused = 0;

	for (size_t byte = 0; byte <= good.size(); byte++)
		for (const int change : {1, 0x80})
		{
			std::vector<uint8_t> bad = good;
			engine::CopyId copy = 0;
			engine::SearchQuery search;
			std::vector<std::vector<engine::Neighbor>> results;

			if (byte < good.size())
				bad[byte] = static_cast<uint8_t>(bad[byte] ^ change);
			else
				bad.pop_back();
			ASSERT_TRUE(engine->create(match_spec(), &copy).is_ok());
			ASSERT_TRUE(engine->load_segment(copy, 1, {ids, nullptr, 3}).is_ok());

			const bool loaded = engine->load_structure(copy, 1, 1, bad).is_ok();
			const bool sealed = engine->seal_segment(copy, 1).is_ok();

			n_refused += !loaded || !sealed;
			search.query = query.data();
			search.query_bytes = query.size();
			search.k = 5;
			ASSERT_TRUE(engine->search(copy, {&search, 1}, &results).is_ok());
			EXPECT_EQ(results[0].size(), sealed ? 3u : 0u);
			ASSERT_TRUE(engine->drop(copy).is_ok());
		}
	EXPECT_GT(n_refused, 2 * (good.size() - 6)); // all but changed keys that still ascend
}

TEST(CpuEngineMatch, BadQueriesSlotsAndShapesAreRefused)
{
	const auto engine = engine::make_cpu_engine({});
	const std::string query = stored_query({{"a", "b"}});
	const std::vector<RowId> ids = {1, 2, 3, 4};
	std::vector<uint8_t> slots(4 * kSlotBytes, 0xFF); // lengths beyond the delta
	std::vector<std::vector<engine::Neighbor>> results;
	engine::SearchQuery search;
	engine::CopyId copy = 0;

	EXPECT_EQ(engine->create({{Metric::kL2, ElementType::kSet, 64}, engine::CopyKind::kMatch}, &copy).code,
		StatusCode::kUnsupported);
	EXPECT_EQ(engine->create({{Metric::kMatchCount, ElementType::kSet, 64}, engine::CopyKind::kRows}, &copy).code,
		StatusCode::kUnsupported);
	EXPECT_EQ(engine->create({{Metric::kMatchCount, ElementType::kSet, 3}, engine::CopyKind::kMatch}, &copy).code,
		StatusCode::kInvalidArgument);
	ASSERT_TRUE(engine->create(match_spec(), &copy).is_ok());
	memset(slots.data() + kSlotBytes, 0, kSlotBytes); // an empty value is invalid: it matches nothing
	ASSERT_TRUE(engine->append_delta(copy, 0, {ids, slots.data(), 4}).is_ok());
	search.query = query.data();
	search.k = 5;
	for (size_t n_bytes = 0; n_bytes < query.size(); n_bytes++)
	{
		search.query_bytes = n_bytes;
		EXPECT_EQ(engine->search(copy, {&search, 1}, &results).code, StatusCode::kInvalidArgument) << n_bytes;
	}
	search.query_bytes = query.size();
	ASSERT_TRUE(engine->search(copy, {&search, 1}, &results).is_ok());
	ASSERT_EQ(results[0].size(), 1u);
	EXPECT_EQ(results[0][0].row, 2u);
	EXPECT_EQ(results[0][0].score, 0);
	EXPECT_EQ(engine->load_segment(copy, 1, {std::vector<RowId>{3, 2}, nullptr, 2}).code, StatusCode::kOk);
	EXPECT_EQ(engine->seal_segment(copy, 1).code, StatusCode::kInvalidArgument); // no description, ids do not ascend
}

/// Slots that are all alive, and each of which claims that its value reaches the end of the delta.
TEST(CpuEngineMatch, EachSlotOfTheDeltaIsReadOnce)
{
	constexpr uint32_t kSlots = 100000;
	const auto engine = engine::make_cpu_engine({});
	const std::string query = stored_query({{"a", "b"}});
	std::vector<RowId> ids(kSlots);
	std::vector<uint8_t> slots(size_t{kSlots} * kSlotBytes);
	std::vector<std::vector<engine::Neighbor>> results;
	engine::SearchQuery search;
	engine::SearchControl control;
	engine::CopyId copy = 0;

	for (uint32_t i = 0; i < kSlots; i++)
	{
		const uint32_t length = (kSlots - i) * kSlotBytes - sizeof(length);

		ids[i] = i + 1;
		memcpy(slots.data() + size_t{i} * kSlotBytes, &length, sizeof(length));
	}
	ASSERT_TRUE(engine->create(match_spec(), &copy).is_ok());
	ASSERT_TRUE(engine->append_delta(copy, 0, {ids, slots.data(), kSlots}).is_ok());
	search.query = query.data();
	search.query_bytes = query.size();
	search.k = kSlots;
	ASSERT_TRUE(engine->search(copy, {&search, 1}, &results, &control).is_ok());
	ASSERT_EQ(results[0].size(), 1u);
	EXPECT_EQ(results[0][0].row, 1u);
}

TEST(CpuEngineMatch, TheDeltaMovesAndStops)
{
	constexpr size_t kRows = 20000;
	engine::MatchCopy copy(match_spec());
	const std::string query = stored_query({{"a", "b"}});
	const std::vector<uint8_t> slots(kRows * kSlotBytes, 0); // values of no bytes
	std::vector<RowId> ids;
	std::vector<engine::Neighbor> buffer(engine::topk_buffer_bytes(1) / sizeof(engine::Neighbor));
	engine::SearchQuery search;
	engine::SearchControl control;
	engine::TopK topk;

	for (RowId i = 0; i < kRows; i++)
		ids.push_back(i + 1);
	ASSERT_TRUE(copy.append_delta(0, {ids, slots.data(), kRows}).is_ok());
	search.query = query.data();
	search.query_bytes = query.size();
	search.k = 1;
	engine::topk_init(&topk, 1, buffer.data(), buffer.size(), nullptr);
	EXPECT_TRUE(engine::offer_match_delta(copy.spec(), copy.snapshot()->delta, search, &topk, &control));
	EXPECT_GE(control.progress, kRows / 1024);
	EXPECT_EQ(engine::topk_finish(&topk), 1u);
	control.stop = true;
	engine::topk_init(&topk, 1, buffer.data(), buffer.size(), nullptr);
	EXPECT_FALSE(engine::offer_match_delta(copy.spec(), copy.snapshot()->delta, search, &topk, &control));
	EXPECT_EQ(engine::topk_finish(&topk), 0u);
}

TEST(CpuEngineMatch, SearchesDoNotWaitForASeal)
{
	std::promise<void> begun, may_go_on;
	std::future<void> go_on = may_go_on.get_future();
	engine::MatchCopy copy(match_spec(),
		[&](engine::SegmentId, const auto &)
		{
			begun.set_value();
			go_on.wait();
			return Status::ok();
		});
	const std::vector<RowId> ids = {1, 2};
	const std::vector<uint8_t> slots(2 * kSlotBytes, 0);
	Status status;

	ASSERT_TRUE(copy.load_segment(1, {ids, nullptr, 2}).is_ok());
	ASSERT_TRUE(copy.load_structure(1, 1, description_of({{"a"}, {"b"}})).is_ok());

	std::thread sealing([&] { EXPECT_TRUE(copy.seal_segment(1).is_ok()); });

	begun.get_future().wait();
	EXPECT_EQ(copy.snapshot()->n_rows, 0u);
	EXPECT_FALSE(copy.try_append_delta(0, {ids, slots.data(), 2}, &status));
	may_go_on.set_value();
	sealing.join();
	EXPECT_EQ(copy.snapshot()->n_rows, 2u);
	EXPECT_TRUE(copy.try_append_delta(0, {ids, slots.data(), 2}, &status));
	EXPECT_TRUE(status.is_ok());
	EXPECT_EQ(copy.snapshot()->n_rows, 4u);
}

} // namespace
} // namespace vectorgpu::test
