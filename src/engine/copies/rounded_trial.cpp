// See rounded_trial.hpp.
#include "engine/copies/rounded_trial.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "engine/copies/narrow_scores.hpp"
#include "engine/distance/distance.hpp"
#include "engine/graph/graph.hpp"
#include "engine/recall/stratified.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr uint32_t kMostSearches = 64;
constexpr uint64_t kSeed = 0x726f756e646564;
constexpr uint32_t kMostEdges = 32;  // of a row that are followed
constexpr size_t kMostMet = 160;     // rows from which on no more edges are followed
constexpr double kLeastFound = .99;  // of the nearest, on the average
constexpr double kLeastDecided = .5; // of the searches

/// So many of the nearest are looked for among the nearest by rounded rows. A search looks at more of these (width_of).
/// The second depth is for rows that have copies, which hide the others.
struct Depth
{
	size_t nearest;
	size_t looked_at;
};

constexpr Depth kDepths[] = {{10, 16}, {50, 75}};

/// The rows around a node that a search would meet, ascending, without itself.
std::vector<uint32_t>
neighborhood(const SegmentGraph &graph, uint32_t node)
{
	std::vector<uint32_t> met = {node};

	for (size_t followed = 0; followed < met.size() && met.size() < kMostMet; followed++)
	{
		const uint32_t *edges = graph.edges() + size_t{met[followed]} * graph.degree();

		for (uint32_t i = 0; i < std::min(graph.degree(), kMostEdges); i++)
			if (edges[i] != graph::kNoNode && std::find(met.begin(), met.end(), edges[i]) == met.end())
				met.push_back(edges[i]);
	}
	met.erase(met.begin());
	std::sort(met.begin(), met.end());
	return met;
}

void
put_nan_last(std::vector<double> *scores)
{
	std::replace_if(scores->begin(), scores->end(), [](double score) { return std::isnan(score); }, HUGE_VAL);
}

/// Whether there are rows to tell apart. Those without a finite score are found by exact searches.
bool
decides(const std::vector<double> &scores, const Depth &depth)
{
	return scores.size() > depth.looked_at &&
		std::count_if(scores.begin(), scores.end(), [](double score) { return std::isfinite(score); }) >=
		static_cast<ptrdiff_t>(depth.nearest);
}

/// Return how many of the nearest by `scores` are among those looked at by `rounded`; ties are equally good.
size_t
count_found(const std::vector<double> &scores, const std::vector<double> &rounded, const Depth &depth)
{
	std::vector<size_t> order(scores.size());
	std::vector<double> sorted = scores;
	size_t n_found = 0;

	std::iota(order.begin(), order.end(), 0);
	std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(depth.nearest - 1), sorted.end());
	std::sort(order.begin(), order.end(),
		[&](size_t a, size_t b) { return rounded[a] < rounded[b] || (rounded[a] == rounded[b] && a < b); });
	for (size_t i = 0; i < depth.looked_at; i++)
		n_found += scores[order[i]] <= sorted[depth.nearest - 1] ? 1 : 0;
	return std::min(n_found, depth.nearest);
}

} // namespace

RoundedTrial::RoundedTrial(const SegmentGraph &graph)
{
	const uint64_t n_rows = graph.layout().n_rows;
	const uint64_t n_searches = std::min<uint64_t>(n_rows, kMostSearches);

	for (uint64_t i = 0; i < n_searches; i++)
	{
		const auto sought = static_cast<uint32_t>(stratified_row(i, n_searches, n_rows, kSeed));

		searches_.push_back({sought, neighborhood(graph, sought)});
		nodes_.push_back(sought);
		nodes_.insert(nodes_.end(), searches_.back().others.begin(), searches_.back().others.end());
	}
	std::sort(nodes_.begin(), nodes_.end());
	nodes_.erase(std::unique(nodes_.begin(), nodes_.end()), nodes_.end());

	const auto number = [this](uint32_t node)
	{ return static_cast<uint32_t>(std::lower_bound(nodes_.begin(), nodes_.end(), node) - nodes_.begin()); };

	for (Search &search : searches_)
	{
		search.sought = number(search.sought);
		std::transform(search.others.begin(), search.others.end(), search.others.begin(), number);
	}
}

bool
RoundedTrial::passes(const DistanceSpec &spec, const RowListView &rows, std::span<const uint32_t> places) const
{
	const size_t row_bytes = vector_bytes(spec.element, spec.dim);
	size_t n_decided[std::size(kDepths)] = {};
	size_t n_found[std::size(kDepths)] = {};

	for (const Search &search : searches_)
	{
		const uint8_t *const query = rows.vector(places[search.sought], row_bytes);
		const NarrowScores narrow(spec, query);
		std::vector<uint32_t> others(search.others.size());
		std::vector<double> scores(search.others.size());
		std::vector<double> rounded(search.others.size());

		std::transform(
			search.others.begin(), search.others.end(), others.begin(), [&](uint32_t i) { return places[i]; });
		for (size_t i = 0; i < others.size(); i++)
			compute_scores(spec, query, rows.vector(others[i], row_bytes), row_bytes, 1, &scores[i], 0);
		put_nan_last(&scores);
		narrow.score(rows, others.data(), others.size(), rounded.data());
		put_nan_last(&rounded);
		for (size_t d = 0; d < std::size(kDepths); d++)
			if (decides(scores, kDepths[d]))
			{
				n_found[d] += count_found(scores, rounded, kDepths[d]);
				n_decided[d]++;
			}
	}
	for (size_t d = 0; d < std::size(kDepths); d++)
		if (static_cast<double>(n_found[d]) < kLeastFound * static_cast<double>(n_decided[d] * kDepths[d].nearest))
			return false;
	return static_cast<double>(n_decided[0]) >= kLeastDecided * static_cast<double>(searches_.size());
}

} // namespace vectorgpu::engine
