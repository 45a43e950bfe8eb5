// Inverted lists with codes on the GPU: the CPU engine's answers with the same codes, probes and candidates, bit for
// bit.
#include "lists/coded_segments.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

/// Parts that do not divide the dimensions, parts that fill words of codes or do not, one part, as many as dimensions.
constexpr CodesCase kCodes[] = {
	{CodeKind::kHalves, 0, 0, false},
	{CodeKind::kSq8, 0, 0, false},
	{CodeKind::kPq, 1, 8, false},
	{CodeKind::kPq, 5, 8, false},
	{CodeKind::kPq, 16, 8, false},
	{CodeKind::kPq, 21, 8, true},
	{CodeKind::kPq, 3, 4, false},
	{CodeKind::kPq, 21, 4, true},
	{CodeKind::kPq, 33, 8, false},
	{CodeKind::kPq, 64, 8, true},
	{CodeKind::kRabitq, 0, 1, false},
	{CodeKind::kRabitq, 0, 2, false},
	{CodeKind::kRabitq, 0, 4, false},
	{CodeKind::kRabitq, 0, 7, false},
};

struct BothCoded : CodedSegments
{
	BothCoded(const DistanceSpec &spec, const CodesCase &codes, uint32_t seed, size_t n_rows = 3000)
		: CodedSegments(spec, CopyKind::kCodedLists, codes, false, seed, n_rows, Data::kGaussian)
	{
	}

	/// One batch, in which some queries look at all rows.
	void expect_batch(
		const Rows &queries, size_t n, size_t k, uint32_t most_probes, uint32_t candidates, bool with_after = false)
	{
		Batch batch = make_batch(queries, n, k, most_probes, candidates);

		for (size_t i = 0; i < n; i++)
		{
			SearchQuery &query = batch.queries[i];

			if (i % 7 == 6)
				query.probes = {};
			if (with_after && i % 2 == 0)
			{
				query.has_after = true;
				query.after = {oracle_score(first.rows.spec, query.query, first.rows.vector(17)), first.rows.ids[17]};
			}
		}
		SCOPED_TRACE(about(n, k, most_probes, candidates));
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch.queries));
		for (size_t i = 0; i < n; i++)
			EXPECT_EQ(batch.coverage[i] == Coverage::kPart,
				!batch.queries[i].probes.empty() &&
					(batch.named[i][0].probes < kLists || batch.named[i][1].probes < kFewLists));
	}
};

TEST(Codes, EveryMetricAndKindInBatchesOfEverySize)
{
	for (const CodesCase &codes : kCodes)
		for (const Metric metric : kFloatMetrics)
			for (const uint32_t dim : {7u, 40u, 130u})
			{
				if (!exists(metric, codes))
					continue;

				const ElementType element = dim == 40 ? ElementType::kFloat16 : ElementType::kFloat32;
				BothCoded held({metric, element, dim}, codes, dim);
				Rows queries(held.delta.spec);

				queries.add_random(40, Data::kGaussian, held.rng, 0);
				for (const size_t n : {1u, 5u, 40u, 300u})
					ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 10, 8, 50));
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 1, 1, 1));
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 200, 29, 700));
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 30, 30, 5000)); // more than there are
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 10, 8, 50, true));
			}
}

// Signs that fill words or not, bits below them in one part to three.
TEST(Codes, RabitqOfEveryNumberOfBits)
{
	for (uint32_t bits = 1; bits <= 8; bits++)
		for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
			for (const uint32_t dim : {3u, 33u, 128u, 260u})
			{
				BothCoded held({metric, ElementType::kFloat32, dim}, {CodeKind::kRabitq, 0, bits, false}, dim + bits);
				Rows queries(held.delta.spec);

				queries.add_random(40, Data::kGaussian, held.rng, 0);
				for (const size_t n : {1u, 40u, 300u})
					ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 10, 8, 60));
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 30, 30, 2500));
			}
}

TEST(Codes, RabitqOfManyDimensions)
{
	for (const auto &[dim, bits] : {std::pair{2000u, 4u}, {8192u, 8u}, {16000u, 1u}, {16000u, 8u}})
	{
		const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, dim};
		std::mt19937 rng(bits);
		Rows rows(spec);
		Rows queries(spec);

		rows.add_random(300, Data::kGaussian, rng, 1);
		queries.add_random(20, Data::kGaussian, rng, 0);

		const CodedRows lists(ListRows(rows, 10, rng), CodeKind::kRabitq, 0, bits, false);
		Both both(engine::CopySpec(spec, CopyKind::kCodedLists));

		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return lists.load_coded(&e, c, 1); }));
		for (const uint32_t n_candidates : {30u, 200u, 5000u})
		{
			const SegmentProbes probes[] = {{1, 7, n_candidates}};
			std::vector<SearchQuery> batch;

			for (size_t i = 0; i < queries.n(); i++)
			{
				batch.push_back({queries.vector(i), 10, false, {}});
				batch.back().probes = probes;
			}
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
		}
	}
}

// Rows that are scored because codes named them, in one pass and in several: as many as in the CPU engine.
TEST(Codes, RescoredRowsAreCounted)
{
	for (const CodesCase &codes : {kCodes[0], kCodes[1], kCodes[4], kCodes[6], kCodes[12]})
		for (const uint32_t candidates : {1u, 50u, 2048u, 5000u})
		{
			BothCoded held({Metric::kL2, ElementType::kFloat32, 40}, codes, 6, 12000);
			Rows queries(held.delta.spec);

			queries.add_random(40, Data::kGaussian, held.rng, 0);
			for (const size_t n : {1u, 40u})
			{
				const CodedSegments::Batch batch = held.make_batch(queries, n, 10, 20, candidates);
				const uint64_t on_gpu = held.both.cuda()->n_rescored();
				const uint64_t on_cpu = held.both.cpu()->n_rescored();

				SCOPED_TRACE(held.about(n, 10, 20, candidates));
				ASSERT_NO_FATAL_FAILURE(held.both.expect_same_answers(batch.queries));
				EXPECT_EQ(held.both.cuda()->n_rescored() - on_gpu, held.both.cpu()->n_rescored() - on_cpu);
				EXPECT_GT(held.both.cuda()->n_rescored(), on_gpu);
			}
		}
}

TEST(Codes, ManyQueriesAtOnce)
{
	for (const CodesCase &codes : {kCodes[1], kCodes[4], kCodes[6], kCodes[9], kCodes[10], kCodes[12]})
	{
		BothCoded held({Metric::kL2, ElementType::kFloat32, 64}, codes, 3);
		Rows queries(held.delta.spec);

		queries.add_random(500, Data::kGaussian, held.rng, 0);
		ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 10000, 10, 6, 30));
	}
}

TEST(Codes, CandidatesOfSeveralPasses)
{
	for (const CodesCase &codes :
		{kCodes[0], kCodes[1], kCodes[4], kCodes[7], kCodes[8], kCodes[10], kCodes[11], kCodes[13]})
	{
		BothCoded held({Metric::kL2, ElementType::kFloat32, 24}, codes, 5, 12000);
		Rows queries(held.delta.spec);

		queries.add_random(10, Data::kGaussian, held.rng, 0);
		for (const uint32_t candidates : {511u, 512u, 513u, 1536u, 2047u, 2048u, 2049u, 4096u, 5000u, 100000u})
			for (const size_t k : {10u, 2048u, 3000u})
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 10, k, 20, candidates));
		ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 300, 100, 20, 5000));
	}
}

/// The number of candidates is so large that the rows of the lists are scored instead: the exact answer within these
/// lists.
TEST(Codes, CandidatesOfTooManyPasses)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 12};
	std::mt19937 rng(23);
	Rows rows(spec);
	Rows queries(spec);

	rows.add_random(100000, Data::kGaussian, rng, 1);
	queries.add_random(20, Data::kGaussian, rng, 0);

	const CodedRows lists(ListRows(rows, 8, rng), CodeKind::kPq, 3, 4, false);
	Both both(engine::CopySpec(spec, CopyKind::kCodedLists));

	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return lists.load_coded(&e, c, 1); }));
	for (const uint32_t n_candidates : {30000u, 32768u, 32769u, 50000u})
		for (const size_t k : {10u, 3000u})
		{
			SCOPED_TRACE(testing::Message() << n_candidates << " candidates, k " << k);

			const SegmentProbes asked[] = {{1, 6, n_candidates}};
			const SegmentProbes all[] = {{1, 6, n_candidates > 32768 ? 100000 : n_candidates}};
			const SegmentProbes few[] = {{1, 6, 100}};
			std::vector<SearchQuery> on_gpu, on_cpu;
			std::vector<std::vector<Neighbor>> found, expected;

			for (size_t i = 0; i < queries.n(); i++)
				for (std::vector<SearchQuery> *batch : {&on_gpu, &on_cpu})
				{
					batch->push_back({queries.vector(i), k, false, {}});
					batch->back().probes = i % 3 == 0 ? few : batch == &on_gpu ? asked : all;
				}
			ASSERT_OK(both.cuda()->search(both.cuda_copy(), on_gpu, &found, nullptr));
			ASSERT_OK(both.cpu()->search(both.cpu_copy(), on_cpu, &expected, nullptr));
			ASSERT_EQ(found.size(), expected.size());
			for (size_t i = 0; i < found.size(); i++)
				ASSERT_NO_FATAL_FAILURE(expect_same(found[i], expected[i]));
		}
}

TEST(Codes, MoreListsThanAreHeldAtATime)
{
	for (const CodesCase &codes : {CodesCase{CodeKind::kPq, 4, 8, false}, kCodes[12]})
	{
		const DistanceSpec spec = {Metric::kInnerProduct, ElementType::kFloat32, 16};
		std::mt19937 rng(9);
		Rows rows(spec);
		Rows queries(spec);

		rows.add_random(4000, Data::kGaussian, rng, 1);
		queries.add_random(20, Data::kGaussian, rng, 0);

		const CodedRows lists(ListRows(rows, 2500, rng), codes.kind, codes.pq_m, codes.bits, codes.opq);
		Both both(engine::CopySpec(spec, CopyKind::kCodedLists));

		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return lists.load_coded(&e, c, 1); }));
		for (const uint32_t n_probes : {255u, 256u, 257u, 1000u, 2300u})
		{
			const SegmentProbes probes[] = {{1, n_probes, 40}};
			std::vector<SearchQuery> batch;

			for (size_t i = 0; i < queries.n(); i++)
			{
				batch.push_back({queries.vector(i), 10, false, {}});
				batch.back().probes = probes;
			}
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
			batch.resize(1);
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
		}
	}
}

// Few queries, each shared by many blocks, whose parts hold more entries than are merged: with vectors and without.
TEST(Codes, PartsOfManyBlocks)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 16};
	std::mt19937 rng(29);
	Rows rows(spec);
	Rows queries(spec);

	rows.add_random(60000, Data::kGaussian, rng, 1);
	queries.add_random(5, Data::kGaussian, rng, 0);
	queries.add_random(4, Data::kExtremes, rng, 100);
	for (const CodesCase &codes : {kCodes[2], kCodes[10], kCodes[11], kCodes[12]})
		for (const CopyKind kind : {CopyKind::kCodedLists, CopyKind::kCodes})
		{
			const CodedRows lists(ListRows(rows, 30, rng), codes.kind, codes.pq_m, codes.bits, codes.opq);
			Both both(engine::CopySpec(spec, kind));

			ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return lists.load_as(kind, &e, c, 1); }));
			for (const size_t n : {1u, 3u, 9u})
				for (const uint32_t n_candidates : {20u, 60u, 120u, 500u, 2048u})
				{
					const SegmentProbes probes[] = {{1, 25, n_candidates}};
					std::vector<SearchQuery> batch;

					SCOPED_TRACE(testing::Message() << n << " queries, " << n_candidates << " candidates");
					for (size_t i = 0; i < n; i++)
					{
						batch.push_back({queries.vector(queries.n() - 1 - i), 10, false, {}});
						batch.back().probes = probes;
					}
					ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
				}
		}
}

TEST(Codes, TablesThatDoNotFitSharedMemory)
{
	for (const uint32_t bits : {4u, 8u})
	{
		const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, bits == 8 ? 200u : 9000u};
		std::mt19937 rng(bits);
		Rows rows(spec);
		Rows queries(spec);

		rows.add_random(400, Data::kGaussian, rng, 1);
		queries.add_random(300, Data::kGaussian, rng, 0);

		const CodedRows lists(ListRows(rows, 10, rng), CodeKind::kPq, spec.dim, bits, false);
		Both both(engine::CopySpec(spec, CopyKind::kCodedLists));
		const SegmentProbes probes[] = {{1, 4, 30}};

		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return lists.load_coded(&e, c, 1); }));
		for (const size_t n : {1u, 300u})
		{
			std::vector<SearchQuery> batch;

			for (size_t i = 0; i < n; i++)
			{
				batch.push_back({queries.vector(i), 10, false, {}});
				batch.back().probes = probes;
			}
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
		}
	}
}

TEST(Codes, EqualEstimatesGoByPlace)
{
	for (const CodesCase &codes : kCodes)
	{
		const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 24};
		std::mt19937 rng(11);
		Rows rows(spec);
		Rows queries(spec);
		std::vector<uint8_t> same(spec.dim * 4);

		rows.add_random(500, Data::kGaussian, rng, 1);
		for (RowId id = 10001; id < 14001; id++) // all at one distance
			rows.add(id, same.data());
		queries.add_random(40, Data::kGaussian, rng, 0);
		for (size_t i = 0; i < 10; i++)
			queries.add(1000 + i, same.data());

		const CodedRows lists(
			ListRows(rows, 12, rng), codes.kind, std::min(codes.pq_m, spec.dim), codes.bits, codes.opq);
		Both both(engine::CopySpec(spec, CopyKind::kCodedLists));

		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return lists.load_coded(&e, c, 1); }));
		for (const size_t n : {1u, 50u})
			for (const uint32_t n_candidates : {60u, 1000u, 3000u})
			{
				const SegmentProbes probes[] = {{1, 11, n_candidates}};
				std::vector<SearchQuery> batch;

				for (size_t i = 0; i < n; i++)
				{
					batch.push_back({queries.vector(queries.n() - 1 - i), 25, false, {}});
					batch.back().probes = probes;
				}
				ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
			}
	}
}

// For the sanitizers.
TEST(Codes, Reduced)
{
	for (const CodesCase &codes : {kCodes[1], kCodes[3], kCodes[7], kCodes[10], kCodes[12]})
	{
		BothCoded held({Metric::kL2, ElementType::kFloat32, 40}, codes, 19, 1000);
		Rows queries(held.delta.spec);

		queries.add_random(5, Data::kGaussian, held.rng, 0);
		ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 5, 10, 8, 50));
	}
}

TEST(Codes, QueriesWithInfinitiesAndNaN)
{
	for (const CodesCase &codes : kCodes)
		for (const Metric metric : kFloatMetrics)
		{
			if (!exists(metric, codes))
				continue;

			BothCoded held({metric, ElementType::kFloat32, 33}, codes, 13, 1500);
			Rows queries(held.delta.spec);

			queries.add_random(60, Data::kExtremes, held.rng, 0);
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 60, 300, 10, 400));
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 60, 20, 12, 20));
		}
}

TEST(Codes, DeadRowsTakeThePlaceOfCandidates)
{
	for (const CodesCase &codes : kCodes)
	{
		BothCoded held({Metric::kL2, ElementType::kFloat32, 48}, codes, 7);
		Rows queries(held.delta.spec);
		std::vector<uint8_t> dead(3000 / 8);
		const std::vector<uint8_t> delta_dead = {0xFF, 0x0F};

		for (uint8_t &byte : dead)
			byte = static_cast<uint8_t>(held.rng() | held.rng());
		queries.add_random(40, Data::kGaussian, held.rng, 0);
		ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
		ASSERT_NO_FATAL_FAILURE(
			held.both.change([&](Engine &e, CopyId c) { return e.set_delta_tombstones(c, 0, delta_dead); }));
		for (const size_t n : {1u, 40u, 300u})
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 50, 10, 100));
		std::fill(dead.begin(), dead.end(), 0xFF); // the whole segment
		ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
		ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 50, 10, 100));
	}
}

TEST(Codes, AreReadBackUnchanged)
{
	for (const CodesCase &codes : kCodes)
	{
		const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 45};
		std::mt19937 rng(17);
		Rows rows(spec);

		rows.add_random(1001, Data::kGaussian, rng, 1);

		const CodedRows lists(
			ListRows(rows, 9, rng), codes.kind, std::min(codes.pq_m, spec.dim), codes.bits, codes.opq);
		const Bytes given = lists.coded_description();
		Both both(engine::CopySpec(spec, CopyKind::kCodedLists));

		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return lists.load_coded(&e, c, 1); }));
		for (const auto &[first, n] : {std::pair{size_t{0}, given.size()}, {given.size() / 2, given.size() / 3},
				 {given.size() - 7, size_t{7}}, {given.size() / 5, size_t{1}}})
		{
			Bytes held(n);

			ASSERT_OK(both.cuda()->read_structure(both.cuda_copy(), 1, first, n, held.data()));
			EXPECT_EQ(held,
				Bytes(
					given.begin() + static_cast<ptrdiff_t>(first), given.begin() + static_cast<ptrdiff_t>(first + n)));
		}
		EXPECT_FALSE(both.cuda()->read_structure(both.cuda_copy(), 1, given.size(), 1, Bytes(1).data()).is_ok());
	}
}

TEST(Codes, MalformedDescriptionsAreRefused)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 20};
	std::mt19937 rng(19);
	Rows rows(spec);

	rows.add_random(300, Data::kGaussian, rng, 1);

	const CodedRows lists(ListRows(rows, 6, rng), CodeKind::kPq, 4, 8, false);
	const Bytes vectors = lists.vectors_by_place();

	for (int wrong = 0; wrong < 3; wrong++)
	{
		Both both(engine::CopySpec(spec, CopyKind::kCodedLists));
		Bytes bytes = lists.coded_description();

		if (wrong == 0)
			bytes.pop_back();
		else if (wrong == 1)
			bytes.resize(lists.description().size()); // lists alone
		else
			bytes[lists.description().size()] = 77; // there is no such kind
		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c)
			{ return e.load_segment(c, 1, {{rows.ids.data(), rows.n()}, vectors.data(), rows.n()}); }));
		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.load_structure(c, 1, 6, bytes); }));
		EXPECT_EQ(both.cuda()->seal_segment(both.cuda_copy(), 1).code, StatusCode::kInvalidArgument);
	}
}

} // namespace
} // namespace vectorgpu::cuda::test
