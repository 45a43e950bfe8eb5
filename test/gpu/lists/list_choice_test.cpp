// The choice of queries that look at all rows instead of some lists (cuda/device/list_choice.hpp): these answers are
// exact, bit for bit those of a copy without lists, are reported so, and do not depend on the other queries of a batch.
// Lists are random in part here, so that a query finds other rows in some of them.
#include "../engine/passing_world.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::CopyKind;
using engine::Coverage;
using engine::SegmentProbes;

constexpr size_t kRows = 20000; // enough for the filter
constexpr uint32_t kLists = 141;
constexpr uint32_t kSome = 60; // by the model a pass over such rows takes less time

CudaEngine *
choosing_engine(bool chooses = true)
{
	static std::unique_ptr<CudaEngine> engines[2];
	std::unique_ptr<CudaEngine> &engine = engines[chooses];

	if (engine == nullptr)
	{
		CudaEngineOptions options;

		options.workspace_bytes = size_t{512} << 20;
		options.list_choice = chooses;
		options.self_test = chooses; // which must leave the choice on

		make_or_throw(options, &engine);
	}
	return engine.get();
}

/// Lists in an engine, and the same rows alone in it and in the CPU engine.
struct Chosen
{
	Chosen(const DistanceSpec &spec, Values values, bool zero_row = false, bool chooses = true)
		: rng(spec.dim), lists(make_rows(spec, values, zero_row, rng), kLists, rng), queries(spec),
		  engine(choosing_engine(chooses)), alone(engine::CopySpec(spec), engine)
	{
		add_values(&queries, values, 255, 150, rng, 0);
		EXPECT_TRUE(engine->create(engine::CopySpec(spec, CopyKind::kLists), &copy).is_ok());
		EXPECT_TRUE(lists.load(engine, copy, 1).is_ok());
		alone.load(1, lists.rows, 0, kRows);
	}

	~Chosen() { EXPECT_TRUE(engine->drop(copy).is_ok()); }

	Chosen(const Chosen &) = delete;
	Chosen &operator=(const Chosen &) = delete;

	static Rows make_rows(const DistanceSpec &spec, Values values, bool zero_row, std::mt19937 &rng)
	{
		const std::vector<float> zero(spec.dim);
		Rows rows(spec);

		add_values(&rows, values, 255, kRows - (zero_row ? 1 : 0), rng, 1);
		if (zero_row)
			rows.add(kRows, reinterpret_cast<const uint8_t *>(zero.data()));
		return rows;
	}

	/// Search the lists; returns answers with their coverage. Probes are used in turn.
	void search(size_t n, size_t k, std::vector<uint32_t> n_probes, const Neighbor *after = nullptr)
	{
		std::vector<SearchQuery> batch;

		probes.assign(n, {});
		coverage.assign(n, Coverage::kAll);
		for (size_t i = 0; i < n; i++)
		{
			SearchQuery query = {queries.vector(i), k, after != nullptr, after != nullptr ? *after : Neighbor{}};

			probes[i] = {1, n_probes[i % n_probes.size()]};
			query.probes = {&probes[i], 1};
			query.coverage = &coverage[i];
			query.recall_target = probes[i].probes < kLists ? .5f : 1; // no reason to find less
			batch.push_back(query);
		}
		ASSERT_OK(engine->search(copy, batch, &found, nullptr));
	}

	/// The answer is that of the rows alone, by the GPU and by the CPU.
	void expect_exact(size_t i, size_t k, Coverage expected = Coverage::kAll)
	{
		const SearchQuery query = {queries.vector(i), k, false, {}};
		std::vector<std::vector<Neighbor>> exact;

		SCOPED_TRACE(testing::Message() << "query " << i << ", " << metric_name(queries.spec.metric) << ", k " << k);
		ASSERT_OK(alone.cpu()->search(alone.cpu_copy(), {&query, 1}, &exact, nullptr));
		ASSERT_NO_FATAL_FAILURE(expect_same(found[i], exact[0]));
		ASSERT_OK(engine->search(alone.cuda_copy(), {&query, 1}, &exact, nullptr));
		ASSERT_NO_FATAL_FAILURE(expect_same(found[i], exact[0]));
		EXPECT_EQ(coverage[i], expected);
	}

	void expect_lists()
	{
		for (const Coverage one : coverage)
			EXPECT_EQ(one, Coverage::kPart);
	}

	std::mt19937 rng;
	engine::test::ListRows lists;
	Rows queries;
	CudaEngine *engine;
	Both alone;
	CopyId copy = 0;
	std::vector<SegmentProbes> probes;
	std::vector<Coverage> coverage;
	std::vector<std::vector<Neighbor>> found;
};

/// The choice is made only on devices whose exact searches have been measured.
bool
chooses()
{
	static const bool chooses = []
	{
		Chosen held({Metric::kL2, ElementType::kFloat32, 64}, Values::kBytes);
		const uint64_t before = choosing_engine()->n_one_pass();
		const SearchQuery query = {held.queries.vector(0), 10, false, {}};
		std::vector<std::vector<Neighbor>> found;

		return choosing_engine()->search(held.alone.cuda_copy(), {&query, 1}, &found, nullptr).is_ok() &&
			choosing_engine()->n_one_pass() > before;
	}();

	return chooses;
}

TEST(ListChoice, SmallSetsAreLookedAtWholeInBatchesOfEverySize)
{
	if (!chooses())
		GTEST_SKIP() << "the device has no products by warp groups";
	for (const auto &[metric, element, values] : {std::tuple{Metric::kL2, ElementType::kFloat32, Values::kBytes},
			 {Metric::kInnerProduct, ElementType::kFloat32, Values::kBytes},
			 {Metric::kL2, ElementType::kFloat32, Values::kReal},
			 {Metric::kInnerProduct, ElementType::kFloat32, Values::kReal},
			 {Metric::kCosine, ElementType::kFloat32, Values::kReal},
			 {Metric::kCosine, ElementType::kFloat16, Values::kReal}})
	{
		Chosen held({metric, element, 64}, values);

		for (const size_t n : {size_t{1}, size_t{16}, size_t{150}})
		{
			ASSERT_NO_FATAL_FAILURE(held.search(n, 10, {kSome}));
			for (size_t i = 0; i < n; i += 7)
				ASSERT_NO_FATAL_FAILURE(held.expect_exact(i, 10));
		}
	}
}

TEST(ListChoice, DeadRowsAreNotFoundAndTheDeltaIs)
{
	if (!chooses())
		GTEST_SKIP() << "the device has no products by warp groups";
	for (const Values values : {Values::kBytes, Values::kReal})
	{
		Chosen held({Metric::kL2, ElementType::kFloat32, 64}, values);
		Rows delta(held.queries.spec);
		std::vector<uint8_t> dead((kRows + 7) / 8);

		for (uint8_t &byte : dead)
			byte = static_cast<uint8_t>(held.rng() & held.rng());
		add_values(&delta, values, 255, 100, held.rng, kRows + 1);
		ASSERT_OK(held.engine->set_tombstones(held.copy, 1, dead));
		ASSERT_NO_FATAL_FAILURE(held.alone.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
		for (const bool with_delta : {false, true})
		{
			if (with_delta)
			{
				ASSERT_OK(held.engine->append_delta(held.copy, 0, delta.block()));
				ASSERT_NO_FATAL_FAILURE(
					held.alone.change([&](Engine &e, CopyId c) { return e.append_delta(c, 0, delta.block()); }));
			}
			ASSERT_NO_FATAL_FAILURE(held.search(20, 10, {kSome}));
			for (size_t i = 0; i < 20; i++)
				ASSERT_NO_FATAL_FAILURE(held.expect_exact(i, 10));
		}
	}
}

TEST(ListChoice, ARowWithoutAScoreOrdersLast)
{
	if (!chooses())
		GTEST_SKIP() << "the device has no products by warp groups";

	Chosen held({Metric::kCosine, ElementType::kFloat32, 64}, Values::kReal, true);

	ASSERT_NO_FATAL_FAILURE(held.search(5, 10, {kSome}));
	for (size_t i = 0; i < 5; i++)
		ASSERT_NO_FATAL_FAILURE(held.expect_exact(i, 10)); // no batch ends with that row
}

TEST(ListChoice, OthersSearchLists)
{
	const Neighbor after = {1000, 7};

	{
		Chosen held({Metric::kL2, ElementType::kFloat32, 64}, Values::kBytes);

		// Queries that continue after others,
		ASSERT_NO_FATAL_FAILURE(held.search(20, 10, {kSome}, &after));
		ASSERT_NO_FATAL_FAILURE(held.expect_lists());
		// those for which the exact search would take a longer way,
		held.queries = Rows(held.queries.spec);
		add_values(&held.queries, Values::kReal, 0, 20, held.rng, 0);
		ASSERT_NO_FATAL_FAILURE(held.search(20, 10, {kSome}));
		ASSERT_NO_FATAL_FAILURE(held.expect_lists());
	}
	{
		// metrics that the filter does not know,
		Chosen held({Metric::kL1, ElementType::kFloat32, 64}, Values::kReal);

		ASSERT_NO_FATAL_FAILURE(held.search(20, 10, {kSome}));
		ASSERT_NO_FATAL_FAILURE(held.expect_lists());
	}

	// and all where the choice is off.
	Chosen held({Metric::kL2, ElementType::kFloat32, 64}, Values::kReal, false, false);

	ASSERT_NO_FATAL_FAILURE(held.search(20, 10, {kSome}));
	ASSERT_NO_FATAL_FAILURE(held.expect_lists());
}

TEST(ListChoice, ListsOfManyRowsAreSearched)
{
	constexpr size_t kMany = 900000;
	constexpr uint32_t kManyLists = 300;
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 64};
	CudaEngine *const engine = choosing_engine();
	std::mt19937 rng(5);
	Rows rows(spec);
	std::vector<std::vector<Neighbor>> found;
	std::vector<Coverage> coverage(16, Coverage::kAll);
	std::vector<SearchQuery> batch;
	CopyId copy = 0;

	rows.add_random(kMany, Data::kGaussian, rng, 1);

	// Lists of rows one after another, around their first ones: to put each row into the nearest takes long.
	engine::test::ListRows lists(rows, 1, rng);

	lists.n_lists = kManyLists;
	lists.centroids.clear();
	lists.offsets.clear();
	for (size_t list = 0; list <= kManyLists; list++)
	{
		const size_t first = kMany / kManyLists * list;
		const float *const values = reinterpret_cast<const float *>(rows.vector(std::min(first, kMany - 1)));

		lists.offsets.push_back(first);
		if (list < kManyLists)
			lists.centroids.insert(lists.centroids.end(), values, values + spec.dim);
	}
	ASSERT_OK(engine->create(engine::CopySpec(spec, CopyKind::kLists), &copy));
	ASSERT_OK(lists.load(engine, copy, 1));
	for (const uint32_t n_probes : {1u, kManyLists - 1})
	{
		const SegmentProbes probes = {1, n_probes};

		batch.clear();
		for (size_t i = 0; i < coverage.size(); i++)
		{
			batch.push_back({rows.vector(i * 3000), 10, false, {}});
			batch.back().probes = {&probes, 1};
			batch.back().coverage = &coverage[i];
		}
		ASSERT_OK(engine->search(copy, batch, &found, nullptr));
		for (size_t i = 0; i < coverage.size(); i++)
		{
			EXPECT_EQ(coverage[i], Coverage::kPart); // a join's batches of nearly all lists are faster, too
			ASSERT_EQ(found[i].size(), 10u);
			EXPECT_EQ(found[i][0].row, rows.ids[i * 3000]) << n_probes;
		}
	}
	ASSERT_OK(engine->drop(copy));
}

TEST(ListChoice, DoesNotDependOnTheOthersOfABatch)
{
	Chosen held({Metric::kL2, ElementType::kFloat32, 64}, Values::kBytes);
	const Rows queries = held.queries;
	Rows mixed(queries.spec);

	for (size_t i = 0; i < 40; i++) // some are not of bytes
		if (i % 4 == 1)
			mixed.add_random(1, Data::kGaussian, held.rng, i);
		else
			mixed.add(i, queries.vector(i));
	held.queries = mixed;
	ASSERT_NO_FATAL_FAILURE(held.search(40, 10, {1, kSome, kLists}));

	const std::vector<std::vector<Neighbor>> together = held.found;
	const std::vector<Coverage> covered = held.coverage;

	for (size_t i = 0; i < 40; i++)
	{
		const uint32_t n_probes[] = {1, kSome, kLists};

		held.queries = Rows(queries.spec);
		held.queries.add(0, mixed.vector(i));
		ASSERT_NO_FATAL_FAILURE(held.search(1, 10, {n_probes[i % 3]}));
		ASSERT_NO_FATAL_FAILURE(expect_same(held.found[0], together[i]));
		EXPECT_EQ(held.coverage[0], covered[i]);
	}
}

/// Without the choice these queries look at some lists.
TEST(ListChoice, RowsThatPassAreLookedAtWhole)
{
	if (!chooses())
		GTEST_SKIP() << "the device has no products by warp groups";
	for (const bool chosen : {false, true})
	{
		std::unique_ptr<CudaEngine> engine;
		CudaEngineOptions options;

		options.exact_elements = 1;
		options.workspace_bytes = size_t{256} << 20;
		options.self_test = false;
		options.list_choice = chosen;
		ASSERT_OK(make_cuda_engine(options, &engine));

		PassingWorld world(engine::CopySpec({Metric::kL2, ElementType::kFloat32, 32}, CopyKind::kLists), Values::kReal,
			{kRows, 900, 100, 200, 10}, 7, engine.get());
		const auto even = world.passing(random_condition(.5, 1));
		size_t n_by_lists = 0;

		world.kill_rows();

		std::vector<SearchQuery> queries = world.batch({even.get()}, 60, 8);
		std::vector<FilterWay> ways(queries.size(), FilterWay::kNone);
		std::vector<std::vector<Neighbor>> answers;

		std::erase_if(queries, [](const SearchQuery &query) { return query.has_after; });
		if (chosen)
		{
			ASSERT_NO_FATAL_FAILURE(world.expect_right(queries)); // by masks
		}
		for (size_t i = 0; i < queries.size(); i++)
			queries[i].filter_way = &ways[i];
		ASSERT_OK(engine->search(world.copy(), queries, &answers, nullptr));
		for (size_t i = 0; i < queries.size(); i++)
			n_by_lists += ways[i] == FilterWay::kLists ? 1 : 0;
		EXPECT_EQ(n_by_lists > 0, !chosen);
	}
}

} // namespace
} // namespace vectorgpu::cuda::test
