// Several GPUs as one engine against one GPU: the same bits in replicas and in shards, the same builds, and the same
// answers while one of the GPUs is lost and once it is back. Each test needs two GPUs at least.
#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <vector>

#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda/device/host_buffer.hpp"
#include "engine/interface/list_builder.hpp"
#include "engine/passing_copy.hpp"
#include "engines.hpp"
#include "worker/devices/spread_engine.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::CopyKind;
using worker::SpreadEngine;

constexpr size_t kRounds = 6; // of a batch, so that each GPU answers it

class Devices : public testing::Test
{
protected:
	void SetUp() override
	{
		n_devices_ = static_cast<size_t>(std::max(0, Device::count()));
		if (n_devices_ < 2)
			GTEST_SKIP() << "several GPUs are compared with one: this machine has " << n_devices_;
		now_ns = 1;
	}

	static CudaEngineOptions options_of(size_t device)
	{
		CudaEngineOptions options;

		options.device = static_cast<int>(device);
		options.workspace_bytes = size_t{256} << 20;
		options.pinned_bytes = size_t{16} << 20;
		options.self_test = false;
		options.filter_min_queries = 2;
		options.scaled_least_bytes = 1;
		options.graph_choice = options.list_choice = false; // queries search graphs and lists
		options.log = [](const char *line) { fprintf(stderr, "%s\n", line); };
		return options;
	}

	static std::unique_ptr<engine::Engine> open_one(size_t device)
	{
		std::unique_ptr<CudaEngine> made;
		const Status status = make_cuda_engine(options_of(device), &made);

		EXPECT_TRUE(status.is_ok()) << status.message;
		return made;
	}

	/// device_bytes: of copies on each; 0: they are never cut.
	std::unique_ptr<SpreadEngine> open_all(uint64_t device_bytes)
	{
		worker::SpreadOptions spread;
		std::unique_ptr<SpreadEngine> made;

		for (size_t i = 0; i < n_devices_; i++)
			spread.devices.names.push_back("cuda:" + std::to_string(i));
		spread.devices.open =
			[this](size_t device, bool again, std::function<void()> on_lost, std::unique_ptr<engine::Engine> *engine)
		{
			std::unique_ptr<CudaEngine> own;
			CudaEngineOptions options = options_of(device);

			if (again)
				Device::give_up_context(options.device);
			options.on_fatal = std::move(on_lost);
			if (device == 1)
				options.fault = [this](const char *name) { return fault_ == name && n_faults_.fetch_sub(1) > 0; };

			const Status status = make_cuda_engine(options, &own);

			*engine = std::move(own);
			return status;
		};
		spread.devices.device_bytes = device_bytes;
		spread.devices.clock = [] { return now_ns.load(); };
		spread.devices.log = [](const char *line) { fprintf(stderr, "%s\n", line); };
		spread.devices.on_all_lost = [] { ADD_FAILURE() << "all GPUs are lost"; };
		spread.stripe_bytes = 4096;
		spread.cuts.least_piece = 16;
		spread.background = false;
		EXPECT_TRUE(worker::make_spread_engine(spread, &made).is_ok());
		return made;
	}

	size_t n_usable(const SpreadEngine &engine) const
	{
		const std::vector<engine::DeviceStats> all = engine.devices();

		return static_cast<size_t>(std::count_if(all.begin(), all.end(), [](const auto &d) { return d.usable; }));
	}

	/// Longer than a lost device stays away.
	static void pass_time() { now_ns += uint64_t{11} * 1000 * 1000 * 1000; }

	static inline std::atomic<uint64_t> now_ns{1};
	size_t n_devices_ = 0;
	std::string fault_; // of the second GPU
	std::atomic<int> n_faults_{0};
};

/// The same copy on all GPUs and on the first one.
struct Pair
{
	Pair(std::unique_ptr<SpreadEngine> made, std::unique_ptr<engine::Engine> single, CopyKind kind,
		const DistanceSpec &distance)
		: spec(distance), spread(made.get()), all(std::move(made), kind, spec, Data::kGaussian, 3),
		  one(std::move(single), kind, spec, Data::kGaussian, 3), asked(spec)
	{
		std::mt19937 rng(8);

		asked.add_random(40, Data::kGaussian, rng, 1);
		takes_probes = engine::takes_probes(kind);
		has_codes = engine::has_codes(kind);
	}

	/// Batches of one, few and many queries, with and without conditions, several times.
	void expect_same_answers()
	{
		for (const double share : {1.0, .4, .03})
		{
			const engine::Passing passing = all.passing(share, Region::kRandom, asked.vector(0));

			(void) one.passing(share, Region::kRandom, asked.vector(0)); // both draw the same numbers
			for (const size_t n : {size_t{1}, size_t{5}, asked.n()})
				for (size_t round = 0; round < kRounds; round++)
					ASSERT_NO_FATAL_FAILURE(compare(n, share < 1 ? &passing : nullptr))
						<< "share " << share << " queries " << n << " round " << round;
		}
	}

	void compare(size_t n, const engine::Passing *passing)
	{
		const std::vector<engine::SegmentProbes> named = {
			{1, 6, has_codes ? 40u : 0u}, {2, 6, has_codes ? 20u : 0u}, {3, 6, has_codes ? 7u : 0u}};
		std::vector<SearchQuery> queries(n);
		std::vector<std::vector<Neighbor>> got;
		std::vector<std::vector<Neighbor>> want;

		for (size_t i = 0; i < n; i++)
		{
			queries[i].query = asked.vector(i);
			queries[i].k = equal_k != 0 ? equal_k : 1 + i * 7 % 50;
			queries[i].passing = passing;
			if (takes_probes && i % 2 == 0)
				queries[i].probes = named;
		}

		const Status status = spread->search(all.copy, queries, &got);
		const Status wanted = one.engine->search(one.copy, queries, &want);

		ASSERT_EQ(status.code, wanted.code) << status.message << " / " << wanted.message;
		ASSERT_EQ(got.size(), want.size());
		for (size_t i = 0; i < got.size(); i++)
			ASSERT_NO_FATAL_FAILURE(expect_same(got[i], want[i])) << "query " << i;
		EXPECT_TRUE(std::any_of(want.begin(), want.end(), [](const auto &found) { return !found.empty(); }));
	}

	DistanceSpec spec;
	SpreadEngine *spread;
	PassingCopy all;
	PassingCopy one;
	Rows asked;
	size_t equal_k = 0; // of all queries; 0: different ones
	bool takes_probes = false;
	bool has_codes = false;
};

DistanceSpec
real_rows(uint32_t dim)
{
	return {Metric::kL2, ElementType::kFloat32, dim};
}

/// A device has room for less than the copy, but for its largest segment: graphs are not cut.
uint64_t
small_device(uint32_t dim, CopyKind kind = CopyKind::kRows)
{
	const uint64_t graph_bytes = kind == CopyKind::kGraph ? 16 * sizeof(uint32_t) + dim + 16 : 0; // edges, rounded row

	return 1300 * (uint64_t{dim} * 4 + 16 + graph_bytes);
}

TEST_F(Devices, EachAloneAnswersAsTheFirst)
{
	for (size_t device = 1; device < n_devices_; device++)
		for (const CopyKind kind : {CopyKind::kRows, CopyKind::kLists, CopyKind::kGraph})
		{
			PassingCopy here(open_one(device), kind, real_rows(24), Data::kGaussian, 3);
			PassingCopy there(open_one(0), kind, real_rows(24), Data::kGaussian, 3);

			for (size_t i = 0; i < 8; i++)
			{
				const SearchQuery query = {here.segments[0].vector(i), 20, false, {}};
				std::vector<std::vector<Neighbor>> got;
				std::vector<std::vector<Neighbor>> want;

				ASSERT_OK(here.engine->search(here.copy, {&query, 1}, &got));
				ASSERT_OK(there.engine->search(there.copy, {&query, 1}, &want));
				ASSERT_NO_FATAL_FAILURE(expect_same(got[0], want[0])) << "device " << device;
			}
		}
}

TEST_F(Devices, ReplicasAnswerAsOne)
{
	for (const CopyKind kind : {CopyKind::kRows, CopyKind::kLists, CopyKind::kGraph, CopyKind::kCodedLists})
	{
		Pair pair(open_all(0), open_one(0), kind, real_rows(24));

		EXPECT_FALSE(pair.spread->is_sharded(pair.all.copy));
		EXPECT_EQ(pair.spread->n_places(pair.all.copy), n_devices_);
		ASSERT_NO_FATAL_FAILURE(pair.expect_same_answers()) << "kind " << static_cast<int>(kind);
	}
}

TEST_F(Devices, ShardsAnswerAsOne)
{
	for (const CopyKind kind : {CopyKind::kRows, CopyKind::kLists, CopyKind::kGraph})
	{
		Pair pair(open_all(small_device(24, kind)), open_one(0), kind, real_rows(24));

		EXPECT_TRUE(pair.spread->is_sharded(pair.all.copy));
		EXPECT_GE(pair.spread->n_places(pair.all.copy), 2u);
		ASSERT_NO_FATAL_FAILURE(pair.expect_same_answers()) << "kind " << static_cast<int>(kind);
	}
}

struct Built
{
	std::vector<float> centroids;
	std::vector<uint32_t> labels;
	std::vector<float> scores;
	std::vector<Neighbor> neighbors;
};

Built
build_lists(engine::Engine *engine, const std::vector<float> &rows, uint32_t dim)
{
	const size_t n = rows.size() / dim;
	engine::SearchControl control;
	std::unique_ptr<engine::ListBuilder> builder;
	engine::ListBuildSpec spec;
	Built built;

	spec.rows = real_rows(dim);
	spec.n_clusters = 20;
	spec.n_training = 2000;
	spec.n_queries = 50;
	spec.k = 9;
	built.labels.resize(n);
	built.scores.resize(n);
	EXPECT_TRUE(engine->make_list_builder(spec, &control, &builder).is_ok());
	EXPECT_TRUE(builder->add_training(rows.data(), spec.n_training).is_ok());
	EXPECT_TRUE(builder->train().is_ok());
	EXPECT_TRUE(builder->add_queries(rows.data() + 100 * dim, spec.n_queries).is_ok());
	for (size_t first = 0; first < n;)
	{
		const size_t here = std::min<size_t>(first % 3 == 0 ? 2000 : 10000, n - first); // 10,000: several batches

		EXPECT_TRUE(builder
				->assign(
					first, rows.data() + first * dim, here, built.labels.data() + first, built.scores.data() + first)
				.is_ok());
		first += here;
	}
	EXPECT_TRUE(builder->neighbors(&built.neighbors).is_ok());
	built.centroids = builder->centroids();
	return built;
}

TEST_F(Devices, ListsAreBuiltAsByOne)
{
	constexpr uint32_t kDim = 24;
	std::mt19937 rng(5);
	std::normal_distribution<float> normal;
	std::vector<float> rows(size_t{40000} * kDim);

	for (float &x : rows)
		x = normal(rng);

	const auto all = open_all(0);
	const auto one = open_one(0);

	for (int round = 0; round < 3; round++) // parts go to threads by chance
	{
		const Built got = build_lists(all.get(), rows, kDim);
		const Built want = build_lists(one.get(), rows, kDim);

		EXPECT_EQ(got.centroids, want.centroids);
		EXPECT_EQ(got.labels, want.labels);
		EXPECT_EQ(got.scores, want.scores);
		ASSERT_NO_FATAL_FAILURE(expect_same(got.neighbors, want.neighbors));
	}
	EXPECT_EQ(n_usable(*all), n_devices_);
}

/// Rows of 320 elements: a query alone is searched by clusters of blocks, whose kernels need to be prepared again.
TEST_F(Devices, ALostOneComesBackWithANewContext)
{
	for (const CopyKind kind : {CopyKind::kRows, CopyKind::kGraph})
	{
		Pair pair(open_all(0), open_one(0), kind, real_rows(320));

		ASSERT_NO_FATAL_FAILURE(pair.expect_same_answers());
		pair.spread->lose(1);
		EXPECT_EQ(n_usable(*pair.spread), n_devices_ - 1);
		ASSERT_NO_FATAL_FAILURE(pair.expect_same_answers());
		pass_time();
		pair.spread->tend();
		EXPECT_EQ(n_usable(*pair.spread), n_devices_);
		EXPECT_EQ(pair.spread->n_places(pair.all.copy), n_devices_);
		ASSERT_NO_FATAL_FAILURE(pair.expect_same_answers());
		EXPECT_EQ(n_usable(*pair.spread), n_devices_);
	}
}

#ifdef VECTORGPU_FAULTS

/// An error of the second GPU's memory, as the driver reports it: the other goes on in the same process. After an
/// exception in a kernel CUDA refuses the process on all GPUs: t/301_gpu_devices.pl sees the worker begin anew then.
TEST_F(Devices, ABrokenOneLeavesTheOthersAlone)
{
	for (const CopyKind kind : {CopyKind::kRows, CopyKind::kLists, CopyKind::kGraph})
	{
		fault_.clear();

		Pair pair(open_all(0), open_one(0), kind, real_rows(24));

		fault_ = "gpu_ecc";
		n_faults_ = 1;
		ASSERT_NO_FATAL_FAILURE(pair.expect_same_answers());
		EXPECT_LT(n_faults_, 1) << "the fault has not happened";
		EXPECT_EQ(n_usable(*pair.spread), n_devices_ - 1);
		fault_.clear();
		pass_time();
		pair.spread->tend();
		EXPECT_EQ(n_usable(*pair.spread), n_devices_);
		ASSERT_NO_FATAL_FAILURE(pair.expect_same_answers());
		EXPECT_EQ(n_usable(*pair.spread), n_devices_);
	}
}

#endif

/// True if this process has memory there.
bool
is_mapped(uint8_t *at)
{
	const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
	unsigned char in_core = 0;

	return mincore(at - reinterpret_cast<uintptr_t>(at) % page, 1, &in_core) == 0;
}

/// The buffers of a lost GPU's engine are not destroyed, or free nothing.
TEST_F(Devices, RowsThatALostOneReadInHostMemoryAreGivenBack)
{
	constexpr size_t kBytes = HostBuffer::kPieceBytes + (size_t{3} << 20);
	Device another;
	Device lost;
	Device again;
	HostBuffer pinned;
	HostBuffer ordinary;
	HostBuffer of_driver;
	HostBuffer of_another;
	HostBuffer next;

	ASSERT_OK(Device::open(0, nullptr, &another));
	ASSERT_OK(of_another.allocate(&another, 4096, "a test"));
	ASSERT_OK(Device::open(1, nullptr, &lost));
	ASSERT_OK(pinned.allocate(&lost, kBytes, "a test"));
	ASSERT_OK(ordinary.allocate(&lost, kBytes, "a test"));
	ASSERT_OK(of_driver.allocate_pinned(&lost, size_t{1} << 20, "a test"));
	if (const Status status = pinned.pin(); status.code == StatusCode::kUnsupported)
		GTEST_SKIP() << status.message;
	else
		ASSERT_OK(status);

	// Not of_driver: the driver may keep the addresses.
	uint8_t *const at[] = {pinned.get(), pinned.get() + HostBuffer::kPieceBytes, ordinary.get()};

	lost.lose("a test");
	pinned.reset();
	of_driver.reset();
	for (uint8_t *address : at)
		EXPECT_TRUE(is_mapped(address));
	EXPECT_EQ(HostBuffer::give_back_lost(), 0u); // none is lost yet
	EXPECT_TRUE(is_mapped(at[0]));

	Device::give_up_context(1);
	HostBuffer::lose(1);
	ASSERT_OK(Device::open(1, nullptr, &again));
	EXPECT_EQ(HostBuffer::give_back_lost(), 0u);
	for (uint8_t *address : at)
		EXPECT_FALSE(is_mapped(address));
	EXPECT_TRUE(is_mapped(of_another.get()));
	ordinary.reset(); // does not unmap what may be another's by now
	ASSERT_OK(next.allocate(&again, kBytes, "a test"));
	ASSERT_OK(next.pin());
}

/// For the sanitizers.
TEST_F(Devices, Reduced)
{
	for (const uint64_t bytes : {uint64_t{0}, small_device(24)})
	{
		Pair pair(open_all(bytes), open_one(0), CopyKind::kRows, real_rows(24));
		const engine::Passing passing = pair.all.passing(.4, Region::kRandom, pair.asked.vector(0));

		pair.equal_k = 10; // bytes behind shorter answers are copied, which initcheck reports
		for (size_t round = 0; round < 2; round++)
		{
			ASSERT_NO_FATAL_FAILURE(pair.compare(1, nullptr));
			ASSERT_NO_FATAL_FAILURE(pair.compare(pair.asked.n(), nullptr));
		}
		for (size_t round = 0; round < 2; round++)
			ASSERT_NO_FATAL_FAILURE(pair.compare(3, &passing));
	}
}

} // namespace
} // namespace vectorgpu::cuda::test
