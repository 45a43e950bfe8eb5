// See rounded_trial.hpp.
#include "engine/copies/rounded_trial.hpp"

#include <algorithm>
#include <cmath>

#include "engine/copies/narrow_scores.hpp"
#include "engine/distance/distance.hpp"
#include "engine/graph/graph.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr uint32_t kMostSearches = 64;
constexpr uint32_t kMostEdges = 32;   // of a row that are followed
constexpr uint32_t kMostFollowed = 4; // rows at their ends whose edges are followed in turn
constexpr size_t kNearest = 10;
constexpr size_t kLookedAt = 16; // by rounded rows; a search looks at more of them (width_of)
constexpr double kLeastFound = .99;

/// Append the ends of a row's first edges.
void
append_ends(const SegmentGraph &graph, uint32_t node, std::vector<uint32_t> *nodes)
{
	const uint32_t *edges = graph.edges() + size_t{node} * graph.degree();

	for (uint32_t i = 0; i < std::min(graph.degree(), kMostEdges); i++)
		if (edges[i] != graph::kNoNode)
			nodes->push_back(edges[i]);
}

void
make_unique(std::vector<uint32_t> *nodes)
{
	std::sort(nodes->begin(), nodes->end());
	nodes->erase(std::unique(nodes->begin(), nodes->end()), nodes->end());
}

/// The rows that a search would meet around a node, without itself.
std::vector<uint32_t>
neighborhood(const SegmentGraph &graph, uint32_t node)
{
	std::vector<uint32_t> met;

	append_ends(graph, node, &met);

	const size_t n_followed = std::min<size_t>(met.size(), kMostFollowed);

	for (size_t i = 0; i < n_followed; i++)
		append_ends(graph, met[i], &met);
	make_unique(&met);
	met.erase(std::remove(met.begin(), met.end(), node), met.end());
	return met;
}

void
put_nan_last(std::vector<double> *scores)
{
	std::replace_if(scores->begin(), scores->end(), [](double score) { return std::isnan(score); }, HUGE_VAL);
}

/// Return how many of the kNearest first of `scores` are among the kLookedAt first of `rounded`; ties are equally good.
size_t
count_found(const std::vector<double> &scores, const std::vector<double> &rounded)
{
	std::vector<size_t> order(scores.size());
	std::vector<double> sorted = scores;
	size_t n_found = 0;

	for (size_t i = 0; i < order.size(); i++)
		order[i] = i;
	std::nth_element(sorted.begin(), sorted.begin() + (kNearest - 1), sorted.end());
	std::sort(order.begin(), order.end(),
		[&](size_t a, size_t b) { return rounded[a] < rounded[b] || (rounded[a] == rounded[b] && a < b); });
	for (size_t i = 0; i < std::min(kLookedAt, order.size()); i++)
		n_found += scores[order[i]] <= sorted[kNearest - 1] ? 1 : 0;
	return std::min(n_found, kNearest);
}

} // namespace

RoundedTrial::RoundedTrial(const SegmentGraph &graph)
{
	const uint64_t n_rows = graph.layout().n_rows;
	const uint64_t n_searches = std::min<uint64_t>(n_rows, kMostSearches);

	for (uint64_t i = 0; i < n_searches; i++)
	{
		const uint32_t sought = static_cast<uint32_t>(i * n_rows / n_searches);
		std::vector<uint32_t> others = neighborhood(graph, sought);

		if (others.size() <= kLookedAt)
			continue;
		nodes_.push_back(sought);
		nodes_.insert(nodes_.end(), others.begin(), others.end());
		searches_.push_back({sought, std::move(others)});
	}
	make_unique(&nodes_);

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
	size_t n_found = 0;
	size_t n_nearest = 0;

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
		// Rows without a finite score are found by exact searches.
		if (std::count_if(scores.begin(), scores.end(), [](double s) { return std::isfinite(s); }) <
			static_cast<ptrdiff_t>(kNearest))
			continue;
		narrow.score(rows, others.data(), others.size(), rounded.data());
		put_nan_last(&rounded);
		n_found += count_found(scores, rounded);
		n_nearest += kNearest;
	}
	return static_cast<double>(n_found) >= kLeastFound * static_cast<double>(n_nearest);
}

} // namespace vectorgpu::engine
