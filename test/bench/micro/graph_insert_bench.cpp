// Insertion into a graph beside a build anew, on the CPU, one thread. Data: graph_bench_data.hpp. Arguments: percent of
// the rows that are new, percent of those before that leave. Counters: recall at 10 of both graphs at widths of 16, 32
// and 64, time of the build anew. Times are of the processor.
#include <algorithm>
#include <ctime>

#include "graph_bench_data.hpp"

#include "engine/graph/insert.hpp"
#include "engine/graph/search.hpp"

namespace vectorgpu::engine::graph
{
namespace
{

struct Graph
{
	std::vector<float> values;
	GraphRows rows;
	std::vector<uint32_t> edges;
	std::vector<uint32_t> entries;
	BuildReport report;
};

/// Rows [numbers] of the data, and room for their graph.
Graph
graph_of(const std::vector<uint32_t> &numbers, const BuildSpec &spec)
{
	const uint32_t dim = base().dim;
	Graph graph;

	graph.values.reserve(numbers.size() * dim);
	for (uint32_t i : numbers)
		graph.values.insert(graph.values.end(), base().values.begin() + static_cast<ptrdiff_t>(size_t{i} * dim),
			base().values.begin() + static_cast<ptrdiff_t>((size_t{i} + 1) * dim));
	graph.rows = {{Metric::kL2, ElementType::kFloat32, dim}, graph.values.data(), dim * sizeof(float),
		static_cast<uint32_t>(numbers.size())};
	graph.edges.resize(numbers.size() * spec.degree);
	graph.entries.resize(entry_count(graph.rows.n_rows, spec));
	return graph;
}

double
processor_seconds()
{
	return static_cast<double>(clock()) / CLOCKS_PER_SEC;
}

double
build_anew(Graph *graph, const BuildSpec &spec)
{
	std::vector<uint8_t> work(graph_build_bytes(graph->rows, spec));
	const double begin = processor_seconds();

	if (!graph_build(
			graph->rows, spec, graph->edges.data(), graph->entries.data(), &graph->report, work.data(), work.size())
			.is_ok())
		std::abort();
	return processor_seconds() - begin;
}

double
recall_of(const Graph &graph, uint32_t degree, uint32_t width)
{
	MemoryGraph memory = {graph.rows, graph.edges.data(), degree, nullptr};
	const GraphView view = memory_view(&memory);
	SearchSpec spec;
	SearchStats stats;

	spec.width = width;
	spec.probe_steps = kSearchSteps;
	std::vector<uint8_t> work(graph_search_bytes(view, spec));
	std::vector<double> scores(graph.rows.n_rows);
	std::vector<Candidate> found(width);
	size_t hits = 0;

	for (size_t q = 0; q < queries().rows().n_rows; q++)
	{
		std::vector<Candidate> entries;
		uint32_t n_found;

		memory.query = queries().rows().row(static_cast<uint32_t>(q));
		compute_scores(
			graph.rows.spec, memory.query, graph.rows.rows, graph.rows.row_stride, graph.rows.n_rows, scores.data());
		for (uint32_t i = 0; i < graph.report.n_entries; i++)
			entries.push_back({scores[graph.entries[i]], graph.entries[i]});
		std::nth_element(scores.begin(), scores.begin() + kTrueNeighbors - 1, scores.end());
		first_candidates(entries.data(), entries.size(), kSearchEntries);
		if (!graph_search(view, spec, entries.data(), std::min<size_t>(kSearchEntries, entries.size()), found.data(),
				&n_found, &stats, work.data(), work.size())
				.is_ok())
			std::abort();
		for (uint32_t i = 0; i < std::min<size_t>(n_found, kTrueNeighbors); i++)
			hits += found[i].score <= scores[kTrueNeighbors - 1];
	}
	return static_cast<double>(hits) / static_cast<double>(queries().rows().n_rows * kTrueNeighbors);
}

void
insertion(benchmark::State &state)
{
	if (!has_data(state))
		return;

	const uint32_t n = base().rows().n_rows;
	BuildSpec spec;
	std::vector<uint32_t> before;
	std::vector<uint32_t> now;
	std::vector<uint32_t> numbers;

	spec.knn.k = 0;
	for (uint32_t i = 0; i < n; i++)
	{
		const bool is_new = uint64_t{i} * 2654435761 % 100 < static_cast<uint64_t>(state.range(0));
		const bool leaves = !is_new && uint64_t{i} * 40503 % 1009 % 100 < static_cast<uint64_t>(state.range(1));

		if (!leaves)
			now.push_back(i);
		if (is_new)
			continue;
		before.push_back(i);
		numbers.push_back(leaves ? kNoNode : static_cast<uint32_t>(now.size() - 1));
	}

	Graph old = graph_of(before, spec);
	Graph anew = graph_of(now, spec);
	Graph merged = graph_of(now, spec);

	build_anew(&old, spec);
	state.counters["anew_s"] = build_anew(&anew, spec);

	const BaseGraph base = {
		old.rows.n_rows, old.edges.data(), old.entries.data(), old.report.n_entries, numbers.data()};
	const uint32_t n_left = static_cast<uint32_t>(std::count(numbers.begin(), numbers.end(), kNoNode));
	std::vector<uint8_t> work(graph_insert_bytes(merged.rows, spec, {old.rows.n_rows, n_left}));

	for (auto _ : state)
		if (!graph_insert(merged.rows, spec, base, merged.edges.data(), merged.entries.data(), &merged.report,
				work.data(), work.size())
				.is_ok())
			std::abort();
	for (uint32_t width : {16u, 32u, 64u})
	{
		state.counters["anew_" + std::to_string(width)] = recall_of(anew, spec.degree, width);
		state.counters["recall_" + std::to_string(width)] = recall_of(merged, spec.degree, width);
	}
}
BENCHMARK(insertion)
	->Args({10, 0})
	->Args({5, 0})
	->Args({5, 5})
	->Args({1, 0})
	->Args({15, 0})
	->Args({0, 20})
	->Args({9, 9})
	->Args({20, 0})
	->Args({0, 50})
	->Unit(benchmark::kSecond)
	->Iterations(1);

} // namespace
} // namespace vectorgpu::engine::graph
