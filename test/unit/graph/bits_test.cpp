// Graphs of bit strings: lists of nearest rows against all pairs, builds on odd data, searches, insertion and
// calibration.
#include "graph/graph_data.hpp"

#include <tuple>

#include "engine/cpu/cpu_engine.hpp"
#include "engine/graph/calibrate/calibrate.hpp"
#include "engine/graph/insert.hpp"
#include "engine/interface/graph_builder.hpp"

namespace vectorgpu::engine::graph::test
{

namespace
{

const Metric kMetrics[] = {Metric::kHamming, Metric::kJaccard};

/// Strings around centres, from which they differ in every eighth bit, say; centres differ likewise from each other, so
/// that paths lead from each to each. Pad bits are zero.
Bytes
clustered_bits(size_t n, uint32_t dim, unsigned seed, size_t n_centres = 20)
{
	std::mt19937 rng(seed);
	const size_t row_bytes = (dim + 7) / 8;
	Bytes centres(n_centres * row_bytes);
	Bytes rows(n * row_bytes);

	const auto noise = [&rng]
	{
		const uint32_t random = static_cast<uint32_t>(rng());

		return random & random >> 8 & random >> 16;
	};

	for (size_t b = 0; b < centres.size(); b++)
		centres[b] = static_cast<uint8_t>(b < row_bytes ? rng() : centres[b - row_bytes] ^ noise());
	for (size_t i = 0; i < n; i++)
		for (size_t b = 0, c = rng() % n_centres; b < row_bytes; b++)
		{
			rows[i * row_bytes + b] = static_cast<uint8_t>(centres[c * row_bytes + b] ^ noise());
			if (b + 1 == row_bytes && dim % 8 != 0)
				rows[i * row_bytes + b] = static_cast<uint8_t>(rows[i * row_bytes + b] & 0xFF00 >> dim % 8);
		}
	return rows;
}

GraphRows
bit_rows(const Bytes &bits, uint32_t dim, Metric metric)
{
	const size_t row_bytes = (dim + 7) / 8;

	return {{metric, ElementType::kBit, dim}, bits.data(), row_bytes, static_cast<uint32_t>(bits.size() / row_bytes)};
}

/// Recall of the 10 nearest, counted by distance: rows as near as the 10th are as good.
double
recall_of(const Built &built, const Bytes &queries, uint32_t width)
{
	constexpr size_t kWanted = 10;
	const size_t row_bytes = built.rows.row_stride;
	SearchSpec spec;
	size_t hits = 0;
	size_t wanted = 0;

	spec.width = width;
	spec.probe_steps = kSearchSteps;
	for (size_t q = 0; q < queries.size() / row_bytes; q++)
	{
		const std::vector<Candidate> truth = all_ranked(built.rows, &queries[q * row_bytes], kNoNode, kWanted);
		const std::vector<Candidate> found = built.search(&queries[q * row_bytes], spec);

		for (size_t i = 0; i < std::min(kWanted, truth.size()); i++, wanted++)
			hits += i < found.size() && found[i].score <= truth[std::min(kWanted, truth.size()) - 1].score;
	}
	return static_cast<double>(hits) / static_cast<double>(wanted);
}

TEST(BitGraph, lists_of_few_rows_are_exact)
{
	for (const Metric metric : kMetrics)
		for (const uint32_t dim : {1u, 7u, 64u, 1000u})
		{
			const Bytes bits = clustered_bits(700, dim, dim);
			const GraphRows rows = bit_rows(bits, dim, metric);
			KnnSpec spec;

			spec.k = 20;
			std::vector<uint32_t> ids(size_t{rows.n_rows} * spec.k);
			std::vector<float> scores(size_t{rows.n_rows} * spec.k);
			KnnLists lists = {ids.data(), scores.data(), spec.k};
			Bytes work(knn_graph_bytes(rows, spec));

			ASSERT_TRUE(knn_graph(rows, spec, &lists, work.data(), work.size()).is_ok());
			for (uint32_t u = 0; u < rows.n_rows; u += 7)
			{
				const std::vector<Candidate> truth = all_ranked(rows, rows.row(u), u, spec.k);

				for (uint32_t i = 0; i < spec.k; i++)
					ASSERT_EQ(scores[u * spec.k + i], static_cast<float>(truth[i].score))
						<< "dim " << dim << ", row " << u << ", neighbour " << i;
			}
		}
}

TEST(BitGraph, lists_of_more_rows_are_nearly_exact)
{
	// Fewer bits than dimensions of clusters, and more, which are folded.
	for (const auto &[dim, metric] : {std::tuple(64u, Metric::kHamming), std::tuple(64u, Metric::kJaccard),
			 std::tuple(1500u, Metric::kHamming), std::tuple(1500u, Metric::kJaccard)})
	{
		const Bytes bits = clustered_bits(9000, dim, dim + 1, 60);
		const GraphRows rows = bit_rows(bits, dim, metric);
		KnnSpec spec;
		size_t hits = 0;
		size_t wanted = 0;

		spec.k = 20;
		std::vector<uint32_t> ids(size_t{rows.n_rows} * spec.k);
		std::vector<float> scores(size_t{rows.n_rows} * spec.k);
		KnnLists lists = {ids.data(), scores.data(), spec.k};
		Bytes work(knn_graph_bytes(rows, spec));

		ASSERT_TRUE(knn_graph(rows, spec, &lists, work.data(), work.size()).is_ok());
		for (uint32_t u = 0; u < rows.n_rows; u += 31)
		{
			const std::vector<Candidate> truth = all_ranked(rows, rows.row(u), u, spec.k);

			for (uint32_t i = 0; i < spec.k; i++, wanted++)
				hits += scores[size_t{u} * spec.k + i] <= static_cast<float>(truth[spec.k - 1].score);
		}
		EXPECT_GE(static_cast<double>(hits) / static_cast<double>(wanted), 0.95)
			<< "dim " << dim << ", metric " << static_cast<int>(metric);
	}
}

TEST(BitGraph, build_is_sound_and_finds_the_nearest)
{
	for (const Metric metric : kMetrics)
		for (const PruneKind kind : {PruneKind::kRank, PruneKind::kRng})
			for (const auto &[dim, n] :
				{std::tuple(64u, 3000u), std::tuple(1000u, 3000u), std::tuple(512u, 5000u), std::tuple(64000u, 300u)})
			{
				const Bytes bits = clustered_bits(n + 50, dim, dim + n);
				const size_t row_bytes = (dim + 7) / 8;
				const Bytes held(bits.begin(), bits.begin() + static_cast<ptrdiff_t>(n * row_bytes));
				const Bytes queries(bits.begin() + static_cast<ptrdiff_t>(n * row_bytes), bits.end());
				BuildSpec spec;

				spec.degree = 16;
				spec.prune = kind;
				spec.knn.k = 0;

				const Built built = build(bit_rows(held, dim, metric), spec);

				SCOPED_TRACE("dim " + std::to_string(dim) + ", metric " + std::to_string(static_cast<int>(metric)) +
					", prune " + std::to_string(static_cast<int>(kind)));
				expect_sound(built);
				EXPECT_GE(recall_of(built, queries, 200), 0.95);
			}
}

TEST(BitGraph, is_the_same_by_any_number_of_threads)
{
	const Bytes bits = clustered_bits(5000, 600, 3);
	const GraphRows rows = bit_rows(bits, 600, Metric::kJaccard);
	BuildSpec spec;

	spec.degree = 8;
	spec.knn.k = 0;

	const Built alone = build(rows, spec);
	Call call;
	Built together = alone;
	call.n_threads = 3;
	call.parallel = in_threads;

	Bytes work(graph_build_bytes(rows, spec, call.n_threads));

	together.entries.assign(entry_count(rows.n_rows, spec), kNoNode);
	ASSERT_TRUE(graph_build(
		rows, spec, together.edges.data(), together.entries.data(), &together.report, work.data(), work.size(), call)
			.is_ok());
	together.entries.resize(together.report.n_entries);
	EXPECT_EQ(alone.edges, together.edges);
	EXPECT_EQ(alone.entries, together.entries);
}

TEST(BitGraph, connects_equal_rows_and_rows_of_few_values)
{
	for (const Metric metric : kMetrics)
		for (const uint32_t dim : {1u, 7u, 64u, 1000u})
			for (const uint32_t n : {1u, 2u, 33u, 600u, dim == 7 ? 5000u : 1000u})
				for (const bool zero : {false, true})
				{
					const Bytes equal(
						n * ((dim + 7) / 8), zero ? 0 : 0x80); // no bit, or one in each eight: the pad bits are zero
					BuildSpec spec;
					SearchSpec search;

					spec.degree = 8;
					spec.knn.k = 0;
					search.width = 10;
					SCOPED_TRACE("dim " + std::to_string(dim) + ", rows " + std::to_string(n) + ", zero " +
						std::to_string(zero));

					const Built built = build(bit_rows(equal, dim, metric), spec);

					expect_sound(built);
					EXPECT_EQ(built.search(equal.data(), search).size(), std::min(n, 10u));
				}
	for (const uint32_t dim : {1u, 7u})
	{
		const Bytes bits = clustered_bits(5000, dim, 17, 128);
		BuildSpec spec;

		spec.degree = 8;
		spec.knn.k = 0;
		expect_sound(build(bit_rows(bits, dim, Metric::kHamming), spec));
		expect_sound(build(bit_rows(bits, dim, Metric::kJaccard), spec));
	}
}

ivf::Calibration
calibration_of(const Built &built)
{
	MeasuredGraph measured;
	ivf::Calibration calibration;

	measured.rows = built.rows;
	measured.edges = built.edges.data();
	measured.degree = built.degree;
	measured.entries = built.entries.data();
	measured.n_entries = static_cast<uint32_t>(built.entries.size());
	Bytes work(calibrate_bytes(measured, 1));
	EXPECT_TRUE(calibrate(measured, &calibration, work.data(), work.size()).is_ok());
	return calibration;
}

TEST(BitGraph, calibration_counts_by_distance)
{
	for (const Metric metric : kMetrics)
	{
		// With 24 bits many rows are equally far away: the ids of the nearest would hardly ever be found.
		const Bytes bits = clustered_bits(4000 + 200, 24, 5, 400);
		const Bytes held(bits.begin(), bits.begin() + 4000 * 3);
		const Bytes queries(bits.begin() + 4000 * 3, bits.end());
		BuildSpec spec;

		spec.degree = 16;
		spec.knn.k = 0;

		const Built built = build(bit_rows(held, 24, metric), spec);
		const ivf::Calibration calibration = calibration_of(built);

		ASSERT_GT(calibration.n_points, 0u);
		EXPECT_GE(calibration.recall[calibration.n_points - 1], 0.97f) << "metric " << static_cast<int>(metric);
		for (uint32_t i = 0; i < calibration.n_points; i++)
			if (calibration.probes[i] == 32)
			{
				EXPECT_NEAR(static_cast<double>(calibration.recall[i]), recall_of(built, queries, 32), 0.06)
					<< "metric " << static_cast<int>(metric);
			}
	}

	const Bytes equal(3000 * 8, 0x55);
	BuildSpec spec;

	spec.degree = 8;
	spec.knn.k = 0;
	for (const Metric metric : kMetrics)
	{
		const ivf::Calibration calibration = calibration_of(build(bit_rows(equal, 64, metric), spec));

		EXPECT_EQ(calibration.recall[0], 1.0f) << "whatever is found among equal rows is as near as the others";
	}
}

TEST(BitGraph, insertion_finds_as_much_as_a_build)
{
	for (const Metric metric : kMetrics)
	{
		constexpr uint32_t kDim = 200;
		constexpr uint32_t kRows = 6000;
		constexpr uint32_t kBase = 5600; // of which every 50th is removed
		const Bytes bits = clustered_bits(kRows + 100, kDim, 9);
		const size_t row_bytes = kDim / 8;
		BuildSpec spec;
		std::vector<uint32_t> numbers(kBase);
		Bytes now;
		uint32_t n = 0;

		spec.degree = 16;
		spec.knn.k = 0;

		const Bytes base_bits(bits.begin(), bits.begin() + static_cast<ptrdiff_t>(kBase * row_bytes));
		const Built base = build(bit_rows(base_bits, kDim, metric), spec);

		for (uint32_t i = 0; i < kRows; i++)
		{
			const bool leaves = i < kBase && i % 50 == 0;

			if (i < kBase)
				numbers[i] = leaves ? kNoNode : n;
			if (leaves)
				continue;
			now.insert(now.end(), bits.begin() + static_cast<ptrdiff_t>(i * row_bytes),
				bits.begin() + static_cast<ptrdiff_t>((i + 1) * row_bytes));
			n++;
		}

		Built inserted;
		const BaseGraph graph = {
			kBase, base.edges.data(), base.entries.data(), static_cast<uint32_t>(base.entries.size()), numbers.data()};
		const uint32_t n_gone = (kBase + 49) / 50;

		inserted.rows = bit_rows(now, kDim, metric);
		inserted.degree = spec.degree;
		inserted.edges.resize(size_t{n} * spec.degree);
		inserted.entries.resize(entry_count(n, spec));
		Bytes work(graph_insert_bytes(inserted.rows, spec, {kBase, n_gone}));
		ASSERT_TRUE(graph_insert(inserted.rows, spec, graph, inserted.edges.data(), inserted.entries.data(),
			&inserted.report, work.data(), work.size())
				.is_ok());
		inserted.entries.resize(inserted.report.n_entries);
		expect_sound(inserted);

		const Bytes queries(bits.end() - static_cast<ptrdiff_t>(100 * row_bytes), bits.end());

		EXPECT_GE(recall_of(inserted, queries, 64), recall_of(build(inserted.rows, spec), queries, 64) - 0.02)
			<< "metric " << static_cast<int>(metric);
	}
}

size_t
n_alike(const std::vector<uint32_t> &a, const std::vector<uint32_t> &b)
{
	size_t n = 0;

	for (size_t i = 0; i < std::min(a.size(), b.size()); i++)
		n += a[i] == b[i] ? 1 : 0;
	return n;
}

/// Nearest rows by another engine's exact searches, as in a worker with a GPU: for few rows the graph equals that of
/// all pairs.
TEST(BitGraph, is_the_same_from_exact_searches)
{
	const std::unique_ptr<Engine> engine = make_cpu_engine({.n_threads = 2});
	const std::unique_ptr<Engine> searcher = make_cpu_engine({.n_threads = 2});

	for (const Metric metric : kMetrics)
		for (const uint32_t dim : {20u, 300u})
		{
			const Bytes bits = clustered_bits(2500, dim, 41);
			const GraphRows rows = bit_rows(bits, dim, metric);
			std::vector<std::vector<uint32_t>> edges;

			for (Engine *exact : {static_cast<Engine *>(nullptr), searcher.get()})
			{
				GraphBuildSpec build;
				SearchControl control;
				std::unique_ptr<GraphBuilder> builder;

				build.rows = rows.spec;
				build.n_rows = rows.n_rows;
				build.degree = 16;
				build.calibrate = true;
				ASSERT_TRUE(engine->make_graph_builder(build, &control, exact, &builder).is_ok());
				ASSERT_TRUE(builder->add_rows(bits.data(), rows.n_rows).is_ok());
				ASSERT_TRUE(builder->build().is_ok());
				EXPECT_EQ(builder->exact_neighbors(), exact != nullptr);
				EXPECT_GT(builder->calibration().n_points, 0u);
				edges.push_back(builder->edges());
			}
			// Of equal Jaccard distances, which floats cannot represent exactly, either may be last in a list.
			EXPECT_GE(
				n_alike(edges[0], edges[1]), metric == Metric::kHamming ? edges[0].size() : edges[0].size() * 9 / 10)
				<< "dim " << dim;
		}

	GraphBuildSpec build;
	SearchControl control;
	std::unique_ptr<GraphBuilder> builder;

	build.rows = {Metric::kHamming, ElementType::kBit, 64};
	build.n_rows = 10;
	build.code_bits = 32;
	EXPECT_EQ(engine->make_graph_builder(build, &control, nullptr, &builder).code, StatusCode::kUnsupported);
	build.code_bits = 0;
	build.rows.metric = Metric::kL2;
	EXPECT_EQ(engine->make_graph_builder(build, &control, nullptr, &builder).code, StatusCode::kUnsupported);
	build.rows = {Metric::kHamming, ElementType::kBit, 64001};
	EXPECT_EQ(engine->make_graph_builder(build, &control, nullptr, &builder).code, StatusCode::kInvalidArgument);
}

} // namespace

} // namespace vectorgpu::engine::graph::test
