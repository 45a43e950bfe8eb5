// Graphs on the GPU against the CPU engine with the same graphs and widths: the same answers, bit for bit. By cosine,
// where nodes are told apart by rounded scores, nearly the same.
#include <array>

#include "answers.hpp"
#include "engine/graph_rows.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::CopyKind;
using engine::Coverage;
using engine::SegmentProbes;

/// Two segments with graphs, one of them in two parts, and a delta, in both engines.
struct BothGraphs
{
	BothGraphs(const DistanceSpec &spec, Values kind, uint32_t seed, bool narrow = true, uint32_t degree = 16,
		bool rounded = false)
		: rng(seed), values(kind), first(graph(spec, 5000, degree, 1, 1)), second(graph(spec, 900, 8, 2, 10001)),
		  delta(spec), both(copy_spec(spec, rounded), narrow)
	{
		add(&delta, 150, 20001);
		both.change([&](Engine &e, CopyId c) { return first.load(&e, c, 1); });
		both.change([&](Engine &e, CopyId c) { return second.load(&e, c, 2); });
		both.change([&](Engine &e, CopyId c) { return e.append_delta(c, 0, delta.block()); });
	}

	static engine::CopySpec copy_spec(const DistanceSpec &spec, bool rounded)
	{
		engine::CopySpec made(spec, CopyKind::kGraph);

		made.rounded = rounded;
		return made;
	}

	void add(Rows *rows, size_t n, RowId first_id) { add_values(rows, values, 30, n, rng, first_id); }

	GraphedRows graph(const DistanceSpec &spec, size_t n, uint32_t degree, uint32_t n_parts, RowId first_id)
	{
		Rows rows(spec);

		add(&rows, n, first_id);
		return GraphedRows(rows, degree, n_parts, has_extremes(values) ? Edges::kRandom : Edges::kBuilt);
	}

	std::vector<SearchQuery> batch(
		const Rows &queries, size_t n, size_t k, std::array<uint32_t, 2> widths, bool with_after)
	{
		std::vector<SearchQuery> requests;

		named.assign(n, {});
		for (size_t i = 0; i < n; i++)
		{
			const uint32_t divisor = 1 + static_cast<uint32_t>(i % 3);
			SearchQuery query = {queries.vector(i % queries.n()), std::max<size_t>(1, k - i % 2), false, {}};

			named[i] = {SegmentProbes{1, std::max(1u, widths[0] / divisor)},
				SegmentProbes{2, std::max(1u, widths[1] / divisor)}};
			if (i % 7 != 6) // some look at all rows
				query.probes = named[i];
			if (with_after && i % 2 == 0)
			{
				query.has_after = true;
				query.after = {oracle_score(first.rows.spec, query.query, first.rows.vector(17)), first.rows.ids[17]};
			}
			requests.push_back(query);
		}
		return requests;
	}

	/// One batch in which each query has another k and other widths.
	void expect_batch(const Rows &queries, size_t n, size_t k, std::array<uint32_t, 2> widths, bool with_after = false)
	{
		const std::vector<SearchQuery> requests = batch(queries, n, k, widths, with_after);

		SCOPED_TRACE(testing::Message() << metric_name(first.rows.spec.metric) << " element "
										<< static_cast<int>(first.rows.spec.element) << " dim " << first.rows.spec.dim
										<< " batch " << n << " k " << k << " width " << widths[0]);
		if (first.rows.spec.metric == Metric::kCosine)
			ASSERT_NO_FATAL_FAILURE(expect_nearly_same_answers(
				both, requests, 0.995, [&](const void *query, RowId row) { return score_of(query, row); }));
		else
			ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(requests));
	}

	double score_of(const void *query, RowId row) const
	{
		const Rows &rows = row > 20000 ? delta : row > 10000 ? second.rows : first.rows;

		return oracle_score(rows.spec, query, rows.vector(row - rows.ids[0]));
	}

	std::mt19937 rng;
	Values values;
	GraphedRows first;
	GraphedRows second;
	Rows delta;
	Both both;
	std::vector<std::array<SegmentProbes, 2>> named;
};

TEST(Graphs, EveryMetricAndTypeInBatchesOfEverySize)
{
	for (Metric metric : kFloatMetrics)
		for (const auto &[element, values, narrow] :
			{std::tuple{ElementType::kFloat32, Values::kReal, true}, {ElementType::kFloat32, Values::kBytes, true},
				{ElementType::kFloat32, Values::kBytes, false}, {ElementType::kFloat16, Values::kReal, true}})
			for (const uint32_t dim : {7u, 100u, 200u})
			{
				BothGraphs held({metric, element, dim}, values, dim, narrow);
				Rows queries(held.delta.spec);

				held.add(&queries, 40, 0);
				for (const size_t n : {1u, 40u, 1100u})
					ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 10, {64, 40}));
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 1, {1, 1}));
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 300, {600, 100}));
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 10, {33, 20}, true));
			}
}

/// Both choose their way by the same bytes. Rows of whole numbers are kept in bytes, exactly.
TEST(Graphs, RoundedRowsLeadTheSameWay)
{
	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
		for (const auto &[values, dim] : {std::pair{Values::kReal, 32u}, {Values::kReal, 100u}, {Values::kReal, 130u},
				 {Values::kReal, 300u}, {Values::kReal, 700u}, {Values::kReal, 1024u}, {Values::kReal, 1100u},
				 {Values::kBytes, 64u}, {Values::kExtremes, 64u}, {Values::kFewExtremes, 64u}})
		{
			BothGraphs held({metric, ElementType::kFloat32, dim}, values, dim, true, 16, true);
			Rows queries(held.delta.spec);

			held.add(&queries, 40, 0);
			for (const size_t n : {1u, 40u, 1100u})
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 10, {64, 40}));
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 40, 10, {33, 20}, true));
			// As narrow as searches by rounded rows are.
			for (const size_t n : {40u, 1100u})
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 1, {9, 2}));
		}
}

TEST(Graphs, DegreesThatAreNoMultipleOfAWarp)
{
	for (const uint32_t degree : {2u, 5u, 33u, 64u, 100u})
	{
		BothGraphs held({Metric::kL2, ElementType::kFloat32, 12}, Values::kReal, degree, true, degree);
		Rows queries(held.delta.spec);

		held.add(&queries, 30, 0);
		for (const size_t n : {3u, 1100u})
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 20, {70, 30}));
	}
}

TEST(Graphs, OtherQueriesThanBytesOverRowsOfBytes)
{
	BothGraphs held({Metric::kL2, ElementType::kFloat32, 40}, Values::kBytes, 3);
	Rows queries(held.delta.spec);

	queries.add_random(30, Data::kGaussian, held.rng, 0);
	for (const size_t n : {1u, 30u, 1100u})
		ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 20, {70, 30}));
}

TEST(Graphs, LargeKAndWidthsBeyondTheKernels)
{
	BothGraphs held({Metric::kL2, ElementType::kFloat32, 24}, Values::kReal, 5);
	Rows queries(held.delta.spec);

	held.add(&queries, 10, 0);
	for (const size_t k : {1000u, 2048u, 2049u, 5000u, 100000u})
		for (const uint32_t width : {10u, 300u, 624u, 100000u})
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, 6, k, {width, 50}));
}

TEST(Graphs, NaNAndInfinities)
{
	for (Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kL1})
		for (const ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
		{
			// Of 64 values sums of both signs overflow: then rows without a score are among the nearest entry points.
			for (const uint32_t dim : {3u, 64u})
			{
				BothGraphs held({metric, element, dim}, Values::kExtremes, 7);
				Rows queries(held.delta.spec);

				held.add(&queries, 60, 0);
				for (const size_t n : {60u, 1100u})
				{
					ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 50, {100, 40}));
					ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 10, {9, 5}, true));
				}
			}
		}
}

TEST(Graphs, AllRowsEqual)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 16};
	const std::vector<float> same(spec.dim, 1.0f);
	Rows rows(spec);
	std::mt19937 rng(9);
	Both both(engine::CopySpec(spec, CopyKind::kGraph));
	const SegmentProbes probes[] = {{1, 100}};
	SearchQuery query = {same.data(), 80, false, {}};

	for (RowId id = 1; id <= 3000; id++)
		rows.add(id, reinterpret_cast<const uint8_t *>(same.data()));

	const GraphedRows graph(rows, 8);

	query.probes = probes;
	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return graph.load(&e, c, 1); }));
	ASSERT_NO_FATAL_FAILURE(both.expect_same_answers({query}));
	ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(std::vector<SearchQuery>(1100, query)));
}

TEST(Graphs, FewRows)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 5};
	std::mt19937 rng(11);

	for (const size_t n : {1u, 2u, 3u, 4u, 5u, 9u, 30u, 100u})
	{
		Rows rows(spec);
		Both both(engine::CopySpec(spec, CopyKind::kGraph));
		const SegmentProbes probes[] = {{1, 1}};

		rows.add_random(n, Data::kGaussian, rng, 1);

		const GraphedRows graph(rows, 4);
		SearchQuery query = {rows.vector(n / 2), 7, false, {}};

		query.probes = probes;
		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return graph.load(&e, c, 1); }));
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers({query}));
	}

	// No row is returned.
	Both both(engine::CopySpec(spec, CopyKind::kGraph));
	const std::vector<float> vector(spec.dim);
	const SegmentProbes probes[] = {{1, 10}};
	SearchQuery query = {vector.data(), 7, false, {}};

	query.probes = probes;
	ASSERT_NO_FATAL_FAILURE(both.expect_same_answers({query}));
}

TEST(Graphs, DeadRowsLeadOnAndAreNotFound)
{
	BothGraphs held({Metric::kL2, ElementType::kFloat32, 20}, Values::kReal, 13);
	Rows queries(held.delta.spec);
	std::vector<uint8_t> dead((held.first.rows.n() + 7) / 8);
	const std::vector<uint8_t> delta_dead = {0xFF, 0x0F};

	for (uint8_t &byte : dead)
		byte = static_cast<uint8_t>(held.rng() | held.rng());
	held.add(&queries, 40, 0);
	ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
	ASSERT_NO_FATAL_FAILURE(
		held.both.change([&](Engine &e, CopyId c) { return e.set_delta_tombstones(c, 0, delta_dead); }));
	for (const size_t n : {1u, 40u, 1100u})
		ASSERT_NO_FATAL_FAILURE(held.expect_batch(queries, n, 30, {90, 40}));
}

/// One graph and no delta: the search ranks what it has found, and large batches are searched in parts while the next
/// are sent. Half of the rows are copies of others, and there are more entry points than a warp looks at together.
TEST(Graphs, OneGraphIsTheWholeAnswer)
{
	for (const auto &[metric, element, rounded] :
		{std::tuple{Metric::kL2, ElementType::kFloat32, true}, {Metric::kInnerProduct, ElementType::kFloat32, true},
			{Metric::kL2, ElementType::kFloat32, false}, {Metric::kL1, ElementType::kFloat16, false}})
	{
		const DistanceSpec spec = {metric, element, 250};
		std::mt19937 rng(31);
		Rows rows(spec);
		Rows queries(spec);
		Both both(BothGraphs::copy_spec(spec, rounded), rounded);

		add_values(&rows, Values::kReal, 0, 1500, rng, 5000);
		for (RowId id = 1; id <= 1500; id++)
		{
			const Bytes copied(rows.vector(id - 1), rows.vector(id - 1) + rows.row_bytes);

			rows.add(id, copied.data());
		}
		add_values(&queries, Values::kReal, 0, 50, rng, 1);

		GraphedRows graph(rows, 16);

		graph.entries.resize(700);
		for (uint32_t i = 0; i < graph.entries.size(); i++)
			graph.entries[i] = i * 4 + 1;
		graph.parts[0].n_entries = static_cast<uint32_t>(graph.entries.size());
		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return graph.load(&e, c, 1); }));
		for (const size_t n : {200u, 1100u, 4500u})
			for (const uint32_t width : {1u, 9u, 33u, 64u, 65u})
			{
				std::array<SegmentProbes, 3> probes;
				std::vector<SearchQuery> requests;

				for (uint32_t i = 0; i < probes.size(); i++)
					probes[i] = {1, width / (i + 1) + (width <= i ? 1 : 0)};
				for (size_t i = 0; i < n; i++)
				{
					SearchQuery query = {queries.vector(i % queries.n()), 1 + i % 3 * 35, false, {}};

					query.probes = std::span(probes).subspan(i % 3, 1);
					query.has_after = i % 5 == 4;
					query.after = {oracle_score(spec, query.query, rows.vector(17)), rows.ids[17]};
					requests.push_back(query);
				}
				SCOPED_TRACE(testing::Message() << metric_name(metric) << " batch " << n << " width " << width);
				ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(requests));
			}
	}
}

/// For the sanitizers: a warp a query, in two shares, which ranks what it has found. All answers have the same length.
TEST(Graphs, Reduced)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 20};
	std::mt19937 rng(37);
	Rows rows(spec);

	rows.add_random(1000, Data::kGaussian, rng, 1);

	const GraphedRows graph(rows, 40);

	for (const auto &[rounded, width] : {std::pair{false, 12u}, {true, 33u}})
	{
		Both both(BothGraphs::copy_spec(spec, rounded));
		const SegmentProbes probes = {1, width};
		std::vector<SearchQuery> requests;

		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return graph.load(&e, c, 1); }));
		for (size_t i = 0; i < 2048; i++)
		{
			requests.push_back({rows.vector(i % rows.n()), 10, false, {}});
			requests.back().probes = {&probes, 1};
		}
		SCOPED_TRACE(rounded ? "rounded" : "not rounded");
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(requests));
	}
}

TEST(Graphs, ZeroVectorsByCosineFindNothing)
{
	BothGraphs held({Metric::kCosine, ElementType::kFloat32, 8}, Values::kReal, 15);
	const std::vector<float> zero(8);
	const SegmentProbes probes[] = {{1, 20}, {2, 20}};
	Coverage coverage = Coverage::kAll;
	SearchQuery query = {zero.data(), 10, false, {}};
	std::vector<std::vector<Neighbor>> results;

	query.probes = probes;
	query.coverage = &coverage;
	ASSERT_OK(held.both.cuda()->search(held.both.cuda_copy(), {&query, 1}, &results, nullptr));
	EXPECT_TRUE(results[0].empty());
	EXPECT_EQ(coverage, Coverage::kScored);
}

TEST(Graphs, SearchesFromManyThreads)
{
	BothGraphs held({Metric::kL2, ElementType::kFloat32, 32}, Values::kBytes, 17);
	Rows queries(held.delta.spec);

	held.add(&queries, 64, 0);

	const std::vector<SearchQuery> requests = held.batch(queries, 64, 15, {80, 40}, false);

	ASSERT_NO_FATAL_FAILURE(expect_answers_side_by_side(8, 40, held.both, requests,
		[](size_t thread, size_t round) { return Part{(round * 7 + thread) % 60, 1 + round % 4}; }));
}

TEST(Graphs, TheDefaultStepsFindAsMuchInBatchesOfEverySize)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 16};
	std::mt19937 rng(23);
	Rows rows(spec);
	Rows queries(spec);
	CudaEngineOptions options;
	std::unique_ptr<CudaEngine> usual;
	CopyId copy = 0;
	CopyId cpu_copy = 0;
	const SegmentProbes probes[] = {{1, 40}};
	std::vector<SearchQuery> requests;
	std::vector<std::vector<Neighbor>> together;
	std::vector<std::vector<Neighbor>> on_cpu;
	size_t found = 0;
	size_t found_by_cpu = 0;

	rows.add_random(6000, Data::kGaussian, rng, 1);
	queries.add_random(1200, Data::kGaussian, rng, 0);

	const GraphedRows graph(rows, 16);

	options.workspace_bytes = size_t{512} << 20;
	options.graph_choice = false;
	ASSERT_OK(make_cuda_engine(options, &usual));
	ASSERT_OK(usual->create({spec, CopyKind::kGraph}, &copy));
	ASSERT_OK(graph.load(usual.get(), copy, 1));
	ASSERT_OK(cpu_engine()->create({spec, CopyKind::kGraph}, &cpu_copy));
	ASSERT_OK(graph.load(cpu_engine(), cpu_copy, 1));
	for (size_t i = 0; i < queries.n(); i++)
	{
		requests.push_back({queries.vector(i), 10, false, {}});
		requests.back().probes = probes;
	}
	ASSERT_OK(usual->search(copy, requests, &together, nullptr)); // a warp for each query
	ASSERT_OK(cpu_engine()->search(cpu_copy, requests, &on_cpu, nullptr));
	for (size_t i = 0; i < 200; i++)
	{
		std::vector<std::vector<Neighbor>> alone; // four warps for each query
		std::set<RowId> truth;

		ASSERT_OK(usual->search(copy, {&requests[i], 1}, &alone, nullptr));
		ASSERT_NO_FATAL_FAILURE(expect_same(alone[0], together[i]));
		for (const Neighbor &neighbor : rows.nearest(requests[i].query, 10))
			truth.insert(neighbor.row);
		for (const Neighbor &neighbor : alone[0])
			found += truth.count(neighbor.row);
		for (const Neighbor &neighbor : on_cpu[i])
			found_by_cpu += truth.count(neighbor.row);
	}
	EXPECT_GE(found + 10, found_by_cpu) << "of 2000"; // 0.005
	ASSERT_OK(cpu_engine()->drop(cpu_copy));
}

TEST(Graphs, DescriptionsAreReadBackUnchanged)
{
	BothGraphs held({Metric::kL2, ElementType::kFloat32, 6}, Values::kReal, 19);
	const Bytes given = held.second.description();

	for (const auto &[first, n] :
		{std::pair<size_t, size_t>{0, given.size()}, {0, 7}, {13, 100}, {given.size() - 40, 40}, {given.size(), 0}})
	{
		Bytes got(n);

		ASSERT_OK(held.both.cuda()->read_structure(held.both.cuda_copy(), 2, first, n, got.data()));
		EXPECT_TRUE(std::equal(got.begin(), got.end(), given.begin() + static_cast<ptrdiff_t>(first)));
	}
	uint8_t byte;

	EXPECT_FALSE(held.both.cuda()->read_structure(held.both.cuda_copy(), 2, given.size(), 1, &byte).is_ok());
	EXPECT_FALSE(held.both.cuda()->read_structure(held.both.cuda_copy(), 3, 0, 1, &byte).is_ok());
}

TEST(Graphs, EdgesOutOfTheSegmentAreRefused)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 5};
	std::mt19937 rng(21);
	Rows rows(spec);
	Both both(engine::CopySpec(spec, CopyKind::kGraph));

	rows.add_random(50, Data::kGaussian, rng, 1);

	GraphedRows graph(rows, 4);

	graph.edges[9] = 50;
	ASSERT_NO_FATAL_FAILURE(both.change(
		[&](Engine &e, CopyId c)
		{
			const Status status = graph.load(&e, c, 1);

			EXPECT_EQ(status.code, StatusCode::kInvalidArgument);
			return status;
		}));
}

} // namespace
} // namespace vectorgpu::cuda::test
