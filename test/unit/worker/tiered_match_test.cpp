// Copies of sets and texts, which lie in host memory as a whole: only the device's part of them comes and goes, and
// they answer wherever it is.
#include "match/copies.hpp"
#include "worker/tiered_fixture.hpp"

namespace vectorgpu::worker
{
namespace
{

using vectorgpu::test::match_spec;
using vectorgpu::test::MatchRows;
using vectorgpu::test::TextRows;

/// Bytes of host memory that a copy takes.
uint64_t
host_bytes_of(MatchRows *rows, const CopySpec &spec)
{
	const auto plain = engine::make_cpu_engine(engine::CpuEngineOptions());
	CopyId copy = 0;

	EXPECT_TRUE(plain->create(spec, &copy).is_ok());
	rows->load(plain.get(), copy);
	return plain->host_bytes(copy);
}

class TieredMatch : public Tiered, public testing::WithParamInterface<Metric>
{
protected:
	TieredMatch()
	{
		if (GetParam() == Metric::kEdit)
			rows_ = std::make_unique<TextRows>(3, 600, 250, 40);
		else
			rows_ = std::make_unique<MatchRows>(3, 600, 250, 40);
		host_bytes_ = host_bytes_of(rows_.get(), match_spec(GetParam()));
	}

	CopyId load()
	{
		CopyId copy = 0;

		EXPECT_TRUE(engine_->create(match_spec(GetParam()), &copy).is_ok());
		rows_->load(engine_.get(), copy);
		return copy;
	}

	void expect_right(CopyId copy) { rows_->expect_answers(engine_.get(), copy); }

	std::unique_ptr<MatchRows> rows_;
	uint64_t host_bytes_ = 0;
};

TEST_P(TieredMatch, ACopyNeedsItsHostMemoryOnce)
{
	for (const uint64_t limit : {~uint64_t{0}, uint64_t{0}})
	{
		CopyId other = 0;

		make(host_bytes_ * 7 / 4); // one, and not two; a segment takes its description twice while it is sealed
		device_->limit = limit;

		const CopyId copy = load();

		EXPECT_EQ(engine_->on_device(copy), limit != 0);
		EXPECT_EQ(device_->attached_bytes() > 0, limit != 0);
		ASSERT_NO_FATAL_FAILURE(expect_right(copy));

		// To the device and away from it: nothing more of the host is needed, and nothing is lost.
		device_->limit = ~uint64_t{0};
		engine_->rebalance();
		EXPECT_TRUE(engine_->on_device(copy));
		EXPECT_GT(device_->attached_bytes(), 0u);
		ASSERT_NO_FATAL_FAILURE(expect_right(copy));
		ASSERT_OK(engine_->create(match_spec(GetParam()), &other));
		EXPECT_LE(engine_->stats().resident_bytes, device_->attached_bytes());
		ASSERT_OK(engine_->drop(other));
		ASSERT_OK(engine_->drop(copy));
		EXPECT_EQ(engine_->stats().resident_bytes, 0u);
	}
}

TEST_P(TieredMatch, TheDevicesPartOfAnIdleCopyGivesWayAndComesBack)
{
	const Rows others = random_rows(400, 5);

	make(host_bytes_ * 2); // in host memory only one of them
	device_->limit = ~uint64_t{0};

	const CopyId copy = load();
	const uint64_t structure_bytes = device_->attached_bytes();

	device_->limit = structure_bytes / 2 + others.n() * kBytesPerRow;
	ASSERT_NO_FATAL_FAILURE(rows_->kill(engine_.get(), copy));
	EXPECT_TRUE(engine_->on_device(copy));
	pass_seconds(11);

	const CopyId plain = Tiered::load(others);

	EXPECT_TRUE(engine_->on_device(plain));
	EXPECT_FALSE(engine_->on_device(copy));
	EXPECT_EQ(device_->attached_bytes(), 0u);
	ASSERT_NO_FATAL_FAILURE(expect_right(copy)); // dead rows are still dead, the delta is there
	ASSERT_NO_FATAL_FAILURE(rows_->kill(engine_.get(), copy));
	ASSERT_NO_FATAL_FAILURE(expect_right(copy));
	engine_->rebalance(); // the other is busy
	EXPECT_FALSE(engine_->on_device(copy));
	ASSERT_NO_FATAL_FAILURE(expect_right(copy));
	ASSERT_OK(engine_->drop(plain));
	device_->limit = ~uint64_t{0};
	pass_seconds(10);
	ASSERT_NO_FATAL_FAILURE(expect_right(copy));
	engine_->rebalance();
	EXPECT_TRUE(engine_->on_device(copy));
	EXPECT_EQ(device_->attached_bytes(), structure_bytes);
	ASSERT_NO_FATAL_FAILURE(expect_right(copy)); // dead rows came along
	ASSERT_OK(engine_->drop(copy));
	EXPECT_EQ(engine_->stats().resident_bytes, 0u);
}

TEST_P(TieredMatch, TheHostAnswersForSegmentsThatFindNoRoom)
{
	device_->limit = ~uint64_t{0};

	const CopyId first = load();
	const uint64_t structure_bytes = device_->attached_bytes();

	device_->limit = structure_bytes * 5 / 4; // of the next one the smaller segment at most

	const CopyId second = load();

	EXPECT_TRUE(engine_->on_device(first));
	EXPECT_FALSE(engine_->on_device(second));
	ASSERT_EQ(lines_.size(), 1u);
	EXPECT_EQ(lines_[0], "a copy is not all on the device, the host searches the rest: the device is full");
	ASSERT_NO_FATAL_FAILURE(expect_right(second));
	ASSERT_NO_FATAL_FAILURE(rows_->kill(engine_.get(), second));
	ASSERT_NO_FATAL_FAILURE(expect_right(second));
	engine_->rebalance(); // the first one is busy
	EXPECT_FALSE(engine_->on_device(second));
	ASSERT_NO_FATAL_FAILURE(expect_right(second));
	ASSERT_OK(engine_->drop(first));
	pass_seconds(10);
	ASSERT_NO_FATAL_FAILURE(expect_right(second));
	engine_->rebalance();
	EXPECT_TRUE(engine_->on_device(second));
	ASSERT_NO_FATAL_FAILURE(expect_right(second));
}

INSTANTIATE_TEST_SUITE_P(Metrics, TieredMatch, testing::Values(Metric::kMatchCount, Metric::kEdit));

} // namespace
} // namespace vectorgpu::worker
