// Searches of the CPU engine with conditions: the rows that pass, and no others, by their canonical scores.
#include <array>
#include <tuple>

#include <gtest/gtest.h>

#include "engine/graph/codes/codes.hpp"
#include "engine/passing_copy.hpp"

namespace vectorgpu::engine::test
{
namespace
{

constexpr DistanceSpec kSpecs[] = {
	{Metric::kL2, ElementType::kFloat32, 20},
	{Metric::kInnerProduct, ElementType::kFloat32, 31},
	{Metric::kCosine, ElementType::kFloat16, 20},
	{Metric::kL1, ElementType::kFloat32, 20},
	{Metric::kHamming, ElementType::kBit, 61},
	{Metric::kJaccard, ElementType::kBit, 61},
};

constexpr CopyKind kKinds[] = {
	CopyKind::kRows, CopyKind::kLists, CopyKind::kGraph, CopyKind::kHashedGraph, CopyKind::kCodedLists};

const SegmentProbes kProbes[] = {{1, 7, 200}, {2, 4, 100}, {3, 2, 40}};
const SegmentProbes kWidths[] = {{1, 40}, {2, 20}, {3, 10}};

struct CpuEnginePassing : testing::TestWithParam<std::tuple<CopyKind, DistanceSpec>>
{
	CopyKind kind() const { return std::get<0>(GetParam()); }
	const DistanceSpec &spec() const { return std::get<1>(GetParam()); }
	bool has_lists() const { return kind() == CopyKind::kLists || kind() == CopyKind::kCodedLists; }

	PassingCopy make(Data data, uint32_t seed, size_t n_threads = 1) const
	{
		return {make_cpu_engine({.n_threads = n_threads}), kind(), spec(), data, seed};
	}

	std::span<const SegmentProbes> probes() const
	{
		return has_lists() ? std::span<const SegmentProbes>(kProbes) : std::span<const SegmentProbes>(kWidths);
	}

	Rows queries(size_t n, Data data, uint32_t seed) const
	{
		Rows made(spec());
		std::mt19937 rng(seed);

		made.add_random(n, data, rng, 0);
		return made;
	}
};

std::string
case_name(const testing::TestParamInfo<CpuEnginePassing::ParamType> &info)
{
	const char *kinds[] = {"rows", "lists", "graph", "coded_lists", "", "hashed_graph"};
	std::string name = metric_name(std::get<1>(info.param).metric);

	std::replace(name.begin(), name.end(), ' ', '_');
	return std::string(kinds[static_cast<int>(std::get<0>(info.param))]) + "_" + name;
}

std::vector<CpuEnginePassing::ParamType>
all_cases()
{
	std::vector<CpuEnginePassing::ParamType> cases;

	for (const CopyKind kind : kKinds)
		for (const DistanceSpec &spec : kSpecs)
		{
			const bool coded = kind == CopyKind::kHashedGraph || kind == CopyKind::kCodedLists;

			if ((coded && spec.element == ElementType::kBit) || (coded && spec.metric == Metric::kL1) ||
				(kind == CopyKind::kHashedGraph && !graph::codes_support(spec.metric)))
				continue;
			cases.emplace_back(kind, spec);
		}
	return cases;
}

/// One search without probes and one that goes on behind its middle.
void
expect_exact(const PassingCopy &held, const Passing &passing, const void *vector, size_t k)
{
	SearchQuery query = {vector, k, false, {}};
	std::vector<std::vector<Neighbor>> results;

	query.passing = &passing;
	ASSERT_OK(held.engine->search(held.copy, {&query, 1}, &results));
	ASSERT_NO_FATAL_FAILURE(expect_same(results[0], held.nearest(vector, k, nullptr, true)));
	if (results[0].size() < 2)
		return;
	query.has_after = true;
	query.after = results[0][results[0].size() / 2];
	ASSERT_OK(held.engine->search(held.copy, {&query, 1}, &results));
	ASSERT_NO_FATAL_FAILURE(expect_same(results[0], held.nearest(vector, k, &query.after, true)));
}

TEST_P(CpuEnginePassing, without_probes_is_exact)
{
	for (const Data data : {Data::kGaussian, Data::kExtremes})
		for (const size_t n_threads : {data == Data::kGaussian ? 1u : 4u})
		{
			PassingCopy held = make(data, 3, n_threads);
			const Rows vectors = queries(3, data, 4);

			for (const Region region : kRegions)
				for (const double share : {0.0, .001, .02, .1, .2, .5, .9})
					for (size_t i = 0; i < vectors.n(); i++)
					{
						const Passing passing = held.passing(share, region, vectors.vector(0), i == 2 ? 2 : 0);

						SCOPED_TRACE(testing::Message() << "share " << share << " query " << i);
						ASSERT_NO_FATAL_FAILURE(
							expect_exact(held, passing, vectors.vector(i), std::array{1, 30, 2000}[i]));
						if (share == .2 || share == .02) // the same conditions after vacuum has found more dead rows
						{
							held.kill_some(1);
							ASSERT_NO_FATAL_FAILURE(expect_exact(held, passing, vectors.vector(i), 50));
						}
					}
		}
}

/// Whether every row passes, is alive and has its score.
void
expect_rows_that_pass(const PassingCopy &held, const void *query, const std::vector<Neighbor> &result)
{
	const std::vector<Neighbor> all = held.nearest(query, 10000, nullptr, false);

	for (size_t i = 0; i < result.size(); i++)
	{
		const auto found =
			std::find_if(all.begin(), all.end(), [&](const Neighbor &one) { return one.row == result[i].row; });

		ASSERT_NE(found, all.end()) << "place " << i;
		ASSERT_EQ(bits_of(found->score), bits_of(result[i].score)) << "place " << i;
		ASSERT_TRUE(i == 0 || neighbor_less(result[i - 1], result[i])) << "place " << i;
	}
}

/// How many of the first k are found, ties counted.
size_t
hits(const std::vector<Neighbor> &truth, const std::vector<Neighbor> &result)
{
	return static_cast<size_t>(std::count_if(result.begin(), result.end(),
		[&](const Neighbor &one) { return !truth.empty() && one.score <= truth.back().score; }));
}

TEST_P(CpuEnginePassing, with_probes_finds_as_much_as_without_conditions)
{
	if (kind() == CopyKind::kRows)
		GTEST_SKIP() << "rows have no structure";

	constexpr size_t kQueries = 20;
	PassingCopy held = make(Data::kGaussian, 5);
	const Rows vectors = queries(kQueries, Data::kGaussian, 6);

	for (const Region region : kRegions)
		for (const double share : {.05, .15, .3, .6, .9})
		{
			size_t n_hits[2] = {}; // without conditions, with them
			size_t n_true[2] = {};

			SCOPED_TRACE(testing::Message() << "share " << share << " region " << static_cast<int>(region));
			for (size_t i = 0; i < kQueries; i++)
			{
				const void *const vector = vectors.vector(i);
				FilterWay way = FilterWay::kGraph;
				Coverage coverage = Coverage::kPart;

				for (const int with : {0, 1})
				{
					const Passing passing =
						with == 1 ? held.passing(share, region, vector) : held.passing(1, region, vector);
					const std::vector<Neighbor> truth = held.nearest(vector, 10, nullptr, false);
					SearchQuery query = {vector, 10, false, {}};
					std::vector<std::vector<Neighbor>> results;

					query.probes = probes();
					query.passing = with == 1 ? &passing : nullptr;
					query.filter_way = &way;
					query.coverage = &coverage;
					ASSERT_OK(held.engine->search(held.copy, {&query, 1}, &results));
					if (with == 1)
						ASSERT_NO_FATAL_FAILURE(expect_rows_that_pass(held, vector, results[0]));
					else
						ASSERT_EQ(way, FilterWay::kNone);
					n_hits[with] += hits(truth, results[0]);
					n_true[with] += truth.size();
				}
				ASSERT_NE(way, FilterWay::kNone);
				if (share <= .1)
				{
					ASSERT_EQ(way, FilterWay::kList);
					ASSERT_EQ(coverage, Coverage::kAll);
				}
				else if (way <= FilterWay::kMask)
					ASSERT_EQ(coverage, Coverage::kAll);
				else
					ASSERT_EQ(coverage, Coverage::kPart);
			}

			const double without = static_cast<double>(n_hits[0]) / static_cast<double>(n_true[0]);
			const double with = static_cast<double>(n_hits[1]) / static_cast<double>(n_true[1]);

			// Of data without clusters, rows that lie away from a query lie in no lists that are near it.
			EXPECT_GE(with, share <= .1 ? 1 : without - (region == Region::kFar ? .15 : .07));
		}
}

TEST_P(CpuEnginePassing, answers_of_a_mixed_batch_are_those_of_its_queries_alone)
{
	for (const size_t n_threads : {1u, 4u})
		for (const bool wide : {true, false})
		{
			constexpr size_t kBatch = 24;
			PassingCopy held = make(Data::kGaussian, 7, n_threads);
			const Rows vectors = queries(kBatch, Data::kGaussian, 8);
			const Passing conditions[] = {held.passing(.05, Region::kRandom, vectors.vector(0)),
				held.passing(.4, Region::kRandom, vectors.vector(0)),
				held.passing(.4, Region::kNear, vectors.vector(0), 1)};
			std::vector<SearchQuery> batch;
			std::vector<FilterWay> ways(kBatch, FilterWay::kGraph);
			std::vector<std::vector<Neighbor>> together;
			std::vector<std::vector<Neighbor>> plain;

			for (size_t i = 0; i < kBatch; i++)
			{
				SearchQuery query = {vectors.vector(i), 1 + 7 * i, false, {}};

				if (!wide && kind() != CopyKind::kRows)
					query.probes = probes();
				query.passing = i % 4 == 0 ? nullptr : &conditions[i % 4 - 1];
				query.filter_way = &ways[i];
				batch.push_back(query);
			}
			ASSERT_OK(held.engine->search(held.copy, batch, &together));
			ASSERT_EQ(together.size(), kBatch);
			for (size_t i = 0; i < kBatch; i++)
			{
				SearchQuery alone = batch[i];
				FilterWay way = FilterWay::kGraph;
				std::vector<std::vector<Neighbor>> result;

				SCOPED_TRACE(testing::Message() << "query " << i);
				alone.filter_way = &way;
				ASSERT_OK(held.engine->search(held.copy, {&alone, 1}, &result));
				ASSERT_NO_FATAL_FAILURE(expect_same(together[i], result[0]));
				ASSERT_EQ(ways[i], way);
				ASSERT_EQ(way == FilterWay::kNone, batch[i].passing == nullptr);
			}
			for (SearchQuery &query : batch)
				query.passing = nullptr;
			ASSERT_OK(held.engine->search(held.copy, batch, &plain));
			for (size_t i = 0; i < kBatch; i += 4)
				ASSERT_NO_FATAL_FAILURE(expect_same(together[i], plain[i]));
		}
}

TEST_P(CpuEnginePassing, pages_of_answers_have_each_row_once)
{
	PassingCopy held = make(Data::kGaussian, 9);
	const Rows vectors = queries(2, Data::kGaussian, 10);
	const Passing passing = held.passing(.4, Region::kRandom, vectors.vector(0));
	SearchQuery query = {vectors.vector(1), 20, false, {}};
	std::vector<std::vector<Neighbor>> results;
	std::vector<Neighbor> pages;

	query.passing = &passing;
	if (kind() != CopyKind::kRows)
		query.probes = probes();
	for (int page = 0; page < 3; page++)
	{
		ASSERT_OK(held.engine->search(held.copy, {&query, 1}, &results));
		pages.insert(pages.end(), results[0].begin(), results[0].end());
		ASSERT_FALSE(pages.empty());
		query.has_after = true;
		query.after = pages.back();
	}
	ASSERT_NO_FATAL_FAILURE(expect_rows_that_pass(held, query.query, pages));
	EXPECT_GE(pages.size(), 40u);
}

INSTANTIATE_TEST_SUITE_P(KindsAndMetrics, CpuEnginePassing, testing::ValuesIn(all_cases()), case_name);

TEST(CpuEnginePassingRows, of_another_segment_are_refused)
{
	PassingCopy held(make_cpu_engine({}), CopyKind::kRows, kSpecs[0], Data::kGaussian, 11);
	const Rows &rows = held.segments[0];
	Passing passing = held.passing(.5, Region::kRandom, rows.vector(0));
	auto wrong = std::make_shared<PassingSegment>();
	SearchQuery query = {rows.vector(0), 1, false, {}};
	std::vector<std::vector<Neighbor>> results;

	wrong->segment = 1;
	wrong->n_rows = rows.n() + 1;
	wrong->listed = true;
	passing.segments[0] = wrong;
	query.passing = &passing;
	EXPECT_EQ(held.engine->search(held.copy, {&query, 1}, &results).code, StatusCode::kInvalidArgument);
}

TEST(CpuEnginePassingRows, are_found_by_a_permutation_that_is_counted)
{
	PassingCopy held(make_cpu_engine({}), CopyKind::kLists, kSpecs[0], Data::kGaussian, 12);
	const uint64_t before = held.engine->host_bytes(held.copy);
	const void *const vector = held.segments[0].vector(0);
	const Passing masked = held.passing(.5, Region::kRandom, vector);

	ASSERT_NO_FATAL_FAILURE(expect_exact(held, masked, vector, 10));
	EXPECT_EQ(held.engine->host_bytes(held.copy), before);

	const Passing listed = held.passing(.05, Region::kRandom, vector);

	for (int again = 0; again < 2; again++)
	{
		ASSERT_NO_FATAL_FAILURE(expect_exact(held, listed, vector, 10));
		EXPECT_EQ(held.engine->host_bytes(held.copy), before + (900 + 400 + 120) * sizeof(uint32_t));
	}
}

} // namespace
} // namespace vectorgpu::engine::test
