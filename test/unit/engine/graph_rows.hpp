// Rows with a graph over them, and the results of searches by definition. Shared by the tests of the engines.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "engine/graph/build.hpp"
#include "engine/graph/search.hpp"
#include "engine/held_rows.hpp"
#include "engine/copies/segment_graph.hpp"

namespace vectorgpu::engine::test
{

/// The source of edges: a build, or random ones, for rows that no graph can be built of.
enum class Edges
{
	kBuilt,
	kRandom,
};

/// One segment: its rows, in parts of about the same size, each with a graph of its own.
struct GraphedRows
{
	Rows rows;
	uint32_t degree;
	std::vector<GraphPartLayout> parts;
	std::vector<uint32_t> entries;
	std::vector<uint32_t> edges; // [n, degree]
	uint32_t code_bits = 0;      // this and the next three: by add_codes
	GraphHashHead hash;
	std::vector<float> thresholds;
	Bytes codes;

	GraphedRows(const Rows &from, uint32_t edges_of_row, uint32_t n_parts = 1, Edges kind = Edges::kBuilt)
		: rows(from), degree(edges_of_row)
	{
		for (uint32_t i = 0; i < n_parts; i++)
		{
			const uint32_t first = static_cast<uint32_t>(rows.n() * i / n_parts);
			const uint32_t end = static_cast<uint32_t>(rows.n() * (i + 1) / n_parts);

			if (kind == Edges::kBuilt)
				add_part(first, end);
			else
				add_random_part(first, end);
		}
	}

	/// The description for load_structure.
	Bytes description() const
	{
		Bytes bytes;
		const std::vector<GraphHeader> header = {
			{degree, static_cast<uint32_t>(parts.size()), static_cast<uint32_t>(entries.size()), code_bits}};
		const auto put = [&bytes](const auto &values)
		{
			const uint8_t *from = reinterpret_cast<const uint8_t *>(values.data());

			bytes.insert(bytes.end(), from, from + values.size() * sizeof(values[0]));
		};

		put(header);
		put(parts);
		put(entries);
		put(edges);
		if (code_bits > 0)
		{
			put(std::vector<GraphHashHead>{hash});
			put(thresholds);
			put(codes);
		}
		return bytes;
	}

	/// Make codes: from then on searches compare them, as in a segment of a copy of kind kHashedGraph.
	void add_codes(uint32_t bits, uint64_t seed = 1)
	{
		const graph::CodeSpec spec = {rows.spec, bits, seed};
		const graph::GraphRows all = {rows.spec, rows.vectors.data(), rows.row_bytes, static_cast<uint32_t>(rows.n())};
		std::vector<float> work(graph::code_work_floats(spec));

		code_bits = bits;
		hash.seed = seed;
		thresholds.resize(graph::code_model_floats(bits, rows.spec.dim));
		codes.resize(rows.n() * graph::code_bytes(bits, rows.spec.dim));
		graph::train_codes(spec, all, &hash.bound, thresholds.data(), work.data());
		graph::make_codes(model(), all, codes.data(), work.data());
	}

	graph::CodeModel model() const { return {{rows.spec, code_bits, hash.seed}, hash.bound, thresholds.data()}; }

	/// Load into a copy of kind kGraph or kHashedGraph, in parts, and seal.
	Status load(Engine *engine, CopyId copy, SegmentId segment) const
	{
		const Bytes bytes = description();
		const size_t part = bytes.size() / 3 + 1;
		const size_t half = rows.n() / 2;
		Status status = engine->load_segment(copy, segment, rows.block(0, half));

		if (status.is_ok())
			status = engine->load_segment(copy, segment, rows.block(half, rows.n() - half));
		for (size_t at = 0; at < bytes.size() && status.is_ok(); at += part)
			status =
				engine->load_structure(copy, segment, degree, {bytes.data() + at, std::min(part, bytes.size() - at)});
		return status.is_ok() ? engine->seal_segment(copy, segment) : status;
	}

	/// Numbers of the rows that a search of that width finds, part by part. A search too wide to pay looks at all rows;
	/// a query without a score finds none.
	std::vector<uint32_t> found(const void *query, uint32_t width) const
	{
		std::vector<uint32_t> numbers;
		graph::GraphRows compared = {rows.spec, rows.vectors.data(), rows.row_bytes, static_cast<uint32_t>(rows.n())};
		Bytes code(graph::code_query_bytes(code_bits, rows.spec.dim));
		const void *sought = query;

		if (code_bits > 0)
		{
			std::vector<float> hash_work(graph::code_work_floats(model().spec));

			compared = graph::rows_of_codes(code_bits, rows.spec.dim, codes.data(), compared.n_rows);
			graph::make_query_code(model(), query, code.data(), hash_work.data());
			sought = code.data();
		}

		graph::MemoryGraph memory = {compared, edges.data(), degree, sought};
		const graph::GraphView view = graph::memory_view(&memory);
		graph::SearchSpec spec;

		if (width != UINT32_MAX && std::isnan(oracle_score(rows.spec, query, query)))
			return {};
		if (graph::looks_at_all(width, static_cast<double>(rows.n())))
		{
			for (uint32_t i = 0; i < rows.n(); i++)
				numbers.push_back(i);
			return numbers;
		}
		spec.width = width;
		spec.probe_steps = graph::kSearchSteps;

		std::vector<graph::Candidate> candidates(width);
		Bytes work(graph::graph_search_bytes(view, spec));
		graph::SearchStats stats;

		for (const GraphPartLayout &part : parts)
		{
			std::vector<graph::Candidate> begin;
			uint32_t n_found = 0;

			for (uint32_t i = 0; i < part.n_entries; i++)
			{
				const uint32_t node = entries[part.first_entry + i];

				double score;

				if (graph::codes_are_rabitq(code_bits))
					graph::score_rows(compared, sought, &node, 1, &score);
				else
					score = oracle_score(
						code_bits > 0 ? DistanceSpec{Metric::kHamming, ElementType::kBit, code_bits} : rows.spec,
						sought, compared.row(node));
				begin.push_back({score, node});
			}
			graph::first_candidates(begin.data(), begin.size(), graph::kSearchEntries);
			EXPECT_TRUE(
				graph::graph_search(view, spec, begin.data(), std::min<size_t>(begin.size(), graph::kSearchEntries),
					candidates.data(), &n_found, &stats, work.data(), work.size())
					.is_ok());
			for (uint32_t i = 0; i < n_found; i++)
				if (const double score = code_bits > 0 ? oracle_score(rows.spec, query, rows.vector(candidates[i].node))
													   : candidates[i].score;
					!std::isnan(score) && (!std::isinf(score) || score < 0))
					numbers.push_back(candidates[i].node);
		}
		return numbers;
	}

private:
	void add_random_part(uint32_t first, uint32_t end)
	{
		std::mt19937 rng(end);
		std::set<uint32_t> nodes;

		while (nodes.size() < std::min(20u, end - first))
			nodes.insert(first + static_cast<uint32_t>(rng() % (end - first)));
		parts.push_back(
			{first, end - first, static_cast<uint32_t>(entries.size()), static_cast<uint32_t>(nodes.size())});
		entries.insert(entries.end(), nodes.begin(), nodes.end());
		for (uint32_t i = 0; i < (end - first) * degree; i++)
			edges.push_back(rng() % 9 == 0 ? graph::kNoNode : first + static_cast<uint32_t>(rng() % (end - first)));
	}

	void add_part(uint32_t first, uint32_t end)
	{
		const Metric metric = rows.spec.metric == Metric::kInnerProduct ? Metric::kL2 : rows.spec.metric;
		const graph::GraphRows part = {
			{metric, rows.spec.element, rows.spec.dim}, rows.vector(first), rows.row_bytes, end - first};
		graph::BuildSpec spec;
		graph::BuildReport report;
		std::vector<uint32_t> part_entries;
		std::vector<uint32_t> part_edges(size_t{end - first} * degree);

		spec.degree = degree;
		spec.knn.k = 0;
		part_entries.resize(graph::entry_count(end - first, spec));

		Bytes work(graph::graph_build_bytes(part, spec));

		EXPECT_TRUE(
			graph::graph_build(part, spec, part_edges.data(), part_entries.data(), &report, work.data(), work.size())
				.is_ok());
		parts.push_back({first, end - first, static_cast<uint32_t>(entries.size()), report.n_entries});
		for (uint32_t i = 0; i < report.n_entries; i++)
			entries.push_back(part_entries[i] + first);
		for (const uint32_t node : part_edges)
			edges.push_back(node == graph::kNoNode ? node : node + first);
	}
};

/// The answer by definition: rows found in the segments' graphs, and the delta. width 0: all rows.
inline std::vector<Neighbor>
nearest_in_graphs(const std::vector<std::pair<const GraphedRows *, uint32_t>> &segments, const Rows *delta,
	const void *query, size_t k, const Neighbor *after = nullptr, const std::set<RowId> &dead = {})
{
	return nearest_of_chosen(
		segments, [&](const GraphedRows &segment, uint32_t width)
		{ return segment.found(query, width == 0 ? UINT32_MAX : width); }, delta, query, k, after, dead);
}

} // namespace vectorgpu::engine::test
