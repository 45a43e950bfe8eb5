// Packed rows: searches with conditions over copies of the rows that pass find what plain code finds, bit for bit, and
// these copies give way where memory lacks.
#include <tuple>

#include "passing_world.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr size_t kFilteredRows = 40000; // half of them are enough for the filter, which smaller segments go without

/// An engine that packs rows as soon as a batch of two looks at all of them. memory: its budget; 0: the device's.
std::unique_ptr<CudaEngine>
packing_engine(uint64_t memory = 0, uint32_t least_queries = 1)
{
	std::unique_ptr<CudaEngine> engine;
	CudaEngineOptions options;

	options.self_test = options.list_choice = false;
	options.workspace_bytes = size_t{256} << 20;
	options.memory_bytes = memory;
	options.scaled_least_bytes = 1; // tests have few rows
	options.packed = {true, 1, 1, least_queries, 2};

	make_or_throw(options, &engine);
	return engine;
}

/// Batches of some sizes and k go over packed rows, by the filter where no query continues after a row.
void
expect_packed(PassingWorld *world, const Passing &passing)
{
	ASSERT_NO_FATAL_FAILURE(world->expect_right(world->batch({&passing}, 2, 10))); // now rows are packed
	for (const auto &[n, k, may_continue] : {std::tuple<size_t, size_t, bool>{1, 10, false}, {3, 1, false},
			 {12, 10, false}, {12, 300, false}, {70, 10, false}, {12, 20, true}})
	{
		SCOPED_TRACE(testing::Message() << passing.n_pass << " of " << passing.n_rows << " rows pass");
		const uint64_t before = world->engine()->n_packed();
		std::vector<SearchQuery> queries = world->batch({&passing}, n, k);

		for (SearchQuery &query : queries)
			query.has_after &= may_continue;
		ASSERT_NO_FATAL_FAILURE(world->expect_right(queries));
		EXPECT_EQ(world->engine()->n_packed() - before, n);
	}
}

TEST(PackedRows, RowsOfEveryTypeMetricAndStructure)
{
	const std::unique_ptr<CudaEngine> engine = packing_engine();

	for (const CopyKind kind : {CopyKind::kRows, CopyKind::kLists, CopyKind::kCodedLists, CopyKind::kGraph})
		for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
			for (const auto &[element, values] : {std::pair{ElementType::kFloat32, Values::kReal},
					 {ElementType::kFloat32, Values::kBytes}, {ElementType::kFloat16, Values::kReal}})
			{
				if (kind != CopyKind::kRows && element == ElementType::kFloat16)
					continue;
				SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind));

				PassingWorld world(engine::CopySpec({metric, element, 40}, kind), values,
					{kind == CopyKind::kRows || kind == CopyKind::kLists ? kFilteredRows : size_t{4000}, 900, 300}, 5,
					engine.get());
				const auto half = world.passing(random_condition(.5, 1));
				const auto most = world.passing(random_condition(.9, 2));

				ASSERT_NO_FATAL_FAILURE(expect_packed(&world, *half)); // no row is dead
				world.kill_rows();                                     // rows are packed anew
				ASSERT_NO_FATAL_FAILURE(expect_packed(&world, *half));
				ASSERT_NO_FATAL_FAILURE(expect_packed(&world, *most));
			}
}

/// Rows without a norm that the filter trusts, and rows that all lie away from the queries.
TEST(PackedRows, NumbersThatAreNoneAndRowsFarAway)
{
	const std::unique_ptr<CudaEngine> engine = packing_engine();
	PassingWorld extremes(
		{Metric::kCosine, ElementType::kFloat32, 40}, Values::kExtremes, {3000, 200, 40}, 5, engine.get());
	const auto some = extremes.passing(random_condition(.4, 1));

	for (const size_t n : {2, 9})
		ASSERT_NO_FATAL_FAILURE(extremes.expect_right(extremes.batch({some.get()}, n, 30)));
	for (const CopyKind kind : {CopyKind::kRows, CopyKind::kLists})
	{
		PassingWorld world(engine::CopySpec({Metric::kL2, ElementType::kFloat32, 32}, kind), Values::kBytes,
			{20000, 500, 200}, 17, engine.get());
		std::unordered_set<RowId> near;

		for (const Neighbor &one : world.nearest({world.query_vector(0), 9000, false, {}}))
			near.insert(one.row);

		const auto far = world.passing([&](RowId row) { return !near.contains(row); });

		ASSERT_NO_FATAL_FAILURE(expect_packed(&world, *far));
	}
}

/// Rows that arrive later do not pass, and those of the delta that do are found beside packed ones. Segments in which
/// no row or all pass are as they were.
TEST(PackedRows, BesideTheDeltaAndOtherSegments)
{
	const std::unique_ptr<CudaEngine> engine = packing_engine();

	for (const CopyKind kind : {CopyKind::kRows, CopyKind::kLists})
		for (const Values values : {Values::kReal, Values::kBytes})
		{
			PassingWorld world(engine::CopySpec({Metric::kL2, ElementType::kFloat32, 32}, kind), values,
				{kFilteredRows, 900, 700}, 31, engine.get());
			const Condition half = random_condition(.5, 5);
			const auto first = world.passing([&](RowId row) { return row < 1000000 && half(row); });
			const auto second = world.passing([&](RowId row) { return row < 1000000 || half(row); });
			Rows more(world.delta().spec);

			ASSERT_NO_FATAL_FAILURE(expect_packed(&world, *first));
			ASSERT_NO_FATAL_FAILURE(expect_packed(&world, *second));
			for (const uint64_t end : {3, 400, 700})
				ASSERT_NO_FATAL_FAILURE(expect_packed(&world, *world.passing(half, end)));

			const auto all = world.passing(half);

			more.add_random(500, Data::kGaussian, world.rng(), 3000001);
			ASSERT_OK(engine->append_delta(world.copy(), world.delta().n(), more.block()));
			ASSERT_NO_FATAL_FAILURE(expect_packed(&world, *all));
			world.trim(133);
			ASSERT_NO_FATAL_FAILURE(expect_packed(&world, *world.passing(half)));
		}
}

/// Rows are packed after as many queries as were asked for, of batches that have at least two.
TEST(PackedRows, AfterEnoughQueries)
{
	const std::unique_ptr<CudaEngine> engine = packing_engine(0, 20);
	PassingWorld world({Metric::kL2, ElementType::kFloat32, 32}, Values::kReal, {20000, 900, 300}, 3, engine.get());
	const auto half = world.passing(random_condition(.5, 1));
	const auto other = world.passing(random_condition(.5, 2));

	for (int i = 0; i < 30; i++)
		ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch({half.get()}, 1, 10)));
	EXPECT_EQ(engine->n_packed(), 0u);
	for (int i = 0; i < 6; i++) // the conditions take turns: three each
		ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch({half.get(), other.get()}, 6, 10)));
	EXPECT_EQ(engine->n_packed(), 0u);
	ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch({half.get()}, 2, 10)));
	EXPECT_EQ(engine->n_packed(), 2u);
	ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch({half.get(), other.get()}, 2, 10)));
	EXPECT_EQ(engine->n_packed(), 3u);
}

/// One query at a time asks where another way would take longer (passing_times.hpp): of bytes, which go in one pass.
TEST(PackedRows, OneQueryAtATime)
{
	constexpr uint32_t kLeast = 20;
	const std::unique_ptr<CudaEngine> engine = packing_engine(0, kLeast);

	for (const CopyKind kind : {CopyKind::kRows, CopyKind::kLists})
	{
		SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind));
		PassingWorld world(engine::CopySpec({Metric::kL2, ElementType::kFloat32, 32}, kind), Values::kBytes,
			{kFilteredRows, 900, 300}, 3, engine.get());
		const auto half = world.passing(random_condition(.5, 1));
		const uint64_t before = engine->n_packed();

		for (uint32_t i = 1; i < kLeast; i++)
			ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch({half.get()}, 1, 10)));
		EXPECT_EQ(engine->n_packed(), before);
		for (uint64_t i = 1; i < 5; i++)
		{
			ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch({half.get()}, 1, 10)));
			EXPECT_EQ(engine->n_packed(), before + i);
		}
	}
}

TEST(PackedRows, ManyThreads)
{
	const std::unique_ptr<CudaEngine> engine = packing_engine();

	for (const CopyKind kind : {CopyKind::kRows, CopyKind::kLists})
	{
		PassingWorld world(engine::CopySpec({Metric::kL2, ElementType::kFloat32, 32}, kind), Values::kBytes,
			{kFilteredRows, 900, 300}, 41, engine.get());
		const auto one = world.passing(random_condition(.5, 5));
		const auto other = world.passing(random_condition(.7, 6));
		const std::vector<SearchQuery> queries = world.batch({one.get(), other.get()}, 24, 20);
		std::vector<std::vector<Neighbor>> expected;
		const uint64_t before = engine->n_packed();

		for (const SearchQuery &query : queries)
			expected.push_back(world.nearest(query));
		expect_answers_side_by_side(
			4, 30, queries, expected, [&](size_t) { return std::pair<Engine *, CopyId>{engine.get(), world.copy()}; },
			[&](size_t t, size_t) { return Part{t * 6, 6}; });
		EXPECT_GT(engine->n_packed(), before + 4 * 20 * 6); // of 30 rounds
	}
}

TEST(PackedRows, MemoryIsGivenBackWithTheConditions)
{
	const std::unique_ptr<CudaEngine> engine = packing_engine();

	for (const CopyKind kind : {CopyKind::kRows, CopyKind::kLists})
	{
		PassingWorld world(engine::CopySpec({Metric::kCosine, ElementType::kFloat32, 64}, kind), Values::kReal,
			{20000, 900, 300}, 43, engine.get());
		uint64_t n_different = 1;

		ASSERT_NO_FATAL_FAILURE(expect_packed(&world, *world.passing(random_condition(.5, 9)))); // places stay

		const uint64_t before = engine->stats().resident_bytes;

		{
			const auto half = world.passing(random_condition(.5, 1));
			uint64_t packed = 0;

			ASSERT_NO_FATAL_FAILURE(expect_packed(&world, *half));
			packed = engine->stats().resident_bytes;
			EXPECT_GT(packed, before + half->n_pass * (64 * sizeof(float) + sizeof(RowId)) * 9 / 10);
			world.kill_rows(); // what was packed goes with the old mask
			ASSERT_NO_FATAL_FAILURE(expect_packed(&world, *half));
			EXPECT_LT(engine->stats().resident_bytes, packed + packed / 20);
			ASSERT_OK(engine->check_derived(world.copy(), 1, 0, 20000, &n_different));
			EXPECT_EQ(n_different, 0u);
		}
		EXPECT_LT(engine->stats().resident_bytes, before + 16384); // bitmaps of dead rows
	}
}

/// Of more conditions than their part of the budget has room for, the last ones have packed rows. All rows that a full
/// budget holds come before them.
TEST(PackedRows, GiveWay)
{
	constexpr uint64_t kBudget = uint64_t{24} << 20;
	const std::unique_ptr<CudaEngine> engine = packing_engine(kBudget);
	PassingWorld world({Metric::kL1, ElementType::kFloat32, 64}, Values::kReal, {100, 100, 100}, 47, engine.get());
	PassingWorld filtered(
		{Metric::kL2, ElementType::kFloat16, 64}, Values::kReal, {kFilteredRows, 900, 300}, 49, engine.get());
	std::vector<std::unique_ptr<Passing>> passing;
	Rows filling(world.delta().spec);
	SegmentId segment = 3;

	for (uint64_t i = 0; i < 9; i++) // of 2.9 MB each
		passing.push_back(filtered.passing(random_condition(.5, i)));
	for (int round = 0; round < 2; round++)
		for (const auto &one : passing)
		{
			ASSERT_NO_FATAL_FAILURE(filtered.expect_right(filtered.batch({one.get()}, 3, 10)));
			ASSERT_LE(engine->stats().resident_bytes, kBudget / 4 * 3 + 500000); // lists and masks come besides
		}
	EXPECT_GT(engine->n_packed(), 20u);

	// Not sealed.
	filling.add_random(4000, Data::kGaussian, world.rng(), 5000001);
	for (const size_t n : {4000, 256, 1})
		while (engine->load_segment(world.copy(), segment, filling.block(0, n)).is_ok())
			segment++;
	EXPECT_GT(engine->stats().resident_bytes, kBudget / 8 * 7);

	const uint64_t before = engine->n_packed();

	for (int round = 0; round < 3; round++)
		for (const auto &one : passing)
			ASSERT_NO_FATAL_FAILURE(filtered.expect_right(filtered.batch({one.get()}, 3, 10)));
	EXPECT_EQ(engine->n_packed(), before);
}

TEST(PackedRows, Reduced)
{
	const std::unique_ptr<CudaEngine> engine = packing_engine();

	for (const CopyKind kind : {CopyKind::kRows, CopyKind::kLists})
	{
		PassingWorld world(engine::CopySpec({Metric::kL2, ElementType::kFloat32, 32}, kind), Values::kBytes,
			{18000, 120, 40}, 67, engine.get());
		const auto half = world.passing(random_condition(.95, 1));

		world.kill_rows();
		for (int round = 0; round < 2; round++)
			ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch({half.get()}, 4, 10)));
		EXPECT_GT(engine->n_packed(), 0u);
	}
}

} // namespace
} // namespace vectorgpu::cuda::test
