// Rounded rows of graphs: kept where they lead searches as the rows do, else not, as in the CPU engine.
#include <array>

#include "answers.hpp"
#include "engine/graph_rows.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::CopyKind;
using engine::CopySpec;
using engine::SegmentProbes;

constexpr size_t kRows = 6000;

/// A segment of two parts whose elements are offset + a normal number, in both engines.
struct OffsetGraph
{
	OffsetGraph(const DistanceSpec &spec, float offset, bool rounded, size_t n_rows = kRows)
		: before(cuda_engine()->stats().resident_bytes), rows(spec), queries(spec), both(copy_spec(spec, rounded))
	{
		std::mt19937 rng(5);

		add(&rows, n_rows, offset, &rng);
		add(&queries, 100, offset, &rng);

		const GraphedRows graph(rows, 16, 2);

		both.change([&](Engine &e, CopyId c) { return graph.load(&e, c, 1); });
	}

	static CopySpec copy_spec(const DistanceSpec &spec, bool rounded)
	{
		CopySpec made(spec, CopyKind::kGraph);

		made.rounded = rounded;
		return made;
	}

	static void add(Rows *to, size_t n, float offset, std::mt19937 *rng)
	{
		std::normal_distribution<float> normal;
		std::vector<float> row(to->spec.dim);

		for (size_t i = 0; i < n; i++)
		{
			std::generate(row.begin(), row.end(), [&] { return offset + normal(*rng); });
			to->add(i + 1, reinterpret_cast<const uint8_t *>(row.data()));
		}
	}

	uint64_t bytes() const { return both.cuda()->stats().resident_bytes - before; }

	/// n queries for k rows, with different widths.
	std::vector<SearchQuery> batch(size_t n, size_t k, uint32_t width)
	{
		std::vector<SearchQuery> requests;

		probes = {SegmentProbes{1, width}, {1, width / 2 + 1}};
		for (size_t i = 0; i < n; i++)
		{
			requests.push_back({queries.vector(i % queries.n()), k, false, {}});
			requests.back().probes = {&probes[i % 2], 1};
		}
		return requests;
	}

	const uint64_t before;
	Rows rows;
	Rows queries;
	Both both;
	std::array<SegmentProbes, 2> probes;
};

void
expect_same(OffsetGraph *held)
{
	const DistanceSpec spec = held->rows.spec;

	for (const size_t n : {1, 100, 1100})
		for (const uint32_t width : {60, 10, 1})
		{
			const std::vector<SearchQuery> requests = held->batch(n, 10, width);

			SCOPED_TRACE(testing::Message()
				<< metric_name(spec.metric) << " dim " << spec.dim << " batch " << n << " width " << width);
			if (spec.metric == Metric::kCosine)
				ASSERT_NO_FATAL_FAILURE(
					expect_nearly_same_answers(held->both, requests, .99, [&](const void *query, RowId row)
						{ return oracle_score(spec, query, held->rows.vector(row - 1)); }));
			else
				ASSERT_NO_FATAL_FAILURE(held->both.expect_same_answers(requests));
		}
}

TEST(RoundedGraphs, AreKeptOnlyWhereBytesTellRowsApart)
{
	for (const Metric metric : {Metric::kL2, Metric::kCosine})
		for (const uint32_t dim : {64u, 300u})
			for (const float offset : {0.0f, 100.0f})
			{
				const DistanceSpec spec = {metric, ElementType::kFloat32, dim};
				uint64_t plain_bytes = 0;

				{
					OffsetGraph plain(spec, offset, false);

					plain_bytes = plain.bytes();
					ASSERT_NO_FATAL_FAILURE(expect_same(&plain));
				}

				OffsetGraph rounded(spec, offset, true);

				if (offset == 0)
					EXPECT_GE(rounded.bytes(), plain_bytes + kRows * dim) << "dim " << dim;
				else
					EXPECT_EQ(rounded.bytes(), plain_bytes) << "dim " << dim;
				ASSERT_NO_FATAL_FAILURE(expect_same(&rounded));
			}
}

/// Small enough for compute-sanitizer.
TEST(RoundedGraphs, Reduced)
{
	for (const float offset : {0.0f, 100.0f})
	{
		OffsetGraph held({Metric::kL2, ElementType::kFloat32, 64}, offset, true, 700);

		for (const uint32_t width : {30, 1})
			ASSERT_NO_FATAL_FAILURE(held.both.expect_same_answers(held.batch(20, 3, width)));
	}
}

} // namespace
} // namespace vectorgpu::cuda::test
