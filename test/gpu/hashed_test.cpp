// Graphs with codes on the GPU: what the CPU engine answers with the same graphs, codes and widths, bit for bit.
#include <array>
#include <thread>
#include <tuple>

#include "engine/graph_rows.hpp"
#include "engines.hpp"

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
	BothHashed(const DistanceSpec &spec, uint32_t bits, uint32_t seed, size_t n_first = 5000, uint32_t degree = 16)
		: rng(seed), first(graph(spec, n_first, degree, 1, 1, bits)), second(graph(spec, 900, 8, 2, 100001, bits)), delta(spec),
		  both(engine::CopySpec(spec, CopyKind::kHashedGraph))
	{
		delta.add_random(150, Data::kGaussian, rng, 200001);
		both.change([&](Engine &e, CopyId c) { return first.load(&e, c, 1); });
		both.change([&](Engine &e, CopyId c) { return second.load(&e, c, 2); });
		both.change([&](Engine &e, CopyId c) { return e.append_delta(c, 0, delta.block()); });
	}

	GraphedRows
	graph(const DistanceSpec &spec, size_t n, uint32_t degree, uint32_t n_parts, RowId first_id, uint32_t bits)
	{
		Rows rows(spec);

		rows.add_random(n, Data::kGaussian, rng, first_id);

		GraphedRows graphed(rows, degree, n_parts, Edges::kRandom);

		graphed.add_codes(bits, bits);
		return graphed;
	}

	/// Searches of all widths in turn, with ones that name none and ones that go on behind a row.
	void
	expect_alike(size_t n_queries, std::span<const uint32_t> widths)
	{
		Rows queries(delta.spec);
		std::vector<std::array<SegmentProbes, 2>> named(n_queries);
		std::vector<Coverage> coverage(n_queries, Coverage::kAll);
		std::vector<SearchQuery> batch;

		queries.add_random(std::min<size_t>(n_queries, 60), Data::kGaussian, rng, 0);
		for (size_t i = 0; i < n_queries; i++)
		{
			SearchQuery query = {queries.vector(i % queries.n()), 1 + i % 150, false, {}};

			named[i] = {SegmentProbes{1, widths[i % widths.size()]}, SegmentProbes{2, std::max(1u, widths[i % widths.size()] / 3)}};
			if (i % 7 != 6)
				query.probes = named[i];
			query.has_after = i % 5 == 4;
			query.after = {static_cast<double>(i % 11), RowId{i}};
			query.coverage = &coverage[i];
			batch.push_back(query);
		}
		both.expect_same_answers(batch);
	}

	std::mt19937 rng;
	GraphedRows first;
	GraphedRows second;
	Rows delta;
	Both both;
};

/// Metric, element, bits.
struct Hashed : testing::TestWithParam<std::tuple<Metric, ElementType, uint32_t>>
{
	DistanceSpec
	spec(uint32_t dim) const
	{
		return {std::get<0>(GetParam()), std::get<1>(GetParam()), dim};
	}
	uint32_t
	bits() const
	{
		return std::get<2>(GetParam());
	}
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
	held.expect_alike(10, kWidths);
}

INSTANTIATE_TEST_SUITE_P(kinds, Hashed,
	testing::Combine(testing::Values(Metric::kL2, Metric::kInnerProduct, Metric::kCosine),
		testing::Values(ElementType::kFloat32, ElementType::kFloat16), testing::Values(32u, 64u, 128u, 256u, 512u)));

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
		threads.emplace_back([&] {
			for (int i = 0; i < 50; i++)
				EXPECT_TRUE(held.both.cuda()->search(held.both.cuda_copy(), {&query, 1}, &results, nullptr).is_ok());
		});
	for (std::thread &thread : threads)
		thread.join();
	for (const auto &results : found)
		expect_same(results[0], found[0][0]);
	held.both.expect_same_answers({query});
}

} // namespace
} // namespace vectorgpu::cuda::test
