// See passing_search.hpp.
#include "engine/cpu/passing_search.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/cpu/listed_search.hpp"
#include "engine/cpu/masked_snapshot.hpp"
#include "engine/cpu/part_search.hpp"

namespace vectorgpu::engine
{
namespace
{

/// The queries with the same rows that pass.
void
search_masked(const DistanceSpec &spec, const Snapshot &snapshot, std::vector<SearchQuery> *group, bool widens,
	const SearchGroup &search, ThreadPool &pool, std::vector<std::vector<Neighbor>> *found, SearchControl *control)
{
	const MaskedSnapshot masked = mask_snapshot(snapshot, *group->front().passing);
	const bool has_masks = !masked.snapshot.segments.empty();

	for (SearchQuery &query : *group)
	{
		if (query.filter_way != nullptr)
			*query.filter_way = FilterWay::kNone;
		if (!has_masks || !widens)
			query.probes = {}; // exact
		if (!masked.listed.empty() || !has_masks)
			note_filter_way(query, FilterWay::kList);
		if (has_masks && !widens)
			note_filter_way(query, FilterWay::kMask);
	}
	search(masked.snapshot, *group, found);
	if (!masked.listed.empty())
		search_listed(spec, masked.listed, *group, pool, found, control);
}

} // namespace

bool
any_passing(std::span<const SearchQuery> queries)
{
	return std::any_of(
		queries.begin(), queries.end(), [](const SearchQuery &query) { return query.passing != nullptr; });
}

void
search_passing(const DistanceSpec &spec, const Snapshot &snapshot, std::span<const SearchQuery> queries, bool widens,
	const SearchGroup &search, ThreadPool &pool, std::vector<std::vector<Neighbor>> *results, SearchControl *control)
{
	std::map<const Passing *, std::vector<size_t>> groups;

	results->resize(queries.size());
	for (size_t i = 0; i < queries.size(); i++)
		groups[queries[i].passing].push_back(i);
	for (const auto &[passing, numbers] : groups)
	{
		std::vector<SearchQuery> group;
		std::vector<std::vector<Neighbor>> found;

		if (stopped(control))
			return;
		for (const size_t number : numbers)
			group.push_back(queries[number]);
		if (passing == nullptr)
			search(snapshot, group, &found);
		else
			search_masked(spec, snapshot, &group, widens, search, pool, &found, control);
		for (size_t i = 0; i < numbers.size(); i++)
			(*results)[numbers[i]] = std::move(found[i]);
	}
}

} // namespace vectorgpu::engine
