// Graphs with codes on the GPU: the CPU engine's answers with the same graphs, codes and widths, bit for bit, wherever
// codes lie; and that the GPU computes them.
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string_view>
#include <thread>
#include <tuple>

#include "engine/graph_rows.hpp"
#include "engines.hpp"
#include "kernels/graph/graph_codes.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::CopyKind;
using engine::Coverage;
using engine::SegmentProbes;

/// Two segments with codes, one of them in two parts, and a delta, in both engines.
struct BothHashed
{
	BothHashed(const DistanceSpec &spec, uint32_t bits, uint32_t seed, size_t n_first = 5000, uint32_t degree = 16,
		CudaEngine *cuda = cuda_engine(), Data of = Data::kGaussian)
		: rng(seed), data(of), first(graph(spec, n_first, degree, 1, 1, bits)),
		  second(graph(spec, 900, 8, 2, 100001, bits)), delta(spec),
		  both(engine::CopySpec(spec, CopyKind::kHashedGraph), cuda), n_rows{{1, n_first}, {2, 900}}
	{
		delta.add_random(150, data, rng, 200001);
		both.change([&](Engine &e, CopyId c) { return first.load(&e, c, 1); });
		both.change([&](Engine &e, CopyId c) { return second.load(&e, c, 2); });
		both.change([&](Engine &e, CopyId c) { return e.append_delta(c, 0, delta.block()); });
	}

	GraphedRows graph(
		const DistanceSpec &spec, size_t n, uint32_t degree, uint32_t n_parts, RowId first_id, uint32_t bits)
	{
		Rows rows(spec);

		rows.add_random(n, data, rng, first_id);

		GraphedRows graphed(rows, degree, n_parts, Edges::kRandom);

		graphed.add_codes(bits, bits);
		return graphed;
	}

	/// Search with all widths in turn, with queries that name none, and with queries that continue after a row. The GPU
	/// searches n_rows' segments.
	void expect_alike(size_t n_queries, std::span<const uint32_t> widths)
	{
		const uint64_t before = both.cuda()->n_hashed();
		uint64_t n_on_device = 0;
		Rows queries(delta.spec);
		std::vector<std::array<SegmentProbes, 2>> named(n_queries);
		std::vector<Coverage> coverage(n_queries, Coverage::kAll);
		std::vector<SearchQuery> batch;

		queries.add_random((std::min<size_t>(n_queries, 60) + 1) / 2, Data::kGaussian, rng, 0);
		queries.add_random(std::min<size_t>(n_queries, 60) / 2, data, rng, 0);
		for (size_t i = 0; i < n_queries; i++)
		{
			SearchQuery query = {queries.vector(i % queries.n()), 1 + i % 150, false, {}};

			named[i] = {SegmentProbes{1, widths[i % widths.size()]},
				SegmentProbes{2, std::max(1u, widths[i % widths.size()] / 3)}};
			if (i % 7 != 6)
				query.probes = named[i];
			query.has_after = i % 5 == 4;
			query.after = {static_cast<double>(i % 11), RowId{i}};
			query.coverage = &coverage[i];
			batch.push_back(query);
			for (const SegmentProbes &probes : query.probes)
				if (const auto found = n_rows.find(probes.segment); found != n_rows.end())
					n_on_device += probes.probes <= kernels::kCodeGraphMostWidth &&
						!engine::graph::looks_at_all(probes.probes, static_cast<double>(found->second));
		}
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
		if (data == Data::kGaussian)
			EXPECT_EQ(both.cuda()->n_hashed() - before, n_on_device);
		else // queries without a score search no graph
			EXPECT_TRUE(both.cuda()->n_hashed() > before && both.cuda()->n_hashed() - before <= n_on_device);
	}

	/// Bytes of edges, codes and entry points in device memory.
	static uint64_t device_bytes(const GraphedRows &graphed)
	{
		return graphed.edges.size() * sizeof(uint32_t) + graphed.codes.size() +
			graphed.entries.size() *
			(sizeof(uint32_t) + engine::graph::code_bytes(graphed.code_bits, graphed.rows.spec.dim));
	}

	std::mt19937 rng;
	Data data;
	GraphedRows first;
	GraphedRows second;
	Rows delta;
	Both both;
	std::map<SegmentId, size_t> n_rows; // of the segments that have to lie on the device
};

/// An engine with this budget of device memory.
std::unique_ptr<CudaEngine>
small_engine(uint64_t memory_bytes, Fault fault = nullptr)
{
	CudaEngineOptions options;
	std::unique_ptr<CudaEngine> engine;

	options.workspace_bytes = size_t{64} << 20;
	options.pinned_bytes = size_t{8} << 20;
	options.self_test = false;
	options.memory_bytes = memory_bytes;
	options.fault = std::move(fault);

	make_or_throw(options, &engine);
	return engine;
}

/// Metric, element, bits.
struct Hashed : testing::TestWithParam<std::tuple<Metric, ElementType, uint32_t>>
{
	DistanceSpec spec(uint32_t dim) const { return {std::get<0>(GetParam()), std::get<1>(GetParam()), dim}; }
	uint32_t bits() const { return std::get<2>(GetParam()); }
};

TEST_P(Hashed, is_searched_as_on_the_cpu)
{
	constexpr uint32_t kWidths[] = {1, 7, 31, 32, 33, 64, 127, 128, 129, 300, 511, 600, 624, 625};
	BothHashed held(spec(40), bits(), 3);

	for (const size_t n : {1u, 5u, 90u, 1100u})
		held.expect_alike(n, kWidths);
}

TEST_P(Hashed, dead_rows_are_not_found)
{
	constexpr uint32_t kWidths[] = {20, 100};
	BothHashed held(spec(24), bits(), 5);
	Bytes dead((held.first.rows.n() + 7) / 8);

	for (size_t i = 0; i < held.first.rows.n(); i += 3)
		dead[i / 8] = static_cast<uint8_t>(dead[i / 8] | 1 << (i % 8));
	held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); });
	held.both.change([&](Engine &e, CopyId c) { return e.set_delta_tombstones(c, 0, Bytes{9}); });
	held.expect_alike(40, kWidths);
	held.both.change([&](Engine &e, CopyId c) { return e.drop_segment(c, 1); });
	held.n_rows.erase(1);
	held.expect_alike(10, kWidths);
}

INSTANTIATE_TEST_SUITE_P(kinds, Hashed,
	testing::Combine(testing::Values(Metric::kL2, Metric::kInnerProduct, Metric::kCosine),
		testing::Values(ElementType::kFloat32, ElementType::kFloat16),
		testing::Values(32u, 64u, 128u, 256u, 512u, 1u, 2u, 4u)));

TEST(HashedAlone, Reduced)
{
	constexpr uint32_t kWidths[] = {20, 64};

	for (const uint32_t bits : {1u, 2u, 4u})
	{
		BothHashed held({Metric::kL2, ElementType::kFloat32, 24}, bits, 9);

		held.expect_alike(5, kWidths);
	}
}

/// Codes whose factors are no numbers, and codes that are the same.
TEST(HashedAlone, strange_numbers_are_in_the_order_of_the_cpu)
{
	constexpr uint32_t kWidths[] = {1, 20, 64, 300};

	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
		for (const Data data : {Data::kHuge, Data::kExtremes, Data::kSubnormal})
			for (const uint32_t bits : {64u, 1u, 2u, 4u})
			{
				SCOPED_TRACE(std::to_string(static_cast<int>(metric)) + ", " + std::to_string(static_cast<int>(data)) +
					", " + std::to_string(bits) + " bits");
				BothHashed held({metric, ElementType::kFloat32, 5}, bits, 13, 3000, 16, cuda_engine(), data);

				held.expect_alike(40, kWidths);
			}
}

TEST(HashedAlone, wide_searches_are_the_gpus_and_wider_ones_the_hosts)
{
	constexpr uint32_t kWidths[] = {511, 512, 513, 1023, 1024, 1025, 2048, 4095, 4096, 4097, 4999, 5000};
	BothHashed held({Metric::kL2, ElementType::kFloat32, 24}, 128, 7, 40000, 33);

	held.expect_alike(24, kWidths);
}

TEST(HashedAlone, threads_search_beside_each_other)
{
	constexpr uint32_t kWidths[] = {40, 200};
	BothHashed held({Metric::kL2, ElementType::kFloat32, 24}, 128, 9);
	const SegmentProbes named[] = {{1, kWidths[0]}, {2, kWidths[1]}};
	std::vector<std::thread> threads;
	std::vector<std::vector<std::vector<Neighbor>>> found(4);
	SearchQuery query = {held.delta.vector(0), 30, false, {}};

	query.probes = named;
	for (auto &results : found)
		threads.emplace_back(
			[&]
			{
				for (int i = 0; i < 50; i++)
					EXPECT_TRUE(
						held.both.cuda()->search(held.both.cuda_copy(), {&query, 1}, &results, nullptr).is_ok());
			});
	for (std::thread &thread : threads)
		thread.join();
	for (const auto &results : found)
		expect_same(results[0], found[0][0]);
	held.both.expect_same_answers({query});
}

TEST(HashedAlone, a_copy_answers_alike_with_its_codes_on_the_device_and_without)
{
	constexpr uint32_t kWidths[] = {1, 40, 200, 511};
	BothHashed held({Metric::kCosine, ElementType::kFloat16, 24}, 64, 11);
	CudaEngine *cuda = held.both.cuda();
	const CopyId copy = held.both.cuda_copy();
	const std::map<SegmentId, size_t> all = held.n_rows;
	const uint64_t attached = cuda->stats().resident_bytes;
	const uint64_t on_host = cuda->host_bytes(copy);

	for (int round = 0; round < 3; round++)
	{
		held.expect_alike(30, kWidths);
		ASSERT_OK(cuda->detach(copy));
		held.n_rows.clear();
		EXPECT_EQ(
			cuda->stats().resident_bytes, attached - held.device_bytes(held.first) - held.device_bytes(held.second));
		held.expect_alike(30, kWidths);
		ASSERT_OK(cuda->detach(copy));
		ASSERT_OK(cuda->attach(copy));
		ASSERT_OK(cuda->attach(copy));
		held.n_rows = all;
		EXPECT_EQ(cuda->stats().resident_bytes, attached);
		EXPECT_EQ(cuda->host_bytes(copy), on_host);
	}

	// A segment sealed meanwhile is not uploaded.
	GraphedRows third = held.graph(held.delta.spec, 700, 8, 1, 300001, 64);

	ASSERT_OK(cuda->detach(copy));
	held.n_rows.clear();
	held.both.change([&](Engine &e, CopyId c) { return third.load(&e, c, 3); });
	EXPECT_EQ(cuda->stats().resident_bytes, attached - held.device_bytes(held.first) - held.device_bytes(held.second));
	held.expect_alike(30, kWidths);
	held.both.change([&](Engine &e, CopyId c) { return e.drop_segment(c, 3); });
	ASSERT_OK(cuda->attach(copy));
	held.n_rows = all;
	EXPECT_EQ(cuda->stats().resident_bytes, attached);
	held.expect_alike(30, kWidths);
	EXPECT_EQ(cuda->attach(copy + 1000).code, StatusCode::kNotFound);
	EXPECT_EQ(cuda->detach(copy + 1000).code, StatusCode::kNotFound);
}

TEST(HashedAlone, codes_come_and_go_beside_searches)
{
	BothHashed held({Metric::kL2, ElementType::kFloat32, 24}, 128, 13);
	const SegmentProbes named[] = {{1, 40}, {2, 50}};
	std::vector<std::vector<Neighbor>> expected;
	std::vector<SearchQuery> batch;
	std::vector<std::thread> threads;
	std::atomic<bool> stop{false};
	std::atomic<int> n_wrong{0};
	std::atomic<int> n_done{0};

	for (size_t i = 0; i < 20; i++)
	{
		batch.push_back({held.delta.vector(i), 30, false, {}});
		batch.back().probes = named;
	}
	ASSERT_OK(held.both.cpu()->search(held.both.cpu_copy(), batch, &expected, nullptr));
	for (int t = 0; t < 3; t++)
		threads.emplace_back(
			[&]
			{
				for (std::vector<std::vector<Neighbor>> found; !stop; n_done++)
				{
					if (!held.both.cuda()->search(held.both.cuda_copy(), batch, &found, nullptr).is_ok() ||
						found.size() != batch.size())
					{
						n_wrong++;
						continue;
					}
					for (size_t i = 0; i < batch.size(); i++)
						n_wrong += found[i].size() != 30 || found[i][29].row != expected[i][29].row ||
							found[i][29].score != expected[i][29].score;
				}
			});
	for (int i = 0; i < 100 || n_done < 100; i++)
	{
		EXPECT_TRUE(held.both.cuda()->detach(held.both.cuda_copy()).is_ok());
		EXPECT_TRUE(held.both.cuda()->attach(held.both.cuda_copy()).is_ok());
	}
	stop = true;
	for (std::thread &thread : threads)
		thread.join();
	EXPECT_EQ(n_wrong, 0);
}

TEST(HashedAlone, segments_without_room_are_the_hosts)
{
	constexpr uint32_t kWidths[] = {1, 40, 200, 511};
	constexpr uint64_t kFirstBytes = 5000 * (16 * 4 + 16); // and some entry points
	const std::unique_ptr<CudaEngine> small = small_engine(kFirstBytes + 4096);
	{
		BothHashed held({Metric::kL2, ElementType::kFloat32, 24}, 128, 15, 5000, 16, small.get());
		const CopyId copy = held.both.cuda_copy();

		ASSERT_LE(held.device_bytes(held.first), small->stats().budget_bytes);
		ASSERT_GT(held.device_bytes(held.first) + held.device_bytes(held.second), small->stats().budget_bytes);
		EXPECT_EQ(small->stats().resident_bytes, held.device_bytes(held.first));
		held.n_rows.erase(2);
		held.expect_alike(40, kWidths);
		EXPECT_EQ(small->attach(copy).code, StatusCode::kOutOfMemory);
		EXPECT_EQ(small->stats().resident_bytes, held.device_bytes(held.first));
		held.expect_alike(40, kWidths);
		held.both.change([&](Engine &e, CopyId c) { return e.drop_segment(c, 1); }); // a merge makes room
		EXPECT_EQ(small->stats().resident_bytes, 0u);
		ASSERT_OK(small->attach(copy));
		held.n_rows = {{2, 900}};
		EXPECT_EQ(small->stats().resident_bytes, held.device_bytes(held.second));
		held.expect_alike(40, kWidths);
	}
	EXPECT_EQ(small->stats().resident_bytes, 0u);
}

#ifdef VECTORGPU_FAULTS

TEST(HashedAlone, want_of_memory_leaves_the_copy_to_the_host)
{
	constexpr uint32_t kWidths[] = {1, 40, 200, 511};
	std::atomic<int> n_until{-1}; // allocations that succeed before one that fails; below 0: all succeed
	const std::unique_ptr<CudaEngine> engine = small_engine(0, [&](const char *name)
		{ return std::string_view(name) == "gpu_malloc" && n_until >= 0 && n_until.fetch_sub(1) == 0; });

	ASSERT_NE(engine, nullptr);
	for (int n = 0; n < 4; n++) // edges, codes, entry points and their codes
	{
		n_until = n;
		{
			BothHashed held({Metric::kL2, ElementType::kFloat32, 24}, 128, 17, 3000, 16, engine.get());

			EXPECT_EQ(n_until, -1);
			EXPECT_EQ(engine->stats().resident_bytes, held.device_bytes(held.second));
			held.n_rows.erase(1);
			held.expect_alike(20, kWidths);
			n_until = n;
			EXPECT_EQ(engine->attach(held.both.cuda_copy()).code, StatusCode::kOutOfMemory);
			held.expect_alike(20, kWidths);
			ASSERT_OK(engine->attach(held.both.cuda_copy()));
			held.n_rows[1] = 3000;
			EXPECT_EQ(engine->stats().resident_bytes, held.device_bytes(held.first) + held.device_bytes(held.second));
			held.expect_alike(20, kWidths);
		}
		EXPECT_EQ(engine->stats().resident_bytes, 0u);
	}
}

#endif

} // namespace
} // namespace vectorgpu::cuda::test
