// Rounded rows of graphs: kept where they lead searches as the rows do, else not, as in the CPU engine.
#include <array>

#include "answers.hpp"
#include "engine/copies/rounded_trial.hpp"
#include "engine/graph_rows.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::CopyKind;
using engine::CopySpec;
using engine::SegmentProbes;

/// n rows whose elements are offset + a normal number.
Rows
rows_around(const DistanceSpec &spec, float offset, size_t n, RowId first_id)
{
	Rows rows(spec);
	std::mt19937 rng(static_cast<uint32_t>(first_id));
	std::normal_distribution<float> normal;
	std::vector<float> row(spec.dim);

	for (size_t i = 0; i < n; i++)
	{
		std::generate(row.begin(), row.end(), [&] { return offset + normal(rng); });
		rows.add(first_id + i, reinterpret_cast<const uint8_t *>(row.data()));
	}
	return rows;
}

CopySpec
graph_spec(const DistanceSpec &spec, bool rounded)
{
	CopySpec made(spec, CopyKind::kGraph);

	made.rounded = rounded;
	return made;
}

/// Segments 1, 2 ... in both engines. Those of the constructor outlive it.
struct BothEngines
{
	BothEngines(const std::vector<const GraphedRows *> &from, bool rounded)
		: segments(from), before(cuda_engine()->stats().resident_bytes), both(graph_spec(from[0]->rows.spec, rounded))
	{
		for (size_t i = 0; i < segments.size(); i++)
			both.change([&](Engine &e, CopyId c) { return segments[i]->load(&e, c, static_cast<SegmentId>(i + 1)); });
	}

	uint64_t bytes() const { return both.cuda()->stats().resident_bytes - before; }

	double score(const void *query, RowId row) const
	{
		for (const GraphedRows *segment : segments)
			if (const Rows &rows = segment->rows; row >= rows.ids.front() && row <= rows.ids.back())
				return oracle_score(rows.spec, query, rows.vector(row - rows.ids.front()));
		return NAN;
	}

	/// Batches for k rows with different widths. Of a copy of one segment and one part some go alone, of others none.
	void expect_same_answers(size_t k, const std::vector<size_t> &batches, const std::vector<uint32_t> &widths)
	{
		const DistanceSpec &spec = segments[0]->rows.spec;
		const Rows queries = rows_around(spec, 0, 100, 999);

		for (const size_t n : batches)
			for (const uint32_t width : widths)
			{
				std::vector<SearchQuery> requests;
				const SegmentProbes probes[] = {{1, width}, {1, width / 2 + 1}};

				for (size_t i = 0; i < n; i++)
				{
					const Rows &rows = segments[i % segments.size()]->rows;

					requests.push_back({i % 3 == 2 ? queries.vector(i % 100) : rows.vector(i % 700), k, false, {}});
					requests.back().probes = {&probes[i / 2 % 2], 1};
				}
				SCOPED_TRACE(testing::Message() << metric_name(spec.metric) << " dim " << spec.dim << " batch " << n
												<< " width " << width << " k " << k);
				if (spec.metric == Metric::kCosine)
					ASSERT_NO_FATAL_FAILURE(expect_nearly_same_answers(
						both, requests, .99, [&](const void *query, RowId row) { return score(query, row); }));
				else
					ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(requests));
			}
	}

	const std::vector<const GraphedRows *> segments;
	const uint64_t before;
	Both both;
};

struct Case
{
	Metric metric;
	uint32_t dim;
	size_t n_rows;
	uint32_t n_parts;
	Edges edges;
};

/// The rows that a trial of the graph reads back.
size_t
rows_of_trial(const GraphedRows &graphed)
{
	engine::SegmentGraph graph;

	EXPECT_TRUE(graph.append(graphed.degree, graphed.description()).is_ok());
	EXPECT_TRUE(graph.check(graphed.rows.n()).is_ok());
	return engine::RoundedTrial(graph).nodes().size();
}

TEST(RoundedGraphs, AreKeptOnlyWhereBytesTellRowsApart)
{
	constexpr size_t kPieceBytes = size_t{16} << 20; // of what is read back at a time

	for (const Case &one : {Case{Metric::kL2, 64, 4500, 1, Edges::kBuilt},
			 {Metric::kCosine, 64, 4500, 2, Edges::kBuilt}, {Metric::kL2, 1000, 9000, 1, Edges::kRandom}})
		for (const float offset : {0.0f, 100.0f})
		{
			const DistanceSpec spec = {one.metric, ElementType::kFloat32, one.dim};
			const GraphedRows graph(rows_around(spec, offset, one.n_rows, 1), 16, one.n_parts, one.edges);
			uint64_t plain_bytes = 0;

			EXPECT_TRUE(one.dim < 1000 || rows_of_trial(graph) * one.dim * sizeof(float) > kPieceBytes);
			{
				BothEngines plain({&graph}, false);

				plain_bytes = plain.bytes();
				ASSERT_NO_FATAL_FAILURE(plain.expect_same_answers(10, {1, 1100}, {60, 10}));
			}

			BothEngines rounded({&graph}, true);

			if (offset == 0)
				EXPECT_GE(rounded.bytes(), plain_bytes + one.n_rows * one.dim) << "dim " << one.dim;
			else
				EXPECT_EQ(rounded.bytes(), plain_bytes) << "dim " << one.dim;
			ASSERT_NO_FATAL_FAILURE(rounded.expect_same_answers(10, {1, 100, 1100}, {60, 10, 1}));
			ASSERT_NO_FATAL_FAILURE(rounded.expect_same_answers(300, {1, 100, 1100}, {310}));
		}
}

TEST(RoundedGraphs, SegmentsOfOneCopyDiffer)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 64};
	const GraphedRows fine(rows_around(spec, 0, 3000, 1), 16);
	const GraphedRows coarse(rows_around(spec, 100, 2000, 10001), 16);
	const uint64_t plain_bytes = BothEngines({&fine, &coarse}, false).bytes();
	BothEngines held({&fine, &coarse}, true);

	EXPECT_GE(held.bytes(), plain_bytes + fine.rows.n() * spec.dim);
	EXPECT_LT(held.bytes(), plain_bytes + (fine.rows.n() + coarse.rows.n()) * spec.dim);
	ASSERT_NO_FATAL_FAILURE(held.expect_same_answers(10, {1, 100, 1100}, {60, 10, 1}));
}

/// Small enough for compute-sanitizer.
TEST(RoundedGraphs, Reduced)
{
	for (const float offset : {0.0f, 100.0f})
	{
		const GraphedRows graph(rows_around({Metric::kL2, ElementType::kFloat32, 64}, offset, 700, 1), 16);

		ASSERT_NO_FATAL_FAILURE(BothEngines({&graph}, true).expect_same_answers(3, {20}, {30, 1}));
	}
}

} // namespace
} // namespace vectorgpu::cuda::test
