// Data and plain references for the tests of graphs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/graph/build.hpp"
#include "engine/graph/connect.hpp"
#include "engine/graph/search.hpp"
#include "support/in_threads.hpp"

namespace vectorgpu::engine::graph::test
{

using Floats = std::vector<float>;
using Bytes = std::vector<uint8_t>;

using vectorgpu::test::in_threads;

/// Rows around overlapping centres, so that paths lead from each to each.
inline Floats
overlapping_rows(size_t n, size_t dim, unsigned seed)
{
	std::mt19937 rng(seed);
	std::normal_distribution<float> normal(0, 1);
	Floats centres(20 * dim);
	Floats rows(n * dim);

	for (float &x : centres)
		x = normal(rng);
	for (size_t i = 0; i < n; i++)
		for (size_t d = 0, c = rng() % 20; d < dim; d++)
			rows[i * dim + d] = centres[c * dim + d] + 0.8f * normal(rng);
	return rows;
}

inline GraphRows
rows_of(const Floats &floats, size_t dim, Metric metric = Metric::kL2)
{
	return {{metric, ElementType::kFloat32, static_cast<uint32_t>(dim)}, floats.data(), dim * sizeof(float),
		static_cast<uint32_t>(floats.size() / dim)};
}

/// All rows by (score, number), NaN last; but for `without`. Only the first `wanted` of them, if these do.
inline std::vector<Candidate>
all_ranked(const GraphRows &rows, const void *query, uint32_t without = kNoNode, size_t wanted = SIZE_MAX)
{
	std::vector<double> scores(rows.n_rows);
	std::vector<Candidate> ranked;

	compute_scores(rows.spec, query, rows.rows, rows.row_stride, rows.n_rows, scores.data());
	for (uint32_t i = 0; i < rows.n_rows; i++)
		if (i != without)
			ranked.push_back({std::isnan(scores[i]) ? HUGE_VAL : scores[i], i});
	wanted = std::min(wanted, ranked.size());
	std::partial_sort(ranked.begin(), ranked.begin() + static_cast<ptrdiff_t>(wanted), ranked.end(), before);
	ranked.resize(wanted);
	return ranked;
}

/// A built graph, with the data that a search needs.
struct Built
{
	GraphRows rows;
	uint32_t degree = 0;
	std::vector<uint32_t> edges;
	std::vector<uint32_t> entries;
	BuildReport report;

	/// The nodes found, through the entry points that are nearest to the query.
	std::vector<Candidate> search(const void *query, const SearchSpec &spec, SearchStats *stats = nullptr) const
	{
		MemoryGraph memory = {rows, edges.data(), degree, query};
		const GraphView view = memory_view(&memory);
		Bytes work(graph_search_bytes(view, spec));
		std::vector<double> scores(entries.size());
		std::vector<Candidate> begin(entries.size());
		std::vector<Candidate> found(spec.width);
		SearchStats ours;
		uint32_t n_found = 0;

		score_rows(rows, query, entries.data(), entries.size(), scores.data());
		for (size_t i = 0; i < entries.size(); i++)
			begin[i] = {scores[i], entries[i]};
		first_candidates(begin.data(), begin.size(), 8);
		EXPECT_TRUE(graph_search(view, spec, begin.data(), std::min<size_t>(8, begin.size()), found.data(), &n_found,
			stats != nullptr ? stats : &ours, work.data(), work.size())
				.is_ok());
		found.resize(n_found);
		return found;
	}

	double recall(const Floats &queries, uint32_t width, size_t k = 10) const
	{
		const size_t dim = rows.spec.dim;
		SearchSpec spec;
		size_t hits = 0;
		size_t wanted = 0;

		spec.width = width;
		spec.probe_steps = kSearchSteps;
		for (size_t q = 0; q < queries.size() / dim; q++)
		{
			const std::vector<Candidate> truth = all_ranked(rows, &queries[q * dim], kNoNode, k);
			const std::vector<Candidate> found = search(&queries[q * dim], spec);

			for (size_t i = 0; i < std::min(k, truth.size()); i++, wanted++)
				hits += i < found.size() && found[i].score <= truth[std::min(k, truth.size()) - 1].score;
		}
		return static_cast<double>(hits) / static_cast<double>(wanted);
	}

	uint32_t n_reachable() const
	{
		Bytes work(reachable_bytes(rows.n_rows));

		return count_reachable(rows.n_rows, degree, edges.data(), entries.data(), static_cast<uint32_t>(entries.size()),
			work.data(), work.size());
	}
};

inline Built
build(const GraphRows &rows, const BuildSpec &spec)
{
	Built built;
	Bytes work(graph_build_bytes(rows, spec));

	built.rows = rows;
	built.degree = spec.degree;
	built.edges.assign(static_cast<size_t>(rows.n_rows) * spec.degree, 12345);
	built.entries.assign(entry_count(rows.n_rows, spec), kNoNode);
	const Outcome outcome =
		graph_build(rows, spec, built.edges.data(), built.entries.data(), &built.report, work.data(), work.size());
	EXPECT_TRUE(outcome.is_ok()) << outcome.message;
	built.entries.resize(built.report.n_entries);
	return built;
}

/// Expect edges to lead to existing rows, to none twice and never back to their start, and all rows to be reachable.
inline void
expect_sound(const Built &built)
{
	for (uint32_t u = 0; u < built.rows.n_rows; u++)
	{
		std::set<uint32_t> seen = {u};
		bool ended = false;

		for (uint32_t i = 0; i < built.degree; i++)
		{
			const uint32_t v = built.edges[static_cast<size_t>(u) * built.degree + i];

			ended |= v == kNoNode;
			if (v == kNoNode)
				continue;
			EXPECT_FALSE(ended) << "row " << u << " has an edge behind its last one";
			EXPECT_LT(v, built.rows.n_rows);
			EXPECT_TRUE(seen.insert(v).second) << "row " << u << " leads to " << v << " twice";
		}
	}
	EXPECT_EQ(built.n_reachable(), built.rows.n_rows);
}

} // namespace vectorgpu::engine::graph::test
