// The build of a graph: the k-NN graph against all pairs, soundness and reachability on odd data, recall.
#include "graph/graph_data.hpp"

#include <tuple>

#include "common/half.hpp"

namespace vectorgpu::engine::graph::test
{

namespace
{

constexpr size_t kDim = 16;

struct Knn
{
	std::vector<uint32_t> ids;
	std::vector<float> scores;
};

Knn
knn(const GraphRows &rows, const KnnSpec &spec)
{
	Knn result = {
		std::vector<uint32_t>(size_t{rows.n_rows} * spec.k), std::vector<float>(size_t{rows.n_rows} * spec.k)};
	KnnLists lists = {result.ids.data(), result.scores.data(), spec.k};
	Bytes work(knn_graph_bytes(rows, spec));

	EXPECT_TRUE(knn_graph(rows, spec, &lists, work.data(), work.size()).is_ok());
	return result;
}

/// Share of the k nearest rows of every 7th row that the lists have, by their scores. Expects no list to have a row
/// twice.
double
knn_recall(const GraphRows &rows, const KnnSpec &spec, const Knn &found)
{
	size_t hits = 0;
	size_t wanted = 0;

	for (uint32_t u = 0; u < rows.n_rows; u += 7)
	{
		const std::vector<Candidate> truth = all_ranked(rows, rows.row(u), u, spec.k);
		const size_t k = std::min<size_t>(spec.k, truth.size());
		std::set<uint32_t> seen = {u};

		for (size_t i = 0; i < k; i++, wanted++)
		{
			const uint32_t id = found.ids[size_t{u} * spec.k + i];
			const float score = found.scores[size_t{u} * spec.k + i];

			EXPECT_TRUE(id == kNoNode || seen.insert(id).second) << "row " << u << " has " << id << " twice";
			EXPECT_TRUE(i == 0 || score >= found.scores[size_t{u} * spec.k + i - 1]);
			hits += id != kNoNode && score <= static_cast<float>(truth[k - 1].score);
		}
	}
	return static_cast<double>(hits) / static_cast<double>(wanted);
}

TEST(KnnGraph, is_exact_for_few_rows)
{
	for (Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1})
		for (size_t n : {2u, 3u, 50u, 1000u, 1300u})
		{
			const Floats floats = overlapping_rows(n, kDim, 5);
			KnnSpec spec;

			spec.k = 20;
			EXPECT_EQ(knn_recall(rows_of(floats, kDim, metric), spec, knn(rows_of(floats, kDim, metric), spec)), 1)
				<< "metric " << static_cast<int>(metric) << ", rows " << n;
		}
}

TEST(KnnGraph, is_nearly_exact_for_more)
{
	const Floats floats = overlapping_rows(9000, kDim, 6);

	for (Metric metric : {Metric::kL2, Metric::kCosine, Metric::kL1})
	{
		KnnSpec spec;
		const GraphRows rows = rows_of(floats, kDim, metric);

		spec.k = 20;
		const Knn first = knn(rows, spec);
		EXPECT_GE(knn_recall(rows, spec, first), 0.95) << "metric " << static_cast<int>(metric);
		const Knn second = knn(rows, spec);
		EXPECT_EQ(first.ids, second.ids);
	}
}

TEST(KnnGraph, refinement_finds_more)
{
	const Floats floats = overlapping_rows(9000, kDim, 6);
	const GraphRows rows = rows_of(floats, kDim);
	KnnSpec spec;

	spec.k = 20;
	spec.n_compared = 256;
	spec.n_refinements = 0;
	const double before_it = knn_recall(rows, spec, knn(rows, spec));
	spec.n_refinements = 2;
	EXPECT_GT(knn_recall(rows, spec, knn(rows, spec)), before_it + 0.03);
}

TEST(GraphBuild, is_sound_and_connected_for_any_number_of_rows)
{
	for (uint32_t degree : {2u, 5u, 16u})
		for (PruneKind prune_kind : {PruneKind::kRank, PruneKind::kRng})
			for (size_t n : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 15u, 16u, 17u, 18u, 64u, 160u, 1000u, 5000u})
			{
				const Floats floats = overlapping_rows(n, kDim, 10 + static_cast<unsigned>(n));
				BuildSpec spec;

				spec.degree = degree;
				spec.prune = prune_kind;
				SCOPED_TRACE("degree " + std::to_string(degree) + ", rows " + std::to_string(n) + ", prune " +
					std::to_string(static_cast<int>(prune_kind)));
				expect_sound(build(rows_of(floats, kDim), spec));
			}
}

TEST(GraphBuild, connects_rows_that_are_all_equal)
{
	for (size_t n : {33u, 64u, 1000u, 1024u, 6000u})
		for (uint32_t degree : {2u, 4u, 32u})
		{
			const Floats floats(n * 3, 1.5f);
			BuildSpec spec;

			spec.degree = degree;
			SCOPED_TRACE("degree " + std::to_string(degree) + ", rows " + std::to_string(n));
			const Built built = build(rows_of(floats, 3), spec);
			expect_sound(built);
			SearchSpec search;
			search.width = 10;
			EXPECT_EQ(built.search(floats.data(), search).size(), 10u);
		}
}

TEST(GraphBuild, connects_clusters_far_apart_copies_and_rows_without_direction)
{
	std::mt19937 rng(3);
	Floats far(4000 * 2);
	Floats copies(4000 * 2);
	Floats zeros(600 * 2);

	for (size_t i = 0; i < 4000; i++)
	{
		far[2 * i] = static_cast<float>(i % 40) * 1000 + static_cast<float>(rng() % 100) / 100;
		far[2 * i + 1] = static_cast<float>(rng() % 100) / 100;
		copies[2 * i] = static_cast<float>(i % 13);
		copies[2 * i + 1] = static_cast<float>(i % 7);
	}
	for (size_t i = 0; i < 600; i++)
	{
		zeros[2 * i] = i % 3 == 0 ? 0 : static_cast<float>(i);
		zeros[2 * i + 1] = i % 3 == 0 ? 0 : 5;
	}
	BuildSpec spec;
	spec.degree = 8;
	expect_sound(build(rows_of(far, 2), spec));
	expect_sound(build(rows_of(copies, 2), spec));
	expect_sound(build(rows_of(copies, 2, Metric::kL1), spec));
	expect_sound(build(rows_of(zeros, 2, Metric::kCosine), spec));
	expect_sound(build(rows_of(zeros, 2, Metric::kInnerProduct), spec));
	// Each cluster is found: its rows are the nearest to a query in it.
	const Built built = build(rows_of(far, 2), spec);
	Floats queries;
	for (size_t c = 0; c < 40; c++)
		queries.insert(queries.end(), {static_cast<float>(c) * 1000 + 0.5f, 0.5f});
	EXPECT_GE(built.recall(queries, 64), 0.95);
}

TEST(GraphBuild, recall_grows_with_the_width)
{
	const Floats all = overlapping_rows(15200, 32, 20);
	const Floats floats(all.begin(), all.end() - 200 * 32);
	const Floats queries(all.end() - 200 * 32, all.end());

	for (PruneKind prune_kind : {PruneKind::kRank, PruneKind::kRng})
	{
		BuildSpec spec;

		spec.prune = prune_kind;
		const Built built = build(rows_of(floats, 32), spec);
		const double narrow = built.recall(queries, 16);
		const double wide = built.recall(queries, 128);

		EXPECT_GE(narrow, 0.7) << static_cast<int>(prune_kind);
		EXPECT_GE(wide, 0.98) << static_cast<int>(prune_kind);
		EXPECT_GT(wide, narrow);
		expect_sound(built);
	}
}

TEST(GraphBuild, is_the_same_at_every_instruction_set_and_each_time)
{
	const Floats floats = overlapping_rows(6000, kDim, 21);
	BuildSpec spec;

	spec.degree = 12;
	const Built first = build(rows_of(floats, kDim), spec);
	for (SimdLevel level : {SimdLevel::kScalar, SimdLevel::kAvx2, SimdLevel::kAvx512})
	{
		if (!simd_supported(level))
			continue;
		ASSERT_TRUE(set_simd_level(level));
		const Built again = build(rows_of(floats, kDim), spec);
		EXPECT_EQ(first.edges, again.edges);
		EXPECT_EQ(first.entries, again.entries);
	}
	ASSERT_TRUE(set_simd_level(SimdLevel::kAuto));
}

TEST(GraphBuild, halves)
{
	const Floats floats = overlapping_rows(6000, kDim, 22);
	std::vector<uint16_t> halves(floats.size());

	for (size_t i = 0; i < floats.size(); i++)
		halves[i] = float_to_half(floats[i]);
	for (Metric metric : {Metric::kL2, Metric::kCosine})
	{
		const GraphRows rows = {{metric, ElementType::kFloat16, kDim}, halves.data(), kDim * 2, 6000};
		BuildSpec spec;
		SearchSpec search;
		size_t hits = 0;

		spec.degree = 16;
		search.width = 64;
		const Built built = build(rows, spec);
		expect_sound(built);
		for (uint32_t q = 0; q < 6000; q += 200)
		{
			const std::vector<Candidate> truth = all_ranked(rows, rows.row(q), kNoNode, 10);
			const std::vector<Candidate> found = built.search(rows.row(q), search);

			for (size_t i = 0; i < 10; i++)
				hits += found[i].score <= truth[9].score;
		}
		EXPECT_GE(hits, 290u);
	}
}

TEST(GraphBuild, stops_when_told_to_and_refuses_what_it_cannot_do)
{
	const Floats floats = overlapping_rows(6000, kDim, 23);
	const GraphRows rows = rows_of(floats, kDim);
	BuildSpec spec;
	Bytes work(graph_build_bytes(rows, spec));
	std::vector<uint32_t> edges(6000 * spec.degree);
	std::vector<uint32_t> entries(entry_count(6000, spec));
	BuildReport report;

	// It can be stopped at any call of progress.
	uint64_t n_calls = 0;
	Call call;
	call.progress_context = &n_calls;
	call.progress = [](void *context, uint64_t, uint64_t) { return ++*static_cast<uint64_t *>(context) > 0; };
	ASSERT_TRUE(graph_build(rows, spec, edges.data(), entries.data(), &report, work.data(), work.size(), call).is_ok());
	ASSERT_GT(n_calls, 20u);
	call.progress = [](void *context, uint64_t, uint64_t) { return --*static_cast<uint64_t *>(context) > 0; };
	for (uint64_t stop_at : {uint64_t{1}, n_calls / 4, n_calls / 2, n_calls - 1})
	{
		uint64_t left = stop_at;

		call.progress_context = &left;
		EXPECT_EQ(graph_build(rows, spec, edges.data(), entries.data(), &report, work.data(), work.size(), call).code,
			StatusCode::kCancelled)
			<< stop_at << " of " << n_calls;
	}
	EXPECT_EQ(graph_build(rows, spec, edges.data(), entries.data(), &report, work.data(), work.size() / 2).code,
		StatusCode::kInvalidArgument);
	for (uint32_t degree : {0u, 1u, kMaxDegree + 1})
	{
		spec.degree = degree;
		EXPECT_EQ(graph_build(rows, spec, edges.data(), entries.data(), &report, work.data(), work.size()).code,
			StatusCode::kInvalidArgument);
	}
}

TEST(GraphConnect, connects_unreachable_nodes_and_loses_none)
{
	// Separate rings: every edge is the only path to some node.
	for (uint32_t ring : {1u, 2u, 3u, 10u, 100u})
		for (uint32_t degree : {2u, 3u})
		{
			const uint32_t n = 1000;
			const Floats floats = overlapping_rows(n, 4, 24);
			Built built;
			uint32_t n_added;

			built.rows = rows_of(floats, 4);
			built.degree = degree;
			built.edges.assign(size_t{n} * degree, kNoNode);
			built.entries = {0, n / 2};
			for (uint32_t u = 0; u < n; u++)
				built.edges[size_t{u} * degree] = u / ring * ring + (u + 1) % ring;
			const uint32_t n_before = built.n_reachable();
			Bytes work(connect_bytes(built.rows, degree, 2));
			ASSERT_TRUE(connect(
				built.rows, degree, built.edges.data(), built.entries.data(), 2, &n_added, work.data(), work.size())
					.is_ok());
			EXPECT_LT(n_before, n);
			EXPECT_GT(n_added, 0u);
			EXPECT_EQ(built.n_reachable(), n) << "rings of " << ring << ", degree " << degree;
		}
}

/// Levels of a search that several threads follow, and nodes that are connected behind it.
TEST(GraphConnect, is_the_same_by_any_number_of_threads)
{
	constexpr uint32_t kNodes = 40000;
	constexpr uint32_t kDegree = 5;
	const Floats floats = overlapping_rows(kNodes, 4, 25);
	const GraphRows rows = rows_of(floats, 4);
	const std::vector<uint32_t> entries = {3, 8, 20000};

	for (const uint32_t n_groups : {1u, 2u, 50u})
	{
		std::mt19937 rng(n_groups);
		std::vector<uint32_t> edges(size_t{kNodes} * kDegree);
		std::vector<uint32_t> want;
		uint32_t n_wanted = 0;

		for (uint32_t i = 0; i < edges.size(); i++)
			edges[i] = rng() % 8 == 0
				? kNoNode
				: i / kDegree % n_groups + static_cast<uint32_t>(rng() % (kNodes / n_groups)) * n_groups;
		for (const size_t n_threads : {1u, 2u, 7u})
		{
			std::vector<uint32_t> got = edges;
			Bytes work(connect_bytes(rows, kDegree, 3));
			uint32_t n_added = 0;
			Call call;

			call.n_threads = n_threads;
			call.parallel = in_threads;
			ASSERT_TRUE(connect(rows, kDegree, got.data(), entries.data(), 3, &n_added, work.data(), work.size(), call)
					.is_ok());
			if (n_threads == 1)
			{
				want = got;
				n_wanted = n_added;
			}
			EXPECT_TRUE(got == want) << n_threads << " threads";
			EXPECT_EQ(n_added, n_wanted);
		}
		EXPECT_GE(n_wanted + 2, n_groups) << "only two groups have an entry point";

		ConnectLimit limit = {1, 0};
		Bytes work(connect_bytes(rows, kDegree, 3));
		uint32_t n_added = 0;

		ASSERT_TRUE(connect(
			rows, kDegree, edges.data(), entries.data(), 3, &n_added, work.data(), work.size(), {}, nullptr, &limit)
				.is_ok());
		EXPECT_EQ(n_added, 1U);
		EXPECT_GE(limit.n_reached, n_groups < 50 ? 1U : 700U) << "of a group of 800";
	}
}

/// Many rows: where the nodes that cannot be reached are in groups, only the first are connected, and others get entry
/// points; where they are in pairs, all are connected.
TEST(GraphFromNeighbors, leads_to_all_of_many_rows)
{
	constexpr uint32_t kRows = 100000;
	constexpr uint32_t kNearest = 6;
	Floats floats = overlapping_rows(kRows, 4, 26);

	for (uint32_t u = 0; u < kRows; u++) // each hundred at a place of its own
		for (uint32_t d = 0; d < 4; d++)
			floats[u * 4 + d] = floats[u / 100 * 400 + d] * 100 + floats[u * 4 + d];

	const GraphRows rows = rows_of(floats, 4);

	for (const bool groups : {true, false})
	{
		std::mt19937 rng(7);
		std::vector<uint32_t> ids(size_t{kRows} * kNearest);
		std::vector<float> scores(ids.size());
		KnnLists lists = {ids.data(), scores.data(), kNearest};
		BuildSpec spec;

		spec.degree = 4;
		// A thousand groups of a hundred rows; or pairs, and one group of all other rows.
		for (uint32_t u = 0; u < kRows; u++)
			for (uint32_t i = 0; i < kNearest; i++)
			{
				uint32_t other = u / 100 * 100 + (u + 1 + i * i) % 100;

				if (!groups)
					other = u < 1000 ? (i == 0 ? u ^ 1 : kNoNode)
									 : 1000 + (u - 1000 + 1 + static_cast<uint32_t>(rng() % 98000)) % 99000;
				ids[size_t{u} * kNearest + i] = other;
				scores[size_t{u} * kNearest + i] = static_cast<float>(i);
			}

		Bytes work(graph_from_neighbors_bytes(rows, spec, lists.k, 1));
		Built built;
		BuildReport report;

		built.rows = rows;
		built.degree = spec.degree;
		built.edges.resize(size_t{kRows} * spec.degree);
		built.entries.resize(entry_count(kRows, spec));
		ASSERT_TRUE(graph_from_neighbors(
			rows, spec, lists, built.edges.data(), built.entries.data(), &report, work.data(), work.size())
				.is_ok());
		built.entries.resize(report.n_entries);
		EXPECT_EQ(built.n_reachable(), kRows);

		Built by_threads = built;
		Bytes more_work(graph_from_neighbors_bytes(rows, spec, lists.k, 4));
		Call call;

		call.n_threads = 4;
		call.parallel = in_threads;
		by_threads.entries.resize(entry_count(kRows, spec));
		ASSERT_TRUE(graph_from_neighbors(rows, spec, lists, by_threads.edges.data(), by_threads.entries.data(), &report,
			more_work.data(), more_work.size(), call)
				.is_ok());
		by_threads.entries.resize(report.n_entries);
		EXPECT_TRUE(by_threads.edges == built.edges);
		EXPECT_EQ(by_threads.entries, built.entries);
		if (groups)
		{
			EXPECT_LT(report.n_connected, 100U);
			EXPECT_GT(report.n_unreached, 500U);
		}
		else
		{
			EXPECT_GT(report.n_connected, 400U);
		}
	}
}

TEST(GraphFromNeighbors, is_the_same_by_any_number_of_threads)
{
	const Floats data = overlapping_rows(5000, 8, 3);
	const GraphRows rows = rows_of(data, 8);

	for (const PruneKind kind : {PruneKind::kRank, PruneKind::kRng})
	{
		BuildSpec spec;
		KnnLists lists;

		spec.degree = 16;
		spec.prune = kind;
		spec.knn.k = 24;

		const Built whole = build(rows, spec);
		std::vector<uint32_t> ids(size_t{rows.n_rows} * spec.knn.k);
		std::vector<float> scores(ids.size());
		Bytes knn_work(knn_graph_bytes(rows, spec.knn));

		lists = {ids.data(), scores.data(), spec.knn.k};
		ASSERT_TRUE(knn_graph(rows, spec.knn, &lists, knn_work.data(), knn_work.size()).is_ok());
		for (const size_t n_threads : {1u, 2u, 5u, 100u})
		{
			Bytes work(graph_from_neighbors_bytes(rows, spec, lists.k, n_threads));
			std::vector<uint32_t> edges(whole.edges.size(), 1);
			std::vector<uint32_t> entries(entry_count(rows.n_rows, spec));
			BuildReport report;
			Call call;

			call.n_threads = n_threads;
			call.parallel = in_threads;
			ASSERT_TRUE(graph_from_neighbors(
				rows, spec, lists, edges.data(), entries.data(), &report, work.data(), work.size(), call)
					.is_ok());
			entries.resize(report.n_entries);
			EXPECT_EQ(edges, whole.edges) << n_threads;
			EXPECT_EQ(entries, whole.entries) << n_threads;
		}
	}
}

TEST(GraphBuild, is_the_same_by_any_number_of_threads)
{
	for (const auto &[n, dim, metric] :
		{std::tuple<size_t, size_t, Metric>{300, 5, Metric::kL2}, {4096, 6, Metric::kCosine}, {9000, 8, Metric::kL2}})
	{
		const Floats data = overlapping_rows(n, dim, 8);
		const GraphRows rows = rows_of(data, dim, metric);
		BuildSpec spec;

		spec.degree = 12;

		const Built alone = build(rows, spec);

		for (const size_t n_threads : {2u, 5u, 100u})
		{
			Bytes work(graph_build_bytes(rows, spec, n_threads));
			std::vector<uint32_t> edges(alone.edges.size(), 1);
			std::vector<uint32_t> entries(entry_count(rows.n_rows, spec));
			BuildReport report;
			Call call;

			call.n_threads = n_threads;
			call.parallel = in_threads;
			ASSERT_TRUE(
				graph_build(rows, spec, edges.data(), entries.data(), &report, work.data(), work.size(), call).is_ok());
			entries.resize(report.n_entries);
			EXPECT_EQ(edges, alone.edges) << n << " rows, " << n_threads;
			EXPECT_EQ(entries, alone.entries) << n << " rows, " << n_threads;
		}
	}
}

/// A caller that finds neighbours itself.
struct Elsewhere
{
	Found answer;
	uint32_t n_calls;
};

TEST(GraphBuild, takes_neighbors_from_elsewhere_finds_them_itself_or_stops)
{
	const Floats data = overlapping_rows(5000, 8, 4);
	const GraphRows rows = rows_of(data, 8);
	BuildSpec spec;

	spec.degree = 16;
	const Built own = build(rows, spec);
	const NeighborsFn neighbors = [](void *context, const GraphRows &of, const KnnLists &lists)
	{
		Elsewhere *elsewhere = static_cast<Elsewhere *>(context);
		KnnSpec knn;
		Bytes work;

		elsewhere->n_calls++;
		// After a refusal the lists may have any content.
		std::fill_n(lists.ids, size_t{of.n_rows} * lists.k, 7u);
		if (elsewhere->answer != Found::kYes)
			return elsewhere->answer;
		KnnLists own_lists = lists;

		knn.k = lists.k;
		work.resize(knn_graph_bytes(of, knn));
		return knn_graph(of, knn, &own_lists, work.data(), work.size()).is_ok() ? Found::kYes : Found::kNo;
	};

	for (const Found answer : {Found::kYes, Found::kNo, Found::kCancelled})
	{
		Elsewhere elsewhere = {answer, 0};
		Bytes work(graph_build_bytes(rows, spec));
		std::vector<uint32_t> edges(own.edges.size());
		std::vector<uint32_t> entries(entry_count(rows.n_rows, spec));
		BuildReport report;
		Call call;

		call.progress_context = &elsewhere;
		const Outcome outcome = graph_build(
			rows, spec, edges.data(), entries.data(), &report, work.data(), work.size(), call, {nullptr, neighbors});

		EXPECT_EQ(elsewhere.n_calls, 1u);
		EXPECT_EQ(outcome.code, answer == Found::kCancelled ? StatusCode::kCancelled : StatusCode::kOk);
		if (answer == Found::kCancelled)
			continue;
		entries.resize(report.n_entries);
		EXPECT_EQ(edges, own.edges);
		EXPECT_EQ(entries, own.entries);
	}
}

} // namespace

} // namespace vectorgpu::engine::graph::test
