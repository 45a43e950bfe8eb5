// The CPU engine's search of inverted lists against the definition: same lists, same rows, same scores.
#include <array>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "engine/list_rows.hpp"

namespace vectorgpu::engine::test
{
namespace
{

constexpr size_t kMetrics = 4;

/// A copy of two segments of lists and a delta.
struct ListCopy
{
	ListCopy(const DistanceSpec &spec, Data data, uint32_t seed, const CpuEngineOptions &options = {})
		: rng(seed), first(lists(spec, data, 700, 20, 1)), second(lists(spec, data, 300, 7, 1001)), delta(spec),
		  engine(make_cpu_engine(options))
	{
		delta.add_random(50, data, rng, 5001);
		EXPECT_TRUE(engine->create({spec, CopyKind::kLists}, &copy).is_ok());
		EXPECT_TRUE(first.load(engine.get(), copy, 1).is_ok());
		EXPECT_TRUE(second.load(engine.get(), copy, 2).is_ok());
		EXPECT_TRUE(engine->append_delta(copy, 0, delta.block()).is_ok());
	}

	ListRows lists(const DistanceSpec &spec, Data data, size_t n, uint32_t n_lists, RowId first_id)
	{
		Rows rows(spec);

		rows.add_random(n, data, rng, first_id);
		return ListRows(rows, n_lists, rng);
	}

	/// probes {0, 0}: all rows.
	std::vector<Neighbor> nearest(const void *query, size_t k, std::array<uint32_t, 2> probes,
		const Neighbor *after = nullptr, const std::set<RowId> &dead = {}) const
	{
		return nearest_in_lists({{&first, probes[0]}, {&second, probes[1]}}, &delta, query, k, after, dead);
	}

	std::mt19937 rng;
	ListRows first;
	ListRows second;
	Rows delta;
	std::unique_ptr<Engine> engine;
	CopyId copy = 0;
};

void
expect_answers(const ListCopy &held, const Rows &queries, const std::set<RowId> &dead = {})
{
	constexpr std::array<uint32_t, 2> kChoices[] = {{1, 1}, {3, 2}, {0, 0}, {19, 7}, {20, 3}, {100, 100}};

	expect_choices(
		held, queries, kChoices,
		[](const std::array<uint32_t, 2> &probes, const void *) { return probes[0] < 20 || probes[1] < 7; }, dead);
}

struct CpuEngineLists : testing::TestWithParam<int>
{
	DistanceSpec spec(uint32_t dim) const
	{
		const int bits = GetParam() - 2 * static_cast<int>(kMetrics);

		if (bits >= 0)
			return {kBitMetrics[bits], ElementType::kBit, dim};
		return {kFloatMetrics[static_cast<size_t>(GetParam()) % kMetrics],
			GetParam() < static_cast<int>(kMetrics) ? ElementType::kFloat32 : ElementType::kFloat16, dim};
	}
};

TEST_P(CpuEngineLists, are_searched_as_defined)
{
	for (const uint32_t dim : {1u, 31u, 100u})
		for (const size_t n_threads : {1u, 3u})
		{
			ListCopy held(spec(dim), Data::kGaussian, dim, {.n_threads = n_threads});
			Rows queries(held.delta.spec);

			queries.add_random(n_threads == 1 ? 12 : 6, Data::kGaussian, held.rng, 0);
			ASSERT_NO_FATAL_FAILURE(expect_answers(held, queries));
		}
}

TEST_P(CpuEngineLists, a_query_alone_is_shared_out_among_the_threads)
{
	ListCopy held(spec(40), Data::kGaussian, 7, {.n_threads = 4});
	Rows queries(held.delta.spec);

	queries.add_random(3, Data::kGaussian, held.rng, 0);
	ASSERT_NO_FATAL_FAILURE(expect_answers(held, queries));
}

TEST_P(CpuEngineLists, ties_and_strange_numbers_are_in_order)
{
	for (const Data data : {Data::kHuge, Data::kExtremes})
	{
		ListCopy held(spec(5), data, 11);
		Rows queries(held.delta.spec);

		queries.add_random(12, data, held.rng, 0);
		ASSERT_NO_FATAL_FAILURE(expect_answers(held, queries));
	}
}

TEST_P(CpuEngineLists, dead_rows_are_left_out_by_number)
{
	ListCopy held(spec(20), Data::kGaussian, 13);
	Rows queries(held.delta.spec);
	std::set<RowId> dead;
	Bytes bits(700 / 8 + 1);
	Bytes delta_bits(7);

	for (size_t i = 0; i < 700; i += 3)
	{
		bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | 1 << (i % 8));
		dead.insert(held.first.rows.ids[i]);
	}
	for (size_t i = 0; i < 50; i += 5)
	{
		delta_bits[i / 8] = static_cast<uint8_t>(delta_bits[i / 8] | 1 << (i % 8));
		dead.insert(held.delta.ids[i]);
	}
	ASSERT_OK(held.engine->set_tombstones(held.copy, 1, bits));
	ASSERT_OK(held.engine->set_delta_tombstones(held.copy, 0, delta_bits));
	queries.add_random(12, Data::kGaussian, held.rng, 0);
	ASSERT_NO_FATAL_FAILURE(expect_answers(held, queries, dead));
}

INSTANTIATE_TEST_SUITE_P(Types, CpuEngineLists, testing::Range(0, 2 * static_cast<int>(kMetrics) + 2));

TEST(CpuEngineListsAlone, segments_that_a_query_does_not_name_count_as_the_largest)
{
	ListCopy held({Metric::kL2, ElementType::kFloat32, 12}, Data::kGaussian, 3);
	Rows queries(held.delta.spec);
	const SegmentProbes named[] = {{9, 2}, {8, 4}};
	std::vector<std::vector<Neighbor>> results;

	queries.add_random(1, Data::kGaussian, held.rng, 0);

	SearchQuery query = {queries.vector(0), 200, false, {}};

	query.probes = named;
	ASSERT_OK(held.engine->search(held.copy, {&query, 1}, &results));
	ASSERT_NO_FATAL_FAILURE(expect_same(results[0], held.nearest(query.query, 200, {4, 4})));
}

TEST(CpuEngineListsAlone, rows_without_a_score_come_only_if_all_rows_are_asked_for)
{
	const DistanceSpec spec = {Metric::kCosine, ElementType::kFloat32, 4};
	std::mt19937 rng(1);
	Rows rows(spec);
	const float zero[4] = {};
	const SegmentProbes all[] = {{1, 3}};
	std::vector<std::vector<Neighbor>> results;
	Coverage coverage = Coverage::kPart;
	CopyId copy = 0;

	rows.add_random(20, Data::kGaussian, rng, 1);
	for (RowId id = 21; id < 25; id++)
		rows.add(id, reinterpret_cast<const uint8_t *>(zero));

	const ListRows lists(rows, 3, rng);
	const std::unique_ptr<Engine> engine = make_cpu_engine({});

	ASSERT_OK(engine->create({spec, CopyKind::kLists}, &copy));
	ASSERT_OK(lists.load(engine.get(), copy, 1));

	SearchQuery query = {rows.vector(0), 100, false, {}};

	query.coverage = &coverage;
	query.probes = all;
	ASSERT_OK(engine->search(copy, {&query, 1}, &results));
	EXPECT_EQ(results[0].size(), 20u);
	EXPECT_EQ(coverage, Coverage::kScored);
	query.probes = {};
	ASSERT_OK(engine->search(copy, {&query, 1}, &results));
	EXPECT_EQ(results[0].size(), 24u);
	EXPECT_EQ(coverage, Coverage::kAll);
}

TEST(CpuEngineListsAlone, are_read_back_as_they_were_given)
{
	ListCopy held({Metric::kL2, ElementType::kFloat16, 6}, Data::kGaussian, 3);
	const Bytes given = held.first.description();
	Bytes got(given.size());

	ASSERT_OK(held.engine->read_structure(held.copy, 1, 0, got.size(), got.data()));
	EXPECT_EQ(got, given);
	ASSERT_OK(held.engine->read_structure(held.copy, 1, 100, 8, got.data()));
	EXPECT_TRUE(std::equal(got.begin(), got.begin() + 8, given.begin() + 100));
	EXPECT_FALSE(held.engine->read_structure(held.copy, 1, given.size(), 1, got.data()).is_ok());
	EXPECT_FALSE(held.engine->read_structure(held.copy, 3, 0, 1, got.data()).is_ok());
}

TEST(CpuEngineListsAlone, a_description_that_is_wrong_is_refused_when_the_segment_is_sealed)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 3};
	std::mt19937 rng(1);
	Rows rows(spec);

	rows.add_random(30, Data::kGaussian, rng, 1);

	const ListRows good(rows, 4, rng);
	const auto sealed = [&](const std::function<void(ListRows *)> &change)
	{
		const std::unique_ptr<Engine> engine = make_cpu_engine({});
		ListRows changed = good;
		CopyId copy = 0;

		change(&changed);
		EXPECT_TRUE(engine->create({spec, CopyKind::kLists}, &copy).is_ok());
		return changed.load(engine.get(), copy, 1).code;
	};

	EXPECT_EQ(sealed([](ListRows *) {}), StatusCode::kOk);
	EXPECT_EQ(sealed([](ListRows *l) { l->numbers[3] = 30; }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](ListRows *l) { l->offsets[0] = 1; }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](ListRows *l) { l->offsets[4] = 31; }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](ListRows *l) { l->offsets[2] = ~uint64_t{0}; }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](ListRows *l) { l->offsets.pop_back(); }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](ListRows *l) { l->centroids[5] = std::numeric_limits<float>::infinity(); }),
		StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](ListRows *l) { l->n_lists = 0; }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](ListRows *l) { l->n_lists = 70000; }), StatusCode::kInvalidArgument);
	EXPECT_EQ(sealed([](ListRows *l) { l->n_lists = 3; }), StatusCode::kInvalidArgument);
}

TEST(CpuEngineListsAlone, belong_to_copies_of_that_kind)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 3};
	const std::unique_ptr<Engine> engine = make_cpu_engine({});
	const uint8_t byte[1] = {};
	const uint64_t id = 1;
	const float vector[3] = {};
	CopyId rows = 0;
	CopyId lists = 0;

	ASSERT_OK(engine->create(spec, &rows));
	ASSERT_OK(engine->create({spec, CopyKind::kLists}, &lists));
	EXPECT_EQ(engine->load_structure(rows, 1, 1, byte).code, StatusCode::kInvalidArgument);
	ASSERT_OK(engine->load_segment(lists, 1, {{&id, 1}, vector, 1}));
	EXPECT_EQ(engine->seal_segment(lists, 1).code, StatusCode::kInvalidArgument); // no description
	EXPECT_EQ(engine->create({{Metric::kHamming, ElementType::kBit, 8}, CopyKind::kCodedLists}, &lists).code,
		StatusCode::kUnsupported);
}

} // namespace
} // namespace vectorgpu::engine::test
