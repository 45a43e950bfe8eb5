// Copies with rounded rows answer what copies without answer, bit for bit: exact searches, lists, conditions. Searches
// of graphs choose their way by rounded rows, and look at more: they find rows that are nearly as near, or nearer.
#include <algorithm>

#include <gtest/gtest.h>

#include "engine/cpu/cpu_engine.hpp"
#include "engine/passing_copy.hpp"

namespace vectorgpu::engine::test
{
namespace
{

const SegmentProbes kProbes[] = {{1, 7, 200}, {2, 4, 100}, {3, 2, 40}};

/// Rows found by both have the same scores; `least` of as many rows as are expected are as near.
void
expect_nearly_as_near(const std::vector<Neighbor> &found, const std::vector<Neighbor> &expected, double least)
{
	size_t n_as_near = 0;

	EXPECT_TRUE(std::is_sorted(found.begin(), found.end(), neighbor_less));
	for (const Neighbor &row : found)
	{
		const auto other =
			std::find_if(expected.begin(), expected.end(), [&](const Neighbor &one) { return one.row == row.row; });

		if (other != expected.end())
		{
			EXPECT_EQ(row.score, other->score);
		}
		n_as_near += !expected.empty() && !neighbor_less(expected.back(), row) ? 1 : 0;
	}
	EXPECT_GE(static_cast<double>(n_as_near), least * static_cast<double>(expected.size()));
}

/// The same search of both copies; passing: null: no conditions.
void
expect_same_answers(const PassingCopy &plain, const PassingCopy &rounded, const Passing *of_plain,
	const Passing *of_rounded, SearchQuery query, double least = 1)
{
	std::vector<std::vector<Neighbor>> expected, found;
	Coverage coverage[2] = {};

	query.passing = of_plain;
	query.coverage = &coverage[0];
	ASSERT_OK(plain.engine->search(plain.copy, {&query, 1}, &expected));
	query.passing = of_rounded;
	query.coverage = &coverage[1];
	ASSERT_OK(rounded.engine->search(rounded.copy, {&query, 1}, &found));
	if (least < 1)
		return expect_nearly_as_near(found[0], expected[0], least);
	EXPECT_EQ(coverage[0], coverage[1]);
	ASSERT_NO_FATAL_FAILURE(expect_same(found[0], expected[0]));
}

void
expect_same_copies(CopyKind kind, const DistanceSpec &spec, Data data, size_t n_threads)
{
	PassingCopy plain(make_cpu_engine({.n_threads = n_threads}), kind, spec, data, 17);
	PassingCopy rounded(make_cpu_engine({.n_threads = n_threads}), kind, spec, data, 17, true);
	Rows vectors(spec);
	std::mt19937 rng(18);

	vectors.add_random(3, data, rng, 0);
	for (size_t i = 0; i < vectors.n(); i++)
		for (const size_t k : {size_t{1}, size_t{30}, size_t{2000}})
			for (const bool probes : {false, true})
			{
				SearchQuery query = {vectors.vector(i), k, false, {}};

				// Of a graph's way, rows that no filter is trusted with are not found.
				const double least = kind != CopyKind::kGraph || !probes ? 1 : data == Data::kGaussian ? .7 : 0;

				if (probes && kind != CopyKind::kRows)
					query.probes = kProbes;
				ASSERT_NO_FATAL_FAILURE(expect_same_answers(plain, rounded, nullptr, nullptr, query, least));
				query.has_after = true;
				query.after = {oracle_score(spec, vectors.vector(i), plain.segments[0].vector(3)), 1003};
				ASSERT_NO_FATAL_FAILURE(expect_same_answers(plain, rounded, nullptr, nullptr, query, least));
				query.has_after = false;
				for (const Region region : kRegions)
					for (const double share : {.05, .4, .9})
					{
						const Passing conditions[] = {plain.passing(share, region, vectors.vector(0)),
							rounded.passing(share, region, vectors.vector(0))};

						SCOPED_TRACE(testing::Message() << "k " << k << " share " << share);
						ASSERT_NO_FATAL_FAILURE(
							expect_same_answers(plain, rounded, &conditions[0], &conditions[1], query, least));
					}
			}
	EXPECT_TRUE(data != Data::kGaussian || rounded.engine->stats().n_rescored > 0) << "no rounded rows were looked at";
}

TEST(CpuEngineRounded, CopiesWithRoundedRowsAnswerTheSame)
{
	for (const CopyKind kind : {CopyKind::kRows, CopyKind::kLists, CopyKind::kGraph})
		for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
			for (const Data data : {Data::kGaussian, Data::kExtremes, Data::kTinyAndBig})
			{
				SCOPED_TRACE(testing::Message() << metric_name(metric) << " kind " << static_cast<int>(kind));
				ASSERT_NO_FATAL_FAILURE(expect_same_copies(
					kind, {metric, ElementType::kFloat32, 40}, data, data == Data::kGaussian ? 3 : 1));
			}
}

TEST(CpuEngineRounded, DerivedRowsAreChecked)
{
	PassingCopy held(
		make_cpu_engine({}), CopyKind::kLists, {Metric::kL2, ElementType::kFloat32, 40}, Data::kExtremes, 5, true);
	uint64_t n_different = 1;

	ASSERT_OK(held.engine->check_derived(held.copy, 1, 0, PassingCopy::kSegmentRows[0], &n_different));
	EXPECT_EQ(n_different, 0u);
}

TEST(CpuEngineRounded, OnlyRowsOfFloatsAreRounded)
{
	const std::unique_ptr<Engine> engine = make_cpu_engine({});

	EXPECT_EQ(engine->rounded_row_bytes({Metric::kL2, ElementType::kFloat32, 100}), 128u + 12u);
	EXPECT_EQ(engine->rounded_row_bytes({Metric::kL1, ElementType::kFloat32, 100}), 0u);
	EXPECT_EQ(engine->rounded_row_bytes({Metric::kL2, ElementType::kFloat16, 100}), 0u);
	EXPECT_EQ(engine->rounded_row_bytes({Metric::kL2, ElementType::kFloat32, 8}), 0u);
	EXPECT_EQ(engine->rounded_row_bytes({{Metric::kL2, ElementType::kFloat32, 100}, CopyKind::kCodes}), 0u);
}

} // namespace
} // namespace vectorgpu::engine::test
