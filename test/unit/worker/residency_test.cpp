// Copies over the wire: versions, appends, tombstones, leases, eviction, checksums.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "worker/hook_engine.hpp"
#include "worker/support.hpp"

namespace vectorgpu::worker_test
{
namespace
{

struct WorkerCopies : testing::Test
{
	DataDirectory directory;

	wire::CopyInfo info(Client *client, const CopyKey &key)
	{
		const wire::InventoryRequest request{0, 0};
		const Answer answer = exchange(client, RequestType::kInventory, CopyKey{}, {part_of(request)});
		wire::CopyInfo found{};

		for (uint32_t i = 0; i < answer.header.n_items; i++)
		{
			memcpy(&found, answer.body.data() + i * sizeof(found), sizeof(found));
			if (memcmp(&found.key, &key, sizeof(key)) == 0)
				return found;
		}
		return {};
	}

	ReplyStatus try_search(Client *client, const Table &table, const wire::CopyVersion &version)
	{
		std::vector<Neighbor> found;

		return search(client, table, table.query(1), 3, &found, version).status();
	}
};

TEST_F(WorkerCopies, serve_a_version_if_none_of_its_numbers_is_smaller)
{
	ThreadWorker served(options_for_test());
	Connection backend;
	Table table(100, 8, 1);

	EXPECT_EQ(try_search(&backend.client, table, {}), ReplyStatus::kAbsent);
	load(&backend.client, table, 80); // manifest 1, delta 20
	EXPECT_EQ(try_search(&backend.client, table, {1, 20, 0}), ReplyStatus::kOk);
	EXPECT_EQ(try_search(&backend.client, table, {0, 3, 0}), ReplyStatus::kOk);
	EXPECT_EQ(try_search(&backend.client, table, {2, 20, 0}), ReplyStatus::kBehind);
	EXPECT_EQ(try_search(&backend.client, table, {1, 21, 0}), ReplyStatus::kBehind);
	EXPECT_EQ(try_search(&backend.client, table, {1, 20, 1}), ReplyStatus::kBehind);
	table.spec.metric = Metric::kL1;
	EXPECT_EQ(try_search(&backend.client, table, {}), ReplyStatus::kInvalid);
}

TEST_F(WorkerCopies, take_appends_again_and_refuse_gaps)
{
	ThreadWorker served(options_for_test());
	Connection backend;
	Connection other;
	Table table(100, 8, 1);
	std::vector<Neighbor> found;

	load(&backend.client, table, 100);
	table.add(50, 2);
	EXPECT_EQ(send_rows(&backend.client, table, 0, 1, 100, 110).status(), ReplyStatus::kInvalid); // row 0 is missing
	EXPECT_TRUE(send_rows(&backend.client, table, 0, 0, 100, 110).ok());
	EXPECT_TRUE(send_rows(&other.client, table, 0, 0, 100, 110).ok());
	EXPECT_TRUE(send_rows(&other.client, table, 0, 5, 105, 130).ok()); // half of it is known
	EXPECT_EQ(try_search(&backend.client, table, {1, 30, 0}), ReplyStatus::kOk);
	EXPECT_EQ(try_search(&backend.client, table, {1, 31, 0}), ReplyStatus::kBehind);
	ASSERT_TRUE(search(&backend.client, table, table.query(5), 200, &found).ok());
	EXPECT_TRUE(same(found, table.nearest(table.query(5), 200, 130)));

	Table narrow = table;

	narrow.spec.dim = 7;
	EXPECT_EQ(send_rows(&backend.client, narrow, 0, 30, 0, 5).status(), ReplyStatus::kInvalid);
}

/// SEARCH for all rows, with rows [first, last) of the table coming along as delta rows from `position` on.
Answer
search_with_rows(Client *client, const Table &table, const wire::CopyVersion &version, uint64_t position, size_t first,
	size_t last, const std::vector<uint64_t> &headers)
{
	const std::vector<float> query = table.query(5);
	wire::SearchRequest request{};

	request.version = version;
	request.k = 200;
	request.dim = table.spec.dim;
	request.element = table.spec.element;
	request.metric = table.spec.metric;
	request.rows_position = position;
	request.n_rows = static_cast<uint32_t>(last - first);
	return exchange(client, RequestType::kSearch, table.key,
		{part_of(request), {headers.data() + first, (last - first) * 8},
			{table.row(first), (last - first) * table.spec.dim * 4}, {query.data(), query.size() * 4}});
}

/// Rows that come along with a search, taken by the dispatcher or (engines that may wait) by the loading thread.
struct WorkerRowsAhead : testing::TestWithParam<bool>
{
	WorkerRowsAhead()
	{
		auto made = std::make_unique<HookEngine>();

		made->at_once = GetParam();
		hook = made.get();
		served = std::make_unique<ThreadWorker>(options_for_test(), std::move(made));
	}

	DataDirectory directory;
	HookEngine *hook;
	std::unique_ptr<ThreadWorker> served;
};

TEST_P(WorkerRowsAhead, are_in_the_answer)
{
	Connection backend;
	Connection other;
	Table table(100, 8, 1);

	load(&backend.client, table, 90); // manifest 1, delta 10
	table.add(20, 2);
	for (Client *client : {&backend.client, &other.client}) // the second brings what is there already
	{
		const Answer answer = search_with_rows(client, table, {1, 13, 0}, 10, 100, 103, table.row_ids);

		ASSERT_TRUE(answer.ok()) << static_cast<int>(answer.status());
		EXPECT_TRUE(same(neighbors(answer), table.nearest(table.query(5), 200, 103)));
	}

	const Answer half_known = search_with_rows(&other.client, table, {1, 16, 0}, 12, 102, 106, table.row_ids);

	ASSERT_TRUE(half_known.ok());
	EXPECT_TRUE(same(neighbors(half_known), table.nearest(table.query(5), 200, 106)));
}

TEST_P(WorkerRowsAhead, may_be_null_or_dead)
{
	Connection backend;
	Table table(100, 8, 1);

	load(&backend.client, table, 100);
	table.add(4, 2);

	std::vector<uint64_t> headers = table.row_ids;

	headers[101] |= wire::kRowNull;
	headers[103] |= wire::kRowDead;
	table.dead[101] = table.dead[103] = true;

	const Answer answer = search_with_rows(&backend.client, table, {1, 4, 0}, 0, 100, 104, headers);

	ASSERT_TRUE(answer.ok());
	EXPECT_TRUE(same(neighbors(answer), table.nearest(table.query(5), 200, 104)));

	// One that the copy has alive and this client knows to be dead.
	headers[102] |= wire::kRowDead;
	table.dead[102] = true;

	const Answer again = search_with_rows(&backend.client, table, {1, 4, 0}, 2, 102, 104, headers);

	ASSERT_TRUE(again.ok());
	EXPECT_TRUE(same(neighbors(again), table.nearest(table.query(5), 200, 104)));
}

TEST_P(WorkerRowsAhead, do_not_help_if_other_rows_are_missing)
{
	Connection backend;
	Table table(100, 8, 1);

	EXPECT_EQ(
		search_with_rows(&backend.client, table, {1, 3, 0}, 0, 0, 3, table.row_ids).status(), ReplyStatus::kAbsent);
	load(&backend.client, table, 100);
	table.add(20, 2);
	EXPECT_EQ(search_with_rows(&backend.client, table, {1, 13, 0}, 10, 110, 113, table.row_ids).status(),
		ReplyStatus::kBehind);
	EXPECT_EQ(
		search_with_rows(&backend.client, table, {2, 3, 0}, 0, 100, 103, table.row_ids).status(), ReplyStatus::kBehind);

	const Answer answer = search_with_rows(&backend.client, table, {1, 2, 0}, 0, 100, 102, table.row_ids);

	ASSERT_TRUE(answer.ok());
	EXPECT_TRUE(same(neighbors(answer), table.nearest(table.query(5), 200, 103))); // the refused search left its rows
}

TEST_P(WorkerRowsAhead, leave_the_copy_unchanged_without_memory)
{
	Connection backend;
	Table table(100, 8, 1);
	std::vector<Neighbor> found;

	load(&backend.client, table, 100);
	table.add(20, 2);
	hook->out_of_memory = true;
	EXPECT_EQ(
		search_with_rows(&backend.client, table, {1, 3, 0}, 0, 100, 103, table.row_ids).status(), ReplyStatus::kBehind);
	hook->out_of_memory = false;
	ASSERT_TRUE(search(&backend.client, table, table.query(5), 200, &found, {1, 0, 0}).ok());
	EXPECT_TRUE(same(found, table.nearest(table.query(5), 200, 100)));
}

INSTANTIATE_TEST_SUITE_P(engine, WorkerRowsAhead, testing::Bool(),
	[](const auto &with) { return with.param ? "appends_at_once" : "may_wait"; });

TEST_F(WorkerCopies, count_null_and_dead_delta_rows_as_dead)
{
	ThreadWorker served(options_for_test());
	Connection backend;
	Table table(60, 8, 1);
	std::vector<uint64_t> headers = table.row_ids;
	std::vector<Neighbor> found;

	ASSERT_TRUE(create(&backend.client, table).ok());
	for (const size_t i : {0, 7, 8, 33})
	{
		headers[i] |= i % 2 == 0 ? wire::kRowNull : wire::kRowDead;
		table.dead[i] = true;
	}
	ASSERT_TRUE(send_rows(&backend.client, table, 0, 0, 0, 30, &headers).ok());
	ASSERT_TRUE(manifest(&backend.client, table, 1, {}).ok());
	ASSERT_TRUE(send_rows(&backend.client, table, 0, 30, 30, 60, &headers).ok());
	ASSERT_TRUE(search(&backend.client, table, table.query(5), 100, &found).ok());
	EXPECT_TRUE(same(found, table.nearest(table.query(5), 100, 60)));

	// A row that others have seen alive and a later client knows to be dead.
	headers[40] |= wire::kRowDead;
	table.dead[40] = true;
	ASSERT_TRUE(send_rows(&backend.client, table, 0, 35, 35, 50, &headers).ok());
	ASSERT_TRUE(search(&backend.client, table, table.query(5), 100, &found).ok());
	EXPECT_TRUE(same(found, table.nearest(table.query(5), 100, 60)));
	EXPECT_EQ(info(&backend.client, table.key).n_dead, 5u);
}

TEST_F(WorkerCopies, take_tombstones_under_a_lease_and_never_revive_a_row)
{
	ThreadWorker served(options_for_test());
	Connection backend;
	Connection other;
	Table table(100, 8, 1);
	std::vector<Neighbor> found;
	uint8_t bits[10] = {0x81, 0, 0, 0, 0, 0, 0, 0, 0, 0xff}; // rows 0, 7 and, of 77 in the segment, 72 .. 76

	load(&backend.client, table, 77);

	const auto send = [&](Client *client, uint32_t segment, uint64_t first, uint32_t n, const uint8_t *from,
						  uint32_t last, uint64_t generation)
	{
		const wire::TombstonesRequest request{generation, first, n, segment, last, 0};

		return exchange(client, RequestType::kTombstones, table.key, {part_of(request), {from, (n + 7) / 8}}).status();
	};

	EXPECT_EQ(send(&backend.client, 1, 0, 77, bits, 1, 3), ReplyStatus::kAbsent); // without a lease
	ASSERT_TRUE(create(&backend.client, table).ok());
	EXPECT_EQ(send(&other.client, 1, 0, 77, bits, 1, 3), ReplyStatus::kBusy);
	EXPECT_EQ(send(&backend.client, 1, 0, 64, bits, 0, 3), ReplyStatus::kOk);
	EXPECT_EQ(send(&backend.client, 1, 72, 5, bits + 9, 1, 3), ReplyStatus::kInvalid);  // a gap
	EXPECT_EQ(send(&backend.client, 1, 64, 14, bits + 8, 1, 3), ReplyStatus::kInvalid); // more rows than there are
	EXPECT_EQ(send(&backend.client, 1, 64, 8, bits + 8, 1, 3), ReplyStatus::kInvalid);  // not all of them
	EXPECT_EQ(send(&backend.client, 1, 0, 64, bits, 0, 3), ReplyStatus::kOk);
	ASSERT_TRUE(search(&other.client, table, table.query(5), 100, &found).ok());
	EXPECT_EQ(found.size(), 100u); // not before the last part
	EXPECT_EQ(send(&backend.client, 1, 64, 13, bits + 8, 1, 3), ReplyStatus::kOk);
	for (const size_t i : {0, 7, 72, 73, 74, 75, 76, 80})
		table.dead[i] = true;

	const uint8_t one = 0x08; // delta row 3: row 80

	EXPECT_EQ(send(&backend.client, 0, 0, 5, &one, 1, 4), ReplyStatus::kOk);
	EXPECT_EQ(send(&backend.client, 0, 20, 5, &one, 1, 4), ReplyStatus::kInvalid); // beyond the delta's end
	EXPECT_EQ(try_search(&other.client, table, {1, 23, 4}), ReplyStatus::kBehind);
	ASSERT_TRUE(manifest(&backend.client, table, 1, {1}, 0, 4).ok());
	ASSERT_TRUE(search(&other.client, table, table.query(5), 100, &found, {1, 23, 4}).ok());
	EXPECT_TRUE(same(found, table.nearest(table.query(5), 100, 100)));

	// A client with an older view: nothing rises.
	const uint8_t none[10] = {};

	ASSERT_TRUE(create(&other.client, table).ok());
	EXPECT_EQ(send(&other.client, 1, 0, 77, none, 1, 2), ReplyStatus::kOk);
	EXPECT_EQ(send(&other.client, 0, 0, 5, none, 1, 2), ReplyStatus::kOk);
	ASSERT_TRUE(manifest(&other.client, table, 1, {1}, 0, 2).ok());
	ASSERT_TRUE(search(&other.client, table, table.query(5), 100, &found, {1, 23, 4}).ok());
	EXPECT_TRUE(same(found, table.nearest(table.query(5), 100, 100)));
	EXPECT_EQ(info(&other.client, table.key).n_dead, 8u);

	// The engine's, bit by bit, from the first row that is asked for on.
	const auto tombstones = [&](uint32_t segment, uint64_t first, uint64_t n)
	{
		const wire::ChecksumRequest request{segment, 0, first, n};
		const Answer answer = exchange(&backend.client, RequestType::kChecksum, table.key, {part_of(request)});
		wire::ChecksumReply reply{};

		if (answer.ok())
			memcpy(&reply, answer.body.data(), sizeof(reply));
		return std::pair(reply.n_dead, reply.dead_xxh3);
	};
	const uint8_t segment_bits[10] = {0x40, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x0f};
	const uint8_t delta_bits[3] = {0x08, 0, 0};

	EXPECT_EQ(tombstones(1, 1, 76), std::pair(uint64_t{6}, uint64_t{XXH3_64bits(segment_bits, sizeof(segment_bits))}));
	EXPECT_EQ(tombstones(0, 0, 23), std::pair(uint64_t{1}, uint64_t{XXH3_64bits(delta_bits, sizeof(delta_bits))}));
}

TEST_F(WorkerCopies, swap_segments_at_once_when_a_merge_is_published)
{
	ThreadWorker served(options_for_test());
	Connection loader(Role::kLoader);
	Connection backend;
	Table table(300, 8, 1);
	std::vector<Neighbor> found;

	load(&backend.client, table, 200); // rows 200 .. 299 are delta rows 0 .. 99

	const std::vector<Neighbor> expected = table.nearest(table.query(5), 400, 300);

	// All of it in a new segment; delta rows before 100 go.
	ASSERT_TRUE(create(&loader.client, table).ok());
	ASSERT_TRUE(send_rows(&loader.client, table, 2, 0, 0, 300).ok());
	ASSERT_TRUE(search(&backend.client, table, table.query(5), 400, &found).ok());
	EXPECT_TRUE(same(found, expected)); // the new segment is not searched yet
	EXPECT_EQ(manifest(&loader.client, table, 2, {2}, 100).status(), ReplyStatus::kInvalid); // not sealed
	EXPECT_EQ(seal(&loader.client, table, 2, 299).status(), ReplyStatus::kInvalid);
	ASSERT_TRUE(seal(&loader.client, table, 2, 300).ok());
	EXPECT_EQ(send_rows(&loader.client, table, 2, 300, 0, 1).status(), ReplyStatus::kInvalid);
	ASSERT_TRUE(search(&backend.client, table, table.query(5), 400, &found).ok());
	EXPECT_TRUE(same(found, expected));
	EXPECT_EQ(manifest(&backend.client, table, 2, {2}, 100).status(), ReplyStatus::kBusy);
	ASSERT_TRUE(manifest(&loader.client, table, 2, {2}, 100).ok());
	ASSERT_TRUE(search(&backend.client, table, table.query(5), 400, &found, {2, 100, 0}).ok());
	EXPECT_TRUE(same(found, expected));

	const wire::CopyInfo after = info(&backend.client, table.key);

	EXPECT_EQ(after.n_segments, 1u);
	EXPECT_EQ(after.n_rows, 300u);
	EXPECT_EQ(after.delta_rows, 0u);
	EXPECT_EQ(after.n_loads, 2u);
	EXPECT_EQ(after.resident_bytes, worker::rows_bytes(300, 32));

	// The delta goes on where it ended, and an older manifest changes nothing.
	table.add(10, 3);
	ASSERT_TRUE(send_rows(&backend.client, table, 0, 100, 300, 310).ok());
	ASSERT_TRUE(create(&loader.client, table).ok());
	ASSERT_TRUE(manifest(&loader.client, table, 1, {}, 0).ok());
	ASSERT_TRUE(search(&backend.client, table, table.query(5), 400, &found, {2, 110, 0}).ok());
	EXPECT_TRUE(same(found, table.nearest(table.query(5), 400, 310)));
}

TEST_F(WorkerCopies, begin_the_delta_at_the_loaders_number)
{
	ThreadWorker served(options_for_test());
	Connection backend;
	const Table table(50, 8, 1);
	std::vector<Neighbor> found;

	ASSERT_TRUE(create(&backend.client, table, 0, 1003).ok());
	EXPECT_EQ(send_rows(&backend.client, table, 0, 1004, 0, 50).status(), ReplyStatus::kInvalid);
	ASSERT_TRUE(send_rows(&backend.client, table, 0, 1003, 0, 50).ok());
	ASSERT_TRUE(manifest(&backend.client, table, 7, {}, 1003).ok());
	ASSERT_TRUE(search(&backend.client, table, table.query(5), 100, &found, {7, 1053, 0}).ok());
	EXPECT_TRUE(same(found, table.nearest(table.query(5), 100, 50)));
}

TEST_F(WorkerCopies, hold_a_segment_without_rows)
{
	ThreadWorker served(options_for_test());
	Connection backend;
	const Table table(10, 8, 1);
	std::vector<Neighbor> found;

	ASSERT_TRUE(create(&backend.client, table).ok());
	ASSERT_TRUE(seal(&backend.client, table, 1, 0).ok());
	ASSERT_TRUE(manifest(&backend.client, table, 1, {1}).ok());
	ASSERT_TRUE(search(&backend.client, table, table.query(5), 100, &found).ok());
	EXPECT_TRUE(found.empty());
}

TEST_F(WorkerCopies, belong_to_one_loader_at_a_time)
{
	ThreadWorker served(options_for_test());
	Connection backend;
	const Table table(100, 8, 1);

	{
		Connection loader(Role::kLoader);

		ASSERT_TRUE(create(&loader.client, table).ok());
		EXPECT_EQ(create(&backend.client, table).status(), ReplyStatus::kBusy);
		EXPECT_EQ(send_rows(&backend.client, table, 1, 0, 0, 10).status(), ReplyStatus::kBusy);
		EXPECT_EQ(send_rows(&backend.client, table, 0, 0, 0, 10).status(), ReplyStatus::kBusy);
		EXPECT_EQ(try_search(&backend.client, table, {}), ReplyStatus::kBusy);
		ASSERT_TRUE(send_rows(&loader.client, table, 1, 0, 0, 50).ok());
	}
	// The loader died: what it had begun is gone.
	ASSERT_TRUE(wait_until([&] { return try_search(&backend.client, table, {}) == ReplyStatus::kAbsent; }));
	EXPECT_EQ(stats(&backend.client).resident_bytes, 0u);
	load(&backend.client, table, 100);
	{
		Connection loader(Role::kLoader);

		ASSERT_TRUE(create(&loader.client, table).ok());
		ASSERT_TRUE(send_rows(&loader.client, table, 2, 0, 0, 50).ok());
		EXPECT_EQ(try_search(&backend.client, table, {}), ReplyStatus::kOk); // the old state serves meanwhile
	}
	// A loader that died over a current copy leaves it as it was.
	ASSERT_TRUE(wait_until([&] { return info(&backend.client, table.key).leased == 0; }));
	EXPECT_EQ(info(&backend.client, table.key).n_segments, 1u);
	EXPECT_EQ(info(&backend.client, table.key).resident_bytes, worker::rows_bytes(100, 32));
	EXPECT_EQ(try_search(&backend.client, table, {}), ReplyStatus::kOk);
}

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

	// More than the whole budget is refused, and nobody has to go for it.
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

TEST_F(WorkerCopies, report_their_content)
{
	ThreadWorker served(options_for_test());
	Connection backend;
	Table table(100, 8, 1);

	table.dead[3] = true;
	load(&backend.client, table, 60);

	const auto checksum = [&](uint32_t segment, uint64_t first, uint64_t n, wire::ChecksumReply *reply)
	{
		const wire::ChecksumRequest request{segment, 0, first, n};
		const Answer answer = exchange(&backend.client, RequestType::kChecksum, table.key, {part_of(request)});

		if (answer.ok())
			memcpy(reply, answer.body.data(), sizeof(*reply));
		return answer.status();
	};
	wire::ChecksumReply reply{};

	ASSERT_EQ(checksum(1, 10, 50, &reply), ReplyStatus::kOk);
	EXPECT_EQ(reply.row_ids_xxh3, XXH3_64bits(&table.row_ids[10], 400));
	EXPECT_EQ(reply.vectors_xxh3, XXH3_64bits(table.row(10), 50 * 32));
	EXPECT_EQ(reply.n_dead, 0u);
	EXPECT_EQ(reply.dead_xxh3, XXH3_64bits("\0\0\0\0\0\0", 7));
	EXPECT_EQ(reply.n_different, 0u);
	ASSERT_EQ(checksum(0, 0, 40, &reply), ReplyStatus::kOk);
	EXPECT_EQ(reply.row_ids_xxh3, XXH3_64bits(&table.row_ids[60], 320));
	EXPECT_EQ(reply.vectors_xxh3, XXH3_64bits(table.row(60), 40 * 32));
	EXPECT_EQ(checksum(1, 10, 51, &reply), ReplyStatus::kInvalid);
	EXPECT_EQ(checksum(0, 41, 0, &reply), ReplyStatus::kOk); // nothing of nothing
	EXPECT_EQ(checksum(2, 0, 1, &reply), ReplyStatus::kAbsent);
	EXPECT_EQ(checksum(1, 0, wire::kMaxChecksumBytes, &reply), ReplyStatus::kInvalid);
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
