// Graphs on the CPU, one thread: build, and an ablation of the search as in the figures 7 to 9 of the SONG paper. Data:
// the files that VECTORGPU_U8BIN and VECTORGPU_U8QUERIES name (uint32 n, uint32 dim, n x dim uint8), of the former the
// first VECTORGPU_ROWS; true neighbours are found by exact search here. Counters: recall at 10, of a search the nodes
// expanded and rows scored, of a k-NN graph the recall of its first 10 neighbours. Times are of the processor.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include <benchmark/benchmark.h>

#include "graph_bench_data.hpp"
#include "engine/graph/build.hpp"
#include "engine/graph/search.hpp"

namespace vectorgpu::engine::graph
{
namespace
{

constexpr size_t kEntries = 8;

struct Built
{
	BuildSpec spec;
	std::vector<uint32_t> edges;
	std::vector<uint32_t> entries;
	BuildReport report;
};

Built
build(PruneKind kind)
{
	const GraphRows rows = base().rows();
	Built built;

	built.spec.prune = kind;
	built.spec.knn.k = 0;
	built.edges.resize(size_t{rows.n_rows} * built.spec.degree);
	built.entries.resize(entry_count(rows.n_rows, built.spec));
	std::vector<uint8_t> work(graph_build_bytes(rows, built.spec));
	if (!graph_build(
			rows, built.spec, built.edges.data(), built.entries.data(), &built.report, work.data(), work.size())
			.is_ok())
		std::abort();
	return built;
}

/// Arguments: k, rows compared, refinements, their width.
void
knn(benchmark::State &state)
{
	if (!has_data(state))
		return;
	const GraphRows rows = base().rows();
	KnnSpec spec;

	spec.k = static_cast<uint32_t>(state.range(0));
	spec.n_compared = static_cast<uint32_t>(state.range(1));
	spec.n_refinements = static_cast<uint32_t>(state.range(2));
	spec.refine_width = static_cast<uint32_t>(state.range(3));
	std::vector<uint32_t> ids(size_t{rows.n_rows} * spec.k);
	std::vector<float> scores(ids.size());
	std::vector<uint8_t> work(knn_graph_bytes(rows, spec));
	KnnLists lists = {ids.data(), scores.data(), spec.k};

	for (auto _ : state)
		if (!knn_graph(rows, spec, &lists, work.data(), work.size()).is_ok())
			std::abort();

	constexpr uint32_t kSample = 200;
	Vectors sample;
	size_t hits = 0;

	sample.dim = base().dim;
	for (uint32_t i = 0; i < kSample; i++)
	{
		const float *row = &base().values[size_t{i} * (rows.n_rows / kSample) * sample.dim];

		sample.values.insert(sample.values.end(), row, row + sample.dim);
	}
	const std::vector<double> last = last_scores(sample, 1);
	for (uint32_t i = 0; i < kSample; i++)
		for (uint32_t j = 0; j < kTrueNeighbors; j++)
			hits += scores[size_t{i} * (rows.n_rows / kSample) * spec.k + j] <= static_cast<float>(last[i]);
	state.counters["recall"] = static_cast<double>(hits) / (kSample * kTrueNeighbors);
	state.counters["rows_per_s"] = benchmark::Counter(rows.n_rows, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(knn)
	->Args({48, 2048, 0, 12})
	->Args({48, 2048, 1, 12})
	->Args({48, 1024, 2, 20})
	->Args({64, 2048, 1, 16})
	->Unit(benchmark::kSecond)
	->Iterations(1);

/// Argument: how edges are chosen.
void
whole_build(benchmark::State &state)
{
	if (!has_data(state))
		return;
	for (auto _ : state)
		benchmark::DoNotOptimize(build(static_cast<PruneKind>(state.range(0))));
	state.counters["rows_per_s"] =
		benchmark::Counter(base().rows().n_rows, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(whole_build)->Arg(0)->Arg(1)->Unit(benchmark::kSecond)->Iterations(1);

/// All queries, one after the other.
void
search_all(benchmark::State &state, PruneKind kind, const SearchSpec &spec)
{
	static const Built graphs[] = {build(PruneKind::kRank), build(PruneKind::kRng)};
	static const std::vector<double> last = last_scores(queries(), 0);
	const Built &built = graphs[static_cast<int>(kind)];
	const GraphRows rows = base().rows();
	const uint32_t n_entries = built.report.n_entries;
	MemoryGraph memory = {rows, built.edges.data(), built.spec.degree, nullptr};
	const GraphView view = memory_view(&memory);
	std::vector<uint8_t> work(graph_search_bytes(view, spec));
	std::vector<double> scores(n_entries);
	std::vector<Candidate> entries(n_entries);
	std::vector<Candidate> found(spec.width);
	const size_t n_queries = queries().rows().n_rows;
	SearchStats stats;
	size_t hits = 0;
	size_t n = 0;

	for (auto _ : state)
	{
		const size_t q = n++ % n_queries;
		uint32_t n_found;

		memory.query = queries().rows().row(static_cast<uint32_t>(q));
		score_rows(rows, memory.query, built.entries.data(), n_entries, scores.data());
		for (uint32_t i = 0; i < n_entries; i++)
			entries[i] = {scores[i], built.entries[i]};
		first_candidates(entries.data(), n_entries, kEntries);
		if (!graph_search(view, spec, entries.data(), std::min<size_t>(kEntries, n_entries), found.data(), &n_found,
				&stats, work.data(), work.size())
				.is_ok())
			std::abort();
		for (uint32_t i = 0; i < std::min<size_t>(n_found, kTrueNeighbors); i++)
			hits += found[i].score <= last[q];
	}
	state.counters["recall"] = static_cast<double>(hits) / static_cast<double>(n * kTrueNeighbors);
	state.counters["expanded"] = static_cast<double>(stats.n_expanded) / static_cast<double>(n);
	state.counters["scored"] = static_cast<double>(stats.n_scored) / static_cast<double>(n);
	state.counters["work_bytes"] = static_cast<double>(work.size());
}

/// Arguments: width, how edges were chosen.
void
search_width(benchmark::State &state)
{
	SearchSpec spec;

	if (!has_data(state))
		return;
	spec.width = static_cast<uint32_t>(state.range(0));
	search_all(state, static_cast<PruneKind>(state.range(1)), spec);
}
BENCHMARK(search_width)
	->ArgsProduct({{10, 16, 32, 64, 128, 256}, {0, 1}})
	->Unit(benchmark::kMicrosecond)
	->Iterations(2 * kQueries);

/// Arguments: set of visited nodes (hash, Bloom, cuckoo), plain or selected insertion or that and deletion, nodes at a
/// time.
void
ablation(benchmark::State &state)
{
	SearchSpec spec;

	if (!has_data(state))
		return;
	spec.width = 64;
	spec.visited = static_cast<VisitedKind>(state.range(0));
	spec.selected_insertion = state.range(1) > 0;
	spec.visited_deletion = state.range(1) > 1;
	spec.probe_steps = static_cast<uint32_t>(state.range(2));
	search_all(state, PruneKind::kRank, spec);
}
BENCHMARK(ablation)
	->ArgsProduct({{0, 1, 2}, {0, 1, 2}, {1}})
	->Args({0, 0, 2})
	->Args({0, 0, 4})
	->Unit(benchmark::kMicrosecond)
	->Iterations(2 * kQueries);

} // namespace
} // namespace vectorgpu::engine::graph
