// Copies on a device that is too small: what does not fit lies in host memory, and every answer stays the same. The
// device is a CPU engine with a limit.
#include <atomic>
#include <thread>

#include "engine/coded_rows.hpp"
#include "engine/list_rows.hpp"
#include "match/copies.hpp"
#include "worker/tiered_fixture.hpp"

namespace vectorgpu::worker
{
namespace
{

TEST_F(Tiered, ACopyThatFitsIsOnTheDevice)
{
	const Rows rows = random_rows(500, 1);
	const CopyId copy = load(rows);

	EXPECT_TRUE(engine_->on_device(copy));
	expect_answers(copy, rows);
	EXPECT_EQ(device_->n_searches, 3u);
	EXPECT_TRUE(lines_.empty());
	EXPECT_STREQ(engine_->name(), "cuda");
	ASSERT_OK(engine_->drop(copy));
	EXPECT_EQ(engine_->stats().resident_bytes, 0u);
	EXPECT_EQ(engine_->drop(copy).code, StatusCode::kNotFound);
}

TEST_F(Tiered, ACopyLargerThanTheDeviceGoesToTheHostWhileItIsLoaded)
{
	const Rows rows = random_rows(1000, 2);
	CopyId copy = 0;

	device_->limit = 600 * kBytesPerRow;
	ASSERT_OK(engine_->create(rows.spec, &copy));
	ASSERT_OK(engine_->load_segment(copy, 1, rows.block(0, 300)));
	ASSERT_OK(engine_->load_segment(copy, 1, rows.block(300, 200)));
	EXPECT_TRUE(engine_->on_device(copy));
	ASSERT_OK(engine_->load_segment(copy, 1, rows.block(500, 500)));
	EXPECT_FALSE(engine_->on_device(copy));
	ASSERT_OK(engine_->seal_segment(copy, 1));
	expect_answers(copy, rows);
	EXPECT_EQ(device_->n_searches, 0u);
	EXPECT_EQ(device_->stats().resident_bytes, 0u);
	ASSERT_EQ(lines_.size(), 1u);
	EXPECT_NE(lines_[0].find("the device is full"), std::string::npos);
}

TEST_F(Tiered, ACopyThatTheDeviceDoesNotTakeBeginsOnTheHost)
{
	const Rows rows = random_rows(300, 2);

	device_->broken_create = true;

	const CopyId copy = load(rows);

	EXPECT_FALSE(engine_->on_device(copy));
	expect_answers(copy, rows);
	ASSERT_EQ(lines_.size(), 1u);
	EXPECT_EQ(lines_[0], "a copy begins in host memory: the device is full");
}

TEST_F(Tiered, AMoveKeepsLists)
{
	std::mt19937 rng(5);
	const Rows rows = random_rows(500, 3);
	const engine::test::ListRows lists(rows, 9, rng);
	const engine::SegmentProbes probes[] = {{1, 2}};
	const std::vector<uint8_t> dead = {0x05};
	const auto expect_lists = [&](CopyId copy)
	{
		std::vector<std::vector<Neighbor>> results;
		SearchQuery query = {rows.vector(17), 30, false, {}};

		query.probes = probes;
		ASSERT_OK(engine_->search(copy, {&query, 1}, &results));
		ASSERT_NO_FATAL_FAILURE(expect_same(results[0],
			nearest_in_lists({{&lists, 2}}, nullptr, query.query, 30, nullptr, {rows.ids[0], rows.ids[2]})));
	};
	CopyId copy = 0;
	std::vector<uint8_t> bits((rows.n() + 7) / 8);

	bits[0] = dead[0];
	ASSERT_OK(engine_->create({rows.spec, engine::CopyKind::kLists}, &copy));
	ASSERT_OK(lists.load(engine_.get(), copy, 1));
	ASSERT_OK(engine_->set_tombstones(copy, 1, bits));
	EXPECT_TRUE(engine_->on_device(copy));
	ASSERT_NO_FATAL_FAILURE(expect_lists(copy));
	device_->limit = 0;
	ASSERT_OK(engine_->append_delta(copy, 0, rows.block(0, 1)));
	EXPECT_FALSE(engine_->on_device(copy));
	ASSERT_OK(engine_->trim_delta(copy, 1)); // the row was there twice
	ASSERT_NO_FATAL_FAILURE(expect_lists(copy));
	EXPECT_EQ(device_->stats().resident_bytes, 0u);
}

TEST_F(Tiered, AMoveKeepsCodesWithoutVectors)
{
	std::mt19937 rng(5);
	const Rows rows = random_rows(500, 3);
	const engine::test::CodedRows codes(engine::test::ListRows(rows, 9, rng), engine::ivf::CodeKind::kSq8);
	const engine::SegmentProbes probes[] = {{1, 2, 40}};
	std::vector<uint8_t> bits((rows.n() + 7) / 8);
	const auto expect_candidates = [&](CopyId copy)
	{
		std::vector<std::vector<Neighbor>> results;
		SearchQuery query = {rows.vector(17), 100, false, {}};

		query.probes = probes;
		ASSERT_OK(engine_->search(copy, {&query, 1}, &results));
		ASSERT_NO_FATAL_FAILURE(expect_same(
			results[0], candidates_in_codes({{&codes, 2, 40}}, query.query, 100, nullptr, {rows.ids[0], rows.ids[2]})));
	};
	CopyId copy = 0;

	bits[0] = 0x05;
	ASSERT_OK(engine_->create({rows.spec, engine::CopyKind::kCodes}, &copy));
	ASSERT_OK(codes.load_codes(engine_.get(), copy, 1));
	ASSERT_OK(engine_->set_tombstones(copy, 1, bits));
	EXPECT_TRUE(engine_->on_device(copy));
	ASSERT_NO_FATAL_FAILURE(expect_candidates(copy));
	device_->limit = 0;
	ASSERT_OK(engine_->append_delta(copy, 0, rows.block(0, 1)));
	EXPECT_FALSE(engine_->on_device(copy));
	ASSERT_NO_FATAL_FAILURE(expect_candidates(copy)); // the delta is not looked at
	EXPECT_EQ(device_->stats().resident_bytes, 0u);
}

TEST_F(Tiered, CodesThatTheDeviceDoesNotScanGoToTheHostAndStay)
{
	std::mt19937 rng(6);
	const Rows rows = random_rows(500, 4);
	const engine::test::CodedRows codes(engine::test::ListRows(rows, 9, rng), engine::ivf::CodeKind::kRabitq, 0, 3);
	const engine::SegmentProbes probes[] = {{1, 2, 40}};

	device_->unsupported_seal = true;
	for (const engine::CopyKind kind : {engine::CopyKind::kCodes, engine::CopyKind::kCodedLists})
	{
		std::vector<std::vector<Neighbor>> results;
		SearchQuery query = {rows.vector(17), 100, false, {}};
		CopyId copy = 0;

		query.probes = probes;
		ASSERT_OK(engine_->create({rows.spec, kind}, &copy));
		EXPECT_TRUE(engine_->on_device(copy));
		ASSERT_OK(codes.load_as(kind, engine_.get(), copy, 1));
		EXPECT_FALSE(engine_->on_device(copy));
		ASSERT_OK(engine_->search(copy, {&query, 1}, &results));
		ASSERT_NO_FATAL_FAILURE(expect_same(results[0],
			kind == engine::CopyKind::kCodes ? candidates_in_codes({{&codes, 2, 40}}, query.query, 100)
											 : nearest_in_coded({{&codes, 2, 40}}, nullptr, query.query, 100)));
		EXPECT_EQ(device_->stats().resident_bytes, 0u);
	}
}

TEST_F(Tiered, AMoveKeepsSegmentsDeltaAndTombstones)
{
	const Rows rows = random_rows(1000, 3);
	const std::vector<uint8_t> dead = {0x05, 0, 0x80}; // rows 0, 2, 23 of the first segment
	const std::vector<uint8_t> delta_dead = {0x0C};    // positions 8 + 2, 8 + 3
	CopyId copy = 0;

	ASSERT_OK(engine_->create(rows.spec, &copy));
	ASSERT_OK(engine_->trim_delta(copy, 7));
	ASSERT_OK(engine_->load_segment(copy, 1, rows.block(0, 24)));
	ASSERT_OK(engine_->seal_segment(copy, 1));
	ASSERT_OK(engine_->set_tombstones(copy, 1, dead));
	ASSERT_OK(engine_->load_segment(copy, 2, rows.block(24, 400)));
	ASSERT_OK(engine_->seal_segment(copy, 2));
	ASSERT_OK(engine_->append_delta(copy, 7, rows.block(424, 300)));
	ASSERT_OK(engine_->set_delta_tombstones(copy, 8, delta_dead));
	ASSERT_OK(engine_->load_segment(copy, 3, rows.block(724, 76))); // not sealed: not searched
	device_->limit = 0;
	ASSERT_OK(engine_->append_delta(copy, 307, rows.block(800, 200)));
	EXPECT_FALSE(engine_->on_device(copy));

	// Row 424 + i has position 7 + i.
	std::set<RowId> gone = {rows.ids[0], rows.ids[2], rows.ids[23], rows.ids[424 + 3], rows.ids[424 + 4]};
	std::set<RowId> unsealed = gone;

	for (size_t i = 724; i < 800; i++)
		unsealed.insert(rows.ids[i]);
	expect_answers(copy, rows, unsealed);
	ASSERT_OK(engine_->seal_segment(copy, 3));
	expect_answers(copy, rows, gone);

	// And back again, once there is room.
	device_->limit = ~uint64_t{0};
	engine_->rebalance();
	EXPECT_TRUE(engine_->on_device(copy));
	expect_answers(copy, rows, gone);
	ASSERT_OK(engine_->trim_delta(copy, 500)); // the delta's rows are gone
	for (size_t i = 424; i < 1000; i++)
		if (i < 724 || i >= 800)
			if (i < 724 ? 7 + i - 424 < 500 : 307 + i - 800 < 500)
				gone.insert(rows.ids[i]);
	expect_answers(copy, rows, gone);
	ASSERT_OK(engine_->drop(copy));
	EXPECT_EQ(engine_->stats().resident_bytes, 0u);
}

TEST_F(Tiered, ASealThatTheDeviceCannotDoIsDoneOnTheHost)
{
	const Rows rows = random_rows(300, 4);

	device_->broken_seal = true;

	const CopyId copy = load(rows);

	EXPECT_FALSE(engine_->on_device(copy));
	expect_answers(copy, rows);

	// The way back fails as well; it is not tried again at once.
	engine_->rebalance();
	EXPECT_FALSE(engine_->on_device(copy));
	device_->broken_seal = false;
	engine_->rebalance();
	EXPECT_FALSE(engine_->on_device(copy));
	pass_seconds(10);
	expect_answers(copy, rows);
	engine_->rebalance();
	EXPECT_TRUE(engine_->on_device(copy));
	expect_answers(copy, rows);
}

TEST_F(Tiered, AnIdleCopyGivesWayAndABusyOneDoesNot)
{
	const Rows rows = random_rows(500, 5);

	device_->limit = 700 * kBytesPerRow;

	const CopyId first = load(rows);

	EXPECT_TRUE(engine_->on_device(first));
	pass_seconds(5);

	const CopyId second = load(rows); // the first was used 5 s ago: it stays

	EXPECT_TRUE(engine_->on_device(first));
	EXPECT_FALSE(engine_->on_device(second));
	pass_seconds(7);
	expect_answers(second, rows);
	engine_->rebalance(); // the first is idle now, the second is not
	EXPECT_FALSE(engine_->on_device(first));
	EXPECT_TRUE(engine_->on_device(second));
	expect_answers(first, rows);
	expect_answers(second, rows);
	engine_->rebalance(); // both are busy
	EXPECT_TRUE(engine_->on_device(second));
}

TEST_F(Tiered, NothingGivesWayToACopyThatTheDeviceDoesNotHold)
{
	const Rows rows = random_rows(500, 5);

	device_->limit = 700 * kBytesPerRow;

	const CopyId idle = load(rows);

	device_->unsupported = true;

	const CopyId busy = load(rows);

	pass_seconds(100);
	expect_answers(busy, rows);
	engine_->rebalance();
	EXPECT_TRUE(engine_->on_device(idle));
	EXPECT_FALSE(engine_->on_device(busy));
}

TEST_F(Tiered, BeyondBothBudgetsRowsAreRefusedAndNothingChanges)
{
	const Rows rows = random_rows(500, 6);

	make(600 * kBytesPerRow);
	device_->limit = 550 * kBytesPerRow;

	const CopyId first = load(rows);
	const CopyId second = load(rows);
	CopyId third = 0;

	EXPECT_TRUE(engine_->on_device(first));
	EXPECT_FALSE(engine_->on_device(second));
	ASSERT_OK(engine_->create(rows.spec, &third));
	EXPECT_EQ(engine_->load_segment(third, 1, rows.block()).code, StatusCode::kOutOfMemory);
	EXPECT_EQ(engine_->append_delta(second, 0, rows.block(0, 101)).code, StatusCode::kOutOfMemory);
	expect_answers(first, rows);
	expect_answers(second, rows);
	ASSERT_OK(engine_->drop(second)); // its room is free again
	ASSERT_OK(engine_->load_segment(third, 1, rows.block()));
	ASSERT_OK(engine_->seal_segment(third, 1));
	expect_answers(third, rows);
}

TEST_F(Tiered, AMoveToTheHostReservesItsRoom)
{
	const Rows rows = random_rows(500, 6);
	Status loaded;
	CopyId other = 0;

	make(600 * kBytesPerRow);

	const CopyId copy = load(rows);

	device_->broken_create = true;
	ASSERT_OK(engine_->create(rows.spec, &other)); // on the host
	device_->on_read = [&] { loaded = engine_->load_segment(other, 1, rows.block(0, 101)); };
	device_->limit = 0;
	ASSERT_OK(engine_->append_delta(copy, 0, rows.block(0, 1)));
	EXPECT_EQ(loaded.code, StatusCode::kOutOfMemory);
	EXPECT_FALSE(engine_->on_device(copy));
	ASSERT_OK(engine_->trim_delta(copy, 1));
	expect_answers(copy, rows);
	ASSERT_OK(engine_->load_segment(other, 1, rows.block(0, 100)));
	EXPECT_EQ(engine_->load_segment(other, 1, rows.block(100, 1)).code, StatusCode::kOutOfMemory);
	ASSERT_OK(engine_->drop(copy));
	ASSERT_OK(engine_->load_segment(other, 1, rows.block(100, 400)));
}

/// A copy of match counts: rows with an element each, `n_elements` of them, in one sealed segment. What the first step
/// that failed says.
Status
load_match(engine::Engine *engine, size_t n_rows, size_t n_elements, CopyId *copy)
{
	std::vector<test::Set> sets(n_rows);
	std::vector<RowId> ids;

	for (size_t i = 0; i < n_rows; i++)
	{
		ids.push_back(i + 1);
		if (i < n_elements)
			sets[i] = {"element " + std::to_string(i)};
	}

	Status status = engine->create(test::match_spec(), copy);

	if (status.is_ok())
		status = engine->load_segment(*copy, 1, {ids, nullptr, n_rows});
	if (status.is_ok())
		status = engine->load_structure(*copy, 1, 1, test::description_of(sets));
	if (status.is_ok())
		status = engine->prepare_segment(*copy, 1);
	return status.is_ok() ? engine->seal_segment(*copy, 1) : status;
}

TEST_F(Tiered, HostMemoryOfMatchCountsIsAlwaysCharged)
{
	const auto plain = engine::make_cpu_engine({});
	CopyId copy = 0;
	CopyId other = 0;

	ASSERT_OK(load_match(plain.get(), 2000, 2000, &copy));

	const uint64_t held = plain->host_bytes(copy);

	EXPECT_GT(held, 2000 * (sizeof(RowId) + 24));
	for (const bool on_device : {true, false})
	{
		make(held * 7 / 2); // two, not three: one that comes has its description as well
		device_->broken_create = !on_device;
		ASSERT_OK(load_match(engine_.get(), 2000, 2000, &copy));
		EXPECT_EQ(engine_->on_device(copy), on_device);
		ASSERT_OK(load_match(engine_.get(), 2000, 2000, &other));

		CopyId third = 0;

		EXPECT_EQ(load_match(engine_.get(), 2000, 2000, &third).code, StatusCode::kOutOfMemory);
		ASSERT_OK(engine_->drop(third));
		ASSERT_OK(engine_->drop(copy));
		ASSERT_OK(engine_->drop_segment(other, 1));               // what takes no room is not refused
		ASSERT_OK(load_match(engine_.get(), 2000, 2000, &third)); // the first's room is free again
	}
}

TEST_F(Tiered, MatchSegmentsHaveOnlyRowIds)
{
	constexpr size_t kRows = 10000;
	CopyId copy = 0;

	make(kRows * 3 *
		sizeof(RowId)); // ids as they come, those of the index, and some more; with slots it would be 40 bytes a row
	device_->broken_create = true;
	ASSERT_OK(load_match(engine_.get(), kRows, 1, &copy));
}

TEST_F(Tiered, SearchesRunBesideMoves)
{
	const Rows rows = random_rows(2000, 7);
	const CopyId copy = load(rows);
	std::atomic<bool> stop{false};
	std::atomic<int> n_wrong{0};
	std::vector<std::thread> searchers;
	const SearchQuery query = {rows.vector(7), 10, false, {}};
	const std::vector<Neighbor> want = rows.nearest(query.query, 10);

	for (int i = 0; i < 3; i++)
		searchers.emplace_back(
			[&]
			{
				while (!stop)
				{
					std::vector<std::vector<Neighbor>> results;

					if (!engine_->search(copy, {&query, 1}, &results).is_ok() || results[0].size() != want.size() ||
						results[0][9].row != want[9].row)
						n_wrong++;
				}
			});
	for (int i = 0; i < 20; i++)
	{
		device_->limit = 0;
		ASSERT_OK(engine_->append_delta(copy, 0, rows.block(0, 0)));
		EXPECT_EQ(
			engine_->load_segment(copy, 1, rows.block(0, 1)).code, StatusCode::kInvalidArgument); // sealed; moves first
		EXPECT_FALSE(engine_->on_device(copy));
		device_->limit = ~uint64_t{0};
		engine_->rebalance();
		EXPECT_TRUE(engine_->on_device(copy));
	}
	stop = true;
	for (std::thread &searcher : searchers)
		searcher.join();
	EXPECT_EQ(n_wrong, 0);
}

} // namespace
} // namespace vectorgpu::worker
