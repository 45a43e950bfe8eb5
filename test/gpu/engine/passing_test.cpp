// Searches with conditions: every kind of copy against plain code, bit for bit, whatever share of the rows passes.
#include <set>
#include <thread>

#include "passing_world.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr double kShares[] = {0, .001, .01, .09, .11, .3, .9, 1};

/// All shares in one batch after another, of some sizes and k.
void
expect_all_shares(PassingWorld *world)
{
	std::vector<std::unique_ptr<Passing>> passing;

	for (const double share : kShares)
		passing.push_back(world->passing(random_condition(share, 7)));
	for (const auto &one : passing)
		for (const size_t n : {1, 3, 12})
			for (const size_t k : {1, 10, 300})
			{
				SCOPED_TRACE(testing::Message() << one->n_pass << " of " << one->n_rows << " rows pass");
				ASSERT_NO_FATAL_FAILURE(world->expect_right(world->batch({one.get()}, n, k)));
			}
}

/// The rows that are nearest to a query, or those that are not.
Condition
correlated(const PassingWorld &world, const void *query, size_t n, bool nearest)
{
	SearchQuery all = {query, n, false, {}};
	auto rows = std::make_shared<std::set<RowId>>();

	for (const Neighbor &neighbor : world.nearest(all))
		rows->insert(neighbor.row);
	return [rows, nearest](RowId row) { return rows->contains(row) == nearest; };
}

TEST(Passing, RowsOfEveryTypeAndMetric)
{
	std::vector<DistanceSpec> specs;

	for (const Metric metric : kFloatMetrics)
		for (const ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
			specs.push_back({metric, element, 20});
	for (const Metric metric : kBitMetrics)
		specs.push_back({metric, ElementType::kBit, 200});
	for (const DistanceSpec &spec : specs)
		for (const Values values : {Values::kReal, Values::kBytes})
		{
			if (spec.element == ElementType::kBit && values == Values::kBytes)
				continue;

			PassingWorld world(spec, values, {}, 3);

			world.kill_rows();
			ASSERT_NO_FATAL_FAILURE(expect_all_shares(&world));
		}
}

TEST(Passing, NumbersThatAreNone)
{
	PassingWorld world({Metric::kCosine, ElementType::kFloat32, 40}, Values::kExtremes, {3000, 200, 40}, 5);

	ASSERT_NO_FATAL_FAILURE(expect_all_shares(&world));
}

TEST(Passing, EveryStructure)
{
	for (const CopyKind kind : {CopyKind::kLists, CopyKind::kCodedLists, CopyKind::kGraph})
		for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
			for (const Values values : {Values::kReal, Values::kBytes})
			{
				SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind));
				PassingWorld world(
					engine::CopySpec({metric, ElementType::kFloat32, 24}, kind), values, {3000, 500, 100}, 11);

				world.kill_rows();
				ASSERT_NO_FATAL_FAILURE(expect_all_shares(&world));
			}

	PassingWorld bits(engine::CopySpec({Metric::kHamming, ElementType::kBit, 128}, CopyKind::kGraph), Values::kReal,
		{3000, 500, 100}, 2);

	bits.kill_rows();
	ASSERT_NO_FATAL_FAILURE(expect_all_shares(&bits));
}

TEST(Passing, RowsThatAreNearOrFarTogether)
{
	for (const CopyKind kind : {CopyKind::kRows, CopyKind::kLists, CopyKind::kGraph})
	{
		PassingWorld world(engine::CopySpec({Metric::kL2, ElementType::kFloat32, 16}, kind), Values::kReal,
			{kind == CopyKind::kRows ? size_t{30000} : size_t{4000}, 500, 200}, 17);

		for (const bool nearest : {true, false})
			for (const size_t n : {40, 400, 2000})
			{
				const auto passing = world.passing(correlated(world, world.query_vector(0), n, nearest));

				for (const size_t batch : {1, 20})
					ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch({passing.get()}, batch, 50)));
			}
	}
}

TEST(Passing, BatchesOfManyConditions)
{
	for (const CopyKind kind : {CopyKind::kRows, CopyKind::kLists})
	{
		PassingWorld world(engine::CopySpec({Metric::kL2, ElementType::kFloat32, 32}, kind), Values::kReal,
			{kind == CopyKind::kRows ? size_t{20000} : size_t{4000}, 700, 300}, 23);
		std::vector<std::unique_ptr<Passing>> made;
		std::vector<const Passing *> few, mixed;

		world.kill_rows();
		for (size_t i = 0; i < 64; i++)
		{
			made.push_back(world.passing(random_condition(.005, i)));
			few.push_back(made.back().get());
		}
		made.push_back(world.passing(random_condition(.3, 99)));
		// None, lists that queries share and that they do not, a mask.
		mixed = {few[0], nullptr, few[1], few[0], made.back().get(), few[0], few[2], few[0], few[0], few[0], few[0]};
		for (int round = 0; round < 2; round++) // lists are kept from the first on
		{
			ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch(few, 64, 10)));
			ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch(few, 200, 10)));
			ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch(mixed, 150, 100)));
		}
	}
}

/// Then a filter over all rows may be the faster way.
TEST(Passing, ManyQueriesWithTheSameConditions)
{
	PassingWorld world({Metric::kL2, ElementType::kFloat32, 128}, Values::kBytes, {80000, 900, 300}, 27);
	const auto many = world.passing(random_condition(.095, 1));
	const auto few = world.passing(random_condition(.01, 1));
	std::vector<SearchQuery> queries = world.batch({many.get()}, 140, 10);
	const std::vector<SearchQuery> others = world.batch({few.get()}, 20, 10);
	std::vector<FilterWay> ways(queries.size() + others.size(), FilterWay::kNone);
	std::vector<std::vector<Neighbor>> found;

	for (SearchQuery &query : queries)
		query.has_after = false;
	queries.insert(queries.end(), others.begin(), others.end());
	for (size_t i = 0; i < queries.size(); i++)
		queries[i].filter_way = &ways[i];
	ASSERT_OK(world.engine()->search(world.copy(), queries, &found, nullptr));
	for (size_t i = 0; i < queries.size(); i++)
	{
		ASSERT_NO_FATAL_FAILURE(expect_same(found[i], world.nearest(queries[i])));
		EXPECT_EQ(ways[i], queries[i].passing == many.get() ? FilterWay::kMask : FilterWay::kList);
	}
}

/// Where a pass over all rows counts as dear.
TEST(Passing, ListsThatHoldEnoughRowsThatPass)
{
	std::unique_ptr<CudaEngine> engine;
	CudaEngineOptions options;

	options.exact_elements = 1;
	options.workspace_bytes = size_t{256} << 20;
	options.self_test = options.list_choice = false;
	ASSERT_OK(make_cuda_engine(options, &engine));
	for (const CopyKind kind : {CopyKind::kLists, CopyKind::kCodedLists})
	{
		PassingWorld world(engine::CopySpec({Metric::kL2, ElementType::kFloat32, 8}, kind), Values::kReal,
			{12000, 900, 100, 400, 8}, 71, engine.get());
		const auto even = world.passing(random_condition(.5, 1));
		size_t n_found = 0;
		size_t n_true = 0;
		size_t n_by_lists = 0;

		world.kill_rows();

		std::vector<SearchQuery> queries = world.batch({even.get()}, 80, 8);

		for (size_t i = 1; i < queries.size(); i++)
		{
			SearchQuery query = queries[i];
			const std::vector<Neighbor> expected = world.nearest(query);
			const bool may_be_lists = !query.probes.empty();
			FilterWay way = FilterWay::kNone;
			Coverage coverage = Coverage::kScored;
			std::vector<std::vector<Neighbor>> found;

			query.filter_way = &way;
			query.coverage = &coverage;
			ASSERT_OK(world.engine()->search(world.copy(), {&query, 1}, &found, nullptr));
			ASSERT_TRUE(way == FilterWay::kMask || (may_be_lists && way == FilterWay::kLists));
			ASSERT_EQ(coverage, way == FilterWay::kLists ? Coverage::kPart : Coverage::kAll);
			n_by_lists += way == FilterWay::kLists ? 1 : 0;
			if (way == FilterWay::kMask)
			{
				ASSERT_NO_FATAL_FAILURE(expect_same(found[0], expected));
				continue;
			}
			ASSERT_EQ(found[0].size(), query.k);
			for (const Neighbor &neighbor : found[0])
			{
				ASSERT_TRUE(world.is_right(query, neighbor));
				n_found += neighbor.score <= expected.back().score ? 1 : 0;
			}
			n_true += query.k;
		}
		EXPECT_GT(n_by_lists, 0u);
		EXPECT_GT(n_found * 10, n_true * 4); // a third of the rows lies in any list
	}
}

TEST(Passing, LargeAndSmallK)
{
	PassingWorld world({Metric::kL2, ElementType::kFloat32, 12}, Values::kReal, {60000, 900, 300}, 29);
	const auto listed = world.passing(random_condition(.08, 1));
	const auto masked = world.passing(random_condition(.4, 1));

	for (const size_t k : {0, 1, 1000, 2048, 3000, 100000})
		for (const size_t n : {1, 6})
		{
			ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch({listed.get()}, n, k)));
			ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch({masked.get()}, n, k)));
		}
}

TEST(Passing, RowsOfTheDeltaFromItsEndOnFail)
{
	for (const double share : {.05, .5})
	{
		PassingWorld world({Metric::kL2, ElementType::kFloat32, 12}, Values::kReal, {2000, 100, 700}, 31);

		world.kill_rows();
		for (const uint64_t end : {0, 3, 400, 700})
		{
			const auto passing = world.passing(random_condition(share, 5), end);

			ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch({passing.get()}, 9, 40)));
		}
		world.trim(133);
		for (const uint64_t end : {136, 512, 700})
		{
			const auto passing = world.passing(random_condition(share, 5), end);

			ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch({passing.get()}, 9, 40)));
		}
	}
}

TEST(Passing, ALargeDelta)
{
	PassingWorld world({Metric::kL2, ElementType::kFloat32, 4}, Values::kReal, {2000, 100, 90000}, 37);
	const auto all = world.passing(
		[few = random_condition(.05, 3)](RowId row) { return row > 2000000 || few(row); }); // too many for a list
	const auto few = world.passing(random_condition(.01, 3));
	std::vector<std::vector<Neighbor>> found;
	const std::vector<SearchQuery> queries = world.batch({all.get()}, 3, 20);

	ASSERT_OK(world.engine()->search(world.copy(), queries, &found, nullptr));
	for (size_t i = 0; i < queries.size(); i++)
		ASSERT_NO_FATAL_FAILURE(expect_same(found[i], world.nearest(queries[i])));
	ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch({few.get()}, 3, 20)));
}

/// Rows that arrive during searches do not pass, so that answers stay the same.
TEST(Passing, AppendsBesideSearches)
{
	for (const double share : {.05, .5})
	{
		PassingWorld world({Metric::kL2, ElementType::kFloat32, 32}, Values::kReal, {20000, 900, 300}, 41);
		const auto passing = world.passing(random_condition(share, 5));
		const auto other = world.passing(random_condition(share, 6));
		const std::vector<SearchQuery> queries = world.batch({passing.get(), other.get()}, 12, 20);
		std::vector<std::vector<Neighbor>> expected;
		Rows more(world.delta().spec);

		for (const SearchQuery &query : queries)
			expected.push_back(world.nearest(query));
		more.add_random(4000, Data::kGaussian, world.rng(), 3000001);

		std::thread writer(
			[&]
			{
				for (size_t i = 0; i < more.n(); i += 2)
					EXPECT_TRUE(
						world.engine()->append_delta(world.copy(), world.delta().n() + i, more.block(i, 2)).is_ok());
			});

		expect_answers_side_by_side(
			3, 40, queries, expected, [&](size_t) { return std::pair<Engine *, CopyId>{world.engine(), world.copy()}; },
			[&](size_t t, size_t) { return Part{t * 3, 6}; });
		writer.join();
	}
}

TEST(Passing, RowsOfOtherSegmentsAreRefused)
{
	PassingWorld world({Metric::kL2, ElementType::kFloat32, 12}, Values::kReal, {2000, 100, 30}, 53);
	PassingWorld other({Metric::kL2, ElementType::kFloat32, 12}, Values::kReal, {3000, 100, 30}, 53);

	for (const double share : {.05, .5})
	{
		const auto passing = other.passing(random_condition(share, 1));
		std::vector<std::vector<Neighbor>> found;

		EXPECT_EQ(world.engine()->search(world.copy(), world.batch({passing.get()}, 1, 10), &found, nullptr).code,
			StatusCode::kInvalidArgument);
	}
}

/// A segment without rows that pass may be missing.
TEST(Passing, SegmentsMayBeMissing)
{
	PassingWorld world({Metric::kL2, ElementType::kFloat32, 12}, Values::kReal, {20000, 900, 30}, 59);

	for (const double share : {.05, .5})
	{
		const Condition condition = [one = random_condition(share, 1)](RowId row) { return row > 1000000 && one(row); };
		const auto passing = world.passing(condition);
		const std::vector<SearchQuery> queries = world.batch({passing.get()}, 5, 10);
		std::vector<std::vector<Neighbor>> expected, found;

		for (const SearchQuery &query : queries)
			expected.push_back(world.nearest(query));
		passing->segments.erase(passing->segments.begin());
		ASSERT_OK(world.engine()->search(world.copy(), queries, &found, nullptr));
		for (size_t i = 0; i < queries.size(); i++)
			ASSERT_NO_FATAL_FAILURE(expect_same(found[i], expected[i]));
	}
}

/// The host's engine answers for copies in host memory.
TEST(Passing, GraphsWithCodes)
{
	PassingWorld world(engine::CopySpec({Metric::kL2, ElementType::kFloat32, 24}, CopyKind::kHashedGraph),
		Values::kReal, {3000, 500, 100}, 61);

	world.kill_rows();
	ASSERT_NO_FATAL_FAILURE(expect_all_shares(&world));
}

TEST(Passing, Reduced)
{
	for (const CopyKind kind : {CopyKind::kRows, CopyKind::kLists})
	{
		PassingWorld world(
			engine::CopySpec({Metric::kCosine, ElementType::kFloat32, 24}, kind), Values::kReal, {400, 120, 40}, 67);
		const auto listed = world.passing(random_condition(.08, 1));
		const auto masked = world.passing(random_condition(.4, 1));

		world.kill_rows();
		ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch({listed.get()}, 9, 10)));
		ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch({listed.get(), masked.get()}, 4, 50)));
	}
}

} // namespace
} // namespace vectorgpu::cuda::test
