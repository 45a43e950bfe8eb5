// Searches of graphs with conditions. Internal to the CPU engine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/cpu/passing_rows.hpp"
#include "engine/graph/passing_width.hpp"
#include "engine/graph/search.hpp"

namespace vectorgpu::engine
{

/// Set up a search of a part of n_nodes nodes for the rows that pass; view: masked, not listed. width: of the same
/// search without conditions. rows: how many rows are scored in the time that a node takes whose edges are followed.
/// False: scoring all rows of the part that pass is cheaper.
inline bool
prepare_masked(const RowsView &view, uint64_t n_nodes, uint32_t width, double rows, graph::SearchSpec *spec)
{
	const double share = static_cast<double>(view.passing->n_pass()) / static_cast<double>(view.rows.last);
	const double wide = width * graph::wider(share);

	if (wide * rows >= share * static_cast<double>(n_nodes))
		return false;
	spec->width = static_cast<uint32_t>(std::ceil(wide));
	spec->fails = view.dead->data();
	return true;
}

/// Move the entry points of a search to the front and return how many: those nearest to the query, and if fails is not
/// null (SearchSpec), the nearest others that pass.
inline uint32_t
choose_entries(std::span<graph::Candidate> entries, const uint8_t *fails)
{
	const auto passes = [fails](const graph::Candidate &entry)
	{ return ((fails[entry.node / 8] >> (entry.node % 8)) & 1) == 0; };
	const size_t n_nearest = std::min<size_t>(entries.size(), graph::kSearchEntries);

	graph::first_candidates(entries.data(), entries.size(), n_nearest);
	if (fails == nullptr)
		return static_cast<uint32_t>(n_nearest);

	const std::span<graph::Candidate> others = entries.subspan(n_nearest);
	const auto n_passing = static_cast<size_t>(std::partition(others.begin(), others.end(), passes) - others.begin());
	const size_t n_more = std::min<size_t>(n_passing, graph::kSearchEntries);

	graph::first_candidates(others.data(), n_passing, n_more);
	return static_cast<uint32_t>(n_nearest + n_more);
}

/// Whether the rows that pass of a masked view begin away from the query: none of the nearest entry points does, as
/// many as have four among them on average if the rows are spread evenly. For codes, by which lies_away cannot tell: of
/// many rows that are equally far some have a near code.
inline bool
begin_away(const RowsView &view, std::vector<graph::Candidate> entries, const uint8_t *fails)
{
	const double share = static_cast<double>(view.passing->n_pass()) / static_cast<double>(view.rows.last);
	const size_t n = std::min(entries.size(), static_cast<size_t>(std::ceil(4 / share)));

	graph::first_candidates(entries.data(), entries.size(), n);
	return std::all_of(entries.begin(), entries.begin() + static_cast<ptrdiff_t>(n),
		[fails](const graph::Candidate &entry) { return ((fails[entry.node / 8] >> (entry.node % 8)) & 1) != 0; });
}

/// Whether what a search with conditions has found is not used, and all rows that pass are scored: it met too few, or
/// rows so far from the query that many entry points, a sample of all rows, are nearer. Such rows are about equally
/// far from it, wherever they lie, and edges do not lead to the nearest of them. found: in order. wanted: how many rows
/// the query asks for. entries: the scores of all entry points.
inline bool
lies_away(const graph::SearchSpec &spec, std::span<const graph::Candidate> found, size_t wanted,
	std::span<const double> entries)
{
	constexpr size_t kMostNearer = 8; // an eighth of the entry points

	if (found.size() < spec.width)
		return true;

	const double last = found[std::clamp<size_t>(wanted, 1, found.size()) - 1].score;
	const auto n_nearer = std::count_if(entries.begin(), entries.end(), [last](double score) { return score < last; });

	return static_cast<size_t>(n_nearer) * kMostNearer > entries.size();
}

} // namespace vectorgpu::engine
