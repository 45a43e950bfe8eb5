// Calibration of data in which rows of the graph are easier, or harder, queries than those from elsewhere.
#include "engine/cpu/cpu_engine.hpp"
#include "engine/interface/graph_builder.hpp"
#include "engine/ivf/calibration.hpp"
#include "engine/recall/stratified.hpp"
#include "graph/graph_data.hpp"

namespace vectorgpu::engine::graph::test
{
namespace
{

struct Measured
{
	Built built;
	ivf::Calibration calibration;
};

Bytes
random_bytes(size_t n, unsigned seed)
{
	std::mt19937 rng(seed);
	Bytes bytes(n);

	for (uint8_t &byte : bytes)
		byte = static_cast<uint8_t>(rng());
	return bytes;
}

GraphRows
bit_rows(const Bytes &bits, uint32_t dim)
{
	return {{Metric::kHamming, ElementType::kBit, dim}, bits.data(), dim / 8,
		static_cast<uint32_t>(bits.size() / (dim / 8))};
}

/// Measure as an index does; exact: with exact neighbours, as a GPU finds them.
Measured
measure(const GraphRows &rows, bool exact)
{
	const std::unique_ptr<Engine> searcher = make_cpu_engine({.n_threads = 2});
	const std::unique_ptr<Engine> engine = make_cpu_engine({.n_threads = 2});
	std::unique_ptr<GraphBuilder> builder;
	SearchControl control;

	EXPECT_TRUE(engine
			->make_graph_builder({rows.spec, rows.n_rows, 32, PruneKind::kRank, 1, true, 0}, &control,
				exact ? searcher.get() : nullptr, &builder)
			.is_ok());
	EXPECT_TRUE(builder->add_rows(rows.rows, rows.n_rows).is_ok());
	EXPECT_TRUE(builder->build().is_ok());
	EXPECT_EQ(builder->exact_neighbors(), exact);
	return {{rows, 32, builder->edges(), builder->entries(), {}}, builder->calibration()};
}

/// Recall of the k nearest, by distance. queries: contiguous, in the rows' format.
double
recall_of(const Built &built, const void *queries, size_t n_queries, uint32_t width, size_t k)
{
	SearchSpec spec;
	size_t hits = 0;

	spec.width = width;
	spec.probe_steps = kSearchSteps;
	for (size_t q = 0; q < n_queries; q++)
	{
		const void *query = static_cast<const uint8_t *>(queries) + q * built.rows.row_stride;
		const double last = all_ranked(built.rows, query, kNoNode, k)[k - 1].score;
		const std::vector<Candidate> found = built.search(query, spec);

		for (size_t i = 0; i < std::min(k, found.size()); i++)
			hits += found[i].score <= last;
	}
	return static_cast<double>(hits) / static_cast<double>(n_queries * k);
}

/// Neighbours of random strings have hardly any neighbours in common except through a row near both: it must not have
/// led them to each other if it is a query.
TEST(CalibrateOdd, holds_for_random_strings)
{
	constexpr size_t kQueries = 600;
	const Bytes bits = random_bytes(12000 * 16, 51);
	const Bytes queries = random_bytes(kQueries * 16, 52);

	for (const bool exact : {false, true})
	{
		const Measured measured = measure(bit_rows(bits, 128), exact);

		for (const uint32_t width : {12u, 24u, 48u})
			EXPECT_NEAR(recall_of(measured.built, queries.data(), kQueries, width, 10),
				ivf::recall_of(measured.calibration, width), 0.04)
				<< "width " << width << ", exact " << exact;
	}
}

/// Each of 256 values 24 times, say: edges of a row lead to rows equal to it, and a search for these may not find them.
TEST(CalibrateOdd, counts_wanted_copies)
{
	const Bytes bits = random_bytes(6000, 53);
	Bytes queries(256);

	for (size_t i = 0; i < queries.size(); i++)
		queries[i] = static_cast<uint8_t>(i);
	for (const bool exact : {false, true})
	{
		const Measured measured = measure(bit_rows(bits, 8), exact);

		for (const uint32_t width : {12u, 32u, 96u})
			EXPECT_GE(recall_of(measured.built, queries.data(), queries.size(), width, 10),
				ivf::recall_of(measured.calibration, width) - 0.07)
				<< "width " << width << ", exact " << exact;
	}
}

/// By inner product one row is the nearest of every second query, from anywhere.
TEST(CalibrateOdd, is_bounded_by_the_nearest_row)
{
	constexpr size_t kDim = 16;
	constexpr size_t kQueries = 500;
	const auto normals = [](size_t n, unsigned seed)
	{
		std::mt19937 rng(seed);
		std::normal_distribution<float> normal(0, 1);
		Floats floats(n * kDim);

		for (float &x : floats)
			x = normal(rng);
		return floats;
	};
	Floats data = normals(8000, 54);
	const Floats queries = normals(kQueries, 55);

	data.insert(data.end(), kDim, 1000.0F);
	for (const bool exact : {false, true})
	{
		const Measured measured = measure(rows_of(data, kDim, Metric::kInnerProduct), exact);

		for (const uint32_t width : {16u, 64u, 128u})
			EXPECT_GE(recall_of(measured.built, queries.data(), kQueries, width, 1),
				ivf::recall_of(measured.calibration, width) - 0.1)
				<< "width " << width << ", exact " << exact;
	}
}

/// Rows that were aside are in the lists in the end, except some outliers.
TEST(CalibrateOdd, rows_aside_are_neighbors_in_the_end)
{
	constexpr uint32_t kRows = 6000;
	constexpr uint32_t kAside = 300;
	const Floats data = overlapping_rows(kRows, 12, 56);
	const GraphRows rows = rows_of(data, 12);
	std::vector<std::vector<uint32_t>> all_ids;
	KnnSpec spec;

	spec.k = 24;
	spec.n_aside = kAside;
	for (const size_t n_threads : {1u, 3u})
	{
		std::vector<uint32_t> ids(size_t{kRows} * spec.k);
		std::vector<float> scores(ids.size());
		KnnLists lists = {ids.data(), scores.data(), spec.k};
		Bytes work(knn_graph_bytes(rows, spec, n_threads));
		Call call;

		call.n_threads = n_threads;
		call.parallel = n_threads > 1 ? in_threads : nullptr;
		ASSERT_TRUE(knn_graph(rows, spec, &lists, work.data(), work.size(), call).is_ok());
		all_ids.push_back(ids);
	}
	EXPECT_EQ(all_ids[0], all_ids[1]);

	size_t n_lists = 0;
	size_t hits[2] = {}; // of others, of rows that were aside
	size_t wanted[2] = {};
	std::vector<uint8_t> aside(kRows);

	for (uint32_t i = 0; i < kAside; i++)
		aside[stratified_row(i, kAside, kRows)] = 1;
	for (uint32_t u = 0; u < kRows; u += 5)
	{
		const uint32_t *own = &all_ids[0][size_t{u} * spec.k];
		const std::vector<Candidate> truth = all_ranked(rows, rows.row(u), u, spec.k);

		EXPECT_EQ(std::set<uint32_t>(own, own + spec.k).size(), spec.k) << u;
		for (uint32_t i = 0; i < spec.k; i++)
		{
			const bool found = std::find(own, own + spec.k, truth[i].node) != own + spec.k;

			hits[aside[truth[i].node]] += found;
			wanted[aside[truth[i].node]]++;
		}
		n_lists += std::any_of(own, own + spec.k, [&aside](uint32_t v) { return aside[v] != 0; });
	}
	EXPECT_GT(n_lists, kRows / 5 / 2);
	EXPECT_GE(static_cast<double>(hits[1]) / static_cast<double>(wanted[1]),
		static_cast<double>(hits[0]) / static_cast<double>(wanted[0]) - 0.15);
	spec.n_aside = kRows + 1;

	KnnLists lists;
	Bytes work(knn_graph_bytes(rows, spec));
	std::vector<uint32_t> ids(size_t{kRows} * spec.k);
	std::vector<float> scores(ids.size());

	lists = {ids.data(), scores.data(), spec.k};
	EXPECT_EQ(knn_graph(rows, spec, &lists, work.data(), work.size()).code, StatusCode::kInvalidArgument);
}

} // namespace
} // namespace vectorgpu::engine::graph::test
