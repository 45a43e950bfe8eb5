// The part of the self-test about graphs: searches of a graph of edges by chance, against engine/graph's search of the
// same.
#include "cuda/selftest/self_test.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "common/half.hpp"
#include "cuda/device/device.hpp"
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
constexpr uint32_t kDistinct = 50; // queries of a batch; larger ones ask them again

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

/// A linear congruential generator (Knuth's MMIX): the same numbers everywhere.
uint32_t
next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return static_cast<uint32_t>(*state >> 33);
}

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
		const float value = test.bytes ? static_cast<float>(next(state) % 256)
									   : static_cast<float>(next(state) % 65536) * 0x1p-15f - 1.0f;
		const uint16_t half = float_to_half(value);

		if (element_bytes == 2)
			std::memcpy(vectors.data() + i * 2, &half, 2);
		else
			std::memcpy(vectors.data() + i * 4, &value, 4);
	}
	return vectors;
}

/// What engine/graph finds, but for every fifth row, which is dead.
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
		if (found[i].node % 5 != 0)
			neighbors.push_back({found[i].score, RowId{found[i].node} * 3 + 7});
	return neighbors;
}

Status
run(engine::Engine *engine, const Case &test, engine::CopyId copy, uint32_t steps)
{
	const size_t row_bytes = vector_bytes(test.element, test.dim);
	uint64_t state = 20200420;
	const std::vector<uint8_t> vectors = make_vectors(test, kRows, &state);
	const std::vector<uint8_t> queries = make_vectors(test, std::min(test.n_queries, kDistinct), &state);
	const graph::GraphRows rows = {{test.metric, test.element, test.dim}, vectors.data(), row_bytes, kRows};
	const engine::GraphHeader header = {kDegree, 1, kEntries, 0};
	const engine::GraphPartLayout part = {0, kRows, 0, kEntries};
	const engine::SegmentProbes probes[] = {{1, kWidth}};
	std::vector<uint32_t> entries;
	std::vector<uint32_t> edges;
	std::vector<RowId> ids;
	std::vector<uint8_t> dead((kRows + 7) / 8);
	std::vector<uint8_t> description(
		sizeof(header) + sizeof(part) + (kEntries + size_t{kRows} * kDegree) * sizeof(uint32_t));
	std::vector<engine::SearchQuery> batch;
	std::vector<std::vector<Neighbor>> found;

	for (uint32_t i = 0; i < kEntries; i++)
		entries.push_back(i * (kRows / kEntries));
	for (uint32_t i = 0; i < kRows; i++)
	{
		ids.push_back(RowId{i} * 3 + 7);
		if (i % 5 == 0)
			dead[i / 8] = static_cast<uint8_t>(dead[i / 8] | 1 << (i % 8));
		for (uint32_t e = 0; e < kDegree; e++)
			edges.push_back(next(&state) % 16 == 0 ? graph::kNoNode : next(&state) % kRows);
	}
	std::memcpy(description.data(), &header, sizeof(header));
	std::memcpy(description.data() + sizeof(header), &part, sizeof(part));
	std::memcpy(description.data() + sizeof(header) + sizeof(part), entries.data(), kEntries * sizeof(uint32_t));
	std::memcpy(description.data() + sizeof(header) + sizeof(part) + kEntries * sizeof(uint32_t), edges.data(),
		edges.size() * sizeof(uint32_t));
	VECTORGPU_TRY(engine->load_segment(copy, 1, {ids, vectors.data(), kRows}));
	VECTORGPU_TRY(engine->load_structure(copy, 1, kDegree, description));
	VECTORGPU_TRY(engine->seal_segment(copy, 1));
	VECTORGPU_TRY(engine->set_tombstones(copy, 1, dead));
	for (size_t q = 0; q < test.n_queries; q++)
	{
		batch.push_back({queries.data() + q % kDistinct * row_bytes, kNeighbors, false, {}});
		batch.back().probes = probes;
	}
	VECTORGPU_TRY(engine->search(copy, batch, &found));
	for (size_t distinct = 0; distinct < std::min<size_t>(batch.size(), kDistinct); distinct++)
	{
		const std::vector<Neighbor> wanted = expected(rows, edges, entries, batch[distinct].query, steps);
		bool same = true;

		for (size_t q = distinct; q < batch.size(); q += kDistinct)
			same = same &&
				std::equal(wanted.begin(), wanted.end(), found[q].begin(), found[q].end(),
					[](const Neighbor &a, const Neighbor &b)
					{ return std::memcmp(&a.score, &b.score, sizeof(double)) == 0 && a.row == b.row; });
		if (!same)
			return Status::error(StatusCode::kUnavailable,
				"the GPU's answer from a graph differs from the CPU's: metric " +
					std::to_string(static_cast<int>(test.metric)) + ", " + std::to_string(test.dim) + " dimensions");
	}
	return Status::ok();
}

Status
run_all(engine::Engine *engine, std::span<const Case> cases, uint32_t steps)
{
	for (const Case &test : cases)
	{
		engine::CopyId copy = 0;

		VECTORGPU_TRY(engine->create({{test.metric, test.element, test.dim}, engine::CopyKind::kGraph}, &copy));

		const Status status = run(engine, test, copy, steps);

		VECTORGPU_TRY(engine->drop(copy));
		VECTORGPU_TRY(status);
	}
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
