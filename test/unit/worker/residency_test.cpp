// Copies over the wire: versions, appends, tombstones, leases, checksums.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "worker/copies_fixture.hpp"
#include "worker/hook_engine.hpp"

namespace vectorgpu::worker_test
{
namespace
{

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

} // namespace
} // namespace vectorgpu::worker_test
