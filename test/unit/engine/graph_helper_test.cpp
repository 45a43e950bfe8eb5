// A build whose edges, entry points and recall another engine helps with gives the bits of one that threads make.
#include "engine/helping_engine.hpp"

#include <chrono>
#include <thread>

#include "engine/helped_build.hpp"

namespace vectorgpu::engine::test
{
namespace
{

/// So few rows are all compared, also without a searcher.
TEST(GraphHelper, GivesTheBitsOfABuildByItself)
{
	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
	{
		const Rows rows = grouped_rows({metric, ElementType::kFloat32, 7}, 3500);
		const std::unique_ptr<Engine> plain = make_cpu_engine({});
		const HelpedBuild want = build_helped(rows, nullptr);
		HelpingEngine helping;

		expect_same_build(build_helped(rows, plain.get()), want);
		expect_same_build(build_helped(rows, &helping), want);
	}
}

TEST(GraphHelper, GivesTheBitsOfTheThreads)
{
	for (const DistanceSpec &spec :
		{DistanceSpec{Metric::kL2, ElementType::kFloat32, 7}, DistanceSpec{Metric::kCosine, ElementType::kFloat32, 9},
			DistanceSpec{Metric::kInnerProduct, ElementType::kFloat32, 7},
			DistanceSpec{Metric::kL1, ElementType::kFloat32, 5}, DistanceSpec{Metric::kL2, ElementType::kFloat16, 12},
			DistanceSpec{Metric::kHamming, ElementType::kBit, 77}})
	{
		SCOPED_TRACE(static_cast<int>(spec.metric));

		const Rows rows = grouped_rows(spec, 5000);
		const std::unique_ptr<Engine> plain = make_cpu_engine({});
		HelpingEngine helping;
		const HelpedBuild want = build_helped(rows, plain.get());
		const HelpedBuild got = build_helped(rows, &helping);

		expect_same_build(got, want);
		EXPECT_EQ(helping.n_edges, 2) << "for the graph, and without the rows held out";
		EXPECT_GE(helping.n_graphs, 1);
		EXPECT_GT(helping.n_searched, 300) << "a 16th of the rows";
		EXPECT_GT(helping.n_exact, 5000);
		if (spec.element == ElementType::kFloat32 && spec.metric == Metric::kL2)
		{
			EXPECT_GT(helping.n_entries, 0) << "entry points were added";
		}
	}
}

/// Exact lists, copies held out, and more rows than ten.
TEST(GraphHelper, MeasuresTheRecallOfTheThreads)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 24};

	for (const uint32_t copies_every : {0u, 50u})
	{
		const Rows rows = grouped_rows(spec, 21000, 0.7f, copies_every);
		const std::unique_ptr<Engine> plain = make_cpu_engine({});
		HelpingEngine helping;

		expect_same_build(build_helped(rows, &helping), build_helped(rows, plain.get()));
		EXPECT_EQ(helping.n_graphs, 2) << "built, and measured without some rows";
		EXPECT_GT(helping.n_searched, 21000 / 16 + 2000);
	}
}

/// Squares of the largest numbers overflow, zeros have no cosine.
TEST(GraphHelper, RowsThatAreEqualOrHaveNoScore)
{
	constexpr float kLargest = 3.4e38f;
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 4};

	for (const Metric metric : {Metric::kL2, Metric::kCosine})
		for (const bool all_equal : {false, true})
		{
			Rows rows = grouped_rows({metric, spec.element, spec.dim}, 3000);

			for (size_t i = 0; i < rows.n(); i++)
			{
				const float odd[] = {0, kLargest, -kLargest, 1e-40f};
				float *row = reinterpret_cast<float *>(rows.vectors.data() + i * rows.row_bytes);

				if (all_equal)
					std::fill_n(row, spec.dim, 1.5f);
				else if (i % 7 == 0)
					std::fill_n(row, spec.dim, odd[i / 7 % 4]);
			}

			const std::unique_ptr<Engine> plain = make_cpu_engine({});
			HelpingEngine helping;

			expect_same_build(build_helped(rows, &helping), build_helped(rows, plain.get()));
			EXPECT_GT(helping.n_edges, 0);
		}
}

TEST(GraphHelper, TinyGraphs)
{
	const std::unique_ptr<Engine> plain = make_cpu_engine({});

	for (const size_t n : {1u, 2u, 3u, 17u, 100u, 129u, 300u})
		for (const uint32_t degree : {2u, 33u})
		{
			const Rows rows = [n]
			{
				std::mt19937 rng(3);
				Rows some({Metric::kL2, ElementType::kFloat32, 3});

				some.add_random(n, Data::kGaussian, rng, 0);
				return some;
			}();
			HelpingEngine helping;

			expect_same_build(build_helped(rows, &helping, degree), build_helped(rows, plain.get(), degree));
		}
}

/// Whatever call fails, threads go on from there; but where it may have left half of the edges the build fails.
TEST(GraphHelper, MayFailAtAnyCall)
{
	const Rows rows = grouped_rows({Metric::kL2, ElementType::kFloat32, 7}, 1500);
	const std::unique_ptr<Engine> plain = make_cpu_engine({});
	const HelpedBuild want = build_helped(rows, plain.get());

	for (int at = 1; at < 60; at += at < 10 ? 1 : 7)
		for (const StatusCode failure : {StatusCode::kOutOfMemory, StatusCode::kUnavailable})
		{
			HelpingEngine helping;

			helping.fail_at = at;
			helping.failure = failure;

			const HelpedBuild got = build_helped(rows, &helping);

			if (got.status.is_ok())
			{
				expect_same_build(got, want);
			}
			else
			{
				EXPECT_TRUE(failure == StatusCode::kUnavailable && helping.n_edges == 1) << at;
			}
		}
}

/// A build of rows that come in pieces.
struct BuildInPieces
{
	explicit BuildInPieces(Engine *searcher, const Rows &from) : rows(from)
	{
		GraphBuildSpec spec;

		spec.rows = rows.spec;
		spec.n_rows = static_cast<uint32_t>(rows.n());
		spec.degree = 8;
		spec.calibrate = true;
		EXPECT_TRUE(engine->make_graph_builder(spec, &control, searcher, &builder).is_ok());
	}

	void add(size_t first, size_t n) const
	{
		EXPECT_TRUE(builder->add_rows(rows.vectors.data() + first * rows.row_bytes, n).is_ok());
	}

	const Rows &rows;
	const std::unique_ptr<Engine> engine = make_cpu_engine({.n_threads = 2});
	SearchControl control;
	std::unique_ptr<GraphBuilder> builder;
};

void
wait_for_copies(const Engine &engine, uint64_t n)
{
	const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);

	while (engine.stats().n_copies != n && std::chrono::steady_clock::now() < end)
		std::this_thread::yield();
	EXPECT_EQ(engine.stats().n_copies, n);
}

TEST(GraphHelper, HasRowsThatComeInPieces)
{
	const Rows rows = grouped_rows({Metric::kCosine, ElementType::kFloat32, 7}, 3500);
	const std::unique_ptr<Engine> plain = make_cpu_engine({});
	const HelpedBuild want = build_helped(rows, plain.get());
	const BuildInPieces build(plain.get(), rows);

	for (size_t first = 0; first < rows.n(); first += 7)
		build.add(first, 7);
	ASSERT_TRUE(build.builder->build().is_ok());
	EXPECT_TRUE(build.builder->exact_neighbors());
	EXPECT_EQ(build.builder->edges(), want.edges);
	EXPECT_EQ(build.builder->entries(), want.entries);
	EXPECT_EQ(plain->stats().n_copies, 0U);
}

/// Rows that cannot be handed on while others come do not hold the searcher's memory until all have come; it gets all
/// of them then.
TEST(GraphHelper, KeepsNoPartOfTheRows)
{
	const Rows rows = grouped_rows({Metric::kL2, ElementType::kFloat32, 7}, 3500);
	const std::unique_ptr<Engine> plain = make_cpu_engine({});
	const HelpedBuild want = build_helped(rows, plain.get());

	for (const bool room : {true, false})
	{
		HelpingEngine helping;
		const BuildInPieces build(&helping, rows);

		build.add(0, 1000);
		wait_for_copies(helping, 1);
		if (room)
			helping.n_loads_to_fail = 1;
		else
			helping.budget_bytes = 1;
		build.add(1000, 1000);
		wait_for_copies(helping, 0);
		build.add(2000, rows.n() - 2000);
		helping.budget_bytes = 0;
		ASSERT_TRUE(build.builder->build().is_ok());
		EXPECT_TRUE(build.builder->exact_neighbors());
		EXPECT_EQ(build.builder->edges(), want.edges);
		EXPECT_EQ(build.builder->entries(), want.entries);
		EXPECT_EQ(helping.n_loads_to_fail, 0);
		EXPECT_EQ(helping.stats().n_copies, 0U);
	}
}

TEST(GraphHelper, KeepsNoRowsOfABuildThatIsLeft)
{
	const Rows rows = grouped_rows({Metric::kL2, ElementType::kFloat32, 7}, 3500);
	const std::unique_ptr<Engine> plain = make_cpu_engine({});

	for (size_t n = 100; n <= rows.n(); n += 850)
	{
		BuildInPieces build(plain.get(), rows);

		build.add(0, 100);
		if (n > 100)
			build.add(100, n - 100);
		build.builder.reset();
		EXPECT_EQ(plain->stats().n_copies, 0U);
	}
}

} // namespace
} // namespace vectorgpu::engine::test
