// The CPU engine's search of inverted lists with codes against the definition: same candidates, same scores.
#include <array>
#include <functional>

#include <gtest/gtest.h>

#include "engine/coded_copy.hpp"
#include "engine/interface/structure.hpp"

namespace vectorgpu::engine::test
{
namespace
{

using Held = CodedCopy<CopyKind::kCodedLists>;

void
expect_answers(const Held &held, const Rows &queries, const std::set<RowId> &dead = {})
{
	struct Choice
	{
		std::array<uint32_t, 2> probes;
		uint32_t candidates;
	};
	constexpr Choice kChoices[] = {
		{{1, 1}, 10}, {{3, 2}, 40}, {{0, 0}, 1}, {{19, 7}, 33}, {{20, 3}, 1}, {{100, 100}, 5}, {{6, 6}, 5000}};
	std::vector<SearchQuery> batch;
	std::vector<std::array<SegmentProbes, 2>> named(queries.n());
	std::vector<Coverage> coverage(queries.n());
	std::vector<std::vector<Neighbor>> results;
	const auto expected = [&](size_t i, const Neighbor *after)
	{
		const Choice &choice = kChoices[i % std::size(kChoices)];

		return nearest_in_coded(
			{{&held.first, choice.probes[0], choice.candidates}, {&held.second, choice.probes[1], choice.candidates}},
			&held.delta, batch[i].query, batch[i].k, after, dead);
	};

	for (size_t i = 0; i < queries.n(); i++)
	{
		const Choice &choice = kChoices[i % std::size(kChoices)];
		SearchQuery query = {queries.vector(i), 1 + 13 * i, false, {}};

		named[i] = {SegmentProbes{1, choice.probes[0], choice.candidates},
			SegmentProbes{2, choice.probes[1], choice.candidates}};
		if (choice.probes[0] > 0)
			query.probes = named[i];
		query.coverage = &coverage[i];
		batch.push_back(query);
	}
	ASSERT_OK(held.engine->search(held.copy, batch, &results));
	ASSERT_EQ(results.size(), batch.size());
	for (size_t i = 0; i < batch.size(); i++)
	{
		const std::array<uint32_t, 2> probes = kChoices[i % std::size(kChoices)].probes;

		SCOPED_TRACE(
			testing::Message() << metric_name(queries.spec.metric) << " dim " << queries.spec.dim << " query " << i);
		ASSERT_NO_FATAL_FAILURE(expect_same(results[i], expected(i, nullptr)));
		EXPECT_EQ(coverage[i] == Coverage::kPart, probes[0] != 0 && (probes[0] < 20 || probes[1] < 7));

		// The candidates do not change.
		ASSERT_NO_FATAL_FAILURE(expect_rest(held.engine.get(), held.copy, batch[i], results[i],
			[&](const Neighbor *after) { return expected(i, after); }));
	}
}

struct CpuEngineCoded : CodedTypes
{
};

TEST_P(CpuEngineCoded, lists_are_searched_as_defined)
{
	for (const uint32_t dim : {7u, 40u})
		for (const size_t n_threads : {1u, 3u})
		{
			Held held(spec(dim), codes(), dim, {.n_threads = n_threads});
			Rows queries(held.delta.spec);

			queries.add_random(n_threads == 1 ? 14 : 2, Data::kGaussian, held.rng, 0);
			ASSERT_NO_FATAL_FAILURE(expect_answers(held, queries));
		}
}

TEST_P(CpuEngineCoded, dead_rows_take_the_place_of_candidates_but_are_not_found)
{
	Held held(spec(20), codes(), 13);
	Rows queries(held.delta.spec);
	const std::set<RowId> dead = held.kill_some();

	queries.add_random(14, Data::kGaussian, held.rng, 0);
	ASSERT_NO_FATAL_FAILURE(expect_answers(held, queries, dead));
}

INSTANTIATE_TEST_SUITE_P(Types, CpuEngineCoded,
	testing::Combine(testing::Values(Metric::kL2, Metric::kInnerProduct, Metric::kCosine),
		testing::ValuesIn(kCodedElements), testing::ValuesIn(kCodes)));
// There is no product quantiser for L1.
INSTANTIATE_TEST_SUITE_P(Taxicab, CpuEngineCoded,
	testing::Combine(
		testing::Values(Metric::kL1), testing::ValuesIn(kCodedElements), testing::Values(kCodes[0], kCodes[1])));

TEST(CpuEngineCodedAlone, segments_that_a_query_does_not_name_count_as_the_largest)
{
	Held held({Metric::kL2, ElementType::kFloat32, 12}, kCodes[2], 3);
	Rows queries(held.delta.spec);
	const SegmentProbes named[] = {{9, 2, 50}, {8, 4, 30}};
	std::vector<std::vector<Neighbor>> results;

	queries.add_random(1, Data::kGaussian, held.rng, 0);

	SearchQuery query = {queries.vector(0), 200, false, {}};

	query.probes = named;
	ASSERT_OK(held.engine->search(held.copy, {&query, 1}, &results));
	ASSERT_NO_FATAL_FAILURE(expect_same(
		results[0], nearest_in_coded({{&held.first, 4, 50}, {&held.second, 4, 50}}, &held.delta, query.query, 200)));
}

TEST(CpuEngineCodedAlone, are_read_back_as_they_were_given)
{
	Held held({Metric::kL2, ElementType::kFloat16, 8}, kCodes[3], 3);
	const Bytes given = held.first.coded_description();
	Bytes got(given.size());

	ASSERT_OK(held.engine->read_structure(held.copy, 1, 0, got.size(), got.data()));
	EXPECT_EQ(got, given);
	EXPECT_FALSE(held.engine->read_structure(held.copy, 1, given.size(), 1, got.data()).is_ok());
}

TEST(CpuEngineCodedAlone, a_description_that_is_wrong_is_refused_when_the_segment_is_sealed)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 6};
	std::mt19937 rng(1);
	Rows rows(spec);

	rows.add_random(45, Data::kGaussian, rng, 1);

	const ListRows lists(rows, 4, rng);
	const CodedRows good(lists, ivf::CodeKind::kPq, 3, 8, false);
	const size_t head_at = lists.description().size();
	const auto sealed = [&](const std::function<void(Bytes *)> &change)
	{
		const std::unique_ptr<Engine> engine = make_cpu_engine({});
		const Bytes vectors = good.vectors_by_place();
		Bytes bytes = good.coded_description();
		CopyId copy = 0;

		change(&bytes);
		EXPECT_TRUE(engine->create({spec, CopyKind::kCodedLists}, &copy).is_ok());
		EXPECT_TRUE(engine->load_segment(copy, 1, {{rows.ids.data(), rows.n()}, vectors.data(), rows.n()}).is_ok());
		EXPECT_TRUE(engine->load_structure(copy, 1, 4, bytes).is_ok());
		return engine->seal_segment(copy, 1).code;
	};
	const auto word = [head_at](size_t i, uint32_t value)
	{ return [=](Bytes *bytes) { std::memcpy(bytes->data() + head_at + 4 * i, &value, sizeof(value)); }; };

	EXPECT_EQ(sealed([](Bytes *) {}), StatusCode::kOk);
	for (const uint32_t kind : {0u, 1u, 2u, 4u, ~0u})
		EXPECT_NE(sealed(word(0, kind)), StatusCode::kOk) << kind; // another kind's parameters, or bytes
	for (const uint32_t m : {0u, 2u, 7u, ~0u})
		EXPECT_NE(sealed(word(1, m)), StatusCode::kOk) << m;
	for (const uint32_t bits : {0u, 4u, 7u, 64u})
		EXPECT_NE(sealed(word(2, bits)), StatusCode::kOk) << bits;
	for (const uint32_t opq : {1u, 2u})
		EXPECT_NE(sealed(word(3, opq)), StatusCode::kOk) << opq;
	EXPECT_NE(sealed([](Bytes *bytes) { bytes->pop_back(); }), StatusCode::kOk);
	EXPECT_NE(sealed([](Bytes *bytes) { bytes->push_back(0); }), StatusCode::kOk);
	EXPECT_NE(sealed([head_at](Bytes *bytes) { bytes->resize(head_at); }), StatusCode::kOk);
	EXPECT_NE(sealed([head_at](Bytes *bytes) { bytes->resize(head_at + 15); }), StatusCode::kOk);
	EXPECT_NE(sealed([](Bytes *bytes) { (*bytes)[0] = 1; }), StatusCode::kOk); // the lists are checked, too
}

TEST(CpuEngineCodedAlone, descriptions_are_of_the_size_that_was_announced)
{
	for (const uint32_t dim : {1u, 3u, 100u, 2048u, 2049u, 16000u})
		for (const uint64_t n_rows : {1u, 31u, 32u, 1000u})
			for (const CodesHead &head : {CodesHead{1, 0, 0, 0}, CodesHead{2, 0, 0, 0}, CodesHead{3, 1, 4, 0},
					 CodesHead{3, dim, 8, 0}, CodesHead{3, (dim + 1) / 2, 8, dim <= ivf::kMaxOpqDimensions ? 1u : 0u}})
			{
				const DistanceSpec rows = {Metric::kL2, ElementType::kFloat32, dim};
				CodesLayout layout;

				layout.n_rows = n_rows;
				ASSERT_EQ(code_spec_of(head, rows, &layout.spec), nullptr);

				const uint64_t bytes = ListsLayout{9, dim, n_rows}.bytes() + layout.bytes();
				const StructureSize size = structure_size({rows, CopyKind::kCodedLists}, 9, n_rows);

				EXPECT_LE(size.least_bytes, bytes) << dim << " " << n_rows;
				EXPECT_GE(size.most_bytes, bytes) << dim << " " << n_rows;
			}
}

} // namespace
} // namespace vectorgpu::engine::test
