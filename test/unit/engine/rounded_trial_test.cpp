// Rounded rows lead searches of a graph only where they tell its rows apart.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "engine/cpu/cpu_engine.hpp"
#include "engine/copies/rounded_trial.hpp"
#include "engine/graph_copy.hpp"

namespace vectorgpu::engine::test
{
namespace
{

constexpr uint32_t kDims = 64;
constexpr Metric kMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine};

/// n rows of elements offset + spread * normal.
Rows
rows_around(Metric metric, float offset, float spread, size_t n)
{
	Rows rows({metric, ElementType::kFloat32, kDims});
	std::mt19937 rng(3);
	std::normal_distribution<float> normal;
	std::vector<float> row(kDims);

	for (size_t i = 0; i < n; i++)
	{
		std::generate(row.begin(), row.end(), [&] { return offset + spread * normal(rng); });
		rows.add(i + 1, reinterpret_cast<const uint8_t *>(row.data()));
	}
	return rows;
}

RowList
list_of(const Rows &rows, std::span<const uint32_t> nodes)
{
	RowList list(rows.spec, RowList::Kind::kSegment, nullptr, true, true);

	for (const uint32_t node : nodes)
		list.append(&rows.ids[node], rows.vector(node), 1);
	return list;
}

/// The trial over all rows, and over those alone that it names: the answers are the same.
bool
passes(const GraphedRows &graphed)
{
	SegmentGraph graph;
	const Bytes bytes = graphed.description();

	EXPECT_TRUE(graph.append(graphed.degree, bytes).is_ok());
	EXPECT_TRUE(graph.check(graphed.rows.n()).is_ok());

	const RoundedTrial trial(graph);
	std::vector<uint32_t> all(graphed.rows.n());
	std::vector<uint32_t> places(trial.nodes().size());

	std::iota(all.begin(), all.end(), 0);
	std::iota(places.begin(), places.end(), 0);
	EXPECT_TRUE(std::is_sorted(trial.nodes().begin(), trial.nodes().end()));

	const bool by_all = trial.passes(graphed.rows.spec, list_of(graphed.rows, all).view(), trial.nodes());
	const bool by_named = trial.passes(graphed.rows.spec, list_of(graphed.rows, trial.nodes()).view(), places);

	EXPECT_EQ(by_all, by_named);
	return by_all;
}

TEST(RoundedTrial, PassesWhereBytesTellRowsApart)
{
	for (const Metric metric : kMetrics)
	{
		EXPECT_TRUE(passes(GraphedRows(rows_around(metric, 0, 1, 2000), 16))) << metric_name(metric);
		EXPECT_TRUE(passes(GraphedRows(rows_around(metric, 1, 1, 2000), 16))) << metric_name(metric);
	}
}

TEST(RoundedTrial, FailsWhereManyRowsHaveTheSameBytes)
{
	EXPECT_FALSE(passes(GraphedRows(rows_around(Metric::kL2, 100, 1, 2000), 16)));
	EXPECT_FALSE(passes(GraphedRows(rows_around(Metric::kCosine, 100, 1, 2000), 16)));
	EXPECT_FALSE(passes(GraphedRows(rows_around(Metric::kL2, 100, 1, 2000), 16, 3)));
}

/// One element is much larger than the others, and the others decide.
TEST(RoundedTrial, FailsWhereOneElementHidesTheOthers)
{
	Rows rows = rows_around(Metric::kL2, 0, 1, 2000);

	for (size_t i = 0; i < rows.n(); i++)
	{
		const float large = 2000;

		std::copy_n(reinterpret_cast<const uint8_t *>(&large), sizeof(large), &rows.vectors[i * rows.row_bytes]);
	}
	EXPECT_FALSE(passes(GraphedRows(rows, 16)));
}

/// Equal rows are equally near, whatever the rounded rows say.
TEST(RoundedTrial, PassesWhereAllRowsAreEqual)
{
	EXPECT_TRUE(passes(GraphedRows(rows_around(Metric::kL2, 1, 0, 300), 16)));
}

/// Few rows, and rows without finite distances, say nothing.
TEST(RoundedTrial, FailsWithoutRowsToTellApart)
{
	EXPECT_FALSE(passes(GraphedRows(rows_around(Metric::kL2, 0, 1, 10), 8)));
	EXPECT_FALSE(passes(GraphedRows(rows_around(Metric::kL2, NAN, 0, 300), 16, 1, Edges::kRandom)));
	EXPECT_FALSE(passes(GraphedRows(rows_around(Metric::kL2, HUGE_VALF, 0, 300), 16, 1, Edges::kRandom)));
}

/// Every 50th row is another: the rows sought do not keep step.
TEST(RoundedTrial, FailsWhateverTheOrderOfTheRows)
{
	Rows rows = rows_around(Metric::kL2, 100, 1, 3200);
	const Rows others = rows_around(Metric::kL2, 0, 1, 3200);

	for (size_t i = 0; i < rows.n(); i += 50)
		std::copy_n(others.vector(i), rows.row_bytes, &rows.vectors[i * rows.row_bytes]);
	EXPECT_FALSE(passes(GraphedRows(rows, 16)));
}

/// The nearest ten of each row are its copies; the rows behind them cannot be told apart.
TEST(RoundedTrial, FailsBehindCopies)
{
	Rows rows = rows_around(Metric::kL2, 0, 1, 2400);
	const Rows others = rows_around(Metric::kL2, 100, .2f, 200);

	for (size_t i = 0; i < rows.n(); i++)
		std::copy_n(others.vector(i % 200), rows.row_bytes, &rows.vectors[i * rows.row_bytes]);
	EXPECT_FALSE(passes(GraphedRows(rows, 16)));
}

/// Few edges lead to few rows at once: they are followed further.
TEST(RoundedTrial, FollowsFewEdgesFarEnough)
{
	EXPECT_TRUE(passes(GraphedRows(rows_around(Metric::kL2, 0, 1, 2000), 4)));
	EXPECT_FALSE(passes(GraphedRows(rows_around(Metric::kL2, 100, 1, 2000), 4)));
}

/// No filter is trusted with such rows: searches by rounded rows never find them.
TEST(RoundedTrial, FailsWhereRowsHaveNoRoundedRow)
{
	EXPECT_FALSE(passes(GraphedRows(rows_around(Metric::kL2, 0, 1e18f, 2000), 16)));
}

/// Copies of the same segments, with rounded rows and without.
struct TwoCopies
{
	TwoCopies(const GraphedRows &graphed) : engine(make_cpu_engine({}))
	{
		CopySpec spec(graphed.rows.spec, CopyKind::kGraph);

		EXPECT_TRUE(engine->create(spec, &plain).is_ok());
		spec.rounded = true;
		EXPECT_TRUE(engine->create(spec, &rounded).is_ok());
		EXPECT_TRUE(graphed.load(engine.get(), plain, 1).is_ok());
		EXPECT_TRUE(graphed.load(engine.get(), rounded, 1).is_ok());
	}

	std::vector<Neighbor> search(CopyId copy, const void *query, size_t k, uint32_t width) const
	{
		const SegmentProbes probes[] = {{1, width}};
		SearchQuery wanted = {query, k, false, {}};
		std::vector<std::vector<Neighbor>> found;

		wanted.probes = probes;
		EXPECT_TRUE(engine->search(copy, {&wanted, 1}, &found).is_ok());
		return found.at(0);
	}

	std::unique_ptr<Engine> engine;
	CopyId plain = 0;
	CopyId rounded = 0;
};

TEST(RoundedTrial, SearchesGoByRowsWhereItFails)
{
	const GraphedRows graphed(rows_around(Metric::kL2, 100, 1, 4000), 16);
	const TwoCopies copies(graphed);

	for (uint32_t i = 0; i < 4000; i += 100)
	{
		const void *const query = graphed.rows.vector(i);

		ASSERT_NO_FATAL_FAILURE(
			expect_same(copies.search(copies.rounded, query, 10, 40), copies.search(copies.plain, query, 10, 40)));
	}
}

TEST(RoundedTrial, WidthsAreRaisedALittleAboveK)
{
	const SegmentProbes probes[] = {{1, 12}, {2, 2000}};
	const auto width = [&](size_t k, SegmentId segment, bool by_rounded)
	{
		SearchQuery query;

		query.k = k;
		query.probes = probes;
		return width_of(query, segment, by_rounded);
	};

	EXPECT_EQ(width(1, 1, true), 12u);
	EXPECT_EQ(width(10, 1, true), 23u);
	EXPECT_EQ(width(10, 1, false), 12u);
	EXPECT_EQ(width(10, 2, true), 2000u);
	EXPECT_EQ(width(10, 3, true), 2000u); // not named: the widest
	EXPECT_EQ(width(100, 1, true), 158u);
	EXPECT_EQ(width(200, 1, true), 264u);
	EXPECT_EQ(width(1000, 1, true), 1024u);
	EXPECT_EQ(width(SIZE_MAX, 1, true), 1024u);
}

/// A search for k rows by rounded rows looks at more than k, so that a width of k finds the nearest as well.
TEST(RoundedTrial, SearchesByRoundedRowsLookAtMoreRows)
{
	const GraphedRows graphed(rows_around(Metric::kL2, 0, 1, 4000), 16);
	const TwoCopies copies(graphed);
	for (uint32_t i = 0; i < 4000; i += 100)
	{
		const void *const query = graphed.rows.vector(i);
		const std::vector<Neighbor> narrow = copies.search(copies.rounded, query, 10, 1);

		ASSERT_EQ(narrow.size(), 10u);
		ASSERT_NO_FATAL_FAILURE(expect_same(narrow, copies.search(copies.rounded, query, 10, 23)));
	}
}

} // namespace
} // namespace vectorgpu::engine::test
