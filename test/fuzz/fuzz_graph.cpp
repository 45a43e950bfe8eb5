// libFuzzer target: the description of a segment's graph, with codes or without, as the worker's engine gets it from a
// backend. Input: degree, rows (a byte each), bit 0: with codes, the place where the description is cut in two, the
// description. An accepted graph is searched, by rows and by codes: the results are rows of the segment, none twice, in
// order.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

#include "engine/graph/search.hpp"
#include "engine/copies/segment_graph.hpp"

using namespace vectorgpu;
using namespace vectorgpu::engine;

namespace
{

constexpr uint32_t kDim = 5;
constexpr uint32_t kWidth = 6;

/// Search from the first entry points, as an engine does.
void
search(const SegmentGraph &graph, graph::MemoryGraph *memory, const uint8_t *fails)
{
	const graph::GraphView view = graph::memory_view(memory);
	graph::SearchSpec spec;

	spec.width = kWidth;
	spec.probe_steps = graph::kSearchSteps;
	spec.fails = fails;
	std::vector<uint8_t> work(graph::graph_search_bytes(view, spec));
	for (const GraphPartLayout &part : graph.parts())
	{
		std::vector<graph::Candidate> entries;
		std::vector<graph::Candidate> found(kWidth);
		std::set<uint32_t> nodes;
		graph::SearchStats stats;
		uint32_t n_found = 0;

		for (uint32_t i = part.first_entry;
			i < part.first_entry + part.n_entries && entries.size() < graph::kSearchEntries; i++)
		{
			const uint32_t node = graph.entries()[i];
			double score;

			if (!nodes.insert(node).second)
				continue;
			graph::score_rows(memory->rows, memory->query, &node, 1, &score);
			entries.push_back({std::isnan(score) ? INFINITY : score, node});
		}
		if (!graph::graph_search(
				view, spec, entries.data(), entries.size(), found.data(), &n_found, &stats, work.data(), work.size())
				.is_ok() ||
			(n_found == 0 && fails == nullptr) || n_found > kWidth)
			std::abort();
		nodes.clear();
		for (uint32_t i = 0; i < n_found; i++)
			if (found[i].node < part.first_row || found[i].node >= part.first_row + part.n_rows ||
				!nodes.insert(found[i].node).second ||
				(fails != nullptr && ((fails[found[i].node / 8] >> (found[i].node % 8)) & 1) != 0) ||
				(i > 0 && !graph::before(found[i - 1], found[i])))
				std::abort();
	}
}

} // namespace

extern "C" int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	constexpr Metric kMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine};
	SegmentGraph graph;

	if (size < 4)
		return 0;

	const uint32_t degree = data[0];
	const uint32_t n_rows = data[1];
	const bool hashed = (data[2] & 1) != 0;
	const std::span<const uint8_t> bytes(data + 4, size - 4);
	const size_t cut = bytes.empty() ? 0 : data[3] % bytes.size();

	if (!graph.append(degree, bytes.first(cut)).is_ok() || !graph.append(degree, bytes.subspan(cut)).is_ok() ||
		!graph.check(n_rows, kDim, hashed).is_ok())
		return 0;

	std::vector<float> rows(size_t{n_rows} * kDim);
	const std::vector<float> query(kDim, 0.5f);
	std::vector<uint8_t> fails((n_rows + 7) / 8); // of just that size

	for (size_t i = 0; i < rows.size(); i++)
		rows[i] = static_cast<float>(i * 7919 % 64) - 20;
	for (size_t i = 0; i < fails.size(); i++)
		fails[i] = static_cast<uint8_t>((i + 1) * 157 ^ data[3]);
	for (const Metric metric : kMetrics)
	{
		const DistanceSpec spec = {metric, ElementType::kFloat32, kDim};
		graph::MemoryGraph memory = {
			{spec, rows.data(), kDim * sizeof(float), n_rows}, graph.edges(), degree, query.data()};

		search(graph, &memory, nullptr);
		search(graph, &memory, fails.data());
		if (!hashed)
			continue;

		const graph::CodeModel model = graph.code_model(spec);
		const uint32_t code_bytes = static_cast<uint32_t>(graph::code_bytes(model.spec.bits, kDim));
		std::vector<float> work(graph::code_work_floats(model.spec));
		std::vector<uint32_t> code((graph::code_query_bytes(model.spec.bits, kDim) + 3) / 4);
		std::vector<uint8_t> codes(graph.codes(), graph.codes() + size_t{n_rows} * code_bytes); // of just that size

		graph::make_query_code(model, query.data(), reinterpret_cast<uint8_t *>(code.data()), work.data());
		memory.rows = graph::rows_of_codes(model.spec.bits, kDim, codes.data(), n_rows);
		memory.query = code.data();
		search(graph, &memory, nullptr);
		search(graph, &memory, fails.data());
	}
	return 0;
}
