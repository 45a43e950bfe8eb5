// The choice of inverted lists for a query with conditions. Internal to the CPU engine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/cpu/passing_rows.hpp"

namespace vectorgpu::engine
{

/// Whether the list may have rows for a search of the view.
inline bool
list_counts(const RowsView &view, uint32_t list)
{
	if (view.passing != nullptr)
		return view.passing->places->n_in_list[list] > 0;
	return view.lists->offsets()[list] < view.lists->offsets()[list + 1];
}

/// Sort the lists that a query searches to the front of ranked [n_lists], its lists with their scores, and return how
/// many; 0: all rows that pass are to be scored. n_probes: lists that the query would search without conditions, fewer
/// than there are. It searches at least as many that hold rows that pass, one with fewer than on average counted in
/// part, and more if few rows pass: until they hold as many of these as they would if these were spread evenly.
/// *marks: not empty if the rows lie away from the query. It then searches the first (*marks)[0] lists, those up to the
/// next mark, and so on; it ends at a mark if hardly a row since the mark before belongs to the nearest found so far.
/// view: masked, with lists.
uint32_t choose_lists(
	const RowsView &view, uint32_t n_probes, std::span<Neighbor> ranked, std::vector<uint32_t> *marks);

} // namespace vectorgpu::engine
