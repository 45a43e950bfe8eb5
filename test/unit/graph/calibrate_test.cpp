// Calibration: the same with any number of threads, and right for queries that the graph has not seen.
#include "engine/cpu/cpu_engine.hpp"
#include "engine/graph/calibrate/calibrate.hpp"
#include "engine/graph/calibrate/hold_out.hpp"
#include "engine/interface/graph_builder.hpp"
#include "graph/graph_data.hpp"

#include <random>

namespace vectorgpu::engine::graph::test
{
namespace
{

MeasuredGraph
measured(const Built &built)
{
	return {built.rows, built.edges.data(), built.degree, built.entries.data(),
		static_cast<uint32_t>(built.entries.size())};
}

ivf::Calibration
calibration_of(const Built &built, size_t n_threads = 1)
{
	ivf::Calibration calibration;
	Bytes work(calibrate_bytes(measured(built), n_threads));
	Call call;

	call.n_threads = n_threads;
	call.parallel = n_threads > 1 ? in_threads : nullptr;
	EXPECT_TRUE(calibrate(measured(built), &calibration, work.data(), work.size(), call).is_ok());
	return calibration;
}

TEST(Calibrate, is_the_same_by_any_number_of_threads)
{
	const Floats data = overlapping_rows(3000, 12, 5);
	BuildSpec spec;

	spec.degree = 8;

	const Built built = build(rows_of(data, 12), spec);
	const ivf::Calibration alone = calibration_of(built);

	ASSERT_GT(alone.n_points, 3U);
	EXPECT_EQ(alone.n_queries, 150U);
	for (uint32_t i = 1; i < alone.n_points; i++)
		EXPECT_LE(alone.recall[i - 1], alone.recall[i]);
	for (const size_t n_threads : {2u, 5u, 100u})
	{
		const ivf::Calibration together = calibration_of(built, n_threads);

		ASSERT_EQ(together.n_points, alone.n_points);
		EXPECT_EQ(together.n_queries, alone.n_queries);
		for (uint32_t i = 0; i < alone.n_points; i++)
		{
			EXPECT_EQ(together.probes[i], alone.probes[i]);
			EXPECT_EQ(together.recall[i], alone.recall[i]);
		}
	}
}

/// Rows [n_groups, of_group, dim] in groups far apart.
Floats
groups_apart(size_t n_groups, size_t of_group, size_t dim, uint32_t seed)
{
	std::mt19937 random(seed);
	std::normal_distribution<float> normal;
	Floats rows;

	for (size_t g = 0; g < n_groups; g++)
	{
		Floats centre(dim);

		for (float &element : centre)
			element = 20 * normal(random);
		for (size_t i = 0; i < of_group * dim; i++)
			rows.push_back(centre[i % dim] + normal(random));
	}
	return rows;
}

/// A group has fewer rows than are wanted: no width finds those of other groups, and the depths say so.
TEST(Calibrate, measures_more_rows_than_ten)
{
	constexpr size_t kDim = 64; // all groups are about as far from each other
	const Floats data = groups_apart(100, 150, kDim, 3);
	BuildSpec spec;

	spec.degree = 8;

	const Built built = build(rows_of(data, kDim), spec);
	ivf::Calibration calibration;
	ivf::DepthCalibration depths;
	Bytes work(calibrate_bytes(measured(built), 1));

	ASSERT_TRUE(calibrate(measured(built), &calibration, work.data(), work.size(), {}, &depths).is_ok());
	ASSERT_EQ(depths.n_depths, 4U);
	EXPECT_EQ(ivf::calibration_problem(calibration, depths, UINT32_MAX), nullptr);

	const uint32_t last = calibration.n_points - 1;

	EXPECT_EQ(calibration.probes[last], 1024U);
	for (uint32_t d = 0; d < depths.n_depths; d++)
		for (uint32_t p = 1; p <= last; p++)
			EXPECT_GE(depths.recall[d][p], depths.recall[d][p - 1]);
	EXPECT_GT(depths.recall[0][last], 0.95f); // 32 rows, within a group
	EXPECT_GT(depths.recall[1][last], 0.95f); // 112
	EXPECT_LT(depths.recall[3][last], 0.9f);  // 1,024 rows of five groups

	// A search for k rows that is narrower than k cannot find them.
	for (uint32_t p = 0; p <= last; p++)
		for (uint32_t d = 0; d < depths.n_depths; d++)
			EXPECT_LE(depths.recall[d][p],
				std::min(1.0f, static_cast<float>(calibration.probes[p]) / static_cast<float>(depths.depths[d])) +
					1e-6f);
}

TEST(Calibrate, measures_no_more_rows_than_an_eighth)
{
	const Floats data = overlapping_rows(1000, 12, 5);
	const Built built = build(rows_of(data, 12), {});
	ivf::Calibration calibration;
	ivf::DepthCalibration depths;
	Bytes work(calibrate_bytes(measured(built), 1));

	ASSERT_TRUE(calibrate(measured(built), &calibration, work.data(), work.size(), {}, &depths).is_ok());
	EXPECT_EQ(depths.n_depths, 2U);
	EXPECT_EQ(depths.depths[1], 112U);
}

/// Searches with calibrated widths find as much of the neighbours of rows that were never in the graph.
TEST(Calibrate, holds_for_queries_that_are_no_rows)
{
	constexpr size_t kDim = 12;
	constexpr size_t kRows = 12000;
	constexpr size_t kQueries = 1000;
	const Floats all = overlapping_rows(kRows + kQueries, kDim, 6);
	const Floats data(all.begin(), all.begin() + kRows * kDim);
	const Floats queries(all.begin() + kRows * kDim, all.end());
	BuildSpec spec;

	spec.degree = 8;

	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
	{
		const Built built = build(rows_of(data, kDim, metric), spec);
		const ivf::Calibration calibration = calibration_of(built);

		for (const double target : {0.85, 0.9, 0.95, 0.98})
		{
			const uint32_t width = ivf::probes_for(calibration, target);

			EXPECT_NEAR(built.recall(queries, width), target, 0.03)
				<< "width " << width << ", metric " << static_cast<int>(metric);
		}
	}
}

/// A graph of exact neighbours is measured without some of its rows.
TEST(Calibrate, of_exact_neighbors_holds_for_queries_that_are_no_rows)
{
	constexpr size_t kDim = 12;
	constexpr size_t kRows = 20000;
	constexpr size_t kQueries = 600;
	const Floats all = overlapping_rows(kRows + kQueries, kDim, 8);
	const Floats data(all.begin(), all.begin() + kRows * kDim);
	const Floats queries(all.begin() + kRows * kDim, all.end());

	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct})
	{
		const std::unique_ptr<Engine> searcher = make_cpu_engine({.n_threads = 2});
		const std::unique_ptr<Engine> engine = make_cpu_engine({.n_threads = 2});
		std::unique_ptr<GraphBuilder> builder;
		SearchControl control;
		Built built = {rows_of(data, kDim, metric), 16, {}, {}, {}};

		ASSERT_TRUE(engine
				->make_graph_builder(
					{built.rows.spec, kRows, 16, PruneKind::kRank, 1, true, 0}, &control, searcher.get(), &builder)
				.is_ok());
		ASSERT_TRUE(builder->add_rows(data.data(), kRows).is_ok());
		ASSERT_TRUE(builder->build().is_ok());
		EXPECT_TRUE(builder->exact_neighbors());
		built.edges = builder->edges();
		built.entries = builder->entries();
		EXPECT_EQ(builder->calibration().n_queries, 1000U);
		for (const double target : {0.9, 0.97})
		{
			const uint32_t width = ivf::probes_for(builder->calibration(), target);
			const double expected =
				ivf::recall_of(builder->calibration(), width); // the narrowest may find more than the target

			EXPECT_NEAR(built.recall(queries, width), expected, 0.02)
				<< "width " << width << ", metric " << static_cast<int>(metric);
		}
	}
}

/// Each of the centres `copies` times, with noise.
Floats
copies_of(const Floats &centres, size_t copies, unsigned seed)
{
	std::mt19937 rng(seed);
	std::normal_distribution<float> normal(0, 0.02F);
	Floats rows;

	for (size_t copy = 0; copy < copies; copy++)
		for (const float x : centres)
			rows.push_back(x + normal(rng));
	return rows;
}

/// Rows that are copies of each other have nearer neighbours than queries from elsewhere: searches for these must find
/// as much as the calibration says.
TEST(Calibrate, holds_for_queries_that_are_no_copies)
{
	constexpr size_t kDim = 12;
	constexpr size_t kCentres = 5000;
	constexpr size_t kQueries = 300;
	constexpr size_t kCopies = 6;
	const Floats all = overlapping_rows(kCentres + kQueries, kDim, 10);
	const Floats data = copies_of(Floats(all.begin(), all.begin() + kCentres * kDim), kCopies, 11);
	const Floats queries(all.begin() + kCentres * kDim, all.end());

	for (const bool exact : {false, true})
	{
		const std::unique_ptr<Engine> searcher = make_cpu_engine({.n_threads = 2});
		const std::unique_ptr<Engine> engine = make_cpu_engine({.n_threads = 2});
		std::unique_ptr<GraphBuilder> builder;
		SearchControl control;
		Built built = {rows_of(data, kDim), 16, {}, {}, {}};

		ASSERT_TRUE(engine
				->make_graph_builder({built.rows.spec, kCentres * kCopies, 16, PruneKind::kRank, 1, true, 0}, &control,
					exact ? searcher.get() : nullptr, &builder)
				.is_ok());
		ASSERT_TRUE(builder->add_rows(data.data(), kCentres * kCopies).is_ok());
		ASSERT_TRUE(builder->build().is_ok());
		ASSERT_EQ(builder->exact_neighbors(), exact);
		built.edges = builder->edges();
		built.entries = builder->entries();
		for (const uint32_t width : {16U, 32U, 64U, 96U})
		{
			const double found = built.recall(queries, width);
			const double expected = ivf::recall_of(builder->calibration(), width);

			// Around a group that is held out the rows have fewer edges than if it had never been there, so that more
			// is found than promised.
			EXPECT_GE(found, expected - 0.02) << "width " << width << ", exact " << exact;
			EXPECT_LE(found, expected + 0.2) << "width " << width << ", exact " << exact;
		}
	}
}

/// 40 groups of five rows on a line, far from each other, and lists of each row's 30 nearest.
TEST(HoldOut, takes_near_copies_with_their_row)
{
	constexpr uint32_t kRows = 200;
	constexpr uint32_t kLists = 30;
	Floats data;
	std::vector<uint32_t> ids;

	for (uint32_t u = 0; u < kRows; u++)
		data.push_back(
			100.0F * static_cast<float>(u / 5) * (1 + 0.01F * static_cast<float>(u / 5)) + static_cast<float>(u % 5));

	const GraphRows rows = rows_of(data, 1);

	for (uint32_t u = 0; u < kRows; u++)
	{
		const std::vector<Candidate> ranked = all_ranked(rows, rows.row(u), u);

		for (uint32_t i = 0; i < kLists; i++)
			ids.push_back(ranked[i].node);
	}

	const KnnLists lists = {ids.data(), nullptr, kLists};
	const auto held_of = [&](std::vector<uint32_t> queries, uint32_t n_wanted, uint32_t most)
	{
		std::vector<uint32_t> all(most);
		HeldOutRows held = {queries.data(), static_cast<uint32_t>(queries.size()), all.data(), 0};

		hold_out_copies(rows, lists, n_wanted, most, &held);
		queries.resize(held.n_queries);
		all.resize(held.n_rows);
		EXPECT_TRUE(std::includes(all.begin(), all.end(), queries.begin(), queries.end()));
		return std::pair(queries, all);
	};
	using Numbers = std::vector<uint32_t>;

	// One dimension: the next groups lie at once and twice the distance, and so on. With 26 wanted, only the group's
	// own four can be copies.
	EXPECT_EQ(
		held_of({7, 102}, 26, 100), std::pair(Numbers({7, 102}), Numbers({5, 6, 7, 8, 9, 100, 101, 102, 103, 104})));
	// Otherwise too few are left behind them, and the gap inside the group counts: 7 has neighbours at 1, 1, 2 and 2.
	EXPECT_EQ(held_of({7, 102}, 27, 100), std::pair(Numbers({7, 102}), Numbers({6, 7, 8, 101, 102, 103})));
	EXPECT_EQ(held_of({7, 102}, 30, 100), std::pair(Numbers({7, 102}), Numbers({7, 102})));
	EXPECT_EQ(held_of({5, 8}, 26, 100), std::pair(Numbers({5, 8}), Numbers({5, 6, 7, 8, 9}))); // of one group
	EXPECT_EQ(
		held_of({7, 42, 77, 102}, 26, 11), std::pair(Numbers({7, 77}), Numbers({5, 6, 7, 8, 9, 75, 76, 77, 78, 79})));
	EXPECT_EQ(held_of({7, 102}, 26, 4), std::pair(Numbers(), Numbers()));
	EXPECT_EQ(held_of({}, 26, 4), std::pair(Numbers(), Numbers()));
}

TEST(HoldOut, removes_edges_to_the_rows_and_gives_their_neighbors)
{
	constexpr uint32_t kRows = 3000;
	constexpr uint32_t kLists = 24;
	constexpr uint32_t kDegree = 16;
	const Floats data = overlapping_rows(kRows, 8, 9);
	const GraphRows rows = rows_of(data, 8);
	std::vector<uint32_t> ids(size_t{kRows} * kLists);
	std::vector<float> scores(ids.size());
	std::vector<uint32_t> forward(size_t{kRows} * kDegree);
	KnnLists lists = {ids.data(), scores.data(), kLists};
	KnnSpec knn;

	knn.k = kLists;

	Bytes work(knn_graph_bytes(rows, knn) + prune_bytes(lists));

	ASSERT_TRUE(knn_graph(rows, knn, &lists, work.data(), work.size()).is_ok());
	ASSERT_TRUE(prune(rows, lists, PruneKind::kRank, kDegree, forward.data(), work.data(), work.size()).is_ok());

	const std::vector<uint32_t> first_ids = ids;
	const std::vector<uint32_t> first_forward = forward;
	std::vector<uint32_t> held;
	std::vector<uint32_t> first_edges;

	for (uint32_t u = 17; u < kRows; u += 60)
		held.push_back(u);
	for (const size_t n_threads : {1u, 3u})
	{
		std::vector<uint32_t> nearest(held.size() * 10);
		HoldOutGraph graph;
		Call call;

		HeldOutRows out = {
			held.data(), static_cast<uint32_t>(held.size()), held.data(), static_cast<uint32_t>(held.size())};

		ids = first_ids;
		forward = first_forward;
		graph = {kRows, lists, kDegree, forward.data()};
		call.n_threads = n_threads;
		call.parallel = n_threads > 1 ? in_threads : nullptr;

		Bytes memory(hold_out_bytes(graph, n_threads));

		ASSERT_TRUE(hold_out(graph, out, 10, nearest.data(), ids.data(), memory.data(), memory.size(), call).is_ok());
		for (uint32_t u = 0; u < kRows; u++)
			for (uint32_t i = 0; i < kDegree; i++)
			{
				const uint32_t v = ids[size_t{u} * kDegree + i];

				EXPECT_FALSE(v != kNoNode && std::binary_search(held.begin(), held.end(), u)) << u;
				EXPECT_FALSE(std::binary_search(held.begin(), held.end(), v)) << u;
			}
		for (size_t q = 0; q < held.size(); q++)
		{
			size_t n = 0;

			for (const Candidate &candidate : all_ranked(rows, rows.row(held[q]), held[q]))
				if (n < 10 && !std::binary_search(held.begin(), held.end(), candidate.node))
				{
					double score = 0;

					score_rows(rows, rows.row(held[q]), &nearest[q * 10 + n++], 1, &score);
					EXPECT_EQ(score, candidate.score) << "query " << q;
				}
		}
		ids.resize(size_t{kRows} * kDegree);
		if (first_edges.empty())
			first_edges = ids;
		EXPECT_EQ(ids, first_edges) << "by " << n_threads << " threads";
		ids.resize(first_ids.size());
	}
}

TEST(Calibrate, measures_nothing_where_there_is_too_little)
{
	for (const size_t n : {1u, 10u, 19u})
	{
		const Floats data = overlapping_rows(n, 4, 7);

		EXPECT_EQ(calibration_of(build(rows_of(data, 4), {})).n_points, 0U);
	}
}

TEST(Calibrate, stops_when_it_is_told_to)
{
	const Floats data = overlapping_rows(3000, 12, 5);
	const Built built = build(rows_of(data, 12), {});
	ivf::Calibration calibration;
	Bytes work(calibrate_bytes(measured(built), 1));

	for (int n : {0, 1, 5, 20, 200})
	{
		int left = n;
		Call call;

		call.progress = [](void *context, uint64_t, uint64_t) { return (*static_cast<int *>(context))-- > 0; };
		call.progress_context = &left;
		EXPECT_EQ(
			calibrate(measured(built), &calibration, work.data(), work.size(), call).code, StatusCode::kCancelled);
	}
	EXPECT_EQ(
		calibrate(measured(built), &calibration, work.data(), work.size() / 2, {}).code, StatusCode::kInvalidArgument);
}

} // namespace
} // namespace vectorgpu::engine::graph::test
