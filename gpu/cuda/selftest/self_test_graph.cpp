// The part of the self-test about graphs: searches of a graph with random edges, against engine/graph's search of it.
#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "common/half.hpp"
#include "cuda/selftest/self_test.hpp"
#include "cuda/selftest/test_data.hpp"
#include "engine/graph/search.hpp"
#include "engine/interface/graph_layout.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;
namespace graph = engine::graph;

constexpr uint32_t kRows = 2000;
constexpr uint32_t kDegree = 10;
constexpr uint32_t kEntries = 20;
constexpr uint32_t kWidth = 50;
constexpr size_t kNeighbors = 20;
constexpr uint32_t kDistinct = 50; // queries of a batch; larger ones repeat them

struct Case
{
	Metric metric;
	ElementType element;
	uint32_t dim;
	bool bytes;
	uint32_t n_queries;
};

constexpr Case kCases[] = {
	{Metric::kL2, ElementType::kFloat32, 40, false, 3},
	{Metric::kL2, ElementType::kFloat32, 64, true, 1},
	{Metric::kL2, ElementType::kFloat32, 160, true, 3},
	{Metric::kInnerProduct, ElementType::kFloat32, 96, true, 3},
	{Metric::kL2, ElementType::kFloat32, 96, true, 200},
	{Metric::kCosine, ElementType::kFloat16, 40, false, 200},
	{Metric::kL2, ElementType::kFloat32, 200, true, 1100},
	{Metric::kInnerProduct, ElementType::kFloat32, 100, true, 1100},
	{Metric::kInnerProduct, ElementType::kFloat16, 48, false, 3},
	{Metric::kCosine, ElementType::kFloat32, 48, false, 3},
	{Metric::kCosine, ElementType::kFloat16, 33, false, 1100},
	{Metric::kL1, ElementType::kFloat32, 48, false, 3},
	{Metric::kL2, ElementType::kFloat32, 530, false, 3}, // several blocks for each query
	{Metric::kL2, ElementType::kFloat32, 520, true, 50},
	{Metric::kCosine, ElementType::kFloat16, 600, false, 3},
};

constexpr Case kBitCases[] = {
	{Metric::kHamming, ElementType::kBit, 200, false, 3},
	{Metric::kJaccard, ElementType::kBit, 200, false, 3},
	{Metric::kHamming, ElementType::kBit, 1500, false, 200},
	{Metric::kJaccard, ElementType::kBit, 70, false, 200},
	{Metric::kHamming, ElementType::kBit, 40, false, 1100},
	{Metric::kJaccard, ElementType::kBit, 1100, false, 1100},
};

std::vector<uint8_t>
make_vectors(const Case &test, size_t n, uint64_t *state)
{
	const size_t element_bytes = test.element == ElementType::kFloat16 ? 2 : 4;
	const size_t row_bytes = vector_bytes(test.element, test.dim);
	std::vector<uint8_t> vectors(n * row_bytes);

	if (test.element == ElementType::kBit)
	{
		for (size_t i = 0; i < n * test.dim; i++)
			if (next(state) % 4 == 0)
			{
				uint8_t *byte = vectors.data() + i / test.dim * row_bytes + i % test.dim / 8;

				*byte = static_cast<uint8_t>(*byte | 0x80 >> i % test.dim % 8);
			}
		return vectors;
	}

	for (size_t i = 0; i < n * test.dim; i++)
	{
		const float value = test.bytes ? static_cast<float>(next(state) % 256) : next_real(state);
		const uint16_t half = float_to_half(value);

		if (element_bytes == 2)
			std::memcpy(vectors.data() + i * 2, &half, 2);
		else
			std::memcpy(vectors.data() + i * 4, &value, 4);
	}
	return vectors;
}

/// The live rows that engine/graph finds.
std::vector<Neighbor>
expected(const graph::GraphRows &rows, const std::vector<uint32_t> &edges, const std::vector<uint32_t> &entries,
	const void *query, uint32_t steps)
{
	graph::MemoryGraph memory = {rows, edges.data(), kDegree, query};
	const graph::GraphView view = graph::memory_view(&memory);
	graph::SearchSpec spec;
	graph::SearchStats stats;
	std::vector<graph::Candidate> begin(kEntries);
	std::vector<graph::Candidate> found(kWidth);
	std::vector<double> scores(kEntries);
	std::vector<Neighbor> neighbors;
	uint32_t n_found = 0;

	spec.width = kWidth;
	spec.probe_steps = steps;

	std::vector<uint8_t> work(graph::graph_search_bytes(view, spec));

	graph::score_rows(rows, query, entries.data(), kEntries, scores.data());
	for (uint32_t i = 0; i < kEntries; i++)
		begin[i] = {scores[i], entries[i]};
	graph::first_candidates(begin.data(), kEntries, graph::kSearchEntries);
	(void) graph::graph_search(
		view, spec, begin.data(), graph::kSearchEntries, found.data(), &n_found, &stats, work.data(), work.size());
	for (uint32_t i = 0; i < n_found && neighbors.size() < kNeighbors; i++)
		if (!is_dead(found[i].node))
			neighbors.push_back({found[i].score, id_of(found[i].node)});
	return neighbors;
}

/// A graph of one part, with entry points at equal distances and random edges. One edge in 16 is missing.
struct Graph
{
	explicit Graph(uint64_t *state)
	{
		const engine::GraphHeader header = {kDegree, 1, kEntries, 0};
		const engine::GraphPartLayout part = {0, kRows, 0, kEntries};

		for (uint32_t i = 0; i < kEntries; i++)
			entries.push_back(i * (kRows / kEntries));
		for (uint32_t i = 0; i < kRows * kDegree; i++)
			edges.push_back(next(state) % 16 == 0 ? graph::kNoNode : next(state) % kRows);
		append(&description, &header, 1);
		append(&description, &part, 1);
		append(&description, entries.data(), entries.size());
		append(&description, edges.data(), edges.size());
	}

	std::vector<uint32_t> entries;
	std::vector<uint32_t> edges;
	std::vector<uint8_t> description;
};

Status
run(engine::Engine *engine, const Case &test, engine::CopyId copy, uint32_t steps)
{
	const size_t row_bytes = vector_bytes(test.element, test.dim);
	uint64_t state = 20200420;
	const std::vector<uint8_t> vectors = make_vectors(test, kRows, &state);
	const std::vector<uint8_t> queries = make_vectors(test, std::min(test.n_queries, kDistinct), &state);
	const Graph made(&state);
	const graph::GraphRows rows = {{test.metric, test.element, test.dim}, vectors.data(), row_bytes, kRows};
	const engine::SegmentProbes probes[] = {{1, kWidth}};
	std::vector<engine::SearchQuery> batch;
	std::vector<std::vector<Neighbor>> found;

	VECTORGPU_TRY(load_sealed(engine, copy, kRows, vectors.data(), kDegree, made.description));
	for (size_t q = 0; q < test.n_queries; q++)
	{
		batch.push_back({queries.data() + q % kDistinct * row_bytes, kNeighbors, false, {}});
		batch.back().probes = probes;
	}
	VECTORGPU_TRY(engine->search(copy, batch, &found));
	for (size_t distinct = 0; distinct < std::min<size_t>(batch.size(), kDistinct); distinct++)
	{
		const std::vector<Neighbor> wanted = expected(rows, made.edges, made.entries, batch[distinct].query, steps);

		for (size_t q = distinct; q < batch.size(); q += kDistinct)
			if (!same_answer(wanted, found[q]))
				return failed("the GPU's answer from a graph differs from the CPU's: metric " +
					std::to_string(static_cast<int>(test.metric)) + ", " + std::to_string(test.dim) + " dimensions");
	}
	return Status::ok();
}

Status
run_all(engine::Engine *engine, std::span<const Case> cases, uint32_t steps)
{
	for (const Case &test : cases)
		VECTORGPU_TRY(with_copy(engine, {{test.metric, test.element, test.dim}, engine::CopyKind::kGraph},
			[&](engine::CopyId copy) { return run(engine, test, copy, steps); }));
	return Status::ok();
}

} // namespace

Status
self_test_bit_graphs(engine::Engine *engine, uint32_t steps)
{
	return run_all(engine, kBitCases, steps);
}

Status
self_test_graphs(engine::Engine *engine, uint32_t steps)
{
	return run_all(engine, kCases, steps);
}

} // namespace vectorgpu::cuda
