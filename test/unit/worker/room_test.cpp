// Copies and room: eviction, rounded rows, copies that go while they are searched, out of memory.
#include "worker/copies_fixture.hpp"
#include "worker/hook_engine.hpp"

namespace vectorgpu::worker_test
{
namespace
{

TEST_F(WorkerCopies, are_evicted_the_longest_unused_first)
{
	worker::Options options = options_for_test();

	options.memory_budget_bytes = 3 * worker::rows_bytes(100, 32) + 100;

	ThreadWorker served(options);
	Connection backend;
	std::vector<Table> tables;

	for (uint32_t i = 0; i < 5; i++)
		tables.emplace_back(100, 8, i, i);
	for (uint32_t i = 0; i < 3; i++)
		load(&backend.client, tables[i], 100);
	EXPECT_EQ(try_search(&backend.client, tables[0], {}), ReplyStatus::kOk);
	load(&backend.client, tables[3], 100); // the second table was unused longest
	EXPECT_EQ(try_search(&backend.client, tables[1], {}), ReplyStatus::kAbsent);
	for (const uint32_t i : {0, 2, 3})
		EXPECT_EQ(try_search(&backend.client, tables[i], {}), ReplyStatus::kOk) << i;
	EXPECT_EQ(stats(&backend.client).n_evictions, 1u);

	// More than the whole budget is refused, and no copy has to go for it.
	EXPECT_EQ(create(&backend.client, tables[4], options.memory_budget_bytes + 1).status(), ReplyStatus::kRefused);
	EXPECT_EQ(stats(&backend.client).n_copies, 3u);
	EXPECT_EQ(stats(&backend.client).n_refused, 1u);
	EXPECT_LE(stats(&backend.client).resident_bytes, options.memory_budget_bytes);
}

TEST_F(WorkerCopies, keep_rounded_rows_while_there_is_room)
{
	constexpr size_t kRounded = 64 + 12; // of a row of 64 dimensions
	worker::Options options = options_for_test();

	options.memory_budget_bytes = 2 * worker::rows_bytes(100, 256 + kRounded) + 100;

	ThreadWorker served(options);
	Connection backend;
	const Table table(100, 64, 1, 1);
	const Table other(100, 64, 2, 2);
	const Table large(170, 64, 3, 3);

	ASSERT_TRUE(create(&backend.client, table, worker::rows_bytes(100, 256)).ok());
	load(&backend.client, table, 100);
	EXPECT_EQ(info(&backend.client, table.key).resident_bytes, worker::rows_bytes(100, 256 + kRounded));
	EXPECT_EQ(try_search(&backend.client, table, {}), ReplyStatus::kOk);

	// Beside it there is no room for another such copy twice.
	ASSERT_TRUE(create(&backend.client, other, worker::rows_bytes(100, 256)).ok());
	load(&backend.client, other, 100);
	EXPECT_EQ(info(&backend.client, other.key).resident_bytes, worker::rows_bytes(100, 256));

	// Announced as empty, it is found to be too large with rounded rows, and is made anew without.
	ASSERT_TRUE(exchange(&backend.client, RequestType::kDrop, table.key, {}).ok());
	ASSERT_TRUE(exchange(&backend.client, RequestType::kDrop, other.key, {}).ok());
	ASSERT_TRUE(create(&backend.client, large).ok());
	ASSERT_TRUE(send_rows(&backend.client, large, 1, 0, 0, 100).ok());
	ASSERT_TRUE(send_rows(&backend.client, large, 2, 0, 100, 170).ok());
	EXPECT_EQ(send_rows(&backend.client, large, 3, 0, 100, 170).status(), ReplyStatus::kAbsent);
	ASSERT_TRUE(create(&backend.client, large, worker::rows_bytes(170, 256)).ok());
	ASSERT_TRUE(send_rows(&backend.client, large, 1, 0, 0, 170).ok());
	ASSERT_TRUE(seal(&backend.client, large, 1, 170).ok());
	ASSERT_TRUE(manifest(&backend.client, large, 1, {1}).ok());
	EXPECT_EQ(info(&backend.client, large.key).resident_bytes, worker::rows_bytes(170, 256));
	EXPECT_EQ(try_search(&backend.client, large, {}), ReplyStatus::kOk);
}

TEST_F(WorkerCopies, stay_while_they_are_searched)
{
	worker::Options options = options_for_test();
	auto made = std::make_unique<HookEngine>();
	HookEngine &engine = *made;

	options.memory_budget_bytes = worker::rows_bytes(100, 32) + 100;

	ThreadWorker served(options, std::move(made));
	Connection backend;
	Connection loader(Role::kLoader);
	const Table table(100, 8, 1, 1);
	const Table next(100, 8, 2, 2);

	load(&backend.client, table, 100);
	engine.set_gate(false);
	ASSERT_EQ(submit_search(&backend.client, table, table.query(5), 10), ClientResult::kOk);
	ASSERT_TRUE(wait_until([&] { return engine.waiting(); }));
	ASSERT_TRUE(create(&loader.client, next).ok()); // announces no bytes
	EXPECT_EQ(send_rows(&loader.client, next, 1, 0, 0, 100).status(), ReplyStatus::kRefused);
	engine.set_gate(true);
	ASSERT_EQ(wire::client_wait(&backend.client, kReplyTimeoutMs), ClientState::kReplied);

	Answer answer;

	answer.body.resize(65536);
	ASSERT_EQ(wire::client_take_reply(&backend.client, &answer.header, answer.body.data(), 65536), ClientResult::kOk);
	EXPECT_EQ(answer.header.n_items, 10u);
	ASSERT_TRUE(wait_until([&] { return send_rows(&loader.client, next, 1, 0, 0, 100).ok(); }));
	EXPECT_EQ(try_search(&backend.client, table, {}), ReplyStatus::kAbsent);
}

TEST_F(WorkerCopies, can_be_dropped_while_they_are_searched)
{
	auto made = std::make_unique<HookEngine>();
	HookEngine &engine = *made;
	ThreadWorker served(options_for_test(), std::move(made));
	Connection backend;
	Connection other;
	const Table table(100, 8, 1);

	load(&backend.client, table, 100);
	engine.set_gate(false);
	ASSERT_EQ(submit_search(&backend.client, table, table.query(5), 10), ClientResult::kOk);
	ASSERT_TRUE(wait_until([&] { return engine.waiting(); }));
	EXPECT_TRUE(exchange(&other.client, RequestType::kDrop, table.key, {}).ok());
	EXPECT_EQ(exchange(&other.client, RequestType::kDrop, table.key, {}).status(), ReplyStatus::kAbsent);
	EXPECT_EQ(try_search(&other.client, table, {}), ReplyStatus::kAbsent);
	EXPECT_EQ(engine.stats().n_copies, 1u);
	engine.set_gate(true);
	ASSERT_EQ(wire::client_wait(&backend.client, kReplyTimeoutMs), ClientState::kReplied);
	EXPECT_TRUE(wait_until([&] { return engine.stats().n_copies == 0; }));
}

TEST_F(WorkerCopies, survive_out_of_memory)
{
	auto made = std::make_unique<HookEngine>();
	HookEngine &engine = *made;
	ThreadWorker served(options_for_test(), std::move(made));
	Connection backend;
	const Table table(100, 8, 1);

	load(&backend.client, table, 100);
	engine.out_of_memory = true;
	EXPECT_EQ(try_search(&backend.client, table, {}), ReplyStatus::kOutOfMemory);
	EXPECT_EQ(send_rows(&backend.client, table, 0, 0, 0, 10).status(), ReplyStatus::kOutOfMemory);
	engine.out_of_memory = false;
	EXPECT_EQ(try_search(&backend.client, table, {}), ReplyStatus::kOk);
	EXPECT_EQ(try_search(&backend.client, table, {1, 1, 0}), ReplyStatus::kBehind);
	EXPECT_EQ(stats(&backend.client).n_out_of_memory, 2u);
	EXPECT_EQ(info(&backend.client, table.key).resident_bytes, worker::rows_bytes(100, 32));
}

} // namespace
} // namespace vectorgpu::worker_test
