// An engine of several devices gives the bits of one engine: over random changes, all kinds of copies, with conditions,
// in replicas and in shards, and after the loss of a device.
#include <map>
#include <thread>

#include "engine/list_rows.hpp"
#include "match/copies.hpp"
#include "worker/spread_fixture.hpp"

namespace vectorgpu::worker
{
namespace
{

constexpr uint32_t kDim = 16;
const DistanceSpec kSpec = {Metric::kL2, ElementType::kFloat32, kDim};
constexpr uint64_t kRowBytes = kDim * 4 + 16;

enum class Room
{
	kReplicas,
	kShards, // a copy is cut early
};

uint64_t
device_bytes(Room room)
{
	return room == Room::kReplicas ? 0 : 2600 * kRowBytes;
}

class SpreadKinds : public testing::TestWithParam<std::tuple<CopyKind, Room>>
{
};

/// Searches without and with conditions, of few and of all lists, from the beginning and continued.
TEST_P(SpreadKinds, AnswersHaveTheSameBits)
{
	const auto [kind, room] = GetParam();
	SpreadBench bench;
	std::unique_ptr<SpreadEngine> made = bench.make(3, device_bytes(room));
	SpreadEngine *const engine = made.get();
	PassingCopy held(std::move(made), kind, kSpec, Data::kGaussian, 3);
	PassingCopy plain(engine::make_cpu_engine({}), kind, kSpec, Data::kGaussian, 3);
	const bool has_codes = engine::has_codes(kind);
	std::mt19937 rng(8);
	Rows asked(kSpec);

	asked.add_random(9, Data::kGaussian, rng, 1);
	EXPECT_EQ(engine->is_sharded(held.copy), room == Room::kShards);
	EXPECT_GE(engine->n_places(held.copy), 2u);
	for (const auto &[share, region] :
		{std::pair(1.0, Region::kRandom), {0.5, Region::kRandom}, {0.03, Region::kRandom}, {0.2, Region::kFar},
			{0.02, Region::kFar}, {0.3, Region::kNear}, {0.005, Region::kRandom}})
		for (const uint32_t probes : {0u, 2u, 1000u})
		{
			const std::vector<engine::SegmentProbes> named = {
				{1, probes, has_codes ? 40u : 0u}, {2, probes, has_codes ? 20u : 0u}, {3, probes, has_codes ? 7u : 0u}};
			const engine::Passing passing = held.passing(share, region, asked.vector(0));
			std::vector<SearchQuery> queries;

			(void) plain.passing(share, region, asked.vector(0)); // both draw the same numbers
			for (size_t i = 0; i < asked.n(); i++)
			{
				SearchQuery &query = queries.emplace_back();

				query.query = asked.vector(i);
				query.k = 1 + i * 13;
				query.has_after = i % 4 == 3;
				query.after = {20, 5};
				if (probes > 0 && engine::takes_probes(kind))
					query.probes = named;
				if (share < 1)
					query.passing = &passing;
			}
			ASSERT_NO_FATAL_FAILURE(expect_same_answers(engine, held.copy, plain.engine.get(), plain.copy, queries))
				<< "share " << share << " probes " << probes;
		}
}

INSTANTIATE_TEST_SUITE_P(All, SpreadKinds,
	testing::Combine(testing::Values(CopyKind::kRows, CopyKind::kLists, CopyKind::kGraph, CopyKind::kCodedLists,
						 CopyKind::kHashedGraph),
		testing::Values(Room::kReplicas, Room::kShards)));

/// Both engines get the same random changes; what they return and what they read back is the same.
class SpreadChanges : public testing::TestWithParam<Room>
{
protected:
	void change_at_random()
	{
		switch (rng_() % 8)
		{
			case 0:
			case 1:
				return load();
			case 2:
				return append();
			case 3:
				return kill();
			case 4:
				return kill_delta();
			case 5:
				return trim();
			case 6:
				return drop();
			default:
				return seal();
		}
	}

	void both(const std::function<Status(engine::Engine *, CopyId)> &call)
	{
		const Status got = call(engine_.get(), copy_);
		const Status want = call(plain_.get(), plain_copy_);

		ASSERT_EQ(got.code, want.code) << got.message << " / " << want.message;
	}

	void load()
	{
		const SegmentId id = 1 + static_cast<SegmentId>(rng_() % 4);
		const size_t n = rng_() % 130;
		Rows rows(kSpec);

		rows.add_random(n, Data::kGaussian, rng_, next_row_);
		next_row_ += n;
		both([&](engine::Engine *e, CopyId c) { return e->load_segment(c, id, rows.block()); });
		if (!sealed_[id])
			sizes_[id] += n;
	}

	void seal()
	{
		const SegmentId id = 1 + static_cast<SegmentId>(rng_() % 4);

		both([&](engine::Engine *e, CopyId c) { return e->seal_segment(c, id); });
		sealed_[id] = sizes_.contains(id);
	}

	void drop()
	{
		const SegmentId id = 1 + static_cast<SegmentId>(rng_() % 4);

		both([&](engine::Engine *e, CopyId c) { return e->drop_segment(c, id); });
		sizes_.erase(id);
		sealed_[id] = false;
	}

	void append()
	{
		const size_t n = rng_() % 30;
		Rows rows(kSpec);

		rows.add_random(n, Data::kGaussian, rng_, next_row_);
		next_row_ += n;
		both([&](engine::Engine *e, CopyId c) { return e->append_delta(c, delta_end_, rows.block()); });
		delta_end_ += n;
	}

	void trim()
	{
		delta_first_ += rng_() % 20;
		delta_end_ = std::max(delta_end_, delta_first_);
		both([&](engine::Engine *e, CopyId c) { return e->trim_delta(c, delta_first_); });
	}

	void kill()
	{
		const SegmentId id = 1 + static_cast<SegmentId>(rng_() % 4);
		Bytes bits((sizes_[id] + 7) / 8);

		if (sizes_[id] == 0)
			return (void) sizes_.erase(id);
		for (size_t i = 0; i < sizes_[id]; i++)
			bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | (rng_() % 9 == 0 ? 1 : 0) << (i % 8));
		both([&](engine::Engine *e, CopyId c) { return e->set_tombstones(c, id, bits); });
	}

	void kill_delta()
	{
		const Bytes bits = {static_cast<uint8_t>(rng_()), static_cast<uint8_t>(rng_() & 3)};

		both([&](engine::Engine *e, CopyId c) { return e->set_delta_tombstones(c, delta_first_, bits); });
	}

	void expect_same_rows()
	{
		for (const auto &[id, n] : sizes_)
		{
			std::vector<RowId> ids[2] = {std::vector<RowId>(n), std::vector<RowId>(n)};
			Bytes vectors[2] = {Bytes(n * kDim * 4), Bytes(n * kDim * 4)};
			Bytes bits[2] = {Bytes((n + 7) / 8), Bytes((n + 7) / 8)};
			uint64_t n_different = 0;

			ASSERT_OK(engine_->read_rows(copy_, id, 0, n, ids[0].data(), vectors[0].data()));
			ASSERT_OK(plain_->read_rows(plain_copy_, id, 0, n, ids[1].data(), vectors[1].data()));
			ASSERT_OK(engine_->read_tombstones(copy_, id, 0, n, bits[0].data()));
			ASSERT_OK(plain_->read_tombstones(plain_copy_, id, 0, n, bits[1].data()));
			ASSERT_OK(engine_->check_derived(copy_, id, 0, n, &n_different));
			ASSERT_EQ(n_different, 0u);
			ASSERT_EQ(ids[0], ids[1]);
			ASSERT_EQ(vectors[0], vectors[1]);
			ASSERT_EQ(bits[0], bits[1]);
		}
	}

	void expect_same_searches()
	{
		std::vector<SearchQuery> queries(5);
		Rows asked(kSpec);

		asked.add_random(queries.size(), Data::kGaussian, rng_, 1);
		for (size_t i = 0; i < queries.size(); i++)
		{
			queries[i].query = asked.vector(i);
			queries[i].k = 1 + rng_() % 40;
		}
		expect_same_answers(engine_.get(), copy_, plain_.get(), plain_copy_, queries);
	}

	std::mt19937 rng_{7};
	SpreadBench bench_;
	std::unique_ptr<SpreadEngine> engine_;
	std::unique_ptr<engine::Engine> plain_;
	CopyId copy_ = 0;
	CopyId plain_copy_ = 0;
	RowId next_row_ = 1;
	uint64_t delta_first_ = 0;
	uint64_t delta_end_ = 0;
	std::map<SegmentId, size_t> sizes_;
	std::map<SegmentId, bool> sealed_;
};

TEST_P(SpreadChanges, RandomChangesGiveTheSameCopy)
{
	size_t n_cut = 0;

	for (unsigned seed = 1; seed <= 12; seed++)
	{
		rng_.seed(seed);
		sizes_.clear();
		sealed_.clear();
		delta_first_ = delta_end_ = 0;
		engine_ = bench_.make(3, GetParam() == Room::kReplicas ? 0 : 1000 * kRowBytes);
		plain_ = engine::make_cpu_engine({});
		ASSERT_OK(engine_->create(kSpec, &copy_));
		ASSERT_OK(plain_->create(kSpec, &plain_copy_));
		for (int step = 0; step < 120; step++)
		{
			ASSERT_NO_FATAL_FAILURE(change_at_random()) << "seed " << seed << " step " << step;
			ASSERT_NO_FATAL_FAILURE(expect_same_searches()) << "seed " << seed << " step " << step;
			if (step % 10 == 0)
			{
				ASSERT_NO_FATAL_FAILURE(expect_same_rows()) << "seed " << seed << " step " << step;
			}
		}
		n_cut += engine_->is_sharded(copy_) ? 1 : 0;
		ASSERT_OK(engine_->drop(copy_));
		EXPECT_EQ(engine_->stats().resident_bytes, 0u);
		for (const engine::DeviceStats &device : engine_->devices())
			EXPECT_EQ(device.resident_bytes, 0u);
	}
	EXPECT_GE(n_cut, GetParam() == Room::kReplicas ? 0u : 6u);
	EXPECT_LE(n_cut, GetParam() == Room::kReplicas ? 0u : 12u);
}

INSTANTIATE_TEST_SUITE_P(All, SpreadChanges, testing::Values(Room::kReplicas, Room::kShards));

class Spread : public testing::Test
{
protected:
	/// A sealed segment of n rows, given in small blocks, in the engine and in one CPU engine.
	void load(size_t n, size_t n_devices, uint64_t bytes)
	{
		std::mt19937 rng(4);

		engine_ = bench_.make(n_devices, bytes);
		rows_.add_random(n, Data::kGaussian, rng, 1);
		ASSERT_OK(engine_->create(kSpec, &copy_));
		load_into(engine_.get(), copy_);
		ASSERT_OK(plain_->create(kSpec, &plain_copy_));
		load_into(plain_.get(), plain_copy_);
	}

	void load_into(engine::Engine *engine, CopyId copy)
	{
		for (size_t first = 0; first < rows_.n(); first += 25)
			ASSERT_OK(engine->load_segment(copy, 1, rows_.block(first, std::min<size_t>(25, rows_.n() - first))));
		ASSERT_OK(engine->seal_segment(copy, 1));
	}

	void expect_answers(size_t n_queries = 7)
	{
		std::vector<SearchQuery> queries(n_queries);

		for (size_t i = 0; i < n_queries; i++)
		{
			queries[i].query = rows_.vector(i);
			queries[i].k = 20;
		}
		expect_same_answers(engine_.get(), copy_, plain_.get(), plain_copy_, queries);
	}

	std::vector<uint64_t> bytes() { return engine_->device_bytes(copy_); }

	SpreadBench bench_;
	Rows rows_{kSpec};
	std::unique_ptr<SpreadEngine> engine_;
	std::unique_ptr<engine::Engine> plain_ = engine::make_cpu_engine({});
	CopyId copy_ = 0;
	CopyId plain_copy_ = 0;
};

TEST_F(Spread, ASmallCopyIsOnEachDevice)
{
	load(500, 2, 0);
	EXPECT_EQ(bytes(), (std::vector<uint64_t>{500 * kRowBytes, 500 * kRowBytes}));
	EXPECT_FALSE(engine_->is_sharded(copy_));
	EXPECT_LT(engine_->stats().resident_bytes, 700 * kRowBytes); // the other replica gives way
	expect_answers(1);
	expect_answers(64);
	EXPECT_EQ(engine_->n_batches_at_once(), 2u);
}

TEST_F(Spread, ACopyLargerThanADeviceIsCutInEqualShards)
{
	load(1500, 2, 1000 * kRowBytes);
	EXPECT_TRUE(engine_->is_sharded(copy_));
	ASSERT_EQ(bytes().size(), 2u);
	EXPECT_EQ(bytes()[0] + bytes()[1], 1500 * kRowBytes);
	EXPECT_LT(bytes()[0], 850 * kRowBytes);
	EXPECT_LT(bytes()[1], 850 * kRowBytes);
	expect_answers();
	for (const engine::DeviceStats &device : engine_->devices())
		EXPECT_LE(device.resident_bytes, device.budget_bytes);
}

TEST_F(Spread, ACopyThatNoDevicesHoldIsRefused)
{
	engine_ = bench_.make(2, 100 * kRowBytes);
	ASSERT_OK(engine_->create(kSpec, &copy_));

	std::mt19937 rng(4);
	Rows rows(kSpec);
	Status status;

	rows.add_random(300, Data::kGaussian, rng, 1);
	for (size_t first = 0; first < 300 && status.is_ok(); first += 25)
		status = engine_->load_segment(copy_, 1, rows.block(first, 25));
	EXPECT_EQ(status.code, StatusCode::kOutOfMemory);
	EXPECT_EQ(bytes()[0] + bytes()[1], 200 * kRowBytes);
}

TEST_F(Spread, ReplicasGiveWayToACopyThatNeedsTheRoom)
{
	CopyId other = 0;

	load(400, 2, 1000 * kRowBytes);
	EXPECT_EQ(engine_->n_places(copy_), 2u);
	ASSERT_OK(engine_->create(kSpec, &other));

	Rows rows(kSpec);
	std::mt19937 rng(9);

	rows.add_random(1500, Data::kGaussian, rng, 10000);
	for (size_t first = 0; first < rows.n(); first += 25)
		ASSERT_OK(engine_->load_segment(other, 1, rows.block(first, 25)));
	ASSERT_OK(engine_->seal_segment(other, 1));
	EXPECT_EQ(engine_->n_places(copy_), 1u);
	EXPECT_TRUE(engine_->is_sharded(other));
	expect_answers();

	// With room again the replica comes back.
	ASSERT_OK(engine_->drop(other));
	engine_->tend();
	EXPECT_EQ(engine_->n_places(copy_), 2u);
	expect_answers(64);
}

/// A segment of lists is on one device: only what gives way there helps it.
TEST_F(Spread, ReplicasGiveWayWhereTheRoomIsNeeded)
{
	load(100, 2, 1000 * kRowBytes);
	for (const auto &[n_blocks, block] : {std::pair<size_t, size_t>{36, 25}, {26, 35}})
	{
		CopyId copy = 0;
		Rows rows(kSpec);
		std::mt19937 rng(9);

		rows.add_random(n_blocks * block, Data::kGaussian, rng, 1000);
		ASSERT_OK(engine_->create({kSpec, CopyKind::kLists}, &copy));
		for (size_t i = 0; i < n_blocks; i++)
			ASSERT_OK(engine_->load_segment(copy, 1, rows.block(i * block, block)));
	}
	EXPECT_EQ(bytes(), (std::vector<uint64_t>{100 * kRowBytes, 0})); // the first device is full to the last row
	EXPECT_EQ(engine_->devices()[0].resident_bytes, 1000 * kRowBytes);
	EXPECT_EQ(engine_->devices()[1].resident_bytes, 910 * kRowBytes);
	expect_answers();
}

TEST_F(Spread, ALostDeviceTakesItsReplicasOnly)
{
	load(500, 3, 0);
	bench_.lose_at = 1; // in the middle of a search
	expect_answers(1);
	EXPECT_EQ(engine_->devices()[0].usable + engine_->devices()[1].usable + engine_->devices()[2].usable, 2);
	expect_answers(64);
	EXPECT_FALSE(engine_->has_lost(copy_));

	// It stays away for 10 s, then comes back, and gets the copy again.
	engine_->tend();
	EXPECT_EQ(engine_->n_places(copy_), 3u); // the lost one among them
	bench_.pass_seconds(11);
	bench_.refuse_open = true;
	engine_->tend();
	EXPECT_FALSE(engine_->devices()[0].usable && engine_->devices()[1].usable && engine_->devices()[2].usable);
	bench_.refuse_open = false;
	bench_.pass_seconds(21);
	engine_->tend();
	EXPECT_TRUE(engine_->devices()[0].usable && engine_->devices()[1].usable && engine_->devices()[2].usable);
	EXPECT_EQ(bytes(), (std::vector<uint64_t>(3, 500 * kRowBytes)));
	expect_answers(64);
	EXPECT_EQ(bench_.n_all_lost, 0);
}

TEST_F(Spread, ALostShardTakesItsCopiesOnly)
{
	load(1500, 2, 1000 * kRowBytes);

	CopyId small = 0;
	std::vector<std::vector<Neighbor>> results;
	const SearchQuery query = {rows_.vector(3), 5, false, {}};

	ASSERT_OK(engine_->create(kSpec, &small));
	ASSERT_OK(engine_->load_segment(small, 1, rows_.block(0, 50)));
	ASSERT_OK(engine_->seal_segment(small, 1));
	engine_->lose(1);
	EXPECT_EQ(engine_->search(copy_, {&query, 1}, &results).code, StatusCode::kNotFound);
	EXPECT_EQ(engine_->append_delta(copy_, 0, rows_.block(0, 1)).code, StatusCode::kNotFound);
	EXPECT_TRUE(engine_->has_lost(copy_));
	EXPECT_FALSE(engine_->has_lost(small));
	ASSERT_OK(engine_->search(small, {&query, 1}, &results));
	EXPECT_EQ(results[0].size(), 5u);
	ASSERT_OK(engine_->drop(copy_));
	EXPECT_EQ(engine_->devices()[0].resident_bytes, 50 * kRowBytes);
	engine_->lose(0);
	EXPECT_EQ(bench_.n_all_lost, 1);
	EXPECT_EQ(engine_->create(kSpec, &small).code, StatusCode::kNotFound);
}

TEST_F(Spread, ACheckFindsAReplicaThatDiffers)
{
	uint64_t n_different = 0;

	load(500, 2, 0);
	ASSERT_OK(engine_->check_derived(copy_, 1, 0, 500, &n_different));
	EXPECT_EQ(n_different, 0u);

	Bytes dead(63);

	dead[1] = 5;
	ASSERT_OK(bench_.engines[1]->set_tombstones(1, 1, dead)); // behind the back of the others
	ASSERT_OK(engine_->check_derived(copy_, 1, 0, 500, &n_different));
	EXPECT_EQ(n_different, 2u);
}

TEST_F(Spread, SearchesGoOnWhileDevicesAreLostAndCopiesAreCut)
{
	std::atomic<bool> stop{false};
	std::atomic<uint64_t> n_answered{0};
	std::atomic<uint64_t> n_wrong{0};

	load(450, 3, 1000 * kRowBytes);

	std::vector<std::thread> threads;

	for (unsigned t = 0; t < 3; t++)
		threads.emplace_back(
			[&, t]
			{
				for (size_t i = t; !stop; i++)
				{
					std::vector<std::vector<Neighbor>> got;
					std::vector<std::vector<Neighbor>> want;
					const SearchQuery query = {rows_.vector(i % 450), 10, false, {}};

					// The further segment has rows that are equal to others and behind them: both answers are right.
					if (!engine_->search(copy_, {&query, 1}, &got).is_ok() ||
						!plain_->search(plain_copy_, {&query, 1}, &want).is_ok() || got[0].size() != want[0].size() ||
						got[0][0].row != want[0][0].row || bits_of(got[0][0].score) != bits_of(want[0][0].score))
						n_wrong++;
					n_answered++;
				}
			});

	Rows more(kSpec);

	for (size_t i = 0; i < 450; i++)
		more.add(100000 + i, rows_.vector(i));
	engine_->lose(0);
	bench_.pass_seconds(11);
	engine_->tend();
	for (size_t first = 0; first < 450; first += 25)
		ASSERT_OK(engine_->load_segment(copy_, 2, more.block(first, 25)));
	ASSERT_OK(engine_->seal_segment(copy_, 2));
	EXPECT_TRUE(engine_->is_sharded(copy_));
	while (n_answered < 300)
		std::this_thread::yield();
	stop = true;
	for (std::thread &thread : threads)
		thread.join();
	EXPECT_EQ(n_wrong, 0u);
}

/// Sets and texts in two segments, with a delta and tombstones.
TEST_F(Spread, MatchIndexesAnswerRight)
{
	for (const Metric metric : {Metric::kMatchCount, Metric::kEdit})
	{
		uint64_t room = 0; // of a device: any, then less than twice the copy

		for (const bool cut : {false, true})
		{
			std::unique_ptr<vectorgpu::test::MatchRows> sets;

			if (metric == Metric::kEdit)
				sets = std::make_unique<vectorgpu::test::TextRows>(3, 600, 250, 40);
			else
				sets = std::make_unique<vectorgpu::test::MatchRows>(3, 600, 250, 40);

			const auto engine = bench_.make(2, room);
			CopyId copy = 0;

			ASSERT_OK(engine->create(vectorgpu::test::match_spec(metric), &copy));
			sets->load(engine.get(), copy);
			sets->expect_answers(engine.get(), copy);
			EXPECT_EQ(engine->is_sharded(copy), cut);
			room = engine->device_bytes(copy)[0] * 9 / 10;
		}
	}
}

} // namespace
} // namespace vectorgpu::worker
