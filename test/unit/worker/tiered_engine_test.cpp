// Copies on a device that is too small: what does not fit lies in host memory, and every answer stays the same. The device is a
// CPU engine with a limit.
#include "worker/tiered_engine.hpp"

#include <atomic>
#include <thread>

#include "engine/held_rows.hpp"
#include "engine/list_rows.hpp"
#include "match/copies.hpp"

namespace vectorgpu::worker
{
namespace
{

using namespace engine::test;
using engine::CopyId;
using engine::CopySpec;
using engine::DistanceSpec;
using engine::Neighbor;
using engine::RowBlock;
using engine::SearchQuery;
using engine::SegmentId;

constexpr uint32_t kDim = 16;
constexpr uint64_t kBytesPerRow = kDim * 4 + 16;

/// Refuses rows beyond `limit`, as a device does.
class SmallDevice final : public engine::Engine
{
public:
	std::atomic<uint64_t> limit{~uint64_t{0}};
	std::atomic<bool> broken_create{false};
	std::atomic<bool> unsupported{false}; // what is created now
	std::atomic<bool> broken_seal{false};
	std::atomic<uint64_t> n_searches{0};

	const char *name() const override { return "cuda"; }
	const char *description() const override { return "a small device"; }
	Status
	create(const CopySpec &spec, CopyId *copy) override
	{
		if (unsupported)
			return Status::error(StatusCode::kUnsupported, "the device does not hold such copies");
		return broken_create ? full() : inner_->create(spec, copy);
	}

	Status
	load_segment(CopyId copy, SegmentId segment, const RowBlock &rows) override
	{
		return has_room(rows) ? inner_->load_segment(copy, segment, rows) : full();
	}

	Status
	seal_segment(CopyId copy, SegmentId segment) override
	{
		return broken_seal ? full() : inner_->seal_segment(copy, segment);
	}

	Status
	load_structure(CopyId copy, SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes) override
	{
		return inner_->load_structure(copy, segment, parameter, bytes);
	}

	Status
	read_structure(CopyId copy, SegmentId segment, uint64_t first, size_t n, void *bytes) override
	{
		return inner_->read_structure(copy, segment, first, n, bytes);
	}

	Status drop_segment(CopyId copy, SegmentId segment) override { return inner_->drop_segment(copy, segment); }

	Status
	append_delta(CopyId copy, uint64_t position, const RowBlock &rows) override
	{
		return has_room(rows) ? inner_->append_delta(copy, position, rows) : full();
	}

	Status trim_delta(CopyId copy, uint64_t position) override { return inner_->trim_delta(copy, position); }

	Status
	set_tombstones(CopyId copy, SegmentId segment, std::span<const uint8_t> bits) override
	{
		return inner_->set_tombstones(copy, segment, bits);
	}

	Status
	set_delta_tombstones(CopyId copy, uint64_t first, std::span<const uint8_t> bits) override
	{
		return inner_->set_delta_tombstones(copy, first, bits);
	}

	Status drop(CopyId copy) override { return inner_->drop(copy); }

	Status
	search(CopyId copy, std::span<const SearchQuery> queries, std::vector<std::vector<Neighbor>> *results,
		engine::SearchControl *control) override
	{
		n_searches++;
		return inner_->search(copy, queries, results, control);
	}

	Status
	read_rows(CopyId copy, SegmentId segment, uint64_t first, size_t n, RowId *ids, void *vectors) override
	{
		return inner_->read_rows(copy, segment, first, n, ids, vectors);
	}

	engine::EngineStats
	stats() const override
	{
		engine::EngineStats stats = inner_->stats();

		stats.budget_bytes = limit;
		return stats;
	}

	/// As if rows lay on the device, and match counts' copies in host memory as well.
	uint64_t host_bytes(CopyId copy) const override { return inner_->host_bytes(copy); }
	uint64_t n_rescored() const override { return inner_->n_rescored(); }

private:
	bool has_room(const RowBlock &rows) const { return inner_->stats().resident_bytes + rows.n_rows * kBytesPerRow <= limit; }
	static Status full() { return Status::error(StatusCode::kOutOfMemory, "the device is full"); }

	std::unique_ptr<engine::Engine> inner_ = engine::make_cpu_engine({});
};

uint64_t test_now_ns = 1;

uint64_t
test_clock()
{
	return test_now_ns;
}

class Tiered : public testing::Test
{
protected:
	Tiered() { make(~uint64_t{0}); }

	void
	make(uint64_t host_bytes)
	{
		auto device = std::make_unique<SmallDevice>();
		TieredEngineOptions options;

		test_now_ns = 1;
		lines_.clear();
		options.host_bytes = host_bytes;
		options.background = false;
		options.clock = test_clock;
		options.log = [this](const char *line) { lines_.emplace_back(line); };
		device_ = device.get();
		engine_ = make_tiered_engine(std::move(device), engine::make_cpu_engine({}), options);
	}

	/// A copy of all rows as one sealed segment.
	CopyId
	load(const Rows &rows)
	{
		CopyId copy = 0;

		EXPECT_TRUE(engine_->create(rows.spec, &copy).is_ok());
		EXPECT_TRUE(engine_->load_segment(copy, 1, rows.block()).is_ok());
		EXPECT_TRUE(engine_->seal_segment(copy, 1).is_ok());
		return copy;
	}

	void
	expect_answers(CopyId copy, const Rows &rows, const std::set<RowId> &dead = {})
	{
		std::mt19937 rng(5);
		Rows queries(rows.spec);
		std::vector<std::vector<Neighbor>> results;

		queries.add_random(3, Data::kGaussian, rng, 0);
		for (size_t i = 0; i < queries.n(); i++)
		{
			const SearchQuery query = {queries.vector(i), 20, false, {}};

			ASSERT_OK(engine_->search(copy, {&query, 1}, &results));
			ASSERT_NO_FATAL_FAILURE(expect_same(results[0], rows.nearest(query.query, 20, nullptr, dead)));
		}
	}

	Rows
	random_rows(size_t n, unsigned seed)
	{
		std::mt19937 rng(seed);
		Rows rows({Metric::kL2, ElementType::kFloat32, kDim});

		rows.add_random(n, Data::kGaussian, rng, 100);
		return rows;
	}

	void pass_seconds(uint64_t n) { test_now_ns += n * 1000 * 1000 * 1000; }

	std::unique_ptr<TieredEngine> engine_;
	SmallDevice *device_ = nullptr;
	std::vector<std::string> lines_;
};

TEST_F(Tiered, WhatFitsLiesOnTheDevice)
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

/// A copy of match counts: rows with an element each, `n_elements` of them, in one sealed segment. What the first step that failed says.
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

TEST_F(Tiered, HostMemoryOfMatchCountsIsChargedWhereverTheCopyLies)
{
	const auto plain = engine::make_cpu_engine({});
	CopyId copy = 0;
	CopyId other = 0;

	ASSERT_OK(load_match(plain.get(), 2000, 2000, &copy));

	const uint64_t held = plain->host_bytes(copy);

	EXPECT_GT(held, 2000 * (sizeof(RowId) + 24));
	for (const bool on_device : {true, false})
	{
		make(held * 5 / 2); // two, not three
		device_->broken_create = !on_device;
		ASSERT_OK(load_match(engine_.get(), 2000, 2000, &copy));
		EXPECT_EQ(engine_->on_device(copy), on_device);
		ASSERT_OK(load_match(engine_.get(), 2000, 2000, &other));

		CopyId third = 0;

		EXPECT_EQ(load_match(engine_.get(), 2000, 2000, &third).code, StatusCode::kOutOfMemory);
		ASSERT_OK(engine_->drop(third));
		ASSERT_OK(engine_->drop(copy));
		ASSERT_OK(engine_->drop_segment(other, 1)); // nobody is refused what takes no room
		ASSERT_OK(load_match(engine_.get(), 2000, 2000, &third)); // the first's room is free again
	}
}

TEST_F(Tiered, RowsOfMatchSegmentsAreRowIdsAlone)
{
	constexpr size_t kRows = 10000;
	CopyId copy = 0;

	make(kRows * 3 * sizeof(RowId)); // ids as they come, those of the index, and some more; with slots it would be 40 bytes a row
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
		EXPECT_EQ(engine_->load_segment(copy, 1, rows.block(0, 1)).code, StatusCode::kInvalidArgument); // sealed; moves first
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
