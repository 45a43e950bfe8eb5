// Copies of graphs with codes, which lie in host memory as a whole: only the device's part of them comes and goes, and
// what they are charged with returns to nothing.
#include "engine/graph_rows.hpp"
#include "worker/tiered_fixture.hpp"

namespace vectorgpu::worker
{
namespace
{

/// A segment with codes, and copies of it.
struct CodedRows
{
	explicit CodedRows(const Rows &rows) : graphed(rows, 8, 1, Edges::kRandom)
	{
		graphed.add_codes(64);
		structure_bytes = graphed.description().size();

		const auto plain = engine::make_cpu_engine({});
		CopyId copy = 0;

		EXPECT_TRUE(load(plain.get(), &copy).is_ok());
		host_bytes = plain->host_bytes(copy);
	}

	Status load(engine::Engine *engine, CopyId *copy) const
	{
		const Status status = engine->create({graphed.rows.spec, engine::CopyKind::kHashedGraph}, copy);

		return status.is_ok() ? graphed.load(engine, *copy, 1) : status;
	}

	void expect_answers(engine::Engine *engine, CopyId copy, const std::set<RowId> &dead = {}) const
	{
		const engine::SegmentProbes probes[] = {{1, 40}};

		for (size_t i = 0; i < 5; i++)
		{
			std::vector<std::vector<Neighbor>> results;
			SearchQuery query = {graphed.rows.vector(i * 7), 20, false, {}};

			query.probes = probes;
			ASSERT_OK(engine->search(copy, {&query, 1}, &results));
			ASSERT_NO_FATAL_FAILURE(
				expect_same(results[0], nearest_in_graphs({{&graphed, 40}}, nullptr, query.query, 20, nullptr, dead)));
		}
	}

	GraphedRows graphed;
	uint64_t structure_bytes = 0;
	uint64_t host_bytes = 0;
};

class TieredHashed : public Tiered
{
};

TEST_F(TieredHashed, ACopyWithCodesNeedsItsHostMemoryOnce)
{
	const CodedRows rows(random_rows(1000, 8));
	CopyId copy = 0;
	CopyId other = 0;

	for (const uint64_t limit : {~uint64_t{0}, uint64_t{0}})
	{
		make(rows.host_bytes * 5 / 4); // one, and not two
		device_->limit = limit;
		ASSERT_OK(rows.load(engine_.get(), &copy));
		EXPECT_EQ(engine_->on_device(copy), limit != 0);
		EXPECT_EQ(device_->attached_bytes(), limit == 0 ? 0 : rows.structure_bytes);
		rows.expect_answers(engine_.get(), copy);
		EXPECT_EQ(rows.load(engine_.get(), &other).code, StatusCode::kOutOfMemory);
		rows.expect_answers(engine_.get(), copy);
		ASSERT_OK(engine_->drop(other));

		// To the device and away from it: nothing more of the host is needed.
		device_->limit = ~uint64_t{0};
		engine_->rebalance();
		EXPECT_TRUE(engine_->on_device(copy));
		EXPECT_EQ(device_->attached_bytes(), rows.structure_bytes);
		rows.expect_answers(engine_.get(), copy);
		EXPECT_EQ(rows.load(engine_.get(), &other).code, StatusCode::kOutOfMemory);
		ASSERT_OK(engine_->drop(other));
		ASSERT_OK(engine_->drop(copy));
		EXPECT_EQ(engine_->stats().resident_bytes, 0u);
		ASSERT_OK(rows.load(engine_.get(), &copy)); // all of its room is free again
		ASSERT_OK(engine_->drop_segment(copy, 1));
		ASSERT_OK(rows.graphed.load(engine_.get(), copy, 2));
	}
	EXPECT_EQ(device_->n_searches, 3 * 5u) << "they are searched where they lie";
}

TEST_F(TieredHashed, TheDevicesPartOfAnIdleCopyWithCodesGivesWay)
{
	const CodedRows rows(random_rows(1000, 8));
	const Rows others = random_rows(400, 5);
	std::vector<uint8_t> bits((rows.graphed.rows.n() + 7) / 8);
	CopyId copy = 0;

	bits[0] = 5;
	make(rows.host_bytes + others.n() * kBytesPerRow / 2); // nothing else finds room in host memory
	device_->limit = rows.structure_bytes + others.n() * kBytesPerRow / 2;
	ASSERT_OK(rows.load(engine_.get(), &copy));
	ASSERT_OK(engine_->set_tombstones(copy, 1, bits));
	EXPECT_TRUE(engine_->on_device(copy));
	pass_seconds(11);

	CopyId plain = load(others);

	EXPECT_TRUE(engine_->on_device(plain));
	EXPECT_FALSE(engine_->on_device(copy));
	EXPECT_EQ(device_->attached_bytes(), 0u);
	EXPECT_TRUE(lines_.empty());

	const std::set<RowId> dead = {rows.graphed.rows.ids[0], rows.graphed.rows.ids[2]};

	rows.expect_answers(engine_.get(), copy, dead);
	engine_->rebalance(); // the other is busy
	EXPECT_FALSE(engine_->on_device(copy));
	ASSERT_OK(engine_->drop(plain));
	engine_->rebalance(); // not at once again
	EXPECT_FALSE(engine_->on_device(copy));
	pass_seconds(10);
	rows.expect_answers(engine_.get(), copy, dead);
	engine_->rebalance();
	EXPECT_TRUE(engine_->on_device(copy));
	EXPECT_EQ(device_->attached_bytes(), rows.structure_bytes);
	rows.expect_answers(engine_.get(), copy, dead);

	// A copy with codes makes others go, too. What is idle gives way only where host memory has room.
	pass_seconds(11);
	plain = load(others);
	EXPECT_FALSE(engine_->on_device(copy));
	pass_seconds(11);
	rows.expect_answers(engine_.get(), copy, dead);
	engine_->rebalance();
	EXPECT_FALSE(engine_->on_device(copy)) << "no room for the other's rows";
	EXPECT_TRUE(engine_->on_device(plain));
	ASSERT_OK(engine_->drop(plain));
	ASSERT_OK(engine_->drop(copy));
	EXPECT_EQ(engine_->stats().resident_bytes, 0u);
}

TEST_F(TieredHashed, TheDeviceHasTheSegmentsThatFitOfACopyWithCodes)
{
	const CodedRows rows(random_rows(1000, 8));
	const CodedRows more(random_rows(300, 9));
	CopyId copy = 0;

	make(rows.host_bytes + more.host_bytes + 4096);
	device_->limit = rows.structure_bytes + more.structure_bytes / 2;
	ASSERT_OK(rows.load(engine_.get(), &copy));
	EXPECT_TRUE(engine_->on_device(copy));
	ASSERT_OK(more.graphed.load(engine_.get(), copy, 2));
	EXPECT_FALSE(engine_->on_device(copy));
	EXPECT_EQ(device_->attached_bytes(), rows.structure_bytes);
	ASSERT_EQ(lines_.size(), 1u);
	EXPECT_EQ(lines_[0], "a copy is not all on the device, the host searches the rest: the device is full");
	ASSERT_OK(engine_->prepare_segment(copy, 2));
	EXPECT_EQ(lines_.size(), 1u);
	ASSERT_OK(engine_->drop_segment(copy, 1)); // a merge
	engine_->rebalance();
	EXPECT_TRUE(engine_->on_device(copy));
	EXPECT_EQ(device_->attached_bytes(), more.structure_bytes);
	ASSERT_OK(engine_->drop(copy));
	EXPECT_EQ(engine_->stats().resident_bytes, 0u);
}

TEST_F(TieredHashed, ACopyWithCodesThatTheDeviceDoesNotTakeStaysOnTheHost)
{
	const CodedRows rows(random_rows(1000, 8));
	CopyId copy = 0;

	for (const bool unsupported : {true, false})
	{
		make(rows.host_bytes * 5 / 4);
		(unsupported ? device_->unsupported : device_->broken_create) = true;
		ASSERT_OK(rows.load(engine_.get(), &copy));
		device_->unsupported = device_->broken_create = false;
		rows.expect_answers(engine_.get(), copy);
		engine_->rebalance(); // it would need its host memory twice on the way
		EXPECT_FALSE(engine_->on_device(copy));
		rows.expect_answers(engine_.get(), copy);
		EXPECT_EQ(device_->n_searches, 0u);
	}
}

} // namespace
} // namespace vectorgpu::worker
