// See passing_groups.hpp.
#include "engine/cpu/passing_groups.hpp"

#include <algorithm>
#include <map>

#include "engine/cpu/part_search.hpp"

namespace vectorgpu::engine
{

bool
has_conditions(std::span<const SearchQuery> queries)
{
	return std::any_of(
		queries.begin(), queries.end(), [](const SearchQuery &query) { return query.passing != nullptr; });
}

Status
search_groups(const Snapshot &snapshot, std::span<const SearchQuery> queries, const GroupSearch &search,
	std::vector<std::vector<Neighbor>> *results, const SearchControl *control)
{
	std::map<const Passing *, std::vector<size_t>> groups;

	results->resize(queries.size());
	for (size_t i = 0; i < queries.size(); i++)
		groups[queries[i].passing].push_back(i);
	for (const auto &[passing, numbers] : groups)
	{
		std::vector<SearchQuery> group;
		std::vector<std::vector<Neighbor>> found;
		Snapshot masked;
		FilterWay way = FilterWay::kNone;

		if (stopped(control))
			break;
		if (passing != nullptr)
			if (Status status = mask_snapshot(snapshot, *passing, &masked, &way); !status.is_ok())
				return status;
		for (const size_t number : numbers)
		{
			group.push_back(queries[number]);
			note_way(queries[number], way);
		}
		search(passing != nullptr ? masked : snapshot, group, &found);
		for (size_t i = 0; i < numbers.size(); i++)
			(*results)[numbers[i]] = std::move(found[i]);
	}
	return Status::ok();
}

} // namespace vectorgpu::engine
