// An engine of several devices and ways to store rows that only some engines have: rounded rows beside the vectors, and
// codes that a device does not scan.
#include "engine/coded_rows.hpp"
#include "engine/list_rows.hpp"
#include "worker/spread_fixture.hpp"
#include "worker/tiered_fixture.hpp"

namespace vectorgpu::worker
{
namespace
{

const DistanceSpec kRoundedSpec = {Metric::kL2, ElementType::kFloat32, 64};

class SpreadRounded : public testing::TestWithParam<std::tuple<CopyKind, bool>> // whether it is cut
{
};

TEST_P(SpreadRounded, RowsAreChargedAndAnswersHaveTheSameBits)
{
	const auto [kind, cut] = GetParam();
	const uint64_t bare = 900 * (64 * 4 + 16); // of the largest segment
	SpreadBench bench;
	std::unique_ptr<SpreadEngine> made = bench.make(2, cut ? 2 * bare : 0);
	SpreadEngine *const engine = made.get();
	engine::CopySpec spec(kRoundedSpec, kind);
	PassingCopy held(std::move(made), kind, kRoundedSpec, Data::kGaussian, 3, true);
	PassingCopy plain(engine::make_cpu_engine({}), kind, kRoundedSpec, Data::kGaussian, 3);
	Rows asked(kRoundedSpec);
	std::mt19937 rng(8);
	std::vector<uint64_t> bytes = engine->device_bytes(held.copy);

	ASSERT_GT(engine->rounded_row_bytes(spec), 0u);
	EXPECT_EQ(engine->is_sharded(held.copy), cut);
	ASSERT_EQ(bytes.size(), 2u);
	if (!cut)
		bytes[1] = 0; // the other replica
	EXPECT_GE(bytes[0] + bytes[1], 1420 * (64 * 4 + 16 + engine->rounded_row_bytes(spec)));
	asked.add_random(9, Data::kGaussian, rng, 1);
	for (const double share : {1.0, 0.4, 0.05})
	{
		const engine::Passing passing = held.passing(share, Region::kRandom, asked.vector(0));

		(void) plain.passing(share, Region::kRandom, asked.vector(0)); // both draw the same numbers
		for (size_t i = 0; i < asked.n(); i++) // one query at a time: rounded rows serve no batch
		{
			SearchQuery query = {asked.vector(i), 1 + i * 13, i % 4 == 3, {90, 5}};

			query.passing = share < 1 ? &passing : nullptr;
			ASSERT_NO_FATAL_FAILURE(expect_same_answers(engine, held.copy, plain.engine.get(), plain.copy, {query}));
		}
	}
	EXPECT_GT(engine->n_rescored(), 0u) << "no rounded rows were looked at";
}

INSTANTIATE_TEST_SUITE_P(All, SpreadRounded,
	testing::Combine(testing::Values(CopyKind::kRows, CopyKind::kLists, CopyKind::kGraph), testing::Bool()));

/// The second segment is of a copy that is in host memory already.
TEST(SpreadStorage, CodesThatNoDeviceScansGoToTheHost)
{
	std::mt19937 rng(6);
	Rows rows({Metric::kL2, ElementType::kFloat32, kDim});
	SpreadBench bench;

	rows.add_random(500, Data::kGaussian, rng, 100);
	bench.make_device = []
	{
		auto device = std::make_unique<SmallDevice>();

		device->unsupported_seal = true;
		return device;
	};

	const CodedRows codes(ListRows(rows, 9, rng), engine::ivf::CodeKind::kRabitq, 0, 3);
	const engine::SegmentProbes probes[] = {{1, 2, 40}};

	for (const CopyKind kind : {CopyKind::kCodes, CopyKind::kCodedLists})
		for (const uint64_t bytes : {uint64_t{0}, 2 * codes.coded_description().size()}) // replicas; cut early
		{
			TieredEngineOptions options;
			std::unique_ptr<SpreadEngine> devices = bench.make(2, bytes);
			SpreadEngine *const below = devices.get();
			std::vector<std::vector<Neighbor>> results;
			SearchQuery query = {rows.vector(17), 100, false, {}};
			CopyId copy = 0;

			options.host_bytes = ~uint64_t{0};
			options.background = false;

			const auto engine = make_tiered_engine(std::move(devices), engine::make_cpu_engine({}), options);

			query.probes = probes;
			ASSERT_OK(engine->create({rows.spec, kind}, &copy));
			EXPECT_TRUE(engine->on_device(copy));
			ASSERT_OK(codes.load_as(kind, engine.get(), copy, 1));
			EXPECT_FALSE(engine->on_device(copy));
			ASSERT_OK(codes.load_as(kind, engine.get(), copy, 2));
			ASSERT_OK(engine->drop_segment(copy, 2));
			ASSERT_OK(engine->search(copy, {&query, 1}, &results));
			ASSERT_NO_FATAL_FAILURE(expect_same(results[0],
				kind == CopyKind::kCodes ? candidates_in_codes({{&codes, 2, 40}}, query.query, 100)
										 : nearest_in_coded({{&codes, 2, 40}}, nullptr, query.query, 100)));
			EXPECT_EQ(below->stats().n_copies, 0u);
			for (const engine::DeviceStats &device : below->devices())
				EXPECT_EQ(device.resident_bytes, 0u);
		}
}

/// Devices that have room for codes, and not for rows: a copy in replicas is cut, and each device reads the rows of its
/// own segments.
TEST(SpreadStorage, RowsThatDevicesReadAreInHostMemoryOnce)
{
	std::mt19937 rng(8);
	Rows rows({Metric::kL2, ElementType::kFloat32, kDim});
	Rows others(rows.spec);
	SpreadBench bench;
	std::vector<SmallDevice *> small;
	TieredEngineOptions options;
	CopyId copy = 0;

	rows.add_random(600, Data::kGaussian, rng, 100);
	others.add_random(500, Data::kGaussian, rng, 10000);
	bench.make_device = [&]
	{
		auto device = std::make_unique<SmallDevice>();

		device->reads_host = true;
		device->limit = 48000;
		small.push_back(device.get());
		return device;
	};

	const CodedRows first(ListRows(rows, 9, rng), engine::ivf::CodeKind::kSq8);
	const CodedRows second(ListRows(others, 7, rng), engine::ivf::CodeKind::kSq8);
	std::unique_ptr<SpreadEngine> devices = bench.make(2, 0);
	SpreadEngine *const below = devices.get();

	options.host_bytes = (600 + 500) * kBytesPerRow; // once, and not twice
	options.background = false;

	const auto engine = make_tiered_engine(std::move(devices), engine::make_cpu_engine({}), options);
	const engine::SegmentProbes probes[] = {{1, 3, 50}, {2, 3, 50}};
	std::vector<std::vector<Neighbor>> results;
	SearchQuery query = {rows.vector(17), 30, false, {}};

	query.probes = probes;
	ASSERT_OK(engine->create({rows.spec, CopyKind::kCodedLists}, &copy));
	ASSERT_OK(first.load_coded(engine.get(), copy, 1));
	ASSERT_OK(second.load_coded(engine.get(), copy, 2));
	EXPECT_GT(small[0]->n_moved() + small[1]->n_moved(), 0u);
	EXPECT_EQ(below->n_places(copy), 2u);
	EXPECT_EQ(engine->host_bytes(copy), (small[0]->n_moved() + small[1]->n_moved()) * kHostRowBytes);
	for (const engine::DeviceStats &device : below->devices())
		EXPECT_LE(device.resident_bytes, 48000u);
	ASSERT_OK(engine->search(copy, {&query, 1}, &results));
	ASSERT_NO_FATAL_FAILURE(
		expect_same(results[0], nearest_in_coded({{&first, 3, 50}, {&second, 3, 50}}, nullptr, query.query, 30)));
	EXPECT_EQ(small[0]->n_searches, 1u);
	EXPECT_EQ(small[1]->n_searches, 1u);
	ASSERT_OK(engine->drop(copy));
	EXPECT_EQ(engine->stats().host_bytes, 0u);
}

/// A device that has refused an earlier change, which another one took, keeps its rows.
TEST(SpreadStorage, RowsGoFromTheDeviceThatRefusedLast)
{
	std::mt19937 rng(8);
	SpreadBench bench;
	std::vector<SmallDevice *> small;
	std::vector<std::unique_ptr<CodedRows>> segments;
	engine::CopySpec spec({Metric::kL2, ElementType::kFloat32, kDim}, CopyKind::kCodedLists);
	CopyId copy = 0;

	for (const size_t n : {600, 900, 500})
	{
		Rows rows(spec.distance);

		rows.add_random(n, Data::kGaussian, rng, 10000 * n);
		segments.push_back(std::make_unique<CodedRows>(ListRows(rows, 9, rng), engine::ivf::CodeKind::kSq8));
	}
	bench.make_device = [&]
	{
		auto device = std::make_unique<SmallDevice>();

		device->reads_host = true;
		device->limit = uint64_t{1} << 20;
		small.push_back(device.get());
		return device;
	};

	const std::unique_ptr<SpreadEngine> engine = bench.make(2, 0);
	const CodedRows &last = *segments[2];
	const engine::test::Bytes vectors = last.vectors_by_place();

	spec.rows_on_host = true; // shards from the beginning
	ASSERT_OK(engine->create(spec, &copy));
	for (SegmentId id = 1; id <= 2; id++)
	{
		ASSERT_OK(segments[id - 1]->load_coded(engine.get(), copy, id));
		ASSERT_OK(engine->attach(copy));
	}
	ASSERT_EQ(small[0]->n_moved() + small[1]->n_moved(), 0u);
	ASSERT_GT(small[0]->stats().resident_bytes, 600 * kHostRowBytes);
	ASSERT_GT(small[1]->stats().resident_bytes, 900 * kHostRowBytes);
	small[0]->limit = small[0]->stats().resident_bytes;
	ASSERT_OK(engine->load_segment(copy, 3, {{last.rows.ids.data(), last.rows.n()}, vectors.data(), last.rows.n()}));
	small[1]->limit = small[1]->stats().resident_bytes;
	ASSERT_EQ(engine->load_structure(copy, 3, last.n_lists, last.coded_description()).code, StatusCode::kOutOfMemory);
	ASSERT_OK(engine->move_rows_to_host(copy, ~uint64_t{0}));
	EXPECT_EQ(small[0]->n_moved(), 0u);
	EXPECT_EQ(small[1]->n_moved(), 500u);
	ASSERT_OK(engine->load_structure(copy, 3, last.n_lists, last.coded_description()));
	ASSERT_OK(engine->seal_segment(copy, 3));
}

} // namespace
} // namespace vectorgpu::worker
