// Lists of codes without vectors (CopyKind::kCodes) on the GPU: the CPU engine's candidates, with the same estimates,
// bit for bit.
#include "lists/coded_segments.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr CodesCase kCodes[] = {
	{CodeKind::kHalves, 0, 0, false},
	{CodeKind::kSq8, 0, 0, false},
	{CodeKind::kPq, 5, 8, false},
	{CodeKind::kPq, 16, 8, false},
	{CodeKind::kPq, 21, 4, true},
	{CodeKind::kPq, 64, 8, true},
	{CodeKind::kRabitq, 0, 1, false},
	{CodeKind::kRabitq, 0, 3, false},
	{CodeKind::kRabitq, 0, 8, false},
};

/// The delta is not searched.
struct BothCodes : CodedSegments
{
	BothCodes(const DistanceSpec &spec, const CodesCase &codes, uint32_t seed, size_t n_rows = 3000)
		: CodedSegments(spec, CopyKind::kCodes, codes, true, seed, n_rows, Data::kGaussian)
	{
	}

	/// One batch, and the same after a row that was found.
	void expect_batch(const Rows &queries, size_t n, size_t k, uint32_t most_probes, uint32_t candidates)
	{
		Batch batch = make_batch(queries, n, k, most_probes, candidates);
		std::vector<std::vector<Neighbor>> found;

		SCOPED_TRACE(about(n, k, most_probes, candidates));
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch.queries));
		for (const Coverage coverage : batch.coverage)
			EXPECT_EQ(coverage, Coverage::kPart);

		ASSERT_OK(both.cpu()->search(both.cpu_copy(), batch.queries, &found, nullptr));
		for (size_t i = 0; i < n; i += 2)
			if (!found[i].empty())
			{
				batch.queries[i].has_after = true;
				batch.queries[i].after = found[i][found[i].size() / 2];
			}
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch.queries));
	}
};

TEST(Candidates, EveryMetricAndKindInBatchesOfEverySize)
{
	for (const CodesCase &codes : kCodes)
		for (const Metric metric : kFloatMetrics)
			for (const uint32_t dim : {7u, 40u, 130u})
			{
				if (!exists(metric, codes))
					continue;

				const ElementType element = dim == 40 ? ElementType::kFloat16 : ElementType::kFloat32;
				BothCodes held({metric, element, dim}, codes, dim);
				Rows queries(held.delta.spec);

				queries.add_random(40, Data::kGaussian, held.rng, 0);
				for (const size_t n : {1u, 5u, 40u, 300u})
					ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 120, 8, 50));
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 2, 1, 1));
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 200, 29, 700));
				ASSERT_NO_FATAL_FAILURE(
					held.expect_batch(queries, 40, 5000, 30, 5000)); // more than there are, and in slices
			}
}

TEST(Candidates, OfSeveralPasses)
{
	for (const CodesCase &codes : {kCodes[0], kCodes[1], kCodes[3], kCodes[4], kCodes[6], kCodes[7]})
	{
		BothCodes held({Metric::kL2, ElementType::kFloat32, 24}, codes, 5, 12000);
		Rows queries(held.delta.spec);

		queries.add_random(10, Data::kGaussian, held.rng, 0);
		for (const uint32_t candidates : {2047u, 2048u, 2049u, 5000u, 100000u})
			for (const size_t k : {10u, 2048u, 3000u, 20000u})
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 10, k, 20, candidates));
	}
}

TEST(Candidates, QueriesWithInfinitiesAndNaN)
{
	for (const CodesCase &codes : kCodes)
		for (const Metric metric : kFloatMetrics)
		{
			if (!exists(metric, codes))
				continue;

			BothCodes held({metric, ElementType::kFloat32, 33}, codes, 13, 1500);
			Rows queries(held.delta.spec);

			queries.add_random(60, Data::kExtremes, held.rng, 0);
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 60, 800, 10, 400));
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 60, 20, 12, 20));
		}
}

TEST(Candidates, DeadRowsTakeThePlaceOfOthers)
{
	for (const CodesCase &codes : kCodes)
	{
		BothCodes held({Metric::kL2, ElementType::kFloat32, 48}, codes, 7);
		Rows queries(held.delta.spec);
		std::vector<uint8_t> dead(3000 / 8);

		for (uint8_t &byte : dead)
			byte = static_cast<uint8_t>(held.rng() | held.rng());
		queries.add_random(40, Data::kGaussian, held.rng, 0);
		ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
		for (const size_t n : {1u, 40u, 300u})
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 200, 10, 100));
		std::fill(dead.begin(), dead.end(), 0xFF); // the whole segment
		ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
		ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 200, 10, 100));
	}
}

TEST(Candidates, AreReadBackUnchanged)
{
	for (const CodesCase &codes : kCodes)
	{
		BothCodes held({Metric::kL2, ElementType::kFloat32, 45}, codes, 17, 1001);
		const Bytes given = held.first.coded_description();
		Bytes structure(given.size());
		std::vector<RowId> ids(1001);
		std::vector<RowId> delta_ids(held.delta.n());
		Bytes delta(held.delta.n() * held.delta.row_bytes);
		CudaEngine *cuda = held.both.cuda();

		ASSERT_OK(cuda->read_structure(held.both.cuda_copy(), 1, 0, given.size(), structure.data()));
		EXPECT_EQ(structure, given);
		ASSERT_OK(cuda->read_rows(held.both.cuda_copy(), 1, 0, 1001, ids.data(), nullptr));
		EXPECT_EQ(ids, held.first.rows.ids);
		ASSERT_OK(cuda->read_rows(
			held.both.cuda_copy(), engine::kDeltaSegment, 0, held.delta.n(), delta_ids.data(), delta.data()));
		EXPECT_EQ(delta_ids, held.delta.ids);
		EXPECT_EQ(delta, held.delta.vectors);
	}
}

TEST(Candidates, OfNothing)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 20};
	Both both(engine::CopySpec(spec, CopyKind::kCodes));
	const std::vector<float> vector(20, 1.0f);
	const SegmentProbes probes[] = {{1, 3, 10}};
	std::vector<std::vector<Neighbor>> found;
	SearchQuery query = {vector.data(), 10, false, {}};

	EXPECT_EQ(both.cuda()->search(both.cuda_copy(), {&query, 1}, &found, nullptr).code,
		StatusCode::kInvalidArgument); // without probes
	query.probes = probes;
	ASSERT_NO_FATAL_FAILURE(both.expect_same_answers({query}));

	Rows delta(spec); // is not searched
	std::mt19937 rng(1);

	delta.add_random(10, Data::kGaussian, rng, 1);
	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.append_delta(c, 0, delta.block()); }));
	ASSERT_NO_FATAL_FAILURE(both.expect_same_answers({query}));
}

} // namespace
} // namespace vectorgpu::cuda::test
