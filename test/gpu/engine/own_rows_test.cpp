// Queries that are rows of the copy, as those of a build of a graph are: the GPU takes their vectors from its rows, and
// finds what the CPU engine finds for the vectors that it is sent, bit for bit.
#include "passing_world.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr size_t kQueries = 700; // of 33 elements and more: too many bytes for the kernel that takes few over

/// Rows of a segment in some order, the first and the last among them.
std::vector<SearchQuery>
own_rows(const Rows &rows, SegmentId segment, size_t n, size_t k)
{
	std::vector<SearchQuery> queries;

	for (size_t i = 0; i < n; i++)
	{
		SearchQuery &query = queries.emplace_back();

		query.own_row = {segment, static_cast<uint32_t>(i == 0 ? rows.n() - 1 : (i - 1) * 7919 % rows.n())};
		query.query = rows.vector(query.own_row.number);
		query.k = k;
	}
	return queries;
}

/// Two segments in both engines.
struct Held
{
	/// odd_every: of so many rows of the first segment one is of odd numbers; 0: none.
	Held(const engine::CopySpec &spec, Values values, size_t n_first, CudaEngine *engine = cuda_engine(),
		size_t odd_every = 0)
		: both(spec, engine), first(spec.distance), second(spec.distance)
	{
		std::mt19937 rng(5);

		add_values(&first, values, 200, n_first, rng, 1);
		add_values(&second, values, 200, 3000, rng, 1000001);
		for (size_t i = 0; odd_every > 0 && i < n_first; i += odd_every)
			random_vector(spec.distance, Data::kExtremes, rng, first.vectors.data() + i * first.row_bytes);
		load(1, first);
		load(2, second);
	}

	void load(SegmentId segment, const Rows &rows)
	{
		const size_t half = rows.n() / 2; // a segment comes in parts

		both.change([&](Engine &e, CopyId c) { return e.load_segment(c, segment, rows.block(0, half)); });
		both.change([&](Engine &e, CopyId c) { return e.load_segment(c, segment, rows.block(half, rows.n() - half)); });
		both.change([&](Engine &e, CopyId c) { return e.seal_segment(c, segment); });
	}

	/// n_taken: vectors that the GPU takes from rows; queries that are searched again count twice.
	void expect_taken(const std::vector<SearchQuery> &queries, uint64_t n_taken)
	{
		const uint64_t before = both.cuda()->n_own_rows();

		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(queries));

		const uint64_t taken = both.cuda()->n_own_rows() - before;

		EXPECT_TRUE(taken >= n_taken && taken <= 2 * n_taken) << taken << " of " << n_taken;
	}

	Both both;
	Rows first;
	Rows second;
};

TEST(OwnRows, OfEveryMetricAndWidth)
{
	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1})
		for (const uint32_t dim : {33u, 64u, 100u, 768u})
			for (const bool narrow : {false, true}) // true: the filter reads rounded rows
			{
				SCOPED_TRACE(testing::Message() << metric_name(metric) << ", " << dim << ", narrow " << narrow);
				Held held(
					{metric, ElementType::kFloat32, dim}, Values::kReal, dim > 100 ? 4000 : 20000, cuda_engine(narrow));

				ASSERT_NO_FATAL_FAILURE(held.expect_taken(own_rows(held.first, 1, kQueries, 33), kQueries));
				ASSERT_NO_FATAL_FAILURE(held.expect_taken(own_rows(held.second, 2, kQueries, 1), kQueries));
			}
}

/// Numbers that are none, infinite or denormal. Where few rows have them, the filter takes the others, and queries that
/// are such rows are searched, and taken, again. Where all have, all are scored at once.
TEST(OwnRows, OfOddNumbers)
{
	constexpr size_t kRows = 18000;

	for (const Metric metric : {Metric::kL2, Metric::kCosine})
		for (const size_t odd_every : {100u, 1u})
		{
			const size_t n_odd = kRows / 100; // that are searched for: too many bytes as well
			Held held({metric, ElementType::kFloat32, 100}, Values::kReal, kRows, cuda_engine(), odd_every);
			std::vector<SearchQuery> queries = own_rows(held.first, 1, kQueries, 20);

			SCOPED_TRACE(testing::Message() << metric_name(metric) << ", one of " << odd_every);

			for (size_t i = 0; i < n_odd; i++)
			{
				queries[3 * i].own_row.number = static_cast<uint32_t>(100 * i);
				queries[3 * i].query = held.first.vector(100 * i);
			}
			ASSERT_NO_FATAL_FAILURE(held.expect_taken(queries, kQueries + (odd_every > 1 ? n_odd : 0)));
		}
}

/// Queries that continue after a row, and those of rows that are dead.
TEST(OwnRows, ContinuedAndDead)
{
	Held held({Metric::kL2, ElementType::kFloat32, 40}, Values::kReal, 20000);
	std::vector<SearchQuery> queries = own_rows(held.first, 1, kQueries, 12);
	std::vector<std::vector<Neighbor>> found;
	std::mt19937 rng(3);
	const Bytes dead = random_bits(held.first.n(), rng);

	ASSERT_OK(held.both.cpu()->search(held.both.cpu_copy(), queries, &found, nullptr));
	for (size_t i = 0; i < queries.size(); i += 3)
	{
		queries[i].has_after = true;
		queries[i].after = found[i][5];
	}
	ASSERT_NO_FATAL_FAILURE(held.expect_taken(queries, kQueries));
	ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
	ASSERT_NO_FATAL_FAILURE(held.expect_taken(own_rows(held.first, 1, kQueries, 12), kQueries));
}

/// Vectors are sent where they are few, where not all are rows of one segment, or where rows lie in another form.
TEST(OwnRows, AreSentElsewhere)
{
	Held held({Metric::kL2, ElementType::kFloat32, 40}, Values::kReal, 20000);
	std::vector<SearchQuery> queries = own_rows(held.first, 1, kQueries, 12);

	ASSERT_NO_FATAL_FAILURE(held.expect_taken(own_rows(held.first, 1, 100, 12), 0));
	queries[300].own_row = {}; // one has no row
	ASSERT_NO_FATAL_FAILURE(held.expect_taken(queries, 0));
	queries[300] = own_rows(held.second, 2, 1, 12)[0]; // one is of another segment
	ASSERT_NO_FATAL_FAILURE(held.expect_taken(queries, 0));
	queries = own_rows(held.first, 3, kQueries, 12); // there is no such segment
	ASSERT_NO_FATAL_FAILURE(held.expect_taken(queries, 0));
	queries = own_rows(held.first, 1, kQueries, 12);
	queries[7].own_row.number = static_cast<uint32_t>(held.first.n()); // there is no such row
	ASSERT_NO_FATAL_FAILURE(held.expect_taken(queries, 0));

	Held bytes({Metric::kL2, ElementType::kFloat32, 40}, Values::kBytes, 20000);
	Held halves({Metric::kCosine, ElementType::kFloat16, 40}, Values::kReal, 20000);

	ASSERT_NO_FATAL_FAILURE(bytes.expect_taken(own_rows(bytes.first, 1, kQueries, 12), 0));
	ASSERT_NO_FATAL_FAILURE(halves.expect_taken(own_rows(halves.first, 1, kQueries, 12), 0));
}

/// With conditions, as builds search: the rows are of the copy, not of those that pass and are packed.
TEST(OwnRows, WithConditions)
{
	std::unique_ptr<CudaEngine> engine;
	CudaEngineOptions options;

	options.self_test = false;
	options.workspace_bytes = size_t{256} << 20;
	options.scaled_least_bytes = 1;
	options.packed = {true, 1, 1, 1, 2};
	ASSERT_OK(make_cuda_engine(options, &engine));
	for (const double share : {.6, .05})
	{
		PassingWorld world(
			{Metric::kCosine, ElementType::kFloat32, 300}, Values::kReal, {20000, 900, 300}, 7, engine.get());
		const auto passing = world.passing(random_condition(share, 2));
		std::vector<SearchQuery> queries = own_rows(world.segment(1), 1, 70, 33);

		for (SearchQuery &query : queries)
			query.passing = passing.get();
		for (const bool again : {false, true}) // rows are packed then
		{
			const uint64_t before = engine->n_own_rows();
			std::vector<std::vector<Neighbor>> found;

			SCOPED_TRACE(testing::Message() << share << " pass, again " << again);
			ASSERT_OK(engine->search(world.copy(), queries, &found, nullptr));
			ASSERT_EQ(found.size(), queries.size());
			for (size_t i = 0; i < queries.size(); i++)
				ASSERT_NO_FATAL_FAILURE(expect_same(found[i], world.nearest(queries[i])));
			if (share > .1) // else rows that pass are scored one by one, or the mask takes less time
			{
				EXPECT_GE(engine->n_own_rows() - before, queries.size());
				EXPECT_GT(engine->n_packed(), 0u);
			}
		}
	}
}

/// Chunks of a batch take their own rows, one after another and from several threads: 1,923 queries and their heads fit
/// 2 MB.
TEST(OwnRows, InChunksAndThreads)
{
	constexpr size_t kMany = 2500;
	std::unique_ptr<CudaEngine> engine;
	CudaEngineOptions options;

	options.self_test = false;
	options.workspace_bytes = size_t{256} << 20;
	options.pinned_bytes = size_t{4} << 20; // half of it for queries
	ASSERT_OK(make_cuda_engine(options, &engine));

	Held held({Metric::kL2, ElementType::kFloat32, 256}, Values::kReal, 17000, engine.get());
	const std::vector<SearchQuery> queries = own_rows(held.first, 1, kMany, 5);

	ASSERT_NO_FATAL_FAILURE(expect_answers_side_by_side(
		4, 5, held.both, queries, [&](size_t t, size_t round) { return Part{(t * 5 + round) * 100, 600}; }));
	ASSERT_NO_FATAL_FAILURE(held.expect_taken(queries, kMany));
}

} // namespace
} // namespace vectorgpu::cuda::test
