// Copies of lists with codes whose rows do not fit the device: these lie in host memory, which the device reads, and
// codes stay there. The device is a CPU engine with a limit; what it would read in host memory does not count.
#include "engine/coded_rows.hpp"
#include "worker/tiered_fixture.hpp"

namespace vectorgpu::worker
{
namespace
{

constexpr uint32_t kProbes = 3;
constexpr uint32_t kCandidates = 60;

/// A segment with codes of bytes.
struct Segment
{
	explicit Segment(const Rows &rows, unsigned seed) : Segment(rows, std::mt19937(seed)) {}

	/// Its rows in four parts.
	Status load_rows(engine::Engine *engine, CopyId copy, SegmentId segment) const
	{
		const Bytes vectors = coded.vectors_by_place();
		const Rows &rows = coded.rows;
		const size_t part = rows.n() / 4 + 1;
		Status status;

		for (size_t at = 0; status.is_ok() && at < rows.n(); at += part)
		{
			const size_t n = std::min(part, rows.n() - at);

			status = engine->load_segment(
				copy, segment, {{rows.ids.data() + at, n}, vectors.data() + at * rows.row_bytes, n});
		}
		return status;
	}

	Status load(engine::Engine *engine, CopyId copy, SegmentId segment) const
	{
		Status status = load_rows(engine, copy, segment);

		if (status.is_ok())
			status = engine->load_structure(copy, segment, coded.n_lists, coded.coded_description());
		return status.is_ok() ? engine->seal_segment(copy, segment) : status;
	}

	uint64_t code_bytes() const { return coded.coded_description().size(); }
	uint64_t row_bytes() const { return coded.rows.n() * kHostRowBytes; }

	engine::test::CodedRows coded;

private:
	Segment(const Rows &rows, std::mt19937 rng)
		: coded(engine::test::ListRows(rows, 9, rng), engine::ivf::CodeKind::kSq8)
	{
	}
};

class TieredHostRows : public Tiered
{
protected:
	TieredHostRows() : first_(random_rows(1000, 3), 1), second_(more_rows(), 2) { make_reading(~uint64_t{0}); }

	void make_reading(uint64_t host_bytes)
	{
		make(host_bytes);
		device_->reads_host = true;
		ASSERT_OK(engine_->create({first_.coded.rows.spec, engine::CopyKind::kCodedLists}, &copy_));
	}

	static Rows more_rows()
	{
		std::mt19937 rng(11);
		Rows rows({Metric::kL2, ElementType::kFloat32, kDim});

		rows.add_random(400, Data::kGaussian, rng, 100000);
		return rows;
	}

	/// Answers of segment 1, and of segment 2 if it is there.
	void expect_right(bool both = false)
	{
		const engine::SegmentProbes probes[] = {{1, kProbes, kCandidates}, {2, kProbes, kCandidates}};

		for (size_t i = 0; i < 5; i++)
		{
			std::vector<std::vector<Neighbor>> results;
			SearchQuery query = {first_.coded.rows.vector(i * 7), 20, false, {}};
			std::vector<engine::test::CodedProbes> parts = {{&first_.coded, kProbes, kCandidates}};

			if (both)
				parts.push_back({&second_.coded, kProbes, kCandidates});
			query.probes = std::span(probes).first(both ? 2 : 1);
			ASSERT_OK(engine_->search(copy_, {&query, 1}, &results));
			ASSERT_NO_FATAL_FAILURE(expect_same(results[0], nearest_in_coded(parts, nullptr, query.query, 20)));
		}
	}

	/// Search, so that the copy counts as used.
	void expect_in_use()
	{
		std::vector<std::vector<Neighbor>> results;
		const SearchQuery query = {first_.coded.rows.vector(0), 1, false, {}};

		ASSERT_OK(engine_->search(copy_, {&query, 1}, &results));
	}

	Segment first_;
	Segment second_;
	CopyId copy_ = 0;
};

TEST_F(TieredHostRows, RowsThatDoNotFitGoToHostMemoryAndCodesStay)
{
	make_reading(first_.row_bytes() + 100 * kBytesPerRow); // the whole copy has no room there
	device_->limit = first_.code_bytes() + 400 * kBytesPerRow;
	ASSERT_OK(first_.load(engine_.get(), copy_, 1));
	EXPECT_EQ(device_->n_moved(), 1000u);
	EXPECT_EQ(device_->host_bytes(1), first_.row_bytes());
	EXPECT_FALSE(engine_->on_device(copy_)); // not all of it
	ASSERT_NO_FATAL_FAILURE(expect_right());
	EXPECT_EQ(device_->n_searches, 5u);
	ASSERT_EQ(lines_.size(), 1u);
	EXPECT_NE(lines_[0].find("codes are on the device"), std::string::npos);

	// The host's budget is charged with the rows, and the delta is on the device.
	const Rows others = random_rows(200, 9);
	CopyId other = 0;

	device_->broken_create = true;
	ASSERT_OK(engine_->create(others.spec, &other)); // in host memory
	EXPECT_EQ(engine_->load_segment(other, 1, others.block()).code, StatusCode::kOutOfMemory);
	ASSERT_OK(engine_->load_segment(other, 1, others.block(0, 100)));
	ASSERT_OK(engine_->append_delta(copy_, 0, others.block(0, 200)));
	ASSERT_OK(engine_->drop(copy_));
	ASSERT_OK(engine_->load_segment(other, 1, others.block(100, 100)));
	ASSERT_OK(engine_->drop(other));
	EXPECT_EQ(device_->n_moved(), 0u);
}

TEST_F(TieredHostRows, RowsOfSomeSegmentsStayOnTheDevice)
{
	device_->limit = first_.code_bytes() + second_.code_bytes() + 1100 * kBytesPerRow;
	ASSERT_OK(first_.load(engine_.get(), copy_, 1));
	EXPECT_EQ(device_->n_moved(), 0u);
	ASSERT_OK(second_.load(engine_.get(), copy_, 2));
	EXPECT_EQ(device_->n_moved(), 400u); // of the segment that was being loaded
	ASSERT_NO_FATAL_FAILURE(expect_right(true));
	EXPECT_EQ(device_->n_searches, 5u);

	// Room for a delta: those of the other one.
	const Rows others = random_rows(900, 9);

	ASSERT_OK(engine_->append_delta(copy_, 0, others.block()));
	EXPECT_EQ(device_->n_moved(), 1400u);
	ASSERT_OK(engine_->trim_delta(copy_, 900));
	ASSERT_NO_FATAL_FAILURE(expect_right(true));
	EXPECT_EQ(lines_.size(), 1u);
	ASSERT_OK(engine_->drop_segment(copy_, 2));
	EXPECT_EQ(device_->n_moved(), 1000u);
	ASSERT_NO_FATAL_FAILURE(expect_right());
}

TEST_F(TieredHostRows, CodesThatDoNotFitGoToTheHostAsAWhole)
{
	device_->limit = first_.code_bytes() / 2;
	ASSERT_OK(first_.load(engine_.get(), copy_, 1));
	EXPECT_EQ(device_->n_moved(), 0u);
	EXPECT_EQ(device_->stats().resident_bytes, 0u);
	ASSERT_NO_FATAL_FAILURE(expect_right());
	EXPECT_EQ(device_->n_searches, 0u);
	ASSERT_EQ(lines_.size(), 2u);
	EXPECT_NE(lines_[1].find("moved to host memory"), std::string::npos);

	// It comes back in the same order of preference: only codes find room, then all does.
	const auto come_back = [&]
	{
		pass_seconds(700);
		ASSERT_NO_FATAL_FAILURE(expect_right()); // in use
		engine_->rebalance();
		device_->n_searches = 0;
		ASSERT_NO_FATAL_FAILURE(expect_right());
		EXPECT_EQ(device_->n_searches, 5u);
	};

	device_->limit = first_.code_bytes() + 400 * kBytesPerRow;
	ASSERT_NO_FATAL_FAILURE(come_back());
	EXPECT_EQ(device_->n_moved(), 1000u);
	EXPECT_FALSE(engine_->on_device(copy_));
	device_->limit = ~uint64_t{0};
	ASSERT_NO_FATAL_FAILURE(come_back());
	EXPECT_EQ(device_->n_moved(), 0u);
	EXPECT_TRUE(engine_->on_device(copy_));
}

TEST_F(TieredHostRows, NeitherHasRoom)
{
	for (const uint64_t host_bytes : {uint64_t{0}, first_.row_bytes() / 2})
	{
		make_reading(host_bytes);
		device_->limit = first_.code_bytes() + 400 * kBytesPerRow;
		EXPECT_EQ(first_.load(engine_.get(), copy_, 1).code, StatusCode::kOutOfMemory);
		ASSERT_OK(engine_->drop(copy_));
		EXPECT_EQ(device_->n_moved(), 0u);
		EXPECT_EQ(device_->stats().resident_bytes, 0u);
		make_reading(first_.row_bytes() * 3); // nothing is charged any more
		ASSERT_OK(first_.load(engine_.get(), copy_, 1));
	}
}

TEST_F(TieredHostRows, AnIdleCopyLeavesItsCodesOnTheDevice)
{
	const Rows others = random_rows(500, 9);

	device_->limit = first_.code_bytes() + 1200 * kBytesPerRow;
	ASSERT_OK(first_.load(engine_.get(), copy_, 1));
	EXPECT_TRUE(engine_->on_device(copy_));
	pass_seconds(11);

	const CopyId other = load(others);

	EXPECT_TRUE(engine_->on_device(other));
	EXPECT_EQ(device_->n_moved(), 1000u);
	EXPECT_FALSE(engine_->on_device(copy_));
	ASSERT_NO_FATAL_FAILURE(expect_right());
	EXPECT_EQ(device_->n_searches, 5u);

	// Rows come back when there is room, after a pause, and make no other copy give way.
	pass_seconds(11);
	ASSERT_NO_FATAL_FAILURE(expect_right());
	engine_->rebalance();
	EXPECT_EQ(device_->n_moved(), 1000u);
	EXPECT_TRUE(engine_->on_device(other));
	ASSERT_OK(engine_->drop(other));
	engine_->rebalance();
	EXPECT_EQ(device_->n_moved(), 1000u); // not yet: the failure before
	pass_seconds(41);
	ASSERT_NO_FATAL_FAILURE(expect_right());
	engine_->rebalance();
	EXPECT_EQ(device_->n_moved(), 0u);
	EXPECT_TRUE(engine_->on_device(copy_));
	ASSERT_NO_FATAL_FAILURE(expect_right());
}

TEST_F(TieredHostRows, RowsOfASegmentThatIsBeingLoadedStayChargedAndComeLater)
{
	const auto use_and_rebalance = [&]
	{
		pass_seconds(700);
		ASSERT_NO_FATAL_FAILURE(expect_in_use());
		engine_->rebalance();
	};

	device_->limit = 400 * kBytesPerRow;
	ASSERT_OK(first_.load_rows(engine_.get(), copy_, 1));
	ASSERT_EQ(device_->n_moved(), 1000u);
	device_->limit = ~uint64_t{0};
	ASSERT_NO_FATAL_FAILURE(use_and_rebalance());
	EXPECT_EQ(device_->n_moved(), 1000u);
	EXPECT_EQ(engine_->host_bytes(copy_), first_.row_bytes());
	EXPECT_FALSE(engine_->on_device(copy_));
	ASSERT_OK(engine_->load_structure(copy_, 1, first_.coded.n_lists, first_.coded.coded_description()));
	ASSERT_OK(engine_->seal_segment(copy_, 1));
	ASSERT_NO_FATAL_FAILURE(use_and_rebalance());
	EXPECT_EQ(device_->n_moved(), 0u);
	EXPECT_EQ(engine_->host_bytes(copy_), 0u);
	EXPECT_TRUE(engine_->on_device(copy_));
	ASSERT_NO_FATAL_FAILURE(expect_right());
}

TEST_F(TieredHostRows, SegmentsThatGoTogetherPauseOnce)
{
	const Rows others = random_rows(200, 9);
	uint64_t position = 0;
	const auto move_both = [&]
	{
		device_->limit = device_->stats().resident_bytes - 1100 * kBytesPerRow;
		ASSERT_OK(engine_->append_delta(copy_, position, others.block(position, 100)));
		position += 100;
		EXPECT_EQ(device_->n_moved(), 1400u);
		device_->limit = ~uint64_t{0};
	};
	const auto rebalance_after = [&](uint64_t seconds)
	{
		pass_seconds(seconds);
		ASSERT_NO_FATAL_FAILURE(expect_in_use());
		engine_->rebalance();
	};

	ASSERT_OK(first_.load(engine_.get(), copy_, 1));
	ASSERT_OK(second_.load(engine_.get(), copy_, 2));
	ASSERT_NO_FATAL_FAILURE(move_both());
	ASSERT_NO_FATAL_FAILURE(rebalance_after(9));
	EXPECT_EQ(device_->n_moved(), 1400u);
	ASSERT_NO_FATAL_FAILURE(rebalance_after(2));
	EXPECT_EQ(device_->n_moved(), 0u);
	ASSERT_NO_FATAL_FAILURE(move_both());
	ASSERT_NO_FATAL_FAILURE(rebalance_after(19));
	EXPECT_EQ(device_->n_moved(), 1400u);
	ASSERT_NO_FATAL_FAILURE(rebalance_after(2));
	EXPECT_EQ(device_->n_moved(), 0u);
}

TEST_F(TieredHostRows, OtherCopiesHaveRoomWhileASegmentMoves)
{
	const Rows others = random_rows(100, 9);
	CopyId other = 0;

	make_reading(1200 * kBytesPerRow);
	ASSERT_OK(first_.load(engine_.get(), copy_, 1));
	ASSERT_OK(second_.load(engine_.get(), copy_, 2));
	device_->broken_create = true;
	ASSERT_OK(engine_->create(others.spec, &other)); // in host memory
	device_->limit = device_->stats().resident_bytes;

	Status status = Status::error(StatusCode::kInternal, "no rows were moved");

	device_->on_move = [&] { status = engine_->load_segment(other, 1, others.block()); };
	ASSERT_OK(engine_->append_delta(copy_, 0, others.block()));
	ASSERT_OK(status);
	EXPECT_EQ(device_->n_moved(), 1000u);
	ASSERT_OK(engine_->trim_delta(copy_, 100));
	ASSERT_NO_FATAL_FAILURE(expect_right(true));
}

TEST_F(TieredHostRows, OtherKindsMoveAsAWhole)
{
	const Rows rows = random_rows(1000, 2);

	device_->limit = 600 * kBytesPerRow;

	const CopyId copy = load(rows);

	EXPECT_FALSE(engine_->on_device(copy));
	EXPECT_EQ(device_->n_moves, 0u);
	expect_answers(copy, rows);
}

} // namespace
} // namespace vectorgpu::worker
