// Inverted lists on the GPU: the CPU engine's answers with the same lists and probes, bit for bit, by every way.
#include <array>

#include "answers.hpp"
#include "engine/coded_rows.hpp"
#include "engine/list_rows.hpp"
#include "kernels/ivf/ivf.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::CopyKind;
using engine::Coverage;
using engine::SegmentProbes;

/// Two segments of lists and a delta, in both engines.
struct BothLists
{
	static constexpr uint32_t kLists = 40;
	static constexpr uint32_t kFewLists = 9;

	BothLists(const DistanceSpec &spec, Values kind, uint32_t seed, CudaEngine *cuda = cuda_engine())
		: rng(seed), values(kind), first(lists(spec, 6000, kLists, 1)), second(lists(spec, 700, kFewLists, 10001)),
		  delta(spec), both(engine::CopySpec(spec, CopyKind::kLists), cuda)
	{
		add(&delta, 150, 20001);
		both.change([&](Engine &e, CopyId c) { return first.load(&e, c, 1); });
		both.change([&](Engine &e, CopyId c) { return second.load(&e, c, 2); });
		both.change([&](Engine &e, CopyId c) { return e.append_delta(c, 0, delta.block()); });
	}

	void add(Rows *rows, size_t n, RowId first_id) { add_values(rows, values, 4, n, rng, first_id); }

	ListRows lists(const DistanceSpec &spec, size_t n, uint32_t n_lists, RowId first_id)
	{
		Rows rows(spec);

		add(&rows, n, first_id);
		return ListRows(rows, n_lists, rng);
	}

	/// One batch in which each query has another k and other probes.
	void expect_batch(
		const Rows &queries, size_t n, size_t k, std::array<uint32_t, 2> most_probes, bool with_after = false)
	{
		std::vector<SearchQuery> batch;
		std::vector<std::array<SegmentProbes, 2>> named(n);

		for (size_t i = 0; i < n; i++)
		{
			const uint32_t divisor = 1 + static_cast<uint32_t>(i % 3);
			SearchQuery query = {queries.vector(i % queries.n()), std::max<size_t>(1, k - i % 2), false, {}};

			named[i] = {SegmentProbes{1, std::max(1u, most_probes[0] / divisor)},
				SegmentProbes{2, std::max(1u, most_probes[1] / divisor)}};
			if (i % 7 != 6) // some look at all rows
				query.probes = named[i];
			if (with_after && i % 2 == 0)
			{
				query.has_after = true;
				query.after = {engine_score(query.query), first.rows.ids[17]};
			}
			batch.push_back(query);
		}
		SCOPED_TRACE(testing::Message() << metric_name(first.rows.spec.metric) << " element "
										<< static_cast<int>(first.rows.spec.element) << " dim " << first.rows.spec.dim
										<< " batch " << n << " k " << k << " probes " << most_probes[0]);
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
	}

	/// After row 17, so that a search continues in the middle of a tie.
	double engine_score(const void *query) const { return oracle_score(first.rows.spec, query, first.rows.vector(17)); }

	std::mt19937 rng;
	Values values;
	ListRows first;
	ListRows second;
	Rows delta;
	Both both;
};

TEST(Lists, EveryMetricAndTypeInBatchesOfEverySize)
{
	for (Metric metric : kFloatMetrics)
		for (const auto &[element, values, cuda] : {std::tuple{ElementType::kFloat32, Values::kReal, cuda_engine()},
				 {ElementType::kFloat32, Values::kBytes, cuda_engine()},
				 {ElementType::kFloat32, Values::kBytes, cuda_engine(false)},
				 {ElementType::kFloat16, Values::kReal, cuda_engine()},
				 {ElementType::kFloat32, Values::kReal, chain_engine()},
				 {ElementType::kFloat32, Values::kBytes, chain_engine()},
				 {ElementType::kFloat16, Values::kReal, chain_engine()}})
			for (const uint32_t dim : {7u, 64u, 100u})
			{
				BothLists held({metric, element, dim}, values, dim, cuda);
				Rows queries(held.delta.spec);

				held.add(&queries, 40, 0);
				for (const size_t n : {1u, 5u, 40u, 300u})
					ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 10, {8, 3}));
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 1, {1, 1}));
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 200, {39, 9}));
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 10, {8, 3}, true));
			}
}

TEST(Lists, LargeKAndMoreThanTheListsHave)
{
	BothLists held({Metric::kL2, ElementType::kFloat32, 24}, Values::kReal, 3);
	Rows queries(held.delta.spec);

	held.add(&queries, 10, 0);
	for (const size_t k : {1000u, 2048u, 2049u, 5000u, 100000u})
		for (const uint32_t n_probes : {1u, 10u, 38u})
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 6, k, {n_probes, 2}));
}

TEST(Lists, NaNAndInfinities)
{
	for (Metric metric : kFloatMetrics)
		for (const ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
		{
			BothLists held({metric, element, 33}, Values::kExtremes, 5);
			Rows queries(held.delta.spec);

			held.add(&queries, 30, 0);
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 30, 300, {10, 4}));
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 30, 7000, {40, 9}));
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 200, 20, {12, 9}));
		}
}

TEST(Lists, DeadRowsCountByNumber)
{
	BothLists held({Metric::kL2, ElementType::kFloat32, 48}, Values::kBytes, 7);
	Rows queries(held.delta.spec);
	std::vector<uint8_t> dead(6000 / 8);
	const std::vector<uint8_t> delta_dead = {0xFF, 0x0F};

	for (uint8_t &byte : dead)
		byte = static_cast<uint8_t>(held.rng() | held.rng());
	held.add(&queries, 40, 0);
	ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
	ASSERT_NO_FATAL_FAILURE(
		held.both.change([&](Engine &e, CopyId c) { return e.set_delta_tombstones(c, 0, delta_dead); }));
	for (const size_t n : {1u, 40u, 300u})
		ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 50, {10, 4}));
	std::fill(dead.begin(), dead.end(), 0xFF); // the whole segment
	ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
	ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 50, {10, 4}));
}

TEST(Lists, MoreCandidatesThanThereIsRoomFor)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 16};
	std::mt19937 rng(1);
	Rows rows(spec);
	Rows queries(spec);
	std::vector<uint8_t> same(spec.dim * 4);

	rows.add_random(3000, Data::kGaussian, rng, 1);
	for (RowId id = 10001; id < 22001; id++) // all at one distance
		rows.add(id, same.data());
	queries.add_random(200, Data::kGaussian, rng, 0);
	for (size_t i = 0; i < 40; i++)
		queries.add(1000 + i, same.data());

	const ListRows lists(rows, 12, rng);
	Both both(engine::CopySpec(spec, CopyKind::kLists));
	const SegmentProbes probes[] = {{1, 11}};

	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return lists.load(&e, c, 1); }));
	for (const size_t n : {1u, 239u})
	{
		std::vector<SearchQuery> batch;

		for (size_t i = 0; i < n; i++)
		{
			batch.push_back({queries.vector(queries.n() - 1 - i), 25, false, {}});
			batch.back().probes = probes;
		}
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
	}
}

TEST(Lists, BytesUpToTheLargestExactSum)
{
	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
		for (const uint32_t dim : {31u, 64u, 96u, 128u, 255u, 256u, 257u})
		{
			const DistanceSpec spec = {metric, ElementType::kFloat32, dim};
			std::mt19937 rng(dim);
			Rows rows(spec);
			Rows queries(spec);
			std::vector<float> full(dim, 255.0f);
			const std::vector<float> empty(dim, 0.0f);

			add_whole_numbers(&rows, 3000, 255, rng, 1);
			for (RowId id = 4000; id < 4040; id++) // the largest distances there are
				rows.add(id, reinterpret_cast<const uint8_t *>(id % 2 == 0 ? full.data() : empty.data()));
			add_whole_numbers(&queries, 100, 255, rng, 0);
			queries.add(200, reinterpret_cast<const uint8_t *>(full.data()));
			queries.add(201, reinterpret_cast<const uint8_t *>(empty.data()));

			const ListRows lists(rows, 20, rng);
			Both both(engine::CopySpec(spec, CopyKind::kLists));

			ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return lists.load(&e, c, 1); }));
			for (const size_t n : {16u, 102u})
				for (const auto &[k, n_probes] : {std::pair{10u, 3u}, {300u, 7u}, {2000u, 19u}})
				{
					const SegmentProbes probes[] = {{1, n_probes}};
					std::vector<SearchQuery> batch;

					SCOPED_TRACE(
						testing::Message() << metric_name(metric) << " dim " << dim << " batch " << n << " k " << k);
					for (size_t i = 0; i < n; i++)
					{
						batch.push_back({queries.vector(queries.n() - 1 - i), k, i % 5 == 4, {1000.0 * dim, 77}});
						batch.back().probes = probes;
					}
					ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));

					// One query that is not bytes: the others' answers stay the same.
					Rows half(spec);

					full[dim / 2] = 0.5f;
					half.add(1, reinterpret_cast<const uint8_t *>(full.data()));
					full[dim / 2] = 255.0f;
					batch[n / 2].query = half.vector(0);
					ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
				}
		}
}

TEST(Lists, MoreListsThanTheSelectionGives)
{
	const DistanceSpec spec = {Metric::kInnerProduct, ElementType::kFloat32, 9};
	std::mt19937 rng(2);
	Rows rows(spec);
	Rows queries(spec);

	rows.add_random(5000, Data::kGaussian, rng, 1);
	queries.add_random(20, Data::kGaussian, rng, 0);

	const ListRows lists(rows, 2600, rng); // some of them empty
	Both both(engine::CopySpec(spec, CopyKind::kLists));

	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return lists.load(&e, c, 1); }));
	for (const uint32_t n_probes : {1u, 300u, 2048u, 2049u, 2599u})
	{
		const SegmentProbes probes[] = {{1, n_probes}};
		std::vector<SearchQuery> batch;

		for (size_t i = 0; i < queries.n(); i++)
		{
			batch.push_back({queries.vector(i), 30, false, {}});
			batch.back().probes = probes;
		}
		SCOPED_TRACE(n_probes);
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
	}
}

/// So many lists and queries that the filter ranks the lists. Some queries are none that it can answer.
TEST(Lists, ManyListsAreRankedByTheFilter)
{
	constexpr uint32_t kManyLists = 17000;
	constexpr size_t kManyQueries = 1300;
	constexpr size_t kUnfiltered = 20; // zeros, and large numbers

	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
		for (const ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
		{
			const DistanceSpec spec = {metric, element, 40};
			std::mt19937 rng(3);
			std::normal_distribution<float> normal;
			Rows rows(spec);
			Rows queries(spec);

			rows.add_random(2 * kManyLists, Data::kGaussian, rng, 1);
			queries.add_random(kManyQueries - 2 * kUnfiltered, Data::kGaussian, rng, 0);
			for (size_t i = 0; i < kUnfiltered; i++)
			{
				queries.add(queries.n(), std::vector<uint8_t>(spec.dim * 4, 0).data());
				queries.add(queries.n(), std::vector<uint8_t>(spec.dim * 4, 0x7B).data()); // large numbers
			}

			ListRows lists(rows, 1, rng);

			lists.n_lists = kManyLists;
			lists.centroids.resize(size_t{kManyLists} * spec.dim);
			for (size_t i = 0; i < lists.centroids.size(); i++) // several are the same: ties go by number
				lists.centroids[i] =
					i / spec.dim % 5 == 0 && i >= spec.dim ? lists.centroids[i - spec.dim] : normal(rng);
			lists.offsets.clear();
			for (uint64_t list = 0; list <= kManyLists; list++)
				lists.offsets.push_back(2 * list);

			const CodedRows coded(lists, engine::ivf::CodeKind::kSq8);

			for (const CopyKind kind : {CopyKind::kLists, CopyKind::kCodedLists})
			{
				Both both(engine::CopySpec(spec, kind));

				ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c)
					{ return kind == CopyKind::kLists ? lists.load(&e, c, 1) : coded.load_coded(&e, c, 1); }));
				ASSERT_NO_FATAL_FAILURE(both.change(
					[&](Engine &e, CopyId c)
					{
						uint64_t n_different = 0;
						const Status status = e.check_derived(c, 1, 0, rows.n(), &n_different);

						EXPECT_EQ(n_different, 0U);
						return status;
					}));
				for (const uint32_t n_probes : {1u, 40u, 300u})
				{
					const SegmentProbes probes[] = {{1, n_probes, 30}};
					std::vector<SearchQuery> batch;

					for (size_t i = 0; i < kManyQueries; i++)
					{
						batch.push_back({queries.vector(i), 10, false, {}});
						batch.back().probes = probes;
					}
					SCOPED_TRACE(testing::Message() << static_cast<int>(metric) << ", " << n_probes << " probes");
					ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
				}
			}
		}
}

/// The kernel alone, over memory that the device reads as well.
TEST(Lists, QueriesThatAreSearchedAgainLookAtNoList)
{
	constexpr uint32_t kQueries = 1000;
	Device device;
	Stream stream;
	PinnedBuffer memory;

	ASSERT_OK(Device::open(0, nullptr, &device));
	ASSERT_OK(stream.create(&device));
	ASSERT_OK(memory.allocate(&device, kQueries * (sizeof(uint32_t) + 1), "a test"));

	uint32_t *counts = memory.as<uint32_t>();
	uint8_t *redo = memory.as<uint8_t>() + kQueries * sizeof(uint32_t);

	for (const uint32_t n : {0u, 1u, 256u, 257u, kQueries - 1})
	{
		std::fill_n(counts, kQueries, 7u);
		for (uint32_t i = 0; i < kQueries; i++)
			redo[i] = static_cast<uint8_t>(i % 3);
		ASSERT_EQ(kernels::launch_ivf_skip(redo, n, counts, stream.get()), cudaSuccess);
		ASSERT_OK(stream.synchronize());
		for (uint32_t i = 0; i < kQueries; i++)
			ASSERT_EQ(counts[i], i < n && i % 3 != 0 ? 0u : 7u) << i;
	}
}

TEST(Lists, AreReadBackUnchanged)
{
	BothLists held({Metric::kCosine, ElementType::kFloat16, 37}, Values::kReal, 9);
	const Bytes given = held.first.description();
	const Bytes vectors = held.first.vectors_by_place();
	std::vector<RowId> ids(held.first.rows.n());
	Bytes got(given.size());
	Bytes read(vectors.size());

	ASSERT_OK(cuda_engine()->read_structure(held.both.cuda_copy(), 1, 0, got.size(), got.data()));
	EXPECT_EQ(got, given);
	got.assign(given.size(), 0);
	ASSERT_OK(cuda_engine()->read_structure(held.both.cuda_copy(), 1, 321, 1000, got.data()));
	EXPECT_TRUE(std::equal(got.begin(), got.begin() + 1000, given.begin() + 321));
	EXPECT_FALSE(cuda_engine()->read_structure(held.both.cuda_copy(), 1, 1, given.size(), got.data()).is_ok());
	EXPECT_FALSE(cuda_engine()->read_structure(held.both.cuda_copy(), 3, 0, 1, got.data()).is_ok());
	ASSERT_OK(cuda_engine()->read_rows(held.both.cuda_copy(), 1, 0, ids.size(), ids.data(), read.data()));
	EXPECT_EQ(ids, held.first.rows.ids);
	EXPECT_EQ(read, vectors);
}

TEST(Lists, WrongDescriptionsAreRefused)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 3};
	std::mt19937 rng(1);
	Rows rows(spec);

	rows.add_random(30, Data::kGaussian, rng, 1);

	ListRows lists(rows, 4, rng);
	Both both(engine::CopySpec(spec, CopyKind::kLists));

	lists.numbers[3] = lists.numbers[4];
	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return lists.load(&e, c, 1); }));
	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.drop_segment(c, 1); }));
	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.load_segment(c, 2, rows.block()); }));
	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.seal_segment(c, 2); })); // has none
}

TEST(Lists, QueriesReportTheirCoverage)
{
	BothLists held({Metric::kL2, ElementType::kFloat32, 8}, Values::kReal, 4);
	const SegmentProbes some[] = {{1, 3}};
	const SegmentProbes all[] = {{1, 40}, {2, 9}};
	Coverage coverage[3] = {Coverage::kAll, Coverage::kPart, Coverage::kPart};
	std::vector<SearchQuery> batch(3, {held.delta.vector(0), 10, false, {}});
	std::vector<std::vector<Neighbor>> results;

	batch[0].probes = some;
	batch[1].probes = all;
	for (size_t i = 0; i < 3; i++)
		batch[i].coverage = &coverage[i];
	ASSERT_OK(cuda_engine()->search(held.both.cuda_copy(), batch, &results, nullptr));
	EXPECT_EQ(coverage[0], Coverage::kPart);
	EXPECT_EQ(coverage[1], Coverage::kAll);
	EXPECT_EQ(coverage[2], Coverage::kAll);
}

} // namespace
} // namespace vectorgpu::cuda::test
