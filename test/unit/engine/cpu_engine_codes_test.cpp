// The CPU engine's search of lists of codes without vectors against the definition: the same candidates, with their
// estimates.
#include <array>
#include <limits>

#include <gtest/gtest.h>

#include "engine/coded_copy.hpp"
#include "engine/interface/structure.hpp"

namespace vectorgpu::engine::test
{
namespace
{

using Held = CodedCopy<CopyKind::kCodes>;

void
expect_candidates(const Held &held, const Rows &queries, const std::set<RowId> &dead = {})
{
	struct Choice
	{
		std::array<uint32_t, 2> probes;
		std::array<uint32_t, 2> candidates;
	};
	constexpr Choice kChoices[] = {{{1, 1}, {10, 10}}, {{3, 2}, {40, 7}}, {{19, 7}, {33, 1}}, {{20, 3}, {1, 50}},
		{{100, 100}, {5, 5}}, {{6, 6}, {5000, 5000}}};
	std::vector<SearchQuery> batch;
	std::vector<std::array<SegmentProbes, 2>> named(queries.n());
	std::vector<Coverage> coverage(queries.n(), Coverage::kAll);
	std::vector<std::vector<Neighbor>> results;
	const auto expected = [&](size_t i, const Neighbor *after)
	{
		const Choice &choice = kChoices[i % std::size(kChoices)];

		return candidates_in_codes({{&held.first, choice.probes[0], choice.candidates[0]},
									   {&held.second, choice.probes[1], choice.candidates[1]}},
			batch[i].query, batch[i].k, after, dead);
	};

	for (size_t i = 0; i < queries.n(); i++)
	{
		const Choice &choice = kChoices[i % std::size(kChoices)];
		SearchQuery query = {queries.vector(i), i % 3 == 0 ? size_t{100000} : 1 + 7 * i, false, {}};

		named[i] = {SegmentProbes{1, choice.probes[0], choice.candidates[0]},
			SegmentProbes{2, choice.probes[1], choice.candidates[1]}};
		query.probes = named[i];
		query.coverage = &coverage[i];
		batch.push_back(query);
	}
	ASSERT_OK(held.engine->search(held.copy, batch, &results));
	ASSERT_EQ(results.size(), batch.size());
	for (size_t i = 0; i < batch.size(); i++)
	{
		SCOPED_TRACE(
			testing::Message() << metric_name(queries.spec.metric) << " dim " << queries.spec.dim << " query " << i);
		ASSERT_NO_FATAL_FAILURE(expect_same(results[i], expected(i, nullptr)));
		EXPECT_EQ(coverage[i], Coverage::kPart);

		// The candidates do not change.
		ASSERT_NO_FATAL_FAILURE(expect_rest(held.engine.get(), held.copy, batch[i], results[i],
			[&](const Neighbor *after) { return expected(i, after); }));
	}
}

struct CpuEngineCodes : CodedTypes
{
};

TEST_P(CpuEngineCodes, candidates_are_those_of_the_definition)
{
	for (const uint32_t dim : {7u, 40u})
		for (const size_t n_threads : {1u, 3u})
		{
			Held held(spec(dim), codes(), dim, {.n_threads = n_threads});
			Rows queries(held.delta.spec);

			queries.add_random(n_threads == 1 ? 12 : 2, Data::kGaussian, held.rng, 0);
			ASSERT_NO_FATAL_FAILURE(expect_candidates(held, queries));
		}
}

TEST_P(CpuEngineCodes, dead_rows_take_the_place_of_candidates_but_are_not_found)
{
	Held held(spec(20), codes(), 13);
	Rows queries(held.delta.spec);
	const std::set<RowId> dead = held.kill_some();

	queries.add_random(12, Data::kGaussian, held.rng, 0);
	ASSERT_NO_FATAL_FAILURE(expect_candidates(held, queries, dead));
}

INSTANTIATE_TEST_SUITE_P(Types, CpuEngineCodes,
	testing::Combine(testing::Values(Metric::kL2, Metric::kInnerProduct, Metric::kCosine),
		testing::ValuesIn(kCodedElements), testing::ValuesIn(kCodes)));
// There is no product quantiser for L1.
INSTANTIATE_TEST_SUITE_P(Taxicab, CpuEngineCodes,
	testing::Combine(
		testing::Values(Metric::kL1), testing::ValuesIn(kCodedElements), testing::Values(kCodes[0], kCodes[1])));

TEST(CpuEngineCodesAlone, segments_that_a_query_does_not_name_count_as_the_largest)
{
	Held held({Metric::kL2, ElementType::kFloat32, 12}, kCodes[2], 3);
	Rows queries(held.delta.spec);
	const SegmentProbes named[] = {{9, 2, 50}, {8, 4, 30}};
	std::vector<std::vector<Neighbor>> results;

	queries.add_random(1, Data::kGaussian, held.rng, 0);

	SearchQuery query = {queries.vector(0), 200, false, {}};

	query.probes = named;
	ASSERT_OK(held.engine->search(held.copy, {&query, 1}, &results));
	ASSERT_NO_FATAL_FAILURE(
		expect_same(results[0], candidates_in_codes({{&held.first, 4, 50}, {&held.second, 4, 50}}, query.query, 200)));
}

TEST(CpuEngineCodesAlone, rows_without_an_estimate_are_candidates_behind_all_others)
{
	Held held({Metric::kL2, ElementType::kFloat32, 12}, kCodes[1], 3);
	std::vector<float> vector(12, 1.0f);
	const SegmentProbes named[] = {{1, 3, 20}, {2, 2, 10}};
	std::vector<std::vector<Neighbor>> results;

	vector[5] = std::numeric_limits<float>::quiet_NaN();

	SearchQuery query = {vector.data(), 200, false, {}};

	query.probes = named;
	ASSERT_OK(held.engine->search(held.copy, {&query, 1}, &results));
	ASSERT_EQ(results[0].size(), 30u);
	ASSERT_NO_FATAL_FAILURE(
		expect_same(results[0], candidates_in_codes({{&held.first, 3, 20}, {&held.second, 2, 10}}, query.query, 200)));
}

TEST(CpuEngineCodesAlone, a_query_without_probes_has_no_answer)
{
	Held held({Metric::kL2, ElementType::kFloat32, 12}, kCodes[0], 3);
	const SearchQuery query = {held.delta.vector(0), 3, false, {}};
	std::vector<std::vector<Neighbor>> results;

	EXPECT_EQ(held.engine->search(held.copy, {&query, 1}, &results).code, StatusCode::kInvalidArgument);
}

TEST(CpuEngineCodesAlone, are_read_back_as_they_were_given_and_take_no_room_for_vectors)
{
	const DistanceSpec spec = {Metric::kCosine, ElementType::kFloat32, 64};
	Held held(spec, kCodes[3], 3);
	const Bytes given = held.first.coded_description();
	const size_t n = held.first.rows.n();
	Bytes got(given.size());
	std::vector<RowId> ids(n);
	Bytes delta(held.delta.n() * held.delta.row_bytes);
	std::vector<RowId> delta_ids(held.delta.n());

	ASSERT_OK(held.engine->read_structure(held.copy, 1, 0, got.size(), got.data()));
	EXPECT_EQ(got, given);
	ASSERT_OK(held.engine->read_rows(held.copy, 1, 0, n, ids.data(), nullptr));
	EXPECT_EQ(ids, held.first.rows.ids);
	EXPECT_FALSE(held.engine->read_rows(held.copy, 1, 0, n + 1, ids.data(), nullptr).is_ok());
	ASSERT_OK(held.engine->read_rows(held.copy, kDeltaSegment, 0, held.delta.n(), delta_ids.data(), delta.data()));
	EXPECT_EQ(delta_ids, held.delta.ids);
	EXPECT_EQ(std::memcmp(delta.data(), held.delta.vector(0), delta.size()), 0);
	EXPECT_LT(held.engine->host_bytes(held.copy),
		given.size() + held.second.coded_description().size() + (n + held.second.rows.n()) * sizeof(RowId) +
			2 * delta.size());
	ASSERT_OK(held.engine->drop_segment(held.copy, 2));
	ASSERT_OK(held.engine->drop(held.copy));
}

TEST(CpuEngineCodesAlone, a_segment_without_good_codes_is_not_sealed)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 6};
	std::mt19937 rng(1);
	Rows rows(spec);

	rows.add_random(45, Data::kGaussian, rng, 1);

	const CodedRows good(ListRows(rows, 4, rng), ivf::CodeKind::kSq8);
	const auto sealed = [&](Bytes bytes)
	{
		const std::unique_ptr<Engine> engine = make_cpu_engine({});
		CopyId copy = 0;

		EXPECT_TRUE(engine->create({spec, CopyKind::kCodes}, &copy).is_ok());
		EXPECT_TRUE(engine->load_segment(copy, 1, {{rows.ids.data(), rows.n()}, nullptr, rows.n()}).is_ok());
		EXPECT_TRUE(bytes.empty() || engine->load_structure(copy, 1, 4, bytes).is_ok());
		return engine->seal_segment(copy, 1).code;
	};
	Bytes bytes = good.coded_description();

	EXPECT_EQ(sealed(bytes), StatusCode::kOk);
	EXPECT_NE(sealed({}), StatusCode::kOk);
	EXPECT_NE(sealed(good.description()), StatusCode::kOk);
	bytes.pop_back();
	EXPECT_NE(sealed(bytes), StatusCode::kOk);
}

} // namespace
} // namespace vectorgpu::engine::test
